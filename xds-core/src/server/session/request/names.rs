//! Complete name lists of state-of-the-world requests.
//!
//! A state-of-the-world request lists everything the client wants, so the list replaces the
//! subscription. A new name is due at once if its resource exists, and is remembered otherwise. A
//! name missing from the list is unsubscribed without a response.
// M22-M34, B01, S0.102, IS6, S0.133, M48

use alloc::{collections::VecDeque, vec::Vec};

use super::{
    globs::canonical,
    progress::{RequestProgress, Stage, UnlistedNames},
};
use crate::{
    server::{
        config::WildcardExit,
        event::ResponseCause,
        session::{
            CatchUp, FirstResponse, FullSend, MustReply, ResponseMode, UnsubscribedInFlight,
            Wildcard,
            context::SessionContext,
            extras::{BeforeWildcard, ResourcesWithoutSubscription},
            subscription::{ListKind, Subscription, SubscriptionKind},
            window::Sent,
        },
        store::{revision::Revision, version::content::TypeVersion},
    },
    service::Variant,
    slab::{Key, Slot},
    wire::name_lists::{ListedName, NextName},
    zoo::{self, Bug},
};

/// Name of the wildcard subscription.
// B01
pub(crate) const WILDCARD: &str = "*";

impl SessionContext<'_> {
    /// Applies the next part of a list. Returns whether it was the last one. A whole list takes time
    /// proportional to the names listed and dropped.
    pub(crate) fn apply_list(
        &mut self,
        message: &[u8],
        progress: &mut RequestProgress,
        left: &mut usize,
    ) -> bool {
        while let Stage::Names(names) = &mut progress.stage {
            match names.next(message, left) {
                NextName::Name(ListedName::Subscribed(WILDCARD)) => progress.has_wildcard = true,
                NextName::Name(ListedName::Subscribed(name)) => {
                    match self.process_name(name, progress.cause) {
                        NameEffect::Repeated => {}
                        NameEffect::Kept => progress.listed += 1,
                        NameEffect::Added => {
                            progress.listed += 1;
                            progress.changes += 1;
                        }
                    }
                }
                // A list has no other names.
                NextName::Name(ListedName::Unsubscribed(_) | ListedName::Version(..)) => {}
                NextName::Paused => return false,
                NextName::End => progress.stage = self.end_of_list(progress),
            }
        }
        if let Stage::Unlisted(unlisted) = &mut progress.stage {
            if !self.drop_unlisted(unlisted, left) {
                return false;
            }
            progress.stage = Stage::Done;
        }
        true
    }

    /// Applies the wildcard of a list. Returns the next stage.
    fn end_of_list(&mut self, progress: &RequestProgress) -> Stage {
        let everything = progress.has_wildcard || self.session.may_be_legacy_wildcard;
        let entering = everything && self.session.wildcard.is_none();
        if entering {
            self.subscribe_wildcard(progress.cause);
        } else if !everything {
            self.note_wildcard_resources();
            self.unsubscribe_wildcard();
        }
        // Under a wildcard, retained names stay although no list has them.
        let may_end_retained = self.session.retained > 0 && self.session.wildcard.is_none();
        if progress.listed >= self.session.named && !may_end_retained {
            return Stage::Done;
        }
        // A client that switches to the wildcard is not sent resources again that it has by name;
        // full state repeats everything anyway (M31).
        let are_retained = entering && !self.sends_full_state();
        Stage::Unlisted(UnlistedNames { are_retained, next: None, globs: VecDeque::new() })
    }

    /// Handles one name of the list.
    fn process_name(&mut self, name: &str, cause: ResponseCause) -> NameEffect {
        let round = self.session.round;
        let name = canonical(name, self.arena);
        if zoo::is(Bug::MissingNotRemembered) && !self.exists(&name) {
            return NameEffect::Repeated;
        }
        let Some(resource) = self.arena.slot_of(&*name) else { return NameEffect::Repeated };
        let existing = self.subscriptions.find(self.slot, resource);
        if let Some(subscription) = existing.and_then(|slot| self.subscriptions.at_mut(slot)) {
            if subscription.round == round {
                return NameEffect::Repeated;
            }
            subscription.round = round;
            if subscription.kind == SubscriptionKind::Named {
                return NameEffect::Kept;
            }
        }
        let subscription = match existing {
            Some(subscription) => {
                self.set_kind(subscription, SubscriptionKind::Named);
                Some(subscription)
            }
            None => self.connect(resource),
        };
        let Some(subscription) = subscription else { return NameEffect::Repeated };
        self.note_wanted(resource);
        let exists = self.arena.payload(resource).is_some();
        let may_be_held = self.may_have(resource, exists);
        if may_be_held {
            self.note_held(subscription);
        }
        let is_silent = zoo::is(Bug::SilentOnNewNames)
            && self.session.newest.is_some_and(|sent| sent.at == self.arena.clock());
        if (exists || may_be_held || self.error_of(resource).is_some()) && !is_silent {
            self.make_requested_due(subscription, cause);
        }
        self.cover_members(resource, cause);
        NameEffect::Added
    }

    /// Whether a client that newly subscribes to a resource may already have it, either from the
    /// wildcard or from a response that it had not read when it unsubscribed. In full state it
    /// must then be sent the removal, even if the resource was removed earlier.
    fn may_have(&self, resource: Slot, exists: bool) -> bool {
        let deletes = self.sends_full_state() && self.arena.absence_deletes();
        if !deletes || self.session.first_response != FirstResponse::Done {
            return false;
        }
        // If removals are withheld, a name without any change is known to be missing at the
        // client.
        let has_a_past = !self.session.needs_retained_deletions(self.arena)
            || self.arena.at(resource).is_some_and(|it| it.revision != Revision::START);
        // Resources had by name before a wildcard that was never answered are still at the
        // client.
        let by_wildcard = self.session.wildcard.as_ref().is_some_and(|wildcard| {
            exists
                || wildcard.full_send.is_some()
                || has_a_past && wildcard.version != self.arena.version
        });
        let by_name = match self.session.unsubscribed_in_flight {
            UnsubscribedInFlight::Nothing => false,
            UnsubscribedInFlight::Current => {
                let is_behind = |sent: Sent| exists || sent.at != self.arena.clock();
                self.session.newest.is_some_and(is_behind)
            }
            UnsubscribedInFlight::Withheld => true,
        };
        by_wildcard || by_name
    }

    /// Records that the client unsubscribed from a resource that an unanswered response may
    /// contain.
    fn note_unsubscribe_in_flight(&mut self) {
        if self.session.awaits_answer() {
            let noted = match self.session.due.withheld().is_empty() {
                true => UnsubscribedInFlight::Current,
                false => UnsubscribedInFlight::Withheld,
            };
            self.session.unsubscribed_in_flight = self.session.unsubscribed_in_flight.max(noted);
        }
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.arena.entry(name).is_some_and(|it| it.payload.is_some())
    }

    /// Adds a subscription that the client made by name.
    pub(crate) fn connect(&mut self, resource: Slot) -> Option<Slot> {
        let entry = self.arena.at_mut(resource)?;
        let subscription = self.subscriptions.connect(
            (self.slot, &mut self.session.subscriptions),
            (resource, &mut entry.subscribers),
            self.session.round,
        )?;
        self.count(SubscriptionKind::Named, resource);
        Some(subscription)
    }

    /// Unsubscribes from the next names that the list lacks. Returns whether they were the last ones.
    // M31
    fn drop_unlisted(&mut self, unlisted: &mut UnlistedNames, left: &mut usize) -> bool {
        let round = self.session.round;
        let is_same = |key: &Key| self.subscriptions.key(key.slot()) == Some(*key);
        // If the next subscription has ended since the last part, the walk starts again.
        let mut slot = match unlisted.next.take() {
            Some(next) if is_same(&next) => next.slot(),
            _ => self.session.subscriptions.first(),
        };
        while let Some(subscription) = self.subscriptions.at(slot) {
            if *left == 0 {
                unlisted.next = self.subscriptions.key(slot);
                return false;
            }
            *left -= 1;
            let next = self.subscriptions.next(ListKind::Session, slot);
            match subscription.kind {
                _ if subscription.round == round => {}
                // It is removed together with the glob.
                SubscriptionKind::ViaGlobOrAlias => {}
                SubscriptionKind::Named if self.arena.is_glob(subscription.resource) => {
                    unlisted.globs.extend(self.subscriptions.key(slot));
                }
                SubscriptionKind::Named if self.is_name_covered(subscription.resource) => {
                    self.set_kind(slot, SubscriptionKind::ViaGlobOrAlias);
                }
                SubscriptionKind::Named
                    if unlisted.are_retained && self.session.holds(subscription) =>
                {
                    self.set_kind(slot, SubscriptionKind::Retained);
                }
                SubscriptionKind::Retained | SubscriptionKind::DeferredRemoval
                    if self.session.wildcard.is_some() => {}
                // The client still has the resource, because the wildcard covers it.
                SubscriptionKind::Named
                    if self.session.wildcard.is_some() && subscription.is_withheld() =>
                {
                    self.set_kind(slot, SubscriptionKind::DeferredRemoval);
                }
                SubscriptionKind::Named
                | SubscriptionKind::Retained
                | SubscriptionKind::DeferredRemoval => {
                    self.note_unsubscribe_in_flight();
                    self.disconnect(slot);
                }
            }
            slot = next;
        }
        // Each glob was counted by the walk.
        while let Some(glob) = unlisted.globs.pop_front() {
            if self.subscriptions.key(glob.slot()) == Some(glob) {
                self.note_unsubscribe_in_flight();
                self.drop_named(glob.slot());
            }
        }
        true
    }

    fn is_name_covered(&self, resource: Slot) -> bool {
        self.arena.at(resource).is_some_and(|it| self.is_covered(it.name.as_str()))
    }

    /// Ends the retained subscriptions of which nothing is due, once the client has caught up with the
    /// wildcard.
    pub(crate) fn end_retained(&mut self) {
        if self.session.retained == 0 {
            return;
        }
        for slot in self.implicit_subscriptions() {
            let Some(subscription) = self.subscriptions.at(slot) else { continue };
            let (kind, resource) = (subscription.kind, subscription.resource);
            // The full state, which the client was sent, has all resources that exist.
            let is_in_state = self.sends_full_state() && self.arena.payload(resource).is_some();
            let is_sent = subscription.due.is_none() || is_in_state;
            if kind == SubscriptionKind::Retained && is_sent && !self.session.is_withheld(resource)
            {
                self.disconnect(slot);
            }
        }
    }

    pub(crate) fn disconnect(&mut self, slot: Slot) {
        let Some(subscription) = self.subscriptions.at(slot) else { return };
        let (resource, kind) = (subscription.resource, subscription.kind);
        self.session.update_extras(|extras| {
            extras.implicit_subscriptions.remove(&slot);
            extras.too_long.remove(&resource);
            extras.acked.followed.remove(&slot);
            extras.due_globs.globs.remove(&resource);
        });
        self.uncount(kind, resource);
        self.session.forget_withheld(resource);
        self.session.forget_rejected_removal(resource);
        let Some(entry) = self.arena.at_mut(resource) else { return };
        self.subscriptions.disconnect(
            slot,
            &mut self.session.subscriptions,
            &mut self.session.due,
            &mut entry.subscribers,
        );
        self.note_unwanted(resource);
        self.arena.release(resource);
    }

    pub(crate) fn subscribe_wildcard(&mut self, cause: ResponseCause) {
        let Some(slot) = self.arena.wildcards.push_back(self.slot) else { return };
        if self.session.follows_tombstones(self.arena) {
            self.arena.add_tombstone_user();
            self.session.update_extras(|extras| {
                extras.without_subscription = ResourcesWithoutSubscription::default()
            });
        }
        self.note_before_wildcard();
        let has_names = self.session.named + self.session.retained > 0;
        self.session.wildcard = Some(Wildcard {
            list_slot: slot.slot(),
            cursor: Revision::START,
            reached: Revision::START,
            removals_to: self.arena.clock(),
            version: TypeVersion::default(),
            full_send: Some(FullSend {
                cause,
                at: self.arena.clock(),
                must_reply: MustReply::of(cause),
            }),
            catch_up: match cause {
                ResponseCause::First if self.session.variant == Variant::StateOfTheWorld => {
                    CatchUp::Everything
                }
                _ if has_names => CatchUp::ExceptKnown,
                _ => CatchUp::Everything,
            },
        });
    }

    /// Records the time of the switch to the wildcard and the resources that the client has by
    /// name.
    fn note_before_wildcard(&mut self) {
        let after = self.session.newest_nonce();
        if after > 0 && self.session.variant == Variant::Incremental {
            self.session.extras_mut().wildcard_since = self.arena.clock();
        }
        if after > 0 && self.session.gates_other_types() {
            let known =
                self.session.sent_by_name(self.subscriptions).filter_map(|it| self.arena.at(it));
            let names = known.map(|resource| resource.name.clone()).collect();
            self.session.extras_mut().before_wildcard = Some(BeforeWildcard { names, after });
        }
    }

    pub(crate) fn unsubscribe_wildcard(&mut self) {
        if self.leave_wildcard() {
            for slot in self.implicit_subscriptions() {
                self.disconnect(slot);
            }
        }
    }

    /// Ends the wildcard, except for the implicit subscriptions under it. Returns whether there was
    /// one.
    pub(crate) fn leave_wildcard(&mut self) -> bool {
        let has_wildcard = self.session.wildcard.is_some();
        if let Some(wildcard) = self.session.wildcard.take() {
            self.note_unsubscribe_in_flight();
            self.arena.wildcards.remove(wildcard.list_slot);
            if self.session.follows_tombstones(self.arena) {
                self.arena.remove_tombstone_user();
            }
            self.session.update_extras(|extras| {
                extras.partial_removals = None;
                extras.before_wildcard = None;
                extras.wildcard_since = Revision::START;
            });
        }
        has_wildcard
    }

    /// Makes all existing subscribed resources due, whatever the client has.
    pub(crate) fn make_everything_due(&mut self, cause: ResponseCause) {
        let names = self.session.named + self.session.retained;
        if self.session.wildcard.is_some() && self.arena.existing() < names as usize {
            // The response will contain all resources; there may be many more names without one
            // (IS25).
            let subscriptions = &*self.subscriptions;
            let existing = self.arena.slots_after(Revision::START);
            let due: Vec<_> = existing.filter_map(|it| subscriptions.find(self.slot, it)).collect();
            for subscription in due {
                self.make_due(subscription, cause);
            }
        } else {
            self.make_names_due(cause, |_| true);
        }
        self.make_wildcard_due(cause);
    }

    /// Makes the entire wildcard due, if there is one.
    pub(crate) fn make_wildcard_due(&mut self, cause: ResponseCause) {
        let (newest, at) = (self.arena.newest(), self.arena.clock());
        if let Some(wildcard) = &mut self.session.wildcard {
            let must_reply = wildcard.must_reply().max(MustReply::of(cause));
            let cause = match wildcard.full_send {
                Some(full_send) => full_send.cause.min(cause),
                None if newest > wildcard.cursor => ResponseCause::Changed,
                None => cause,
            };
            wildcard.full_send = Some(FullSend { cause, at, must_reply });
            wildcard.cursor = Revision::START;
            wildcard.catch_up = CatchUp::Everything;
        }
    }

    /// Makes the existing resources of these subscriptions due.
    pub(crate) fn make_names_due(
        &mut self,
        cause: ResponseCause,
        is_meant: fn(&Subscription) -> bool,
    ) {
        let mut slot = self.session.subscriptions.first();
        while let Some(subscription) = self.subscriptions.at(slot) {
            if is_meant(subscription) && self.arena.payload(subscription.resource).is_some() {
                self.make_due(slot, cause);
            }
            slot = self.subscriptions.next(ListKind::Session, slot);
        }
    }

    /// Whether a wildcard subscription is permanent by configuration, so that names are ignored.
    // S0.106
    pub(crate) fn ignores_names(&self) -> bool {
        self.session.wildcard.is_some() && self.arena.config.wildcard_exit == WildcardExit::Never
    }

    pub(crate) fn sends_full_state(&self) -> bool {
        self.session.response_mode(self.arena) == ResponseMode::FullState
    }
}

/// Effect of one listed name on the subscription.
enum NameEffect {
    /// Repeated within the list.
    // M33
    Repeated,
    Kept,
    Added,
}
