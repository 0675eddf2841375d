//! Servers that answer each request once, and are asked again after a while: REST (S0.199-S0.202).
//!
//! ```text
//!               the request is rendered
//!    Due(at) ──────────────────────────▶ Outstanding ──┐ a name is added: asked anew,
//!      ▲                                   │    ▲      │ what was asked before is given up
//!      └───────────────────────────────────┘    └──────┘
//!        a response, or word that nothing has changed:
//!        due again after the delay, and a random part of it
//! ```
//!
//! All else is as on a stream: the channel stays while the exchanges go well, and one that fails ends it,
//! so that errors, pauses and other servers have the same rules.

use super::{
    Client,
    channel::polling::Polls,
    subscription::{registered_type::TypeState, scope::Scopes},
    upstream::{Channel, Turns},
};
use crate::{id::ChannelId, time::Time};

impl Channel {
    /// When a channel that polls may send its next request; `None` if it waits for an answer, or has nothing
    /// to ask for.
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

    /// The one type that a channel carries which polls, or is of a file; a response over it need not name its
    /// type.
    pub(crate) fn one_type(&self) -> Option<usize> {
        if matches!(self.turns, Turns::Free) {
            return None;
        }
        self.machines().next().map(|(type_index, _)| type_index)
    }
}

impl Client {
    /// The server has nothing new. That it works counts as after any response.
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
