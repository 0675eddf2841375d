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

use core::time::Duration;

use super::{
    Client, TypeState,
    upstream::{Ack, Channel, Scopes, Turns},
};
use crate::{id::ChannelId, rng::Rng, time::Time};

/// How a server that is polled is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PollPolicy {
    /// The pause between an answer and the next request, at least.
    pub refresh_delay: Duration,
    /// How much longer the pause may be, by chance, in per cent of it: so clients that started together do
    /// not stay together (RJ-02).
    pub jitter_percent: u32,
    /// How long an answer may take. The adapter gives up after that, and reports the channel as closed
    /// (RJ-05). For servers that hold requests until something changes, longer than they hold them.
    pub request_timeout: Duration,
    /// What becomes of names that are added while a request is under way, or during a pause.
    pub new_names: NewNames,
    /// What a request says of the response before it.
    pub answers: PollAnswers,
}

/// When the server hears of names that are added between two requests (RJ-08).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NewNames {
    /// At once. A request that is under way is given up for another one.
    #[default]
    AtOnce,
    /// With the next request, whenever that is due.
    NextRequest,
}

/// What a request says of the response before it (B19).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PollAnswers {
    /// What a request on a stream does: its nonce, if it had one, and what was wrong with it.
    #[default]
    Complete,
    /// Nothing but the last accepted version (RJ-01, RJ-07).
    VersionOnly,
}

impl PollPolicy {
    /// Asks again `refresh_delay` after each answer, for which there is a minute of time.
    #[must_use]
    pub const fn new(refresh_delay: Duration) -> Self {
        Self {
            refresh_delay,
            jitter_percent: 100,
            request_timeout: Duration::from_secs(60),
            new_names: NewNames::AtOnce,
            answers: PollAnswers::Complete,
        }
    }

    /// Asks as Envoy does, which waits a second for an answer unless told otherwise (B18).
    #[must_use]
    pub const fn envoy(refresh_delay: Duration) -> Self {
        Self {
            refresh_delay,
            jitter_percent: 100,
            request_timeout: Duration::from_secs(1),
            new_names: NewNames::NextRequest,
            answers: PollAnswers::VersionOnly,
        }
    }

    /// Gives answers this much time.
    #[must_use]
    pub const fn with_request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }
}

/// Where a channel that polls stands.
#[derive(Clone, Debug)]
pub(crate) struct Polls {
    policy: PollPolicy,
    state: State,
    /// The answer to a response that was rejected. It is said again until there is another response: a server
    /// that remembers nothing would send what was rejected again.
    rejection: Option<Ack>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The next request is sent then.
    Due(Time),
    Outstanding,
}

impl Polls {
    pub(crate) fn new(policy: &PollPolicy, now: Time) -> Self {
        Self { policy: policy.clone(), state: State::Due(now), rejection: None }
    }

    /// A request is sent now. Returns what it says of the response before it.
    pub(crate) fn take_turn(&mut self, answer: Option<Ack>) -> Option<Ack> {
        self.state = State::Outstanding;
        if let Some(answer) = &answer {
            self.rejection = answer.rejection.is_some().then(|| answer.clone());
        }
        answer.or_else(|| self.rejection.clone())
    }

    fn is_outstanding(&self) -> bool {
        self.state == State::Outstanding
    }

    /// The server has answered.
    pub(crate) fn note_answer(&mut self, rng: &mut Rng, now: Time) {
        let delay = self.policy.refresh_delay;
        let longest = delay.saturating_mul(self.policy.jitter_percent) / 100;
        self.state = State::Due(now.after(delay.saturating_add(rng.part_of(longest))));
    }

    /// When a request may be sent, if one is to be; `has_new_names` says whether the server lacks any.
    fn next(&self, has_new_names: bool) -> Option<Time> {
        match (self.state, self.policy.new_names) {
            (_, NewNames::AtOnce) if has_new_names => Some(Time::ZERO),
            (State::Due(at), _) => Some(at),
            (State::Outstanding, _) => None,
        }
    }

    /// Whether a request is to say nothing of the response before it but the version.
    pub(crate) fn says_only_version(&self) -> bool {
        self.policy.answers == PollAnswers::VersionOnly
    }
}

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
    pub(super) fn on_unchanged(&mut self, id: ChannelId, now: Time) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_is_the_delay_and_up_to_as_much_again() {
        let (delay, mut rng) = (Duration::from_secs(10), Rng::new(1));
        let mut polls = Polls::new(&PollPolicy::envoy(delay), Time::ZERO);
        let pauses = (0..1_000).map(|_| {
            polls.note_answer(&mut rng, Time::ZERO);
            polls.next(false).map(|at| at.since(Time::ZERO)).unwrap_or_default()
        });
        let (mut shortest, mut longest) = (Duration::MAX, Duration::ZERO);
        for pause in pauses {
            (shortest, longest) = (shortest.min(pause), longest.max(pause));
        }
        assert!(shortest >= delay && shortest < delay.mul_f32(1.1), "{shortest:?}");
        assert!(longest <= delay * 2 && longest > delay.mul_f32(1.9), "{longest:?}");
    }
}
