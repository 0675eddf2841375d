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
    channel::polling::PollState,
    subscription::{registered_type::RegisteredType, scope::Scopes},
    upstream::{Channel, TransportState},
};
use crate::{id::ChannelId, time::Time};

impl Channel {
    /// Returns the time at which a polling channel may send its next request; `None` while it waits
    /// for a response or has no subscriptions.
    pub(crate) fn next_poll(
        &self,
        poll_state: &PollState,
        types: &[RegisteredType],
        scopes: &Scopes,
    ) -> Option<Time> {
        let (type_index, type_state) = self.type_states().next()?;
        let scope = scopes.of(type_index);
        let interest = &types.get(type_index)?.interest;
        let is_requested = interest.is_subscribed_in(scope) && !self.pending_verdicts.is_open();
        is_requested.then(|| poll_state.next(type_state.has_unsent(interest, scope))).flatten()
    }

    /// Returns the only type of a polling channel or one of a file. A response on it need not state
    /// its type.
    pub(crate) fn only_type(&self) -> Option<usize> {
        if matches!(self.transport_state, TransportState::Stream) {
            return None;
        }
        self.type_states().next().map(|(type_index, _)| type_index)
    }
}

impl Client {
    /// Handles a polling response that reports no changes. The server works, as after any response.
    pub(crate) fn on_unchanged(&mut self, id: ChannelId, now: Time) {
        let is_awaited =
            |channel: &Channel| channel.poll_state().is_some_and(PollState::is_outstanding);
        if !self.upstreams.channel(id).is_some_and(is_awaited) {
            self.stats.ignored_events += 1;
            return;
        }
        self.stats.unchanged += 1;
        self.note_response(id, now);
        self.signal_writable();
    }
}
