//! Tombstones of removed resources, back to the horizon.

use super::{Arena, Resource};
use crate::{
    server::store::{
        encode::body::{Parts, Room},
        revision::{Life, Stamp},
    },
    slab::Slot,
    wire::request::Spelling,
};

/// Removals of which a client was informed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Knows {
    /// Revision up to which the client was sent all removals.
    pub(crate) told: Stamp,
    /// Revision up to which it was sent removals in the current sequence of responses, limited to
    /// those that existed when the sequence began.
    pub(crate) partly: Stamp,
}

impl Arena {
    /// Registers a session that needs tombstones.
    pub(crate) fn join_mourners(&mut self) {
        self.mourners += 1;
    }

    /// Unregisters a session that needed tombstones, and drops all of them after the last one.
    pub(crate) fn leave_mourners(&mut self) {
        self.mourners -= 1;
        if self.mourners == 0 {
            self.trim_graves(0);
        }
    }

    /// Drops the oldest tombstones until at most `limit` are left. A client that was not sent
    /// these removals has to start over; see [`horizon`](Self::horizon).
    pub(crate) fn trim_graves(&mut self, limit: usize) {
        while self.graves.len() > limit
            && let Some(grave) = self.graves.pop_front()
        {
            self.horizon = grave.stamp;
            if self.at(grave.resource).is_some_and(|resource| resource.stamp == grave.stamp) {
                self.close_grave(grave.resource);
            }
        }
    }

    /// Drops the tombstones up to `told`, whose removals were sent to all clients.
    pub(crate) fn forget_graves(&mut self, told: Stamp) {
        let known = self.graves.partition_point(|grave| grave.stamp <= told);
        self.trim_graves(self.graves.len() - known);
    }

    /// Number of tombstones after `from` and up to `to`.
    pub(crate) fn graves_between(&self, from: Stamp, to: Stamp) -> usize {
        let up_to = |position| self.graves.partition_point(|grave| grave.stamp <= position);
        up_to(to).saturating_sub(up_to(from))
    }

    /// Number of tombstones.
    pub(crate) fn graves(&self) -> usize {
        self.graves.len()
    }

    /// Returns the revision up to which tombstones were dropped.
    pub(crate) fn horizon(&self) -> Stamp {
        self.horizon
    }

    pub(crate) fn close_grave(&mut self, slot: Slot) {
        if let Some(resource) = self.resources.at_mut(slot) {
            resource.life = Life::default();
        }
        self.release(slot);
    }

    /// Returns the revision of the newest tombstone.
    pub(crate) fn newest_grave(&self) -> Stamp {
        self.graves.back().map_or(Stamp::START, |grave| grave.stamp)
    }

    /// Returns the removed resources that a client with everything up to `sent` had, and whose
    /// removal it was not sent.
    pub(crate) fn lost(
        &self,
        Knows { told, partly }: Knows,
        sent: Stamp,
    ) -> impl Iterator<Item = (Slot, &Resource)> {
        let first = self.graves.partition_point(|grave| grave.stamp <= told.max(partly));
        self.graves.iter().skip(first).filter_map(move |grave| {
            let resource = self.at(grave.resource)?;
            let is_lost = resource.stamp == grave.stamp && resource.life.is_known(sent, told);
            is_lost.then_some((grave.resource, resource))
        })
    }

    /// Whether a name had no resource up to `position`, as far as is known.
    pub(crate) fn began_after(&self, slot: Slot, position: Stamp) -> bool {
        self.at(slot).is_some_and(|resource| resource.life.began_after(position))
    }

    /// Whether a name has no resource, and had none up to `position`, as far as is known.
    pub(crate) fn came_and_went_after(&self, slot: Slot, position: Stamp) -> bool {
        let resource = self.at(slot).filter(|resource| resource.payload.is_none());
        resource.is_some_and(|resource| resource.life.began_after(position))
    }

    /// Whether a name has a resource that came back after `position`.
    pub(crate) fn came_back_after(&self, slot: Slot, position: Stamp) -> bool {
        let resource = self.at(slot).filter(|resource| resource.payload.is_some());
        resource.is_some_and(|resource| resource.life.came_back_after(position))
    }

    /// Whether a client that was sent everything up to `sent`, and removals up to `told`, has
    /// some version of the resource.
    pub(crate) fn is_known(&self, slot: Slot, sent: Stamp, told: Stamp) -> bool {
        self.at(slot).is_some_and(|resource| {
            let is_there = resource.payload.is_some() || resource.stamp > told;
            is_there && resource.life.is_known(sent, told)
        })
    }

    /// Adds the names of [lost](Self::lost) resources, as many as fit. Returns the revision
    /// reached, if that is not all.
    pub(crate) fn gather_graves(
        &self,
        knows: Knows,
        sent: Stamp,
        parts: &mut Parts,
        spelling: Spelling,
        wanted: impl Fn(Slot) -> bool,
    ) -> Option<Stamp> {
        for (slot, resource) in self.lost(knows, sent) {
            if wanted(slot) && parts.remove(&resource.name, spelling) == Room::Full {
                return Some(resource.stamp.before());
            }
        }
        None
    }
}

impl Knows {
    /// Returns the value for a client that was sent all removals up to `told`.
    pub(crate) fn all(told: Stamp) -> Self {
        Self { told, partly: told }
    }
}
