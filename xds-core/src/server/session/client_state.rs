//! Synchronization status of each resource at a client, read without changing the session.
//!
//! The status depends on which response contained the current version of the resource, and on the
//! answer to it. Subscriptions hold this for named resources; for resources that only a wildcard
//! covers, it follows from their revisions.
// M234, IS30

use super::{
    Answer, Sends, Session, Stamp,
    nack::{Held, Mark, Suspicion},
    subscription::{Chain, Edge, Edges, Ride},
};
use crate::{
    server::{
        event::{Cause, status::ResourceSync},
        store::arena::{Arena, Resource},
    },
    slab::Slot,
};

/// Session together with the state needed to determine what its client has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look<'a> {
    pub(crate) slot: Slot,
    pub(crate) session: &'a Session,
    pub(crate) arena: &'a Arena,
    pub(crate) edges: &'a Edges,
    /// Rejections that are still open.
    pub(crate) held: Option<&'a Held>,
}

impl<'a> Look<'a> {
    /// Returns the resources to which the client subscribes: named ones first, then others that a
    /// wildcard covers.
    pub(crate) fn resources(self) -> impl Iterator<Item = (&'a Resource, ResourceSync)> {
        let wildcard = self.session.wildcard.is_some();
        let covered = wildcard.then(|| self.arena.slots()).into_iter().flatten();
        self.named().chain(covered.filter_map(move |slot| self.covered(slot)))
    }

    fn named(self) -> impl Iterator<Item = (&'a Resource, ResourceSync)> {
        let mut slot = self.session.edges.last();
        let edges = core::iter::from_fn(move || {
            let edge = self.edges.at(slot)?;
            slot = self.edges.previous(Chain::Session, slot);
            Some(edge)
        });
        let named = edges.filter(|edge| edge.standing.is_subscribed());
        named.filter_map(move |edge| {
            let resource = self.arena.at(edge.resource)?;
            let is_spoken_for = self.arena.has_members(edge.resource)
                || self.session.meaning(edge.resource, self.arena).is_some();
            let sync = self.sync_of_edge(edge, resource);
            (resource.payload.is_some() || !is_spoken_for).then_some((resource, sync))
        })
    }

    fn covered(self, slot: Slot) -> Option<(&'a Resource, ResourceSync)> {
        let resource = self.arena.at(slot).filter(|resource| resource.payload.is_some())?;
        let edge = self.edges.find(self.slot, slot).and_then(|edge| self.edges.at(edge));
        let sync = match edge {
            Some(edge) if edge.standing.is_subscribed() => return None,
            Some(edge) if edge.sent != 0 => self.sync_of_edge(edge, resource),
            _ => self.sync_of_stamp(resource.stamp),
        };
        Some((resource, sync))
    }

    fn sync_of_edge(&self, edge: &Edge, resource: &Resource) -> ResourceSync {
        if resource.payload.is_none() {
            return ResourceSync::Missing;
        }
        // Resources sent again for these reasons are unchanged.
        let repeats = |cause| matches!(cause, Cause::Warming | Cause::Recovery);
        let is_due = edge.due.is_some_and(|due| due.ride != Ride::Along && !repeats(due.cause));
        if edge.sent == 0 || is_due {
            return ResourceSync::NotSent;
        }
        if self.is_rejected(Mark::Nonce(edge.sent)) {
            return ResourceSync::Error;
        }
        if self.is_on_its_way_again(Mark::Nonce(edge.sent)) {
            return self.sync_of_newest();
        }
        let accepted = self.session.accepted_response(self.arena, Stamp::START);
        if accepted.is_some_and(|accepted| edge.sent <= accepted.nonce.get()) {
            return ResourceSync::Synced;
        }
        self.sync_of_newest()
    }

    fn sync_of_stamp(&self, stamp: Stamp) -> ResourceSync {
        let reached = self.session.reached();
        let sent_to = match (self.session.sends(self.arena), self.session.newest) {
            (Sends::FullState, Some(newest)) => newest.at,
            // The client stated that it had everything when it connected.
            (Sends::FullState, None) if self.session.accepted.is_some() => {
                self.session.wildcard.map_or(Stamp::START, |wildcard| wildcard.told)
            }
            (Sends::FullState, None) => Stamp::START,
            _ => reached,
        };
        if stamp > sent_to {
            return ResourceSync::NotSent;
        }
        if self.is_rejected(Mark::Stamp(stamp)) {
            return ResourceSync::Error;
        }
        if self.is_on_its_way_again(Mark::Stamp(stamp)) {
            return self.sync_of_newest();
        }
        let accepted = self.session.accepted_response(self.arena, reached);
        if accepted.is_some_and(|accepted| stamp <= accepted.to) {
            return ResourceSync::Synced;
        }
        self.sync_of_newest()
    }

    /// Whether the current version of a resource was rejected and was not re-sent. In full state
    /// every response contains all resources.
    fn is_rejected(&self, mark: Mark) -> bool {
        let suspects = match self.session.suspects() {
            Some(_) => Suspicion::Waits,
            None => Suspicion::None,
        };
        let is_full_state = self.session.sends(self.arena) == Sends::FullState;
        !is_full_state && self.held.is_some_and(|held| held.has(mark, suspects))
    }

    /// Whether the current version of a resource was rejected and re-sent in a later response.
    fn is_on_its_way_again(&self, mark: Mark) -> bool {
        self.session.suspects().is_none() && self.held.is_some_and(|held| held.rode(mark))
    }

    fn sync_of_newest(&self) -> ResourceSync {
        match self.session.newest.map(|newest| newest.answer) {
            Some(Answer::Pending | Answer::Overdue) => ResourceSync::Stale,
            Some(Answer::Nack) => ResourceSync::Error,
            Some(Answer::Ack) | None => ResourceSync::Synced,
        }
    }
}
