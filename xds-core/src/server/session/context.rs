//! Session together with all state that one call on it can read and change.

use core::num::NonZeroU64;

use super::{
    Session,
    name_usage::NameUsage,
    session_view::SessionView,
    subscription::{Delivery, Due, SubscriptionTable, due_list::Release},
};
use crate::{
    server::{
        event::ResponseCause,
        store::{
            arena::{Arena, past::HeldSnapshots},
            encode::body::{Encoding, Ttls},
            on_demand::OnDemandNotifications,
        },
    },
    slab::Slot,
};

/// Session together with all state that its rules read and change.
#[derive(Debug)]
pub(crate) struct SessionContext<'a> {
    pub(crate) slot: Slot,
    pub(crate) session: &'a mut Session,
    pub(crate) arena: &'a mut Arena,
    pub(crate) subscriptions: &'a mut SubscriptionTable,
    pub(crate) on_demand: &'a mut OnDemandNotifications,
    pub(crate) usage: &'a mut NameUsage,
}

impl SessionContext<'_> {
    /// Returns the state from which it follows what the client has.
    pub(crate) fn view(&self) -> SessionView<'_> {
        let Self { slot, session, arena, subscriptions, .. } = self;
        SessionView { slot: *slot, session, arena, subscriptions }
    }

    /// Returns the encoding for this client. If no resource has a TTL, all clients share bytes.
    pub(crate) fn encoding(&self) -> Encoding {
        let ttls = if self.arena.has_ttls() { self.session.ttls } else { Ttls::Omitted };
        Encoding { variant: self.session.variant, ttls }
    }

    /// Registers the session with its arena.
    pub(crate) fn register(&mut self) {
        self.arena.sessions += 1;
        if self.session.ttls == Ttls::Sent {
            self.arena.heartbeats.join();
        }
        if self.session.needs_retained_deletions(self.arena) {
            self.arena.past.removal_users += 1;
        }
        if self.session.needs_snapshots(self.arena) {
            self.arena.past.snapshot_users += 1;
        }
    }

    /// Makes the resource of a subscription due. Any reason other than a change is urgent.
    pub(crate) fn make_due(&mut self, subscription: Slot, cause: ResponseCause) {
        self.session.has_urgent |= cause != ResponseCause::Changed;
        self.subscriptions.set_due(&mut self.session.due, subscription, Due::because(cause));
    }

    /// Makes the resource of a subscription due because a request names it. A removal that is withheld
    /// stays withheld, unless there is an error to send instead.
    pub(crate) fn make_requested_due(&mut self, subscription: Slot, cause: ResponseCause) {
        let stays_withheld = self.subscriptions.at(subscription).is_some_and(|it| {
            let has_error = it.kind.is_subscribed() && self.error_of(it.resource).is_some();
            it.is_withheld() && !has_error
        });
        match stays_withheld {
            true => {
                let due = Due { release: Release::Withheld, ..Due::because(cause) };
                self.subscriptions.set_due(&mut self.session.due, subscription, due);
            }
            false => self.make_due(subscription, cause),
        }
    }

    /// Records what the client was sent of the resource of a subscription.
    pub(crate) fn set_delivery(&mut self, subscription: Slot, delivery: Delivery) {
        self.subscriptions.set_delivery(&mut self.session.subscriptions, subscription, delivery);
    }

    /// Records that the client has the resource of a subscription, from the newest response or an
    /// earlier one.
    pub(crate) fn note_held(&mut self, subscription: Slot) {
        match self.session.newest {
            Some(newest) => self.note_held_in(subscription, newest.nonce),
            None => self.set_delivery(subscription, Delivery::Before),
        }
    }

    /// Records that the client has the resource of a subscription, from the response with this nonce or
    /// an earlier one.
    pub(crate) fn note_held_in(&mut self, subscription: Slot, nonce: NonZeroU64) {
        if let Some(delivery) = self.subscriptions.at(subscription).map(|it| it.delivery) {
            self.set_delivery(subscription, delivery.held_in(nonce));
        }
    }

    /// Releases everything held for the session on its arena. Takes time proportional to its own
    /// names.
    // M13, IS23
    pub(crate) fn unregister(&mut self) {
        self.leave();
        self.free_names(usize::MAX);
        self.arena.sessions -= 1;
    }

    /// Frees at most this many names of a session that has left its arena, and returns their number.
    pub(crate) fn free_names(&mut self, limit: usize) -> usize {
        let mut freed = 0;
        while freed < limit && !self.session.subscriptions.is_empty() {
            self.disconnect(self.session.subscriptions.first());
            freed += 1;
        }
        freed
    }

    /// Removes the session from all lists of its arena, except its names from those of resources.
    pub(crate) fn leave(&mut self) {
        self.leave_wildcard();
        if self.session.ttls == Ttls::Sent {
            self.arena.heartbeats.leave();
        }
        if self.session.needs_retained_deletions(self.arena) {
            self.arena.past.removal_users -= 1;
        }
        if self.session.needs_snapshots(self.arena) {
            self.arena.past.snapshot_users -= 1;
            self.arena.hold(self.slot, HeldSnapshots::default());
        }
    }
}
