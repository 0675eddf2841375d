//! Tombstones of removed resources, back to the horizon.

use super::{Arena, ResourceEntry};
use crate::{
    server::store::{
        encode::body::{BodyBuilder, FitResult},
        revision::{ResourceHistory, Revision},
    },
    slab::Slot,
    wire::request::NameForm,
};

/// Removals of which a client was informed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SentRemovals {
    /// Revision up to which the client was sent all removals.
    pub(crate) removals_to: Revision,
    /// Revision up to which it was sent removals in the current sequence of responses, limited to
    /// those that existed when the sequence began.
    pub(crate) partial_to: Revision,
}

impl Arena {
    /// Registers a session that needs tombstones.
    pub(crate) fn add_tombstone_user(&mut self) {
        self.tombstone_users += 1;
    }

    /// Unregisters a session that needed tombstones, and drops all of them after the last one.
    pub(crate) fn remove_tombstone_user(&mut self) {
        self.tombstone_users -= 1;
        if self.tombstone_users == 0 {
            self.trim_tombstones(0);
        }
    }

    /// Drops the oldest tombstones until at most `limit` are left. A client that was not sent
    /// these removals has to start over; see [`horizon`](Self::horizon).
    pub(crate) fn trim_tombstones(&mut self, limit: usize) {
        while self.tombstones.len() > limit
            && let Some(tombstone) = self.tombstones.pop_front()
        {
            self.horizon = tombstone.revision;
            if self
                .at(tombstone.resource)
                .is_some_and(|resource| resource.revision == tombstone.revision)
            {
                self.remove_tombstone(tombstone.resource);
            }
        }
    }

    /// Drops the tombstones up to `removals_to`, whose removals were sent to all clients.
    pub(crate) fn drop_tombstones_up_to(&mut self, removals_to: Revision) {
        let known = self.tombstones.partition_point(|tombstone| tombstone.revision <= removals_to);
        self.trim_tombstones(self.tombstones.len() - known);
    }

    /// Number of tombstones after `from` and up to `to`.
    pub(crate) fn tombstones_between(&self, from: Revision, to: Revision) -> usize {
        let up_to =
            |position| self.tombstones.partition_point(|tombstone| tombstone.revision <= position);
        up_to(to).saturating_sub(up_to(from))
    }

    /// Number of tombstones.
    pub(crate) fn tombstones(&self) -> usize {
        self.tombstones.len()
    }

    /// Returns the revision up to which tombstones were dropped.
    pub(crate) fn horizon(&self) -> Revision {
        self.horizon
    }

    pub(crate) fn remove_tombstone(&mut self, slot: Slot) {
        if let Some(resource) = self.resources.at_mut(slot) {
            resource.history = ResourceHistory::default();
        }
        self.release(slot);
    }

    /// Returns the revision of the newest tombstone.
    pub(crate) fn newest_tombstone(&self) -> Revision {
        self.tombstones.back().map_or(Revision::START, |tombstone| tombstone.revision)
    }

    /// Returns the removed resources that a client with everything up to `sent` had, and whose
    /// removal it was not sent.
    pub(crate) fn pending_removals(
        &self,
        SentRemovals { removals_to, partial_to }: SentRemovals,
        sent: Revision,
    ) -> impl Iterator<Item = (Slot, &ResourceEntry)> {
        let first = self
            .tombstones
            .partition_point(|tombstone| tombstone.revision <= removals_to.max(partial_to));
        self.tombstones.iter().skip(first).filter_map(move |tombstone| {
            let resource = self.at(tombstone.resource)?;
            let is_pending = resource.revision == tombstone.revision
                && resource.history.is_known(sent, removals_to);
            is_pending.then_some((tombstone.resource, resource))
        })
    }

    /// Whether a name had no resource up to `position`, as far as is known.
    pub(crate) fn first_created_after(&self, slot: Slot, position: Revision) -> bool {
        self.at(slot).is_some_and(|resource| resource.history.first_created_after(position))
    }

    /// Whether a name has no resource, and had none up to `position`, as far as is known.
    pub(crate) fn existed_only_after(&self, slot: Slot, position: Revision) -> bool {
        let resource = self.at(slot).filter(|resource| resource.payload.is_none());
        resource.is_some_and(|resource| resource.history.first_created_after(position))
    }

    /// Whether a name has a resource that came back after `position`.
    pub(crate) fn recreated_after(&self, slot: Slot, position: Revision) -> bool {
        let resource = self.at(slot).filter(|resource| resource.payload.is_some());
        resource.is_some_and(|resource| resource.history.recreated_after(position))
    }

    /// Whether a client that was sent everything up to `sent`, and removals up to `removals_to`,
    /// has some version of the resource.
    pub(crate) fn is_known(&self, slot: Slot, sent: Revision, removals_to: Revision) -> bool {
        self.at(slot).is_some_and(|resource| {
            let is_there = resource.payload.is_some() || resource.revision > removals_to;
            is_there && resource.history.is_known(sent, removals_to)
        })
    }

    /// Adds the names of [pending removals](Self::pending_removals), as many as fit. Returns the
    /// revision reached, if that is not all.
    pub(crate) fn gather_removals(
        &self,
        sent_removals: SentRemovals,
        sent: Revision,
        parts: &mut BodyBuilder,
        name_form: NameForm,
        wanted: impl Fn(Slot) -> bool,
    ) -> Option<Revision> {
        for (slot, resource) in self.pending_removals(sent_removals, sent) {
            if wanted(slot) && parts.remove(&resource.name, name_form) == FitResult::Full {
                return Some(resource.revision.before());
            }
        }
        None
    }
}

impl SentRemovals {
    /// Returns the value for a client that was sent all removals up to `removals_to`.
    pub(crate) fn all(removals_to: Revision) -> Self {
        Self { removals_to, partial_to: removals_to }
    }
}
