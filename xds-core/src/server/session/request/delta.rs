//! Requests of the incremental variant, which add and remove subscriptions.
//!
//! Added names are always answered, whatever the client is assumed to have. Changes of the
//! subscription apply whatever the nonce is. Additions are applied before removals.
// M96, M97, IS7; M110, IS3; M98

use alloc::{collections::BTreeSet, vec::Vec};
use core::mem;

use super::{
    globs::canonical,
    names::WILDCARD,
    progress::{RequestProgress, Stage},
};
use crate::{
    server::{
        event::ResponseCause,
        queue::outbox::Outbox,
        session::{
            CatchUp, MustReply, PriorState, Wildcard,
            context::SessionContext,
            subscription::{Delivery, SubscriptionKind},
        },
        store::encode::body::Payload,
    },
    service::Variant,
    slab::Slot,
    time::Time,
    wire::name_lists::{ListedName, NextName},
    zoo::{self, Bug},
};

impl SessionContext<'_> {
    /// Applies the next part of the lists. Returns whether it was the last one.
    pub(crate) fn apply_changes(
        &mut self,
        message: &[u8],
        progress: &mut RequestProgress,
        left: &mut usize,
        now: Time,
    ) -> bool {
        let cause = progress.cause;
        // Slots may be used for other resources in the next part.
        let mut dropped = BTreeSet::new();
        while let Stage::Names(names) = &mut progress.stage {
            match names.next(message, left) {
                NextName::Name(ListedName::Subscribed(name)) => {
                    progress.changes += 1;
                    // A wildcard repeated within one message adds nothing and would cost as much
                    // each time.
                    let is_again =
                        name == WILDCARD && mem::replace(&mut progress.has_wildcard, true);
                    if !is_again {
                        self.subscribe(name, cause, now);
                    }
                }
                NextName::Name(ListedName::Unsubscribed(name)) => {
                    progress.changes += 1;
                    self.unsubscribe(name, cause, &mut dropped);
                }
                NextName::Name(ListedName::Version(name, version)) => {
                    self.end_first_names(progress);
                    self.session.update_extras(|extras| extras.due_globs.globs.clear());
                    self.session.prior_state = PriorState::up_to(0);
                    let name = canonical(name, self.arena);
                    self.apply_initial_version(&name, version);
                }
                NextName::Paused => return false,
                NextName::End => progress.stage = Stage::Done,
            }
        }
        true
    }

    /// Ends the names of the first request, before the versions in it. Without names, it subscribes
    /// to the wildcard.
    fn end_first_names(&mut self, progress: &mut RequestProgress) {
        if progress.retained_before_versions.is_some() {
            return;
        }
        progress.retained_before_versions = Some(self.session.retained);
        if progress.changes == 0 && self.session.may_be_legacy_wildcard {
            self.subscribe_wildcard(progress.cause);
        }
        self.session.may_be_legacy_wildcard = false;
    }

    /// Finishes a request whose lists were applied.
    pub(crate) fn finish_changes(
        &mut self,
        progress: &mut RequestProgress,
        out: &mut Outbox,
    ) -> bool {
        if progress.is_first {
            self.end_first_names(progress);
        }
        if self.session.subscribed_names() != progress.before || progress.is_first {
            self.observe_interest(out);
        }
        if progress.changes > 0 || progress.kind.is_answer() {
            self.clear_settled_rejections();
        }
        progress.changes > 0 || progress.is_first
    }

    fn subscribe(&mut self, name: &str, cause: ResponseCause, now: Time) {
        if self.ignores_names() {
            return;
        }
        if name == WILDCARD {
            let has_full_send_for =
                self.session.wildcard.is_some_and(|it| it.has_full_send_for(cause));
            match &mut self.session.wildcard {
                None => self.subscribe_wildcard(cause),
                // All of it is already due, however often the client subscribes before it is sent
                // (IS25).
                Some(Wildcard { full_send: Some(full_send), .. }) if has_full_send_for => {
                    (full_send.at, full_send.must_reply) = (self.arena.clock(), MustReply::Yes);
                }
                // A repeated subscription: everything is sent again (M97).
                Some(_) => self.make_everything_due(cause),
            }
            return;
        }
        let name = canonical(name, self.arena);
        if zoo::is(Bug::MissingNotRemembered) && !self.exists(&name) {
            return;
        }
        let Some(resource) = self.arena.slot_of(&*name) else { return };
        let round = self.session.round;
        let subscription = match self.subscriptions.find(self.slot, resource) {
            Some(subscription) => {
                let Some(known) = self.subscriptions.at_mut(subscription) else { return };
                // Repeated within the message.
                if known.kind == SubscriptionKind::Named && known.round == round {
                    return;
                }
                known.round = round;
                Some(subscription)
            }
            None => self.connect_keeping_removal(resource),
        };
        let Some(subscription) = subscription else { return };
        self.set_kind(subscription, SubscriptionKind::Named);
        self.note_wanted(resource);
        let is_alias = self.alias_target(resource).is_some();
        if !is_alias && !self.is_requested(resource) && !self.start_grace_period(subscription, now)
        {
            self.make_requested_due(subscription, cause);
        }
        self.make_members_due(resource, cause);
    }

    fn unsubscribe(&mut self, name: &str, cause: ResponseCause, dropped: &mut BTreeSet<Slot>) {
        if self.ignores_names() {
            return;
        }
        if name == WILDCARD {
            self.note_wildcard_resources();
            let names = self.resources_of_wildcard_alone();
            self.unsubscribe_wildcard();
            return self.add_unsubscribe_removals(names);
        }
        let name = canonical(name, self.arena);
        let named =
            self.arena.find(&name).and_then(|slot| self.subscriptions.find(self.slot, slot));
        match named.filter(|&slot| self.kind_of(slot) == Some(SubscriptionKind::Named)) {
            Some(subscription) => self.drop_own_name(subscription, &name, cause),
            None => self.drop_by_other_name(&name, cause, dropped),
        }
    }

    /// Unsubscribes from a name to which the client subscribed.
    pub(crate) fn drop_own_name(&mut self, subscription: Slot, name: &str, cause: ResponseCause) {
        let alias = self.subscriptions.at(subscription).map(|subscription| subscription.resource);
        if let Some(resource) = alias.and_then(|alias| self.alias_target(alias)) {
            self.drop_alias(subscription, resource, cause);
            return;
        }
        let is_glob = self
            .subscriptions
            .at(subscription)
            .is_some_and(|subscription| self.arena.is_glob(subscription.resource));
        if !is_glob && self.is_covered(name) {
            // A glob (M139) or an alias still covers it.
            self.set_kind(subscription, SubscriptionKind::ViaGlobOrAlias);
            self.make_requested_due(subscription, cause);
            self.subscriptions.note_unsubscribed(subscription);
        } else if !is_glob && self.session.wildcard.is_some() {
            // Only the server knows whether the wildcard still covers it (M91, M92).
            self.set_kind(subscription, SubscriptionKind::Retained);
            self.make_requested_due(subscription, cause);
            self.subscriptions.note_unsubscribed(subscription);
        } else {
            self.drop_named(subscription);
        }
    }

    /// Sends the endpoints of a cluster that was just sent, even if the client has them already:
    /// it warms the cluster until it receives them.
    // M151
    pub(crate) fn warm(&mut self, name: &str) {
        let Some(slot) = self.arena.find(name) else { return };
        let Some(resource) = self.arena.at(slot).filter(|it| it.payload.is_some()) else { return };
        let has_it = self.session.wildcard.is_some_and(|it| resource.revision <= it.cursor);
        let subscription = match self.subscriptions.find(self.slot, slot) {
            None if has_it => {
                let subscription = self.add_retained(slot);
                subscription.inspect(|&subscription| self.note_held(subscription))
            }
            subscription => subscription,
        };
        if let Some(subscription) = subscription {
            self.make_due(subscription, ResponseCause::Warming);
        }
    }

    /// Adds a subscription to a resource that only the wildcard covers.
    pub(crate) fn add_retained(&mut self, slot: Slot) -> Option<Slot> {
        let subscription = self.connect(slot)?;
        self.set_kind(subscription, SubscriptionKind::Retained);
        Some(subscription)
    }

    /// Handles one entry of `initial_resource_versions`: a current resource is not sent again,
    /// and the removal of a missing one is sent.
    // M116-M121
    fn apply_initial_version(&mut self, name: &str, version: &str) {
        let is_current = |payload: &Payload| payload.is_version(version);
        self.note_client_version(name, is_current, ResponseCause::First);
        if let Some(subscription) = self.subscription_of_unknown_alias(name) {
            self.make_due(subscription, ResponseCause::First);
        }
    }

    /// Records that the client has some version of a resource, and whether it is the current one.
    /// Names to which the client does not subscribe are ignored.
    pub(crate) fn note_client_version(
        &mut self,
        name: &str,
        is_current: impl FnOnce(&Payload) -> bool,
        cause: ResponseCause,
    ) {
        let found = self.arena.find(name);
        let payload = found.and_then(|slot| self.arena.payload(slot));
        let exists = payload.is_some();
        let is_current = payload.is_some_and(is_current);
        let sends_removals =
            self.arena.sends_removals() || self.session.may_defer_removals(self.arena);
        let subscription = found.and_then(|slot| self.subscriptions.find(self.slot, slot));
        if let Some(subscription) = subscription {
            let has_it = self.kind_of(subscription).is_some_and(SubscriptionKind::is_subscribed);
            let is_settled = has_it && (is_current || !exists && !sends_removals);
            if is_settled && found.is_some_and(|slot| self.error_of(slot).is_some()) {
                // Having the resource does not mean that the client was sent its error.
                self.set_delivery(subscription, Delivery::Before);
            } else if is_settled {
                if self.session.variant == Variant::Incremental {
                    self.skip_known_resources();
                }
                self.subscriptions.clear_due(&mut self.session.due, subscription);
                self.set_delivery(subscription, Delivery::Before);
                found.into_iter().for_each(|slot| self.renew_at_once(slot));
            } else if has_it {
                if found.is_some_and(|slot| self.alias_target(slot).is_some()) {
                    // The name was a resource before and is an alias now: the resource is
                    // removed.
                    self.set_delivery(subscription, Delivery::Before);
                    self.make_due(subscription, cause);
                } else if exists {
                    // The client has an older version. If the resource is removed first, the
                    // client is told.
                    self.set_delivery(subscription, Delivery::Before);
                }
                self.defer_removal_if_missing(subscription);
            }
            return;
        }
        let is_subscribed = self.session.wildcard.is_some() || self.is_covered(name);
        if !is_subscribed || !exists && !sends_removals {
            return;
        }
        let subscription = self.arena.slot_of(name).and_then(|slot| self.add_retained(slot));
        let Some(subscription) = subscription else { return };
        self.skip_known_resources();
        if is_current {
            self.set_delivery(subscription, Delivery::Before);
            found.into_iter().for_each(|slot| self.renew_at_once(slot));
        } else {
            // The resource is sent or, if it is removed before that, its removal is.
            self.make_due(subscription, cause);
            self.set_delivery(subscription, Delivery::Before);
            self.defer_removal_if_missing(subscription);
        }
    }

    /// Makes the wildcard skip resources that the client already has by name.
    pub(crate) fn skip_known_resources(&mut self) {
        if let Some(wildcard) = &mut self.session.wildcard {
            wildcard.catch_up = CatchUp::ExceptKnown;
        }
    }

    pub(crate) fn kind_of(&self, subscription: Slot) -> Option<SubscriptionKind> {
        self.subscriptions.at(subscription).map(|subscription| subscription.kind)
    }

    pub(crate) fn set_kind(&mut self, slot: Slot, kind: SubscriptionKind) {
        let Some(subscription) = self.subscriptions.at_mut(slot) else { return };
        let before = mem::replace(&mut subscription.kind, kind);
        let resource = subscription.resource;
        self.count(kind, resource);
        self.uncount(before, resource);
        if kind.is_subscribed() {
            self.session.update_extras(|extras| {
                extras.implicit_subscriptions.remove(&slot);
            });
        } else {
            self.session.extras_mut().implicit_subscriptions.insert(slot);
        }
    }

    /// Returns the subscriptions to resources to which the client does not subscribe. They are
    /// kept in a set of their own, because one message with two names can create one and remove
    /// it.
    // IS25
    pub(crate) fn implicit_subscriptions(&self) -> Vec<Slot> {
        let extras = self.session.extras.as_deref();
        extras
            .map(|extras| extras.implicit_subscriptions.iter().copied().collect())
            .unwrap_or_default()
    }
}
