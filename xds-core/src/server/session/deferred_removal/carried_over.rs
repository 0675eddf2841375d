//! Versions of deferred removals that a session carries over from another view.
//!
//! In full state, resources with a deferred removal are repeated. The client's current view may
//! never have had such a resource, or the client rejected its last version and has an earlier
//! one. The session therefore stores the version to repeat, for as long as the deferred removal
//! exists.
// M147, M148, M223

use alloc::{collections::BTreeMap, vec::Vec};

use super::last_accepted::Form;
use crate::{
    server::{
        session::{
            Session,
            context::Turn,
            subscription::{Chain, Edge},
            window::Answer,
        },
        store::{encode::body::Payload, revision::Stamp},
    },
    slab::Slot,
};

/// Resources that a session carried over from another view.
#[derive(Debug, Default)]
pub(crate) struct Brought {
    items: BTreeMap<Slot, Item>,
    /// Revision at which the client was moved.
    at: Stamp,
}

#[derive(Debug)]
struct Item {
    /// Revision of the last change or removal of the name by then. A later change takes
    /// precedence.
    stamp: Stamp,
    /// `None` if the client has no version that it is known to have accepted. Repeating the
    /// resource would then cause the whole response to be rejected.
    carried: Option<Carried>,
}

/// Version of a resource that a client takes along to another view.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    payload: Payload,
    proof: Proof,
}

/// Whether the client accepted a carried-over resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    /// The client accepted it, as far as is known.
    Given,
    /// The answer to the response with this nonce decides.
    Awaited(u64),
}

impl Brought {
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl Session {
    /// Returns the carried-over version of a resource that was last changed or removed at
    /// `stamp`. The inner value is `None` if the client has no version of it.
    pub(crate) fn brought(&self, resource: Slot, stamp: Stamp) -> Option<Option<&Payload>> {
        let item = self.item(resource).filter(|item| item.stamp == stamp)?;
        Some(item.carried.as_ref().map(|carried| &carried.payload))
    }

    /// Returns the carried-over version whose removal was deferred at a revision, whatever has
    /// happened to the name since.
    pub(crate) fn lingered_at(&self, resource: Slot, position: Stamp) -> Option<&Payload> {
        let item = self.item(resource).filter(|item| item.stamp <= position)?;
        let carried = item.carried.as_ref().filter(|carried| carried.proof == Proof::Given)?;
        Some(&carried.payload)
    }

    fn item(&self, resource: Slot) -> Option<&Item> {
        self.rare.as_deref()?.brought.items.get(&resource)
    }

    /// Whether the client does not have the newest version that it was sent. The rejection may
    /// have been cleared after all of it was removed.
    fn has_rejected_the_newest(&self) -> bool {
        !self.is_waiting() && (self.is_rejected() || self.is_refused())
    }

    /// Returns the revision at which the client was moved, if it has anything carried over.
    pub(crate) fn brought_at(&self) -> Option<Stamp> {
        let brought = self.rare.as_deref().map(|rare| &rare.brought);
        brought.filter(|brought| !brought.is_empty()).map(|brought| brought.at)
    }

    /// Drops a carried-over resource that the client no longer has or that it is sent in another
    /// way.
    pub(crate) fn drop_brought(&mut self, resource: Slot) {
        if self.brought_at().is_some() {
            self.with_rare(|rare| drop(rare.brought.items.remove(&resource)));
        }
    }
}

impl Turn<'_> {
    /// Returns the version of a subscribed resource to carry over to a view without it. `None` if
    /// the client rejected it and has no other version, because repeating it would cause
    /// rejections.
    pub(crate) fn to_bring(
        &self,
        edge: &Edge,
        accepted: &Form,
        sent: Option<&(u64, Form)>,
    ) -> Option<Carried> {
        let has_it = edge.sent != 0 && self.error_of(edge.resource).is_none();
        let newest = || match self.arena.payload(edge.resource) {
            Some(payload) => Some(payload),
            None => Some(self.ghost(edge)?.1),
        };
        has_it.then(|| self.carry(accepted, sent, newest))?
    }

    /// Returns the version to carry over of a resource that only a wildcard covers.
    pub(crate) fn covered_to_bring(
        &self,
        slot: Slot,
        accepted: &Form,
        sent: Option<&(u64, Form)>,
    ) -> Option<Carried> {
        let newest = || {
            let resource = self.arena.at(slot)?;
            resource.payload.as_ref().or_else(|| self.arena.ghosts.at(resource.stamp))
        };
        self.carry(accepted, sent, newest)
    }

    /// Returns the version that the client accepted last, or an unanswered later one until the
    /// answer arrives. If neither is known, returns the newest version, unless that might be
    /// rejected forever.
    fn carry<'p>(
        &'p self,
        accepted: &Form,
        sent: Option<&(u64, Form)>,
        newest: impl Fn() -> Option<&'p Payload>,
    ) -> Option<Carried> {
        let carried = |payload: &Payload, proof| Some(Carried { payload: payload.clone(), proof });
        match (sent, accepted) {
            (None, Form::This(payload)) => carried(payload, Proof::Given),
            (None, Form::Unknown)
                if self.session.has_rejected_the_newest() && self.session.lingers_for_ever() =>
            {
                None
            }
            (None, Form::Unknown) => carried(newest()?, Proof::Given),
            (Some((_, Form::This(payload))), accepted) if accepted.is(payload) => {
                carried(payload, Proof::Given)
            }
            (Some((nonce, Form::This(payload))), _) => carried(payload, Proof::Awaited(*nonce)),
            (Some((nonce, Form::Unknown)), _) => carried(newest()?, Proof::Awaited(*nonce)),
            (None | Some((_, Form::Nothing)), _) => None,
        }
    }

    /// Applies the answer to a response. Takes time proportional to the carried-over resources.
    pub(crate) fn note_answer_for_brought(&mut self, nonce: u64, answer: Answer) {
        let Some(rare) = self.session.rare.as_deref() else { return };
        let is_awaited = |item: &Item| {
            let proof = item.carried.as_ref().map(|carried| carried.proof);
            matches!(proof, Some(Proof::Awaited(of)) if of <= nonce)
        };
        let items = rare.brought.items.iter().filter(|(_, item)| is_awaited(item));
        let slots: Vec<Slot> = items.map(|(&slot, _)| slot).collect();
        for slot in slots {
            let form = match answer {
                Answer::Nack => self.accepted_before(slot),
                Answer::Ack | Answer::Pending | Answer::Overdue => Form::Unknown,
            };
            let is_rejected = answer == Answer::Nack && self.session.lingers_for_ever();
            let Some(item) = self.session.rare_mut().brought.items.get_mut(&slot) else { continue };
            match form {
                Form::This(payload) => {
                    item.carried = Some(Carried { payload, proof: Proof::Given })
                }
                Form::Nothing => item.carried = None,
                Form::Unknown if is_rejected => item.carried = None,
                Form::Unknown => item.carried.iter_mut().for_each(|it| it.proof = Proof::Given),
            }
        }
    }

    /// Whether a carried-over resource has no version that could be repeated.
    pub(crate) fn was_brought_in_vain(&self, slot: Slot) -> bool {
        let resource = self.arena.at(slot);
        let brought = resource.and_then(|it| self.session.brought(slot, it.stamp));
        brought.is_some_and(|payload| payload.is_none())
    }

    fn accepted_before(&self, slot: Slot) -> Form {
        let edge = self.edges.find(self.slot, slot).and_then(|edge| self.edges.at(edge));
        self.last_accepted(slot, edge)
    }

    /// Selects the version to repeat while a removal is deferred: if the client rejected the last
    /// one, the version that it accepted before. Otherwise every response would be rejected.
    /// Takes time proportional to the deferred removals.
    // M148
    pub(crate) fn serve_as_accepted(&mut self) {
        if !self.session.has_rejected_the_newest() || !self.session.needs_ghosts(self.arena) {
            return;
        }
        let mut served = Vec::new();
        let mut slot = self.session.due.withheld().first();
        while let Some(edge) = self.edges.at(slot) {
            if let Some(resource) = self.arena.at(edge.resource)
                && self.session.brought(edge.resource, resource.stamp).is_none()
                && let Form::This(payload) = self.last_accepted(edge.resource, Some(edge))
                && self.ghost(edge).is_none_or(|(_, ghost)| ghost.hash != payload.hash)
            {
                let carried = Some(Carried { payload, proof: Proof::Given });
                served.push((edge.resource, Item { stamp: resource.stamp, carried }));
            }
            slot = self.edges.next(Chain::Due, slot);
        }
        if !served.is_empty() {
            self.session.rare_mut().brought.items.extend(served);
        }
    }

    /// Returns the revision of the last accepted full state of the wildcard, if the client
    /// rejected the next one.
    pub(crate) fn unaccepted_state(&self) -> Option<Stamp> {
        let is_rejected = |_: &_| self.session.has_rejected_the_newest();
        let (_, accepted) = self.accepted_here().filter(is_rejected)?;
        self.sends_full_state().then_some(accepted)
    }

    /// Carries over a resource of the previous view, or the fact that no version can be repeated,
    /// if its removal is withheld.
    pub(crate) fn bring(&mut self, edge: Slot, carried: Option<Carried>) {
        if !self.session.needs_ghosts(self.arena) {
            return;
        }
        let Some(edge) = self.edges.at(edge).filter(|edge| edge.is_withheld()) else { return };
        let Some(resource) = self.arena.at(edge.resource) else { return };
        let item = Item { stamp: resource.stamp, carried };
        let brought = &mut self.session.rare_mut().brought;
        brought.at = self.arena.clock();
        brought.items.insert(edge.resource, item);
    }
}
