//! Subscriptions to aliases of resources.
//!
//! An alias is treated like a glob with one member. A client that subscribes to an alias has a
//! subscription to the alias and one to the resource, which is sent, retained and removed under
//! its own name. The alias itself is reported only if it refers to no resource. For
//! state-of-the-world clients an alias is a name without a resource.
// X06, S0.187-S0.194, M136, M137

use alloc::{collections::BTreeSet, vec::Vec};
use core::mem;

use crate::{
    server::{
        event::ResponseCause,
        session::{
            Session,
            context::SessionContext,
            subscription::{Due, ListKind, SubscriptionKind},
        },
        store::arena::Arena,
    },
    service::Variant,
    slab::Slot,
    text::ResourceName,
};

impl Session {
    /// Returns the resource to which a name refers for this client, if the name is an alias.
    pub(crate) fn alias_target(&self, name: Slot, arena: &Arena) -> Option<Slot> {
        let has_aliases = self.variant == Variant::Incremental;
        arena.alias_target(name).filter(|_| has_aliases)
    }
}

impl SessionContext<'_> {
    pub(crate) fn alias_target(&self, name: Slot) -> Option<Slot> {
        self.session.alias_target(name, self.arena)
    }

    /// Returns the client's subscriptions to aliases of a resource.
    fn subscriptions_by_alias(&self, resource: Slot) -> impl Iterator<Item = Slot> {
        let has_aliases = self.session.variant == Variant::Incremental;
        let names =
            has_aliases.then(|| self.arena.subscribed_aliases(resource)).into_iter().flatten();
        let subscriptions = names.filter_map(|name| self.subscriptions.find(self.slot, name));
        subscriptions
            .filter(|&subscription| self.kind_of(subscription) == Some(SubscriptionKind::Named))
    }

    /// Returns the aliases of a resource to which the client subscribes.
    pub(crate) fn subscribed_aliases_of(&self, resource: Slot) -> impl Iterator<Item = Slot> {
        self.subscriptions_by_alias(resource)
            .filter_map(|subscription| Some(self.subscriptions.at(subscription)?.resource))
    }

    /// Whether the client subscribes to an alias of the resource with this name.
    pub(crate) fn is_subscribed_by_alias(&self, name: &str) -> bool {
        let resource = self.arena.find(name);
        resource.is_some_and(|resource| self.subscriptions_by_alias(resource).next().is_some())
    }

    /// Returns the subscription to a resource that the client stated to have and whose alias must
    /// be answered nevertheless. This is the case if the client subscribes to an alias and also
    /// to the resource in another way, because it may not know that they are the same.
    // IS7
    pub(crate) fn subscription_of_unknown_alias(&self, name: &str) -> Option<Slot> {
        let resource = self.arena.find(name)?;
        let mut aliases = self.subscriptions_by_alias(resource);
        let is_subscribed_by_alias = aliases.next().is_some();
        let has_more = aliases.next().is_some();
        let subscription = self.subscriptions.find(self.slot, resource)?;
        let is_named = self.kind_of(subscription) == Some(SubscriptionKind::Named);
        let asks_otherwise =
            has_more || is_named || self.session.wildcard.is_some() || self.is_in_glob(name);
        (is_subscribed_by_alias && asks_otherwise).then_some(subscription)
    }

    /// Updates a subscription after its name became an alias of another resource or of none, or
    /// after its resource lost an alias.
    pub(crate) fn alias_changed(&mut self, slot: Slot) {
        if self.session.variant == Variant::StateOfTheWorld {
            return;
        }
        let Some(subscription) = self.subscriptions.at(slot) else { return };
        let (name, was_sent, is_due) =
            (subscription.resource, subscription.has_version(), subscription.due.is_some());
        if subscription.kind == SubscriptionKind::ViaGlobOrAlias {
            if self.arena.payload(name).is_some()
                && let Some(name) = self.uncover(slot)
                && self.arena.sends_removals()
            {
                self.note_without_subscription(name);
            }
            return;
        }
        if subscription.kind != SubscriptionKind::Named || self.arena.payload(name).is_some() {
            return;
        }
        if self.alias_target(name).is_some() {
            if !was_sent {
                self.subscriptions.clear_due(&mut self.session.due, slot);
            }
            self.cover_members(name, ResponseCause::Changed);
        } else if !is_due && self.arena.sends_removals() {
            // The client keeps the former resource until its removal is sent.
            match self.session.may_defer_removals(self.arena) {
                true => self.subscriptions.withhold(&mut self.session.due, slot),
                false => self.make_due(slot, ResponseCause::Changed),
            }
        }
    }

    /// Marks a resource that the client has and that no subscription covers now; its removal is
    /// pending.
    fn note_without_subscription(&mut self, name: ResourceName) {
        if self.session.wildcard.is_some() {
            return;
        }
        let at = self.arena.clock();
        let without_subscription = &mut self.session.extras_mut().without_subscription;
        without_subscription.names.insert(name);
        without_subscription.at = at;
    }

    /// Releases the removals of resources without a subscription, and returns whether there are any.
    /// They count as a change.
    pub(crate) fn release_without_subscription(&mut self) -> bool {
        if self.session.without_subscription().is_none() {
            return false;
        }
        let names = mem::take(&mut self.session.extras_mut().without_subscription).names;
        self.session.drop_empty_extras();
        self.add_unsubscribe_removals(names);
        true
    }

    /// Sends the resource of an alias together with the removal of the alias's name, if the
    /// client has a subscription to that resource.
    pub(crate) fn piggyback_alias_targets(&mut self) {
        if self.session.variant == Variant::StateOfTheWorld || !self.arena.has_aliases() {
            return;
        }
        let mut slot = self.session.due.first();
        while let Some(subscription) = self.subscriptions.at(slot) {
            let was_sent =
                subscription.has_version() && subscription.kind == SubscriptionKind::Named;
            if was_sent
                && let Some(resource) = self.alias_target(subscription.resource)
                && let Some(subscription) = self.subscriptions.find(self.slot, resource)
            {
                let due = Due::because(ResponseCause::Changed);
                self.subscriptions.set_due(&mut self.session.due, subscription, due);
            }
            slot = self.subscriptions.next(ListKind::Due, slot);
        }
    }

    /// Unsubscribes from a subscribed alias. The subscription to its resource ends, too, unless
    /// the client subscribes to the resource by another name.
    pub(crate) fn drop_alias(&mut self, subscription: Slot, resource: Slot, cause: ResponseCause) {
        self.disconnect(subscription);
        let subscription = self.subscriptions.find(self.slot, resource);
        let subscription = subscription.filter(|&subscription| {
            self.kind_of(subscription) == Some(SubscriptionKind::ViaGlobOrAlias)
        });
        let name = self.arena.at(resource).map(|resource| resource.name.clone());
        let (Some(subscription), Some(name)) = (subscription, name) else { return };
        if self.is_covered(name.as_str()) {
            return;
        }
        if self.session.wildcard.is_some() {
            // As for a name (M91).
            self.set_kind(subscription, SubscriptionKind::Retained);
            self.make_requested_due(subscription, cause);
            self.subscriptions.note_unsubscribed(subscription);
        } else {
            self.disconnect(subscription);
        }
    }

    /// Unsubscribes from a name to which the client did not subscribe. If it is a resource or an
    /// alias of one, all subscriptions to that resource end, whatever the name. Resources in
    /// `dropped` were already handled for the same request.
    // S0.191, S0.194
    pub(crate) fn drop_by_other_name(
        &mut self,
        name: &str,
        cause: ResponseCause,
        dropped: &mut BTreeSet<Slot>,
    ) {
        let own = self.arena.find(name).filter(|&slot| self.arena.payload(slot).is_some());
        let Some(resource) = own.or_else(|| self.arena.by_alias(name)) else { return };
        if !dropped.insert(resource) {
            return;
        }
        let aliases: Vec<Slot> = self.subscriptions_by_alias(resource).collect();
        for subscription in aliases {
            self.drop_alias(subscription, resource, cause);
        }
        let subscription = self.subscriptions.find(self.slot, resource);
        let subscription = subscription
            .filter(|&subscription| self.kind_of(subscription) == Some(SubscriptionKind::Named));
        let name = self.arena.at(resource).map(|resource| resource.name.clone());
        if let (Some(subscription), Some(name)) = (subscription, name) {
            self.drop_own_name(subscription, name.as_str(), cause);
        }
    }

    /// Sends the removal of a resource from the previous view to which the client does not
    /// subscribe by any name in this view. It subscribed to an alias of it there.
    pub(crate) fn remove_unsubscribed(&mut self, name: &ResourceName, cause: ResponseCause) {
        let slot = self.arena.find(name.as_str());
        let has_entry = slot.is_some_and(|slot| self.subscriptions.find(self.slot, slot).is_some());
        let is_subscribed =
            has_entry || self.session.wildcard.is_some() || self.is_covered(name.as_str());
        if is_subscribed || !self.arena.sends_removals() {
            return;
        }
        if slot.is_some_and(|slot| self.arena.payload(slot).is_some()) {
            self.note_without_subscription(name.clone());
            return;
        }
        let slot = self.arena.slot_of(name.clone());
        let Some(subscription) = slot.and_then(|slot| self.add_retained(slot)) else { return };
        self.make_due(subscription, cause);
        self.defer_removal_if_missing(subscription);
    }
}
