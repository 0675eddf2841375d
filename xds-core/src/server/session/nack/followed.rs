//! Subscriptions that are followed until an incremental client has accepted what it was sent.
//!
//! Under make before break, a client that rejects a removal may go on using the resource, and with it
//! what the resource refers to. Each removal therefore keeps its subscription until the client has
//! accepted it, and so does each resource that a client is sent without naming it, because after a
//! move it may have an older version.
//!
//! A rejected removal is sent again with each change until it is accepted: a removed resource has no
//! changes of its own to wait for, and its removal is hardly what a client rejects.
// M107, M147, IS11

use alloc::{collections::BTreeSet, vec::Vec};
use core::{mem, num::NonZeroU64};

use super::rejection::SentPosition;
use crate::{
    server::{
        event::ResponseCause,
        session::{
            Session,
            context::SessionContext,
            deferred_removal::Portion,
            subscription::{Delivery, Subscription, SubscriptionKind},
            window::Sent,
        },
        store::revision::Revision,
    },
    service::Variant,
    slab::Slot,
};

impl Session {
    /// Whether removals, and resources that the client is sent without naming them, are followed.
    pub(crate) fn follows_until_accepted(&self) -> bool {
        self.variant == Variant::Incremental && self.gates_other_types()
    }

    /// Whether the client still has resources whose removal it rejected.
    pub(crate) fn keeps_removed_resources(&self) -> bool {
        self.acked_exceptions().is_some_and(|it| !it.rejected_removals.is_empty())
    }

    /// Forgets the rejected removal of a resource that the client no longer has, or that changed since.
    pub(crate) fn forget_rejected_removal(&mut self, resource: Slot) {
        self.update_extras(|extras| {
            extras.acked.rejected_removals.remove(&resource);
        });
    }
}

impl SessionContext<'_> {
    /// Records the rejection of the removals in a response.
    pub(crate) fn note_rejected_removals(&mut self, sent: Sent) {
        let removal = Delivery::Removed(sent.nonce);
        let is_rejected =
            |slot: &Slot| self.subscriptions.at(*slot).is_some_and(|it| it.delivery == removal);
        let followed = self.session.acked_exceptions().map(|it| &it.followed);
        let rejected = followed.into_iter().flatten().copied().filter(is_rejected);
        let rejected: Vec<Slot> = rejected.collect();
        for slot in rejected {
            let Some(&Subscription { resource, due, .. }) = self.subscriptions.at(slot) else {
                continue;
            };
            self.set_delivery(slot, removal.held_in(sent.nonce));
            match (self.arena.payload(resource), due) {
                (None, None) => {
                    self.session.extras_mut().acked.rejected_removals.insert(resource);
                }
                // The resource has come back and was removed again.
                (None, Some(_)) => self.make_removal_due(slot, Portion::Additions),
                // Due since it came back.
                (Some(_), _) => {}
            }
        }
    }

    /// Whether the client has not answered the removal of a resource.
    pub(crate) fn awaits_answer_to_removal(&self, subscription: &Subscription) -> bool {
        self.session.follows_until_accepted()
            && subscription
                .delivery
                .removal()
                .is_some_and(|it| self.is_unanswered_response(it.get()))
    }

    /// Follows a removal that the client has not answered, and was sent in its previous view.
    pub(crate) fn follow_removal(&mut self, subscription: Slot, nonce: NonZeroU64) {
        self.set_delivery(subscription, Delivery::Removed(nonce));
        if self.kind_of(subscription).is_some_and(|kind| !kind.is_subscribed()) {
            self.set_kind(subscription, SubscriptionKind::DeferredRemoval);
        }
        self.session.extras_mut().acked.followed.insert(subscription);
    }

    /// Whether the client has rejected the resource of a subscription, or may still reject it.
    pub(crate) fn may_reject(&self, subscription: &Subscription) -> bool {
        let nonce = subscription.last_sent();
        self.session.gates_other_types()
            && !self.sends_full_state()
            && (self.is_rejected_in(nonce) || self.is_unanswered_response(nonce))
    }

    fn is_unanswered_response(&self, nonce: u64) -> bool {
        let accepted = self.session.accepted_response(self.arena);
        let accepted = accepted.map_or(0, |accepted| accepted.nonce.get());
        self.session.awaits_answer() && nonce > accepted
    }

    /// Stops following what the client has accepted, and ends those of the subscriptions that it does
    /// not name. Takes time proportional to the followed subscriptions.
    pub(crate) fn end_followed(&mut self, sent: Sent) {
        let mut followed = BTreeSet::new();
        self.session.update_extras(|extras| followed = mem::take(&mut extras.acked.followed));
        for slot in followed {
            let Some(subscription) = self.subscriptions.at(slot) else { continue };
            let exists = self.arena.payload(subscription.resource).is_some();
            let delivery = subscription.delivery;
            let response = delivery.last().or_else(|| delivery.removal());
            let is_unanswered = response.is_some_and(|response| response > sent.nonce);
            match subscription.due {
                // What it is sent next decides.
                Some(_) => {}
                None if is_unanswered
                    || exists && self.is_rejected_in(subscription.last_sent()) =>
                {
                    self.session.extras_mut().acked.followed.insert(slot);
                }
                // The client has rejected the removal.
                None if delivery.has_version() && !exists => {}
                None if !subscription.kind.is_subscribed() => self.disconnect(slot),
                None => {}
            }
        }
    }

    fn is_rejected_in(&self, nonce: u64) -> bool {
        self.session.rejections().is_some_and(|it| it.has(SentPosition::Nonce(nonce)))
    }

    /// Makes rejected removals due again if the next response has resources that changed since the newest
    /// one. They wait as they did before, unless the response contains removals.
    pub(crate) fn send_removals_again(&mut self, portion: Portion) {
        let newest = self.session.newest.map_or(Revision::START, |newest| newest.at);
        if !self.session.keeps_removed_resources() || !self.has_newer_due(newest, |_| true) {
            return;
        }
        let mut rejected = BTreeSet::new();
        self.session.update_extras(|extras| {
            rejected = mem::take(&mut extras.acked.rejected_removals);
        });
        for resource in rejected {
            let Some(slot) = self.subscriptions.find(self.slot, resource) else { continue };
            self.make_removal_due(slot, portion);
        }
    }

    fn make_removal_due(&mut self, subscription: Slot, portion: Portion) {
        match portion == Portion::Everything || !self.session.may_defer_removals(self.arena) {
            true => self.make_due(subscription, ResponseCause::Changed),
            false => self.subscriptions.withhold(&mut self.session.due, subscription),
        }
    }
}
