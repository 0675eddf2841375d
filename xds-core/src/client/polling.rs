//! Polling of servers that respond once to each request, as over REST.
//!
//! ```text
//!               the request is rendered
//!    Due(at) ──────────────────────────▶ Outstanding ──┐ a name is subscribed: a new request
//!      ▲                                   │    ▲      │ replaces the one in flight
//!      └───────────────────────────────────┘    └──────┘
//!        a response, or a report of no changes:
//!        due again after the delay and a random extension
//! ```
//!
//! All else works as on a stream. The channel stays open while requests succeed, and a failed
//! request ends it, so that errors, backoff and fallback follow the same rules.
// S0.199-S0.202

use super::{
    Client,
    channel::polling::Polls,
    subscription::{registered_type::TypeState, scope::Scopes},
    upstream::{Channel, Turns},
};
use crate::{id::ChannelId, time::Time};

impl Channel {
    /// Returns the time at which a polling channel may send its next request; `None` while it waits
    /// for a response or has no subscriptions.
    pub(crate) fn next_poll(
        &self,
        polls: &Polls,
        types: &[TypeState],
        serves: &Scopes,
    ) -> Option<Time> {
        let (type_index, machine) = self.machines().next()?;
        let scope = serves.of(type_index);
        let interest = &types.get(type_index)?.interest;
        let is_asked_for = interest.is_wanted_in(scope) && !self.reviews.is_open();
        is_asked_for.then(|| polls.next(machine.lacks(interest, scope))).flatten()
    }

    /// Returns the only type of a polling channel or one of a file. A response on it need not state
    /// its type.
    pub(crate) fn one_type(&self) -> Option<usize> {
        if matches!(self.turns, Turns::Free) {
            return None;
        }
        self.machines().next().map(|(type_index, _)| type_index)
    }
}

impl Client {
    /// Handles a polling response that reports no changes. The server works, as after any response.
    pub(crate) fn on_unchanged(&mut self, id: ChannelId, now: Time) {
        let is_awaited = |channel: &Channel| channel.polls().is_some_and(Polls::is_outstanding);
        if !self.upstreams.channel(id).is_some_and(is_awaited) {
            self.stats.ignored_events += 1;
            return;
        }
        self.stats.unchanged += 1;
        self.note_answer(id, now);
        self.announce();
    }
}
