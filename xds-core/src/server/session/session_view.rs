//! Read-only view of a session, from which it follows what its client has and what is due.

use super::{
    ResponseMode, Session,
    pending::ResponsePosition,
    subscription::{Subscription, SubscriptionTable},
    subscriptions::Subscriptions,
    wildcard::MustReply,
};
use crate::{
    server::store::{
        arena::{Arena, ResourceEntry},
        revision::Revision,
    },
    service::Variant,
    slab::Slot,
    text::ResourceName,
};

/// Session together with all state from which it follows what its client has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionView<'a> {
    pub(crate) slot: Slot,
    pub(crate) session: &'a Session,
    pub(crate) arena: &'a Arena,
    pub(crate) subscriptions: &'a SubscriptionTable,
}

/// Newest response that contained a resource by its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentByName {
    /// Whether the client has a version of the resource.
    pub(crate) has_version: bool,
    /// Nonce of the response; 0 if there is none.
    pub(crate) nonce: u64,
    /// Whether the resource is due again.
    pub(crate) is_due: bool,
    /// Whether the client has rejected the resource and not accepted it since.
    pub(crate) is_rejected: bool,
}

impl<'a> SessionView<'a> {
    pub(crate) fn of(slot: Slot, subscriptions: &'a Subscriptions) -> Option<Self> {
        let session = subscriptions.sessions.at(slot)?;
        let arena = subscriptions.store.arena(session.arena)?;
        Some(Self { slot, session, arena, subscriptions: &subscriptions.table })
    }

    /// Whether there is something to send other than [removals](Self::has_removals).
    pub(crate) fn has_additions(self) -> bool {
        self.session.has_additions(self.arena)
    }

    /// Whether there are removals to send that may have to wait.
    pub(crate) fn has_removals(self) -> bool {
        self.session.has_removals(self.arena)
    }

    /// Whether a resource exists.
    pub(crate) fn has_resource(self, name: &ResourceName) -> bool {
        self.arena.entry(name.as_str()).is_some_and(|it| it.payload.is_some())
    }

    /// Returns an upper bound of the revision at which the newest due resource changed. Names
    /// without a resource do not count, because they refer to nothing.
    // IS7
    pub(crate) fn newest_due(self) -> Revision {
        let Self { session, arena, subscriptions, .. } = self;
        if session.wildcard.as_ref().is_some_and(|wildcard| session.is_behind(wildcard, arena)) {
            return arena.clock();
        }
        session.due.newest().unwrap_or_else(|| session.find_newest_due(arena, subscriptions))
    }

    /// Returns an upper bound of the revision of the newest removal that is due, not later than the
    /// store's `clock`.
    pub(crate) fn newest_deletion(self, clock: Revision) -> Revision {
        let Self { session, arena, subscriptions, .. } = self;
        let deletion = |subscription: &Subscription| match arena.at(subscription.resource) {
            None => Revision::START,
            // Removed before the stream started, as far as is known.
            Some(resource) if resource.revision == Revision::START => {
                session.moved_at().unwrap_or(clock)
            }
            Some(resource) => resource.revision,
        };
        let last = subscriptions.at(session.due.withheld().last());
        let withheld = subscriptions.requested_removals(session.due).chain(last);
        let without_subscription = session.without_subscription().map(|it| it.at);
        let by_name = withheld.map(deletion).chain(without_subscription).max().unwrap_or_default();
        if session.wildcard.is_some() { by_name.max(arena.newest_tombstone()) } else { by_name }
    }

    /// Whether any named resource that the client has was removed silently after a revision.
    pub(crate) fn has_silent_removals(self, after: Revision) -> bool {
        let Self { session, arena, subscriptions, .. } = self;
        let is_removed =
            |slot| arena.at(slot).is_some_and(|it| it.payload.is_none() && it.revision > after);
        session.response_mode(arena) == ResponseMode::Changes
            && session.sent_by_name(subscriptions).any(is_removed)
    }

    /// Whether the client still has an old version of any named resource that was removed
    /// silently and came back after a revision. It is due to be sent.
    pub(crate) fn has_outdated_recreated(self, after: Revision) -> bool {
        let Self { session, arena, subscriptions, .. } = self;
        let is_outdated =
            |it: &Subscription| it.has_version() && arena.recreated_after(it.resource, after);
        session.response_mode(arena) == ResponseMode::Changes
            && session.due_subscriptions(subscriptions).any(is_outdated)
    }

    /// Whether the client requested something that it has not been sent.
    pub(crate) fn has_unanswered_request(self) -> bool {
        let full_send = self.session.wildcard.and_then(|wildcard| wildcard.full_send);
        let must_reply =
            |it: &Subscription| it.due.is_some_and(|due| due.must_reply == MustReply::Yes);
        full_send.is_some_and(|full_send| full_send.must_reply == MustReply::Yes)
            || self.session.due_subscriptions(self.subscriptions).any(must_reply)
    }

    /// Whether the client waits for something that it requested: an answer of any kind, or a
    /// named resource that exists now and that it was never sent.
    pub(crate) fn has_unanswered(self) -> bool {
        let mut due = self.session.due_subscriptions(self.subscriptions);
        self.session.awaits_wildcard_response()
            || due.any(|it| self.session.is_unanswered(it, self.arena))
    }

    /// Whether the client requested a resource whose removal is withheld. State of the world answers
    /// no request for a missing resource.
    pub(crate) fn requests_removed(self) -> bool {
        self.session.variant == Variant::Incremental
            && self.subscriptions.requested_removals(self.session.due).next().is_some()
    }

    /// Returns the existing named resources that the client was sent, but not in their current
    /// version in or before a response.
    pub(crate) fn new_by_name(
        self,
        ResponsePosition { nonce, at }: ResponsePosition,
    ) -> impl Iterator<Item = &'a ResourceEntry> {
        let own = self.session.own_subscriptions(self.subscriptions);
        own.filter(|it| it.has_version()).filter_map(move |subscription| {
            let resource = self.arena.at(subscription.resource);
            let resource = resource.filter(|it| it.payload.is_some())?;
            let is_new = resource.revision > at || subscription.was_first_sent_after(nonce);
            is_new.then_some(resource)
        })
    }

    /// Whether the client was sent the current version of the resource, by whatever name.
    pub(crate) fn was_sent(self, resource: Slot) -> bool {
        let Self { slot, session, arena, subscriptions } = self;
        match subscriptions.find(slot, resource) {
            Some(_) => session.has(slot, resource, subscriptions),
            None => arena.at(resource).is_some_and(|it| it.revision <= session.reached()),
        }
    }

    /// Whether the client has subscribed to a resource, by whatever name.
    pub(crate) fn is_requested(self, name: &ResourceName) -> bool {
        let Self { slot, session, arena, subscriptions } = self;
        let is_subscribed = |resource| subscriptions.find(slot, resource).is_some();
        session.has_wildcard()
            || arena.find(name.as_str()).is_some_and(is_subscribed)
            || arena.globs_over(name.as_str()).into_iter().any(is_subscribed)
    }

    /// Returns the newest response that contained a resource by its name. `None` if the session has no
    /// subscription to the resource.
    pub(crate) fn last_sent_by_name(self, resource: Slot) -> Option<SentByName> {
        let subscription = self.subscriptions.of(self.slot, resource)?;
        Some(SentByName {
            has_version: subscription.has_version(),
            nonce: subscription.last_sent(),
            is_due: subscription.due.is_some(),
            is_rejected: self.has_rejected(resource),
        })
    }
}
