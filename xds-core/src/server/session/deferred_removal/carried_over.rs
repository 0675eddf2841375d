//! Versions of deferred removals that a session carries over from another view.
//!
//! In full state, resources with a deferred removal are repeated. The client's current view may
//! never have had such a resource, or the client rejected its last version and has an earlier
//! one. The session therefore stores the version to repeat, for as long as the deferred removal
//! exists.
// M147, M148, M223

use alloc::{collections::BTreeMap, vec::Vec};

use super::last_accepted::KnownPayload;
use crate::{
    server::{
        session::{
            Session,
            context::SessionContext,
            subscription::{ListKind, Subscription},
            window::Answer,
        },
        store::{encode::body::Payload, revision::Revision},
    },
    slab::Slot,
};

/// Resources that a session carried over from another view.
#[derive(Debug, Default)]
pub(crate) struct CarriedOver {
    items: BTreeMap<Slot, CarriedItem>,
    /// Revision at which the client was moved.
    at: Revision,
}

#[derive(Debug)]
struct CarriedItem {
    /// Revision of the last change or removal of the name by then. A later change takes
    /// precedence.
    revision: Revision,
    /// `None` if the client has no version that it is known to have accepted. Repeating the
    /// resource would then cause the whole response to be rejected.
    carried: Option<CarriedVersion>,
}

/// Version of a resource that a client takes along to another view.
#[derive(Clone, Debug)]
pub(crate) struct CarriedVersion {
    payload: Payload,
    proof: Acceptance,
}

/// Whether the client accepted a carried-over resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Acceptance {
    /// The client accepted it, as far as is known.
    Accepted,
    /// The answer to the response with this nonce decides.
    Pending(u64),
}

impl CarriedOver {
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl Session {
    /// Returns the carried-over version of a resource that was last changed or removed at
    /// `revision`. The inner value is `None` if the client has no version of it.
    pub(crate) fn carried_over(
        &self,
        resource: Slot,
        revision: Revision,
    ) -> Option<Option<&Payload>> {
        let item = self.item(resource).filter(|item| item.revision == revision)?;
        Some(item.carried.as_ref().map(|carried| &carried.payload))
    }

    /// Returns the carried-over version whose removal was deferred at a revision, whatever has
    /// happened to the name since.
    pub(crate) fn carried_version_at(
        &self,
        resource: Slot,
        position: Revision,
    ) -> Option<&Payload> {
        let item = self.item(resource).filter(|item| item.revision <= position)?;
        let carried =
            item.carried.as_ref().filter(|carried| carried.proof == Acceptance::Accepted)?;
        Some(&carried.payload)
    }

    fn item(&self, resource: Slot) -> Option<&CarriedItem> {
        self.extras.as_deref()?.carried_over.items.get(&resource)
    }

    /// Returns the revision at which the client was moved, if it has anything carried over.
    pub(crate) fn carried_over_at(&self) -> Option<Revision> {
        let carried_over = self.extras.as_deref().map(|extras| &extras.carried_over);
        carried_over
            .filter(|carried_over| !carried_over.is_empty())
            .map(|carried_over| carried_over.at)
    }

    /// Drops a carried-over resource that the client no longer has or that it is sent in another
    /// way.
    pub(crate) fn drop_carried_over(&mut self, resource: Slot) {
        if self.carried_over_at().is_some() {
            self.update_extras(|extras| drop(extras.carried_over.items.remove(&resource)));
        }
    }
}

impl SessionContext<'_> {
    /// Returns the version of a subscribed resource to carry over to a view without it. `None` if
    /// the client rejected it and has no other version, because repeating it would cause
    /// rejections.
    pub(crate) fn version_to_carry(
        &self,
        subscription: &Subscription,
        accepted: &KnownPayload,
        sent: Option<&(u64, KnownPayload)>,
    ) -> Option<CarriedVersion> {
        let has_it = subscription.sent != 0 && self.error_of(subscription.resource).is_none();
        let newest = || match self.arena.payload(subscription.resource) {
            Some(payload) => Some(payload),
            None => Some(self.retained_deletion(subscription)?.1),
        };
        has_it.then(|| self.select_version(accepted, sent, newest))?
    }

    /// Returns the version to carry over of a resource that only a wildcard covers.
    pub(crate) fn covered_version_to_carry(
        &self,
        slot: Slot,
        accepted: &KnownPayload,
        sent: Option<&(u64, KnownPayload)>,
    ) -> Option<CarriedVersion> {
        let newest = || {
            let resource = self.arena.at(slot)?;
            resource.payload.as_ref().or_else(|| self.arena.removed_content(slot))
        };
        self.select_version(accepted, sent, newest)
    }

    /// Returns the version that the client accepted last, or an unanswered later one until the
    /// answer arrives. If neither is known, returns the newest version, unless that might be
    /// rejected forever.
    fn select_version<'p>(
        &'p self,
        accepted: &KnownPayload,
        sent: Option<&(u64, KnownPayload)>,
        newest: impl Fn() -> Option<&'p Payload>,
    ) -> Option<CarriedVersion> {
        let carried =
            |payload: &Payload, proof| Some(CarriedVersion { payload: payload.clone(), proof });
        match (sent, accepted) {
            (None, KnownPayload::Known(payload)) => carried(payload, Acceptance::Accepted),
            (None, KnownPayload::Unknown)
                if self.session.has_rejected_newest() && self.session.may_defer_forever() =>
            {
                None
            }
            (None, KnownPayload::Unknown) => carried(newest()?, Acceptance::Accepted),
            (Some((_, KnownPayload::Known(payload))), accepted) if accepted.is(payload) => {
                carried(payload, Acceptance::Accepted)
            }
            (Some((nonce, KnownPayload::Known(payload))), _) => {
                carried(payload, Acceptance::Pending(*nonce))
            }
            (Some((nonce, KnownPayload::Unknown)), _) => {
                carried(newest()?, Acceptance::Pending(*nonce))
            }
            (None | Some((_, KnownPayload::Absent)), _) => None,
        }
    }

    /// Applies the answer to a response. Takes time proportional to the carried-over resources.
    pub(crate) fn note_answer_for_carried_over(&mut self, nonce: u64, answer: Answer) {
        let Some(extras) = self.session.extras.as_deref() else { return };
        let is_awaited = |item: &CarriedItem| {
            let proof = item.carried.as_ref().map(|carried| carried.proof);
            matches!(proof, Some(Acceptance::Pending(of)) if of <= nonce)
        };
        let items = extras.carried_over.items.iter().filter(|(_, item)| is_awaited(item));
        let slots: Vec<Slot> = items.map(|(&slot, _)| slot).collect();
        for slot in slots {
            let known_payload = match answer {
                Answer::Nack => self.accepted_before(slot),
                Answer::Ack | Answer::Pending | Answer::Overdue => KnownPayload::Unknown,
            };
            let is_rejected = answer == Answer::Nack && self.session.may_defer_forever();
            let Some(item) = self.session.extras_mut().carried_over.items.get_mut(&slot) else {
                continue;
            };
            match known_payload {
                KnownPayload::Known(payload) => {
                    item.carried = Some(CarriedVersion { payload, proof: Acceptance::Accepted })
                }
                KnownPayload::Absent => item.carried = None,
                KnownPayload::Unknown if is_rejected => item.carried = None,
                KnownPayload::Unknown => {
                    item.carried.iter_mut().for_each(|it| it.proof = Acceptance::Accepted)
                }
            }
        }
    }

    /// Whether a carried-over resource has no version that could be repeated.
    pub(crate) fn has_no_carried_version(&self, slot: Slot) -> bool {
        let resource = self.arena.at(slot);
        let carried_over = resource.and_then(|it| self.session.carried_over(slot, it.revision));
        carried_over.is_some_and(|payload| payload.is_none())
    }

    fn accepted_before(&self, slot: Slot) -> KnownPayload {
        self.last_accepted(slot, self.subscriptions.of(self.slot, slot))
    }

    /// Selects the version to repeat while a removal is deferred: if the client rejected the last
    /// one, the version that it accepted before. Otherwise every response would be rejected.
    /// Takes time proportional to the deferred removals.
    // M148
    pub(crate) fn serve_accepted_versions(&mut self) {
        if !self.session.has_rejected_newest() || !self.session.needs_retained_deletions(self.arena)
        {
            return;
        }
        let mut served = Vec::new();
        let withheld = self.subscriptions.list(ListKind::Due, self.session.due.withheld().first());
        for (_, subscription) in withheld {
            if let Some(resource) = self.arena.at(subscription.resource)
                && self.session.carried_over(subscription.resource, resource.revision).is_none()
                && let KnownPayload::Known(payload) =
                    self.last_accepted(subscription.resource, Some(subscription))
                && self
                    .retained_deletion(subscription)
                    .is_none_or(|(_, retained_deletion)| retained_deletion.hash != payload.hash)
            {
                let carried = Some(CarriedVersion { payload, proof: Acceptance::Accepted });
                served.push((
                    subscription.resource,
                    CarriedItem { revision: resource.revision, carried },
                ));
            }
        }
        if !served.is_empty() {
            self.session.extras_mut().carried_over.items.extend(served);
        }
    }

    /// Returns the revision of the last accepted full state of the wildcard, if the client
    /// rejected the next one.
    pub(crate) fn accepted_state_revision(&self) -> Option<Revision> {
        let is_rejected = |_: &_| self.session.has_rejected_newest();
        let (_, accepted) = self.accepted_here().filter(is_rejected)?;
        self.sends_full_state().then_some(accepted)
    }

    /// Carries over a resource of the previous view, or the fact that no version can be repeated,
    /// if its removal is withheld.
    pub(crate) fn carry_over(&mut self, subscription: Slot, carried: Option<CarriedVersion>) {
        if !self.session.needs_retained_deletions(self.arena) {
            return;
        }
        let Some(subscription) =
            self.subscriptions.at(subscription).filter(|subscription| subscription.is_withheld())
        else {
            return;
        };
        let Some(resource) = self.arena.at(subscription.resource) else { return };
        let item = CarriedItem { revision: resource.revision, carried };
        let carried_over = &mut self.session.extras_mut().carried_over;
        carried_over.at = self.arena.clock();
        carried_over.items.insert(subscription.resource, item);
    }
}
