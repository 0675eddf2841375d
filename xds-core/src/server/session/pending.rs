//! Pending contents of a session, and whether the client has accepted the rest.

use super::{
    FirstResponse, Purpose, ResponseMode, SendOrder, Session, Wildcard,
    response::heartbeat::Renewals,
    subscription::{ListKind, Subscription, SubscriptionTable},
    wildcard::{CatchUp, MustReply},
};
use crate::{
    server::{
        config::StageTimeoutAction,
        event::ResponseCause,
        store::{arena::Arena, revision::Revision},
    },
    slab::Slot,
};

/// Response, identified by its nonce, with the newest revision when it was rendered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResponsePosition {
    pub(crate) nonce: u64,
    pub(crate) at: Revision,
}

impl Session {
    /// Whether there is something to send and the window is open. O(1).
    pub(crate) fn is_due(&self, arena: &Arena) -> bool {
        let may_send = || !arena.is_held_back || self.is_urgent();
        let has_pending_content = || self.has_pending_content(arena) && may_send();
        self.has_room(arena)
            && (has_pending_content() || self.has_probe() || self.has_due_heartbeats())
    }

    /// Whether there is something to send and the window is open, but changes are held back.
    // M225
    pub(crate) fn is_held_back(&self, arena: &Arena) -> bool {
        self.has_room(arena) && self.has_pending_content(arena) && !self.is_due(arena)
    }

    /// Whether the client waits for an answer, independently of changes.
    fn is_urgent(&self) -> bool {
        let has_full_send = self.wildcard.is_some_and(|wildcard| wildcard.full_send.is_some());
        has_full_send || self.has_urgent || self.has_unsubscribe_removals()
    }

    /// Makes everything due urgent, so that it is sent although changes are held back.
    pub(crate) fn make_urgent(&mut self) {
        self.has_urgent = true;
    }

    fn has_due_heartbeats(&self) -> bool {
        // Due heartbeats are known once everything is answered.
        !self.awaits_answer() && self.renewals.as_deref().is_some_and(Renewals::are_due)
    }

    /// Whether a response is due that contains nothing new: heartbeats, or a resource that is sent
    /// alone to find out whether the client rejects it.
    pub(crate) fn has_unchanged(&self, arena: &Arena) -> bool {
        self.has_probe() || self.has_heartbeats_alone(arena)
    }

    /// Whether heartbeats are due that do not include anything else that is due. In full state
    /// there are none, because the state itself renews the resources.
    pub(crate) fn has_heartbeats_alone(&self, arena: &Arena) -> bool {
        let is_apart =
            self.response_mode(arena) != ResponseMode::FullState || !self.has_additions(arena);
        self.has_due_heartbeats() && is_apart
    }

    /// Whether there is something to send other than heartbeats, now or when the window opens.
    /// O(1).
    pub(crate) fn has_pending_content(&self, arena: &Arena) -> bool {
        self.has_additions(arena) || self.has_removals(arena)
    }

    /// Whether there is something to send once the window is open, other than [removals that may
    /// have to wait](Self::has_removals).
    pub(crate) fn has_additions(&self, arena: &Arena) -> bool {
        self.is_ready()
            || self.first_response == FirstResponse::Pending
            || self.has_unsubscribe_removals()
            || self.without_subscription().is_some() && !self.may_defer_removals(arena)
            || self.wildcard.as_ref().is_some_and(|wildcard| self.is_behind(wildcard, arena))
    }

    /// Whether a resource is due by name. The rest of a rejected response waits for another reason.
    pub(crate) fn is_ready(&self) -> bool {
        !(self.due.is_empty() || self.due.is_leftover() && self.is_nacked())
    }

    /// Whether the wildcard has something to send once the window is open.
    pub(crate) fn is_behind(&self, wildcard: &Wildcard, arena: &Arena) -> bool {
        match self.response_mode(arena) {
            ResponseMode::Changes => arena.newest() > wildcard.cursor,
            ResponseMode::FullState if !arena.absence_deletes() => {
                wildcard.full_send.is_some() && arena.existing() > 0
                    || arena.newest() > wildcard.cursor
            }
            _ if wildcard.full_send.is_some() => true,
            ResponseMode::FullState if !self.may_defer_removals(arena) => {
                wildcard.version != arena.version || self.changed_since_state(wildcard, arena)
            }
            ResponseMode::FullState => arena.newest() > wildcard.cursor,
            ResponseMode::ChangesAndRemovals => {
                let sends_removals = arena.sends_removals() && !self.may_defer_removals(arena);
                arena.newest() > wildcard.cursor
                    || sends_removals && arena.newest_tombstone() > wildcard.removals_to
            }
        }
    }

    /// Whether the client was sent another state after the newest full one, to isolate what it
    /// rejects.
    pub(crate) fn was_sent_another_state(&self, wildcard: &Wildcard) -> bool {
        self.newest.is_some_and(|sent| sent.content != wildcard.version.stated())
    }

    /// Whether something changed since the newest full state, and the client was then sent another
    /// one. The full state may be the same again.
    pub(crate) fn changed_since_state(&self, wildcard: &Wildcard, arena: &Arena) -> bool {
        arena.newest() > wildcard.cursor && self.was_sent_another_state(wildcard)
    }

    /// Whether there are removals to send that may have to wait.
    // M147
    pub(crate) fn has_removals(&self, arena: &Arena) -> bool {
        let has_wildcard_removals = |wildcard: &Wildcard| match self.response_mode(arena) {
            // Whether or not the tombstones still exist.
            ResponseMode::FullState if wildcard.version == arena.version => false,
            ResponseMode::FullState if arena.newest() <= wildcard.cursor => true,
            _ => arena.newest_tombstone() > wildcard.removals_to,
        };
        self.may_defer_removals(arena)
            && (!self.due.withheld().is_empty()
                || self.without_subscription().is_some()
                || self.wildcard.as_ref().is_some_and(has_wildcard_removals))
    }

    /// Looks up and stores the revision of the newest due resource, unless it is known.
    pub(crate) fn look_up_newest_due(&mut self, arena: &Arena, subscriptions: &SubscriptionTable) {
        if self.due.newest().is_none() {
            self.due.note_newest(self.find_newest_due(arena, subscriptions));
        }
    }

    pub(crate) fn find_newest_due(
        &self,
        arena: &Arena,
        subscriptions: &SubscriptionTable,
    ) -> Revision {
        let resources =
            self.due_subscriptions(subscriptions).filter_map(|it| arena.at(it.resource));
        let held = resources.filter(|resource| resource.is_held());
        held.map(|resource| resource.revision).max().unwrap_or_default()
    }

    /// Whether the client subscribed to the wildcard and was sent nothing of it since. A
    /// returning client that stated its resources goes on using them.
    pub(crate) fn awaits_wildcard_response(&self) -> bool {
        self.wildcard.is_some_and(|wildcard| {
            let is_first =
                wildcard.full_send.is_some_and(|full_send| full_send.cause == ResponseCause::First);
            let is_return = is_first && wildcard.catch_up == CatchUp::ExceptKnown;
            wildcard.must_reply() == MustReply::Yes && !is_return
        })
    }

    /// Whether other types wait for the client's answers to this one.
    pub(crate) fn gates_other_types(&self) -> bool {
        matches!(
            self.send_order,
            SendOrder::MakeBeforeBreak | SendOrder::MakeBeforeBreakRemovals(_)
        )
    }

    /// Whether removals may have to wait for ACKs of additions and changes.
    pub(crate) fn defers_removals(&self) -> bool {
        matches!(self.send_order, SendOrder::MakeBeforeBreakRemovals(_))
    }

    /// Whether removals may have to wait forever.
    pub(crate) fn may_defer_forever(&self) -> bool {
        self.send_order == SendOrder::MakeBeforeBreakRemovals(StageTimeoutAction::Hold)
    }

    /// Returns the revision up to which the session has processed tombstones, if it uses them and
    /// was sent something.
    pub(crate) fn tombstones_seen_to(&self, arena: &Arena) -> Option<Revision> {
        let wildcard = self.wildcard.filter(|_| self.needs_retained_deletions(arena));
        let wildcard = wildcard.filter(|wildcard| wildcard.reached != Revision::START);
        wildcard.map(|wildcard| wildcard.removals_to).or_else(|| self.removals_to(arena))
    }

    /// Returns the revision up to which a returning client states to have everything, if it was
    /// sent nothing since.
    pub(crate) fn stated_revision(&self) -> Option<Revision> {
        let is_trusted = self.newest.is_none() && self.accepted.is_some();
        let wildcard = self.wildcard.filter(|it| is_trusted && it.full_send.is_none());
        wildcard.map(|wildcard| wildcard.removals_to)
    }

    /// Returns the newest response, or a default if there is none.
    pub(crate) fn newest_response_position(&self) -> ResponsePosition {
        let newest =
            self.newest.map(|sent| ResponsePosition { nonce: sent.nonce.get(), at: sent.at });
        newest.unwrap_or_default()
    }

    /// Nonce of the newest response; 0 if there is none.
    pub(crate) fn newest_nonce(&self) -> u64 {
        self.newest.map_or(0, |sent| sent.nonce.get())
    }

    /// Nonce of the newest response, unless that is a heartbeat.
    pub(crate) fn newest_content(&self) -> Option<u64> {
        let newest = self.newest.filter(|sent| sent.purpose == Purpose::Content);
        newest.map(|sent| sent.nonce.get())
    }

    /// Whether the client subscribes to the wildcard of the type.
    pub(crate) fn has_wildcard(&self) -> bool {
        self.wildcard.is_some()
    }

    /// Returns the named resources that the client was sent.
    pub(crate) fn sent_by_name<'a>(
        &self,
        subscriptions: &'a SubscriptionTable,
    ) -> impl Iterator<Item = Slot> + 'a {
        self.own_subscriptions(subscriptions)
            .filter(|subscription| subscription.has_version())
            .map(|subscription| subscription.resource)
    }

    /// Returns all subscriptions of the session.
    pub(crate) fn own_subscriptions<'a>(
        &self,
        subscriptions: &'a SubscriptionTable,
    ) -> impl Iterator<Item = &'a Subscription> + 'a {
        let own = subscriptions.list(ListKind::Session, self.subscriptions.first());
        own.map(|(_, subscription)| subscription)
    }

    /// Whether the client waits for the due resource of a subscription.
    pub(crate) fn is_unanswered(&self, subscription: &Subscription, arena: &Arena) -> bool {
        let was_sent_by = |wildcard: Wildcard| {
            let resource = arena.at(subscription.resource);
            resource.is_some_and(|it| it.payload.is_some() && it.created <= wildcard.reached)
        };
        subscription.is_unanswered(self.wildcard.is_some_and(was_sent_by))
    }

    /// Returns the subscriptions that are due in the next response.
    pub(crate) fn due_subscriptions<'a>(
        &self,
        subscriptions: &'a SubscriptionTable,
    ) -> impl Iterator<Item = &'a Subscription> + 'a {
        let due = subscriptions.list(ListKind::Due, self.due.first());
        due.map(|(_, subscription)| subscription)
    }
}
