//! Complete name lists of state-of-the-world requests.
//!
//! A state-of-the-world request lists everything the client wants, so the list replaces the
//! subscription. A new name is due at once if its resource exists, and is remembered otherwise. A
//! name missing from the list is unsubscribed without a response.
// M22-M34, B01, S0.102, IS6, S0.133, M48

use alloc::vec::Vec;

use super::globs::canonical;
use crate::{
    server::{
        config::WildcardExit,
        event::ResponseCause,
        session::{
            CatchUp, FirstResponse, FullSend, LegacyWildcardState, MustReply, ResponseMode,
            UnlistedSubscriptions, UnsubscribedInFlight, Wildcard,
            context::SessionContext,
            extras::{BeforeWildcard, ResourcesWithoutSubscription},
            subscription::{ListKind, SubscriptionKind},
            window::Sent,
        },
        store::{revision::Revision, version::content::TypeVersion},
    },
    service::Variant,
    slab::Slot,
    zoo::{self, Bug},
};

/// Name of the wildcard subscription.
// B01
pub(crate) const WILDCARD: &str = "*";

/// Whether a list of names changed the subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplaceOutcome {
    Same,
    Changed,
}

impl SessionContext<'_> {
    /// Replaces the subscription by `names`. Takes time proportional to the names listed and
    /// dropped.
    pub(crate) fn replace_names<'n>(
        &mut self,
        names: impl Iterator<Item = &'n str>,
    ) -> ReplaceOutcome {
        let before = self.session.subscribed_names();
        let cause = self.session.subscribe_cause();
        self.session.round = self.session.round.wrapping_add(1);
        if self.ignores_names() {
            return ReplaceOutcome::Same;
        }
        let (mut everything, mut listed, mut added) = (false, 0, 0);
        for name in names {
            self.session.legacy_wildcard = LegacyWildcardState::Ended;
            if name == WILDCARD {
                everything = true;
                continue;
            }
            match self.process_name(name, cause) {
                ListedName::Repeated => {}
                ListedName::Kept => listed += 1,
                ListedName::Added => {
                    listed += 1;
                    added += 1;
                }
            }
        }
        everything |= self.session.legacy_wildcard == LegacyWildcardState::Possible;

        let entering = everything && self.session.wildcard.is_none();
        if entering {
            self.subscribe_wildcard(cause);
        } else if !everything {
            self.unsubscribe_wildcard();
        }
        if listed < self.session.named || self.may_end_retained() {
            self.drop_unlisted(entering);
        }
        if added > 0 || self.session.subscribed_names() != before {
            ReplaceOutcome::Changed
        } else {
            ReplaceOutcome::Same
        }
    }

    /// Handles one name of the list.
    fn process_name(&mut self, name: &str, cause: ResponseCause) -> ListedName {
        let round = self.session.round;
        let name = canonical(name, self.arena);
        if zoo::is(Bug::MissingNotRemembered) && !self.exists(&name) {
            return ListedName::Repeated;
        }
        let Some(resource) = self.arena.slot_of(&*name) else { return ListedName::Repeated };
        let existing = self.subscriptions.find(self.slot, resource);
        if let Some(subscription) = existing.and_then(|slot| self.subscriptions.at_mut(slot)) {
            if subscription.round == round {
                return ListedName::Repeated;
            }
            subscription.round = round;
            if subscription.kind == SubscriptionKind::Named {
                return ListedName::Kept;
            }
        }
        let subscription = match existing {
            Some(subscription) => {
                self.set_kind(subscription, SubscriptionKind::Named);
                Some(subscription)
            }
            None => self.connect(resource).inspect(|_| self.session.named += 1),
        };
        let Some(subscription) = subscription else { return ListedName::Repeated };
        self.note_wanted(resource);
        let exists = self.arena.payload(resource).is_some();
        let may_be_held = self.may_have(resource, exists);
        if may_be_held && let Some(subscription) = self.subscriptions.at_mut(subscription) {
            subscription.sent = self.session.newest.map_or(1, |sent| sent.nonce.get());
        }
        let is_silent = zoo::is(Bug::SilentOnNewNames)
            && self.session.newest.is_some_and(|sent| sent.at == self.arena.clock());
        if (exists || may_be_held || self.error_of(resource).is_some()) && !is_silent {
            self.make_due(subscription, cause);
        }
        self.cover_members(resource, cause);
        ListedName::Added
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
        let is_behind = |sent: Sent| exists || sent.at != self.arena.clock();
        let by_name = self.session.unsubscribed_in_flight == UnsubscribedInFlight::Yes;
        by_wildcard || by_name && self.session.newest.is_some_and(is_behind)
    }

    /// Records that the client unsubscribed from a resource that an unanswered response may
    /// contain.
    fn note_unsubscribe_in_flight(&mut self) {
        if self.session.awaits_answer() {
            self.session.unsubscribed_in_flight = UnsubscribedInFlight::Yes;
        }
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.arena.find(name).is_some_and(|slot| self.arena.payload(slot).is_some())
    }

    pub(crate) fn connect(&mut self, resource: Slot) -> Option<Slot> {
        let entry = self.arena.at_mut(resource)?;
        self.subscriptions.connect(
            (self.slot, &mut self.session.subscriptions),
            (resource, &mut entry.subscribers),
            self.session.round,
        )
    }

    /// Unsubscribes from the names missing from the list. When a client switches to the wildcard,
    /// it is not sent resources again that it has by name; full state repeats everything anyway.
    // M31
    fn drop_unlisted(&mut self, entering_wildcard: bool) {
        let remember = entering_wildcard && !self.sends_full_state();
        let round = self.session.round;
        let mut globs = Vec::new();
        let mut slot = self.session.subscriptions.first();
        while let Some(subscription) = self.subscriptions.at(slot) {
            let next = self.subscriptions.next(ListKind::Session, slot);
            match subscription.kind {
                _ if subscription.round == round => {}
                // It is removed together with the glob.
                SubscriptionKind::ViaGlobOrAlias => {}
                SubscriptionKind::Named if self.arena.is_glob(subscription.resource) => {
                    globs.push(slot)
                }
                SubscriptionKind::Named if self.is_name_covered(subscription.resource) => {
                    self.set_kind(slot, SubscriptionKind::ViaGlobOrAlias);
                }
                SubscriptionKind::Named if remember && self.session.holds(subscription) => {
                    self.set_kind(slot, SubscriptionKind::RetainedForWildcard);
                }
                SubscriptionKind::RetainedForWildcard | SubscriptionKind::DeferredRemoval
                    if self.session.wildcard.is_some() => {}
                SubscriptionKind::Named
                | SubscriptionKind::RetainedForWildcard
                | SubscriptionKind::OneShot
                | SubscriptionKind::DeferredRemoval => {
                    self.note_unsubscribe_in_flight();
                    self.disconnect(slot);
                }
            }
            slot = next;
        }
        for glob in globs {
            self.note_unsubscribe_in_flight();
            self.drop_named(glob);
        }
        if let Some(wildcard) = &mut self.session.wildcard {
            wildcard.unlisted = UnlistedSubscriptions::None;
        }
    }

    /// Whether a retained subscription may have to end because it is not listed. With the
    /// wildcard most of them stay, so this avoids a search for each of many lists.
    // IS25
    fn may_end_retained(&self) -> bool {
        let stays = |wildcard: &Wildcard| wildcard.unlisted == UnlistedSubscriptions::None;
        self.session.retained > 0 && !self.session.wildcard.as_ref().is_some_and(stays)
    }

    fn is_name_covered(&self, resource: Slot) -> bool {
        self.arena.at(resource).is_some_and(|it| self.is_covered(it.name.as_str()))
    }

    /// Ends retained subscriptions once the client has caught up with the wildcard.
    pub(crate) fn end_retained(&mut self) {
        if self.session.retained == 0 {
            return;
        }
        for slot in self.implicit_subscriptions() {
            let Some(subscription) = self.subscriptions.at(slot) else { continue };
            let kind = subscription.kind;
            // The removal is withheld, or there was no room for it.
            let has_pending_removal = subscription.is_withheld()
                || subscription.due.is_some()
                    && self.arena.payload(subscription.resource).is_none();
            match kind {
                // The removal still has to be sent.
                SubscriptionKind::RetainedForWildcard if has_pending_removal => {
                    self.set_kind(slot, SubscriptionKind::DeferredRemoval)
                }
                SubscriptionKind::RetainedForWildcard => self.disconnect(slot),
                _ => {}
            }
        }
    }

    pub(crate) fn disconnect(&mut self, slot: Slot) {
        let Some(subscription) = self.subscriptions.at(slot) else { return };
        let (resource, kind) = (subscription.resource, subscription.kind);
        if !kind.is_subscribed() {
            self.session.update_extras(|extras| {
                extras.implicit_subscriptions.remove(&slot);
            });
        }
        self.session.update_extras(|extras| {
            extras.too_long.remove(&resource);
        });
        self.uncount(kind);
        self.session.drop_carried_over(resource);
        self.session.update_extras(|extras| {
            extras.due_globs.globs.remove(&resource);
        });
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
            retried_at: Revision::START,
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
            unlisted: UnlistedSubscriptions::Possible,
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
            self.drop_deferred_removals();
        }
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
            self.make_names_due(cause);
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

    fn make_names_due(&mut self, cause: ResponseCause) {
        let mut slot = self.session.subscriptions.first();
        while let Some(subscription) = self.subscriptions.at(slot) {
            let resource = subscription.resource;
            if self.arena.payload(resource).is_some() {
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
enum ListedName {
    /// Repeated within the list.
    // M33
    Repeated,
    Kept,
    Added,
}
