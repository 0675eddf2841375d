//! What a client has of what lingers, where that is something else than was deleted (M147, M148, M223).
//!
//! In full state what lingers is repeated. The view that the client sees now may never have had it; or it was rejected
//! as it was at last, and the client has it as it was before. So the session brings it along. It goes with the edge that
//! says that it lingers.

use alloc::{collections::BTreeMap, vec::Vec};

use super::{
    Session, Turn,
    edge::{Chain, Edge},
    window::Answer,
};
use crate::{
    server::store::{body::Payload, history::Stamp},
    slab::Slot,
};

/// What a session has brought along from another view.
#[derive(Debug, Default)]
pub(super) struct Brought {
    items: BTreeMap<Slot, Item>,
    /// When the client was moved.
    at: Stamp,
    /// The newest response that was rejected since.
    rejected: u64,
}

#[derive(Debug)]
struct Item {
    /// When the name was last set or deleted by then: what has become of it since counts instead.
    stamp: Stamp,
    carried: Carried,
}

/// What a client takes along to another view.
#[derive(Clone, Debug)]
pub(super) struct Carried {
    payload: Payload,
    /// The nonce of the response whose answer says whether the client has it in any form, unless it is known to.
    unproven: Option<u64>,
}

impl Brought {
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl Session {
    /// What was brought along under a name that was last set or deleted at this position.
    pub(super) fn brought(&self, resource: Slot, stamp: Stamp) -> Option<&Payload> {
        Some(&self.carried(resource, stamp)?.payload)
    }

    fn carried(&self, resource: Slot, stamp: Stamp) -> Option<&Carried> {
        let brought = &self.rare.as_deref()?.brought;
        let item = brought.items.get(&resource).filter(|item| item.stamp == stamp)?;
        Some(&item.carried)
    }

    /// Whether what was brought along was first sent in a response that the client has rejected since: it has nothing
    /// of it, and with it everything would be rejected.
    pub(super) fn was_brought_in_vain(&self, resource: Slot) -> bool {
        let Some(rare) = self.rare.as_deref() else { return false };
        let item = rare.brought.items.get(&resource);
        let unproven = item.and_then(|item| item.carried.unproven);
        unproven.is_some_and(|nonce| nonce <= rare.brought.rejected)
    }

    /// The client has answered to a response: costs what was brought along.
    pub(super) fn note_answer_for_brought(&mut self, nonce: u64, answer: Answer) {
        if self.brought_at().is_none() {
            return;
        }
        self.with_rare(|rare| match answer {
            Answer::Nack => rare.brought.rejected = nonce,
            _ => {
                for item in rare.brought.items.values_mut() {
                    item.carried.unproven.take_if(|unproven| *unproven <= nonce);
                }
            }
        });
    }

    /// When the client was moved, if it has anything from before.
    pub(super) fn brought_at(&self) -> Option<Stamp> {
        let brought = self.rare.as_deref().map(|rare| &rare.brought);
        brought.filter(|brought| !brought.is_empty()).map(|brought| brought.at)
    }

    /// The client does not have that any more, or it is told of it in another way.
    pub(super) fn drop_brought(&mut self, resource: Slot) {
        if self.brought_at().is_some() {
            self.with_rare(|rare| drop(rare.brought.items.remove(&resource)));
        }
    }
}

impl Turn<'_> {
    /// What the client has by an edge, and is to keep for a while should it see a view that does not have it. What
    /// it rejected, and has in no other form, is none of that: with it everything would be rejected.
    pub(super) fn to_bring(&self, edge: &Edge) -> Option<Carried> {
        let has_it = edge.sent != 0 && self.error_of(edge.resource).is_none();
        if !has_it || !self.session.needs_ghosts(self.arena) {
            return None;
        }
        let accepted = self.accepted_here();
        let is_new = accepted.is_some_and(|(nonce, at)| {
            edge.was_first_sent_after(nonce) || self.is_unaccepted_as_it_is(edge.resource, at)
        });
        if let Some(payload) = self.arena.payload(edge.resource) {
            return self.carry(payload, is_new);
        }
        let stamp = self.arena.at(edge.resource)?.stamp;
        match self.session.carried(edge.resource, stamp).filter(|_| edge.is_withheld()) {
            Some(carried) => Some(carried.clone()),
            None => self.carry(self.ghost(edge)?.1, is_new),
        }
    }

    /// The same of what only a wildcard covers.
    pub(super) fn covered_to_bring(&self, resource: Slot) -> Option<Carried> {
        if !self.session.needs_ghosts(self.arena) {
            return None;
        }
        let accepted = self.accepted_here();
        let is_new = accepted.is_some_and(|(_, at)| {
            self.arena.began_after(resource, at) || self.is_unaccepted_as_it_is(resource, at)
        });
        let deleted = || self.arena.ghosts.at(self.arena.at(resource)?.stamp);
        self.carry(self.arena.payload(resource).or_else(deleted)?, is_new)
    }

    /// What the client has, or was sent first after what it accepted last, unless it has rejected that.
    fn carry(&self, payload: &Payload, is_new: bool) -> Option<Carried> {
        let is_refused = is_new && self.session.is_rejected() && !self.session.is_waiting();
        let unproven = is_new.then(|| self.session.newest_nonce());
        (!is_refused).then(|| Carried { payload: payload.clone(), unproven })
    }

    /// Whether a resource is as it was set, or was when it was deleted, after the client has accepted something last: to
    /// repeat it might be to be rejected for ever.
    fn is_unaccepted_as_it_is(&self, slot: Slot, accepted: Stamp) -> bool {
        let Some(resource) = self.arena.at(slot) else { return false };
        let is_newer = match resource.payload {
            Some(_) => resource.stamp > accepted,
            None => self.arena.ghosts.was_set_after(resource.stamp, accepted),
        };
        is_newer && self.session.lingers_for_ever()
    }

    /// What lingers, and was rejected as it was at last, is served as the client has accepted it before: repeated, it
    /// would be rejected for ever with everything beside it (M148). Costs what lingers.
    pub(super) fn serve_as_accepted(&mut self) {
        if !self.session.needs_ghosts(self.arena) {
            return;
        }
        let Some((_, accepted)) = self.accepted_before_rejection() else { return };
        let mut served = Vec::new();
        let mut slot = self.session.due.withheld().first();
        while let Some(edge) = self.edges.at(slot) {
            if let Some(resource) = self.arena.at(edge.resource)
                && self.session.brought(edge.resource, resource.stamp).is_none()
                && let Some(payload) = self.arena.as_it_was(resource, accepted)
            {
                let carried = Carried { payload: payload.clone(), unproven: None };
                served.push((edge.resource, Item { stamp: resource.stamp, carried }));
            }
            slot = self.edges.next(Chain::Due, slot);
        }
        if !served.is_empty() {
            self.session.rare_mut().brought.items.extend(served);
        }
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
    pub(super) fn bring(&mut self, edge: Slot, carried: Carried) {
        let Some(edge) = self.edges.at(edge).filter(|edge| edge.is_withheld()) else { return };
        let Some(resource) = self.arena.at(edge.resource) else { return };
        let item = Item { stamp: resource.stamp, carried };
        let brought = &mut self.session.rare_mut().brought;
        brought.at = self.arena.clock();
        brought.items.insert(edge.resource, item);
    }
}
