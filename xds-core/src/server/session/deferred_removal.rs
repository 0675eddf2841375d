//! Deferred removals, withheld while resources that the client has may reference the removed
//! ones.
//!
//! A name with a deferred removal has a subscription that is due but withheld. A resource that
//! only the wildcard covers gets one when the first response is sent without its removal; until
//! then its tombstone suffices. If a name comes back, it is sent like any other change, which
//! ends the deferral.
// M147, M149

use alloc::vec::Vec;

use super::{
    FirstResponse, ResponseMode, SendOrder, Session,
    context::SessionContext,
    subscription::{ListKind, Subscription, SubscriptionKind, SubscriptionTable},
};
use crate::{
    server::store::{
        arena::Arena,
        encode::body::{Payload, ResponseBody},
        version::content::TypeVersion,
    },
    service::Variant,
    slab::Slot,
    text::ResourceName,
};

/// Part of the due contents that a response may include.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Portion {
    Everything,
    /// Everything except removals.
    Additions,
    /// Answers to unanswered requests only. Treated as `Additions` in full state, and if the
    /// wildcard itself is unanswered or has yet to send a requested resource.
    Unanswered,
    /// Heartbeats, or a resource that is sent alone to find out whether the client rejects it.
    Unchanged,
}

impl Session {
    /// Whether removals may have to wait.
    pub(crate) fn may_defer_removals(&self, arena: &Arena) -> bool {
        let implies_removals = match self.response_mode(arena) {
            ResponseMode::FullState => arena.absence_deletes(),
            ResponseMode::Changes => false,
            ResponseMode::ChangesAndRemovals => arena.sends_removals(),
        };
        matches!(self.send_order, SendOrder::RemovalsLast | SendOrder::MakeBeforeBreakRemovals(_))
            && implies_removals
    }

    /// Whether the session learns from tombstones which resources its wildcard lost.
    pub(crate) fn follows_tombstones(&self, arena: &Arena) -> bool {
        self.variant == Variant::Incremental || self.needs_retained_deletions(arena)
    }

    /// Whether removals are withheld from the client for the sake of other types or other
    /// contents.
    pub(crate) fn withholds_removals(&self, arena: &Arena) -> bool {
        let waits = matches!(self.send_order, SendOrder::MakeBeforeBreakRemovals(_))
            && self.may_defer_removals(arena);
        self.needs_retained_deletions(arena) || waits && !self.awaits_answer()
    }

    /// Whether an incremental session with deferred removals has sent no response yet. A returning
    /// client states its resources one type after the other, so it may not have subscribed yet to the
    /// types that refer to them. Envoy has subscribed to all types by its first ACK.
    pub(crate) fn awaits_first_exchange(&self) -> bool {
        self.has_stated_everything() && self.defers_removals()
    }

    /// Whether an incremental session has sent no response yet, so that its client stated all that it
    /// has.
    fn has_stated_everything(&self) -> bool {
        self.variant == Variant::Incremental && self.newest.is_none()
    }

    /// Whether responses may have to repeat removed resources.
    pub(crate) fn needs_retained_deletions(&self, arena: &Arena) -> bool {
        self.may_defer_removals(arena) && self.response_mode(arena) == ResponseMode::FullState
    }

    fn retained_deletion<'a>(
        &'a self,
        subscription: &Subscription,
        arena: &'a Arena,
    ) -> Option<(&'a ResourceName, &'a Payload)> {
        let slot = subscription.resource;
        let resource = arena.at(slot).filter(|_| subscription.is_withheld())?;
        Some((&resource.name, self.repeated_version(slot, arena)?))
    }

    /// Returns the versions that are served while the removals are withheld from the client.
    pub(crate) fn retained_deletions<'a>(
        &'a self,
        arena: &'a Arena,
        subscriptions: &'a SubscriptionTable,
    ) -> impl Iterator<Item = (&'a ResourceName, &'a Payload)> {
        let withheld = subscriptions.list(ListKind::Due, self.due.withheld().first());
        withheld.filter_map(|(_, it)| self.retained_deletion(it, arena))
    }
}

impl SessionContext<'_> {
    /// Converts the wildcard's unsent removals into deferred removals, because a response is sent
    /// without them.
    pub(crate) fn defer_wildcard_removals(&mut self) {
        let Some(wildcard) = self.session.wildcard else { return };
        let pending_removals: Vec<Slot> = {
            let sent_removals = self.session.sent_removals(&wildcard);
            self.arena
                .pending_removals(sent_removals, wildcard.reached)
                .map(|(slot, _)| slot)
                .filter(|&slot| self.subscriptions.find(self.slot, slot).is_none())
                .filter(|&slot| self.may_have_from_wildcard(slot))
                .collect()
        };
        for resource in pending_removals {
            let Some(subscription) = self.connect(resource) else { return };
            self.set_kind(subscription, SubscriptionKind::DeferredRemoval);
            self.defer_removal(subscription);
        }
        let clock = self.arena.clock();
        if let Some(wildcard) = &mut self.session.wildcard {
            wildcard.removals_to = clock;
        }
        self.session.update_extras(|extras| extras.partial_removals = None);
    }

    /// Adds a subscription by name. If the client has the resource from the wildcard and it was
    /// removed, the removal is withheld as before.
    pub(crate) fn connect_keeping_removal(&mut self, resource: Slot) -> Option<Slot> {
        let has_it = self.session.wildcard.is_some_and(|wildcard| {
            self.arena.is_known(resource, wildcard.reached, wildcard.removals_to)
        });
        let is_removed = self.session.may_defer_removals(self.arena)
            && self.arena.payload(resource).is_none()
            && self.may_have_from_wildcard(resource);
        let subscription = self.connect(resource)?;
        if has_it && is_removed {
            self.defer_removal(subscription);
        }
        Some(subscription)
    }

    /// Defers the removal of a resource that a client has and that does not exist.
    pub(crate) fn defer_removal_if_missing(&mut self, slot: Slot) {
        let Some(subscription) = self.subscriptions.at(slot) else { return };
        let exists = self.arena.payload(subscription.resource).is_some();
        // For a glob the members' removals are deferred. An error is sent at once.
        let has_error =
            subscription.kind.is_subscribed() && self.error_of(subscription.resource).is_some();
        let is_immediate = exists || has_error || self.arena.is_glob(subscription.resource);
        if is_immediate || !self.session.may_defer_removals(self.arena) {
            return;
        }
        // What a client states stays among its names, which are limited (M242).
        if subscription.kind == SubscriptionKind::Retained && !self.session.has_stated_everything()
        {
            self.set_kind(slot, SubscriptionKind::DeferredRemoval);
        }
        self.defer_removal(slot);
    }

    fn defer_removal(&mut self, subscription: Slot) {
        self.note_withheld(subscription);
        self.note_held(subscription);
        self.subscriptions.clear_due(&mut self.session.due, subscription);
        self.withhold_removal(subscription);
    }

    /// Withholds the removal of a resource that a client has and that does not exist.
    pub(crate) fn withhold_removal(&mut self, subscription: Slot) {
        self.subscriptions.withhold(&mut self.session.due, subscription);
        if self.session.awaits_first_exchange() {
            // Its ACK releases the removal, so it is sent even if it is empty (IL1).
            self.session.first_response = FirstResponse::Pending;
        }
    }

    /// Returns the version that is served while the resource's removal is withheld from the
    /// client.
    pub(crate) fn retained_deletion(
        &self,
        subscription: &Subscription,
    ) -> Option<(&ResourceName, &Payload)> {
        self.session.retained_deletion(subscription, self.arena)
    }

    /// Returns the version of all resources including deferred removals.
    pub(crate) fn version_of_everything(&self) -> TypeVersion {
        let mut version = self.arena.version;
        for (name, payload) in self.session.retained_deletions(self.arena, self.subscriptions) {
            version.add(name.as_str(), payload.hash);
        }
        version
    }

    /// Renders all resources including deferred removals. Returns the version of exactly these.
    pub(crate) fn body_of_everything(&mut self) -> (ResponseBody, TypeVersion) {
        let (version, ttls) = (self.version_of_everything(), self.encoding().ttls);
        let retained_deletions = self.session.retained_deletions(self.arena, self.subscriptions);
        let retained_deletions: Vec<_> =
            retained_deletions.map(|(name, payload)| (name.clone(), payload.clone())).collect();
        (self.arena.full_body(&retained_deletions, version, ttls), version)
    }
}
