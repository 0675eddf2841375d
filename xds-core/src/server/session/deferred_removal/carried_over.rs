//! What a client has of what lingers, where that is something else than was deleted (M147, M148, M223).
//!
//! In full state what lingers is repeated. The view that the client sees now may never have had it; or it was rejected
//! as it was at last, and the client has it as it was before. So the session brings it along. It goes with the edge that
//! says that it lingers.

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

/// What a session has brought along from another view.
#[derive(Debug, Default)]
pub(crate) struct Brought {
    items: BTreeMap<Slot, Item>,
    /// When the client was moved.
    at: Stamp,
}

#[derive(Debug)]
struct Item {
    /// When the name was last set or deleted by then: what has become of it since counts instead.
    stamp: Stamp,
    /// Nothing if the client has it in no form that it is known to have accepted: with it everything would be rejected.
    carried: Option<Carried>,
}

/// What a client takes along to another view.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    payload: Payload,
    proof: Proof,
}

/// Whether the client has accepted what was brought along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    /// It has accepted it, for all that is known.
    Given,
    /// Its answer to the response of this nonce will tell.
    Awaited(u64),
}

impl Brought {
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl Session {
    /// What was brought along under a name that was last set or deleted at this position; nothing of it if the client
    /// does not have it in any form.
    pub(crate) fn brought(&self, resource: Slot, stamp: Stamp) -> Option<Option<&Payload>> {
        let item = self.item(resource).filter(|item| item.stamp == stamp)?;
        Some(item.carried.as_ref().map(|carried| &carried.payload))
    }

    /// What was brought along and had lingered at a position, whatever has become of the name since.
    pub(crate) fn lingered_at(&self, resource: Slot, position: Stamp) -> Option<&Payload> {
        let item = self.item(resource).filter(|item| item.stamp <= position)?;
        let carried = item.carried.as_ref().filter(|carried| carried.proof == Proof::Given)?;
        Some(&carried.payload)
    }

    fn item(&self, resource: Slot) -> Option<&Item> {
        self.rare.as_deref()?.brought.items.get(&resource)
    }

    /// Whether the client does not have what it was sent last. It may have been forgiven for that, since all of it is gone.
    fn has_rejected_the_newest(&self) -> bool {
        !self.is_waiting() && (self.is_rejected() || self.is_refused())
    }

    /// When the client was moved, if it has anything from before.
    pub(crate) fn brought_at(&self) -> Option<Stamp> {
        let brought = self.rare.as_deref().map(|rare| &rare.brought);
        brought.filter(|brought| !brought.is_empty()).map(|brought| brought.at)
    }

    /// The client does not have that any more, or it is told of it in another way.
    pub(crate) fn drop_brought(&mut self, resource: Slot) {
        if self.brought_at().is_some() {
            self.with_rare(|rare| drop(rare.brought.items.remove(&resource)));
        }
    }
}

impl Turn<'_> {
    /// What the client has by an edge, and is to keep for a while should it see a view that does not have it. What
    /// it rejected, and has in no other form, is none of that: with it everything would be rejected.
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

    /// The same of what only a wildcard covers.
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

    /// What the client has accepted last; or was sent since, until it answers. Where neither is known, the newest there is,
    /// unless it might be rejected for ever.
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

    /// The client has answered to a response: costs what was brought along.
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

    /// Whether what was brought along the client has in no form that could be repeated.
    pub(crate) fn was_brought_in_vain(&self, slot: Slot) -> bool {
        let resource = self.arena.at(slot);
        let brought = resource.and_then(|it| self.session.brought(slot, it.stamp));
        brought.is_some_and(|payload| payload.is_none())
    }

    fn accepted_before(&self, slot: Slot) -> Form {
        let edge = self.edges.find(self.slot, slot).and_then(|edge| self.edges.at(edge));
        self.last_accepted(slot, edge)
    }

    /// What lingers, and was rejected as it was at last, is served as the client has accepted it before: repeated, it
    /// would be rejected for ever with everything beside it (M148). Costs what lingers.
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

    /// Up to where the client has accepted a full state of everything, if it rejected the next one.
    pub(crate) fn unaccepted_state(&self) -> Option<Stamp> {
        let is_rejected = |_: &_| self.session.has_rejected_the_newest();
        let (_, accepted) = self.accepted_here().filter(is_rejected)?;
        self.sends_full_state().then_some(accepted)
    }

    /// The client has this of the view before, or nothing that could be repeated, and is not to be told yet that it
    /// is gone.
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
