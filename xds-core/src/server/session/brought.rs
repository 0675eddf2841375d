//! What a client has of the view that it saw before, while that lingers (M147, M223).
//!
//! In full state what lingers is repeated, and the view that the client sees now may never have had it. So the
//! session brings it along. It goes with the edge that says that it lingers.

use alloc::collections::BTreeMap;

use super::{Session, Turn, edge::Edge};
use crate::{
    server::store::{body::Payload, history::Stamp},
    slab::Slot,
};

/// What a session has brought along from another view.
#[derive(Debug, Default)]
pub(super) struct Brought {
    payloads: BTreeMap<Slot, Item>,
    /// When the client was moved.
    at: Stamp,
}

#[derive(Debug)]
struct Item {
    /// When the name was last set or deleted by then: what has become of it since counts instead.
    stamp: Stamp,
    payload: Payload,
}

impl Brought {
    pub(super) fn is_empty(&self) -> bool {
        self.payloads.is_empty()
    }
}

impl Session {
    /// What was brought along under a name that was last set or deleted at this position.
    pub(super) fn brought(&self, resource: Slot, stamp: Stamp) -> Option<&Payload> {
        let brought = &self.rare.as_deref()?.brought;
        let item = brought.payloads.get(&resource).filter(|item| item.stamp == stamp)?;
        Some(&item.payload)
    }

    /// When the client was moved, if it has anything from before.
    pub(super) fn brought_at(&self) -> Option<Stamp> {
        let brought = self.rare.as_deref().map(|rare| &rare.brought);
        brought.filter(|brought| !brought.is_empty()).map(|brought| brought.at)
    }

    /// The client does not have that any more, or it is told of it in another way.
    pub(super) fn drop_brought(&mut self, resource: Slot) {
        if self.brought_at().is_some() {
            self.with_rare(|rare| drop(rare.brought.payloads.remove(&resource)));
        }
    }
}

impl Turn<'_> {
    /// What the client has by an edge, and is to keep for a while should it see a view that does not have it. What
    /// it rejected, and has in no other form, is none of that: with it everything would be rejected.
    pub(super) fn to_bring(&self, edge: &Edge) -> Option<Payload> {
        let has_it = edge.sent != 0 && self.error_of(edge.resource).is_none();
        if !has_it || !self.session.needs_ghosts(self.arena) {
            return None;
        }
        let rejected = self.accepted_before_rejection();
        if rejected.is_some_and(|(accepted, _)| edge.was_first_sent_after(accepted)) {
            return None;
        }
        let current = self.arena.payload(edge.resource);
        current.or_else(|| self.ghost(edge).map(|(_, payload)| payload)).cloned()
    }

    /// The same of what only a wildcard covers.
    pub(super) fn covered_to_bring(&self, resource: Slot) -> Option<Payload> {
        if !self.session.needs_ghosts(self.arena) {
            return None;
        }
        let rejected = self.accepted_before_rejection();
        if rejected.is_some_and(|(_, accepted)| self.arena.began_after(resource, accepted)) {
            return None;
        }
        let deleted = || self.arena.ghosts.at(self.arena.at(resource)?.stamp);
        self.arena.payload(resource).or_else(deleted).cloned()
    }

    /// Up to where the client has accepted a full state of everything, if it rejected the next one.
    pub(super) fn unaccepted_state(&self) -> Option<Stamp> {
        let (_, accepted) = self.accepted_before_rejection()?;
        self.sends_full_state().then_some(accepted)
    }

    /// The response of this view that the client accepted last, and the position of that, if it rejected the next
    /// one.
    fn accepted_before_rejection(&self) -> Option<(u64, Stamp)> {
        let is_rejected = self.session.is_rejected() && !self.session.is_waiting();
        is_rejected.then(|| self.accepted_here())?
    }

    /// The client has this of the view before, and is not to be told yet that it is gone.
    pub(super) fn bring(&mut self, edge: Slot, payload: Payload) {
        let Some(edge) = self.edges.at(edge).filter(|edge| edge.is_withheld()) else { return };
        let Some(resource) = self.arena.at(edge.resource) else { return };
        let item = Item { stamp: resource.stamp, payload };
        let brought = &mut self.session.rare_mut().brought;
        brought.at = self.arena.clock();
        brought.payloads.insert(edge.resource, item);
    }
}
