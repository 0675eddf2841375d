//! State of a polled server: the request in flight and the time of the next one.

use crate::{
    client::{
        config::polling::{NewNames, PollAckContents, PollPolicy},
        upstream::Ack,
    },
    rng::Rng,
    time::Time,
};

/// State of polling on a channel.
#[derive(Clone, Debug)]
pub(crate) struct PollState {
    policy: PollPolicy,
    state: PollPhase,
    /// NACK of the newest response. It is repeated until the next response, because a stateless
    /// server would otherwise send the rejected resources again.
    rejection: Option<Ack>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PollPhase {
    /// Waiting for the time of the next request.
    Due(Time),
    Outstanding,
}

impl PollState {
    pub(crate) fn new(policy: &PollPolicy, now: Time) -> Self {
        Self { policy: policy.clone(), state: PollPhase::Due(now), rejection: None }
    }

    /// Notes that a request is sent now. Returns the ACK or NACK that it contains.
    pub(crate) fn start_request(&mut self, ack: Option<Ack>) -> Option<Ack> {
        self.state = PollPhase::Outstanding;
        if let Some(ack) = &ack {
            self.rejection = ack.rejection.is_some().then(|| ack.clone());
        }
        ack.or_else(|| self.rejection.clone())
    }

    pub(crate) fn is_outstanding(&self) -> bool {
        self.state == PollPhase::Outstanding
    }

    /// Notes that the server has responded, and schedules the next request.
    pub(crate) fn note_response(&mut self, rng: &mut Rng, now: Time) {
        let delay = self.policy.refresh_delay;
        let longest = delay.saturating_mul(self.policy.jitter_percent) / 100;
        self.state = PollPhase::Due(now.after(delay.saturating_add(rng.part_of(longest))));
    }

    /// Returns the time at which a request may be sent. `has_new_names` states whether names are
    /// subscribed that the server has not been sent.
    pub(crate) fn next(&self, has_new_names: bool) -> Option<Time> {
        match (self.state, self.policy.new_names) {
            (_, NewNames::AtOnce) if has_new_names => Some(Time::ZERO),
            (PollPhase::Due(at), _) => Some(at),
            (PollPhase::Outstanding, _) => None,
        }
    }

    /// Returns whether requests contain only the version, and no other part of an ACK or NACK.
    pub(crate) fn is_version_only(&self) -> bool {
        self.policy.ack_contents == PollAckContents::VersionOnly
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use crate::client::channel::polling::*;

    #[test]
    fn poll_interval_is_between_one_and_two_delays() {
        let (delay, mut rng) = (Duration::from_secs(10), Rng::new(1));
        let mut poll_state = PollState::new(&PollPolicy::envoy(delay), Time::ZERO);
        let pauses = (0..1_000).map(|_| {
            poll_state.note_response(&mut rng, Time::ZERO);
            poll_state.next(false).map(|at| at.since(Time::ZERO)).unwrap_or_default()
        });
        let (mut shortest, mut longest) = (Duration::MAX, Duration::ZERO);
        for pause in pauses {
            (shortest, longest) = (shortest.min(pause), longest.max(pause));
        }
        assert!(shortest >= delay && shortest < delay.mul_f32(1.1), "{shortest:?}");
        assert!(longest <= delay * 2 && longest > delay.mul_f32(1.9), "{longest:?}");
    }
}
