//! Delays before the next attempt to connect to a server.

use core::time::Duration;

use crate::{
    client::{channel::end::ChannelEnd, config::backoff::BackoffPolicy},
    rng::Rng,
    zoo::{self, Bug},
};

/// Backoff state of a stream slot.
///
/// Failures to connect and failed streams are counted separately: a long time without a connection
/// does not increase the delay after the first failed stream.
// X20, S1.019
#[derive(Clone, Debug, Default)]
pub(crate) struct Backoff {
    connecting: DelaySeries,
    streaming: DelaySeries,
}

impl Backoff {
    /// Notes that a connection was established, which resets the delay after failures to connect.
    pub(crate) fn note_connected(&mut self) {
        self.connecting.reset();
        if zoo::is(Bug::BackoffEndsOnConnect) {
            self.streaming.reset();
        }
    }

    /// Notes that the client closed a channel. This is not a failure, and resets the delay after
    /// failed streams if the channel had served.
    pub(crate) fn note_closed(&mut self, end: ChannelEnd) {
        if end == ChannelEnd::Served {
            self.streaming.reset();
        }
    }

    /// Forgets all failures.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Returns the delay before the next attempt.
    pub(crate) fn next_delay(
        &mut self,
        end: ChannelEnd,
        policy: &BackoffPolicy,
        rng: &mut Rng,
    ) -> Duration {
        match end {
            ChannelEnd::Unconnected => self.connecting.next(policy, rng),
            ChannelEnd::Early => self.streaming.next(policy, rng),
            ChannelEnd::Served => {
                self.streaming.reset();
                // The delay after a stream that has served is not part of a growing series.
                DelaySeries::default().next(policy, rng)
            }
        }
    }
}

/// Growing series of delays.
#[derive(Clone, Debug, Default)]
struct DelaySeries {
    /// Delay after the last failure, before jitter; `None` after a reset.
    last: Option<Duration>,
}

impl DelaySeries {
    /// Makes the next delay the initial one.
    fn reset(&mut self) {
        self.last = None;
    }

    fn next(&mut self, policy: &BackoffPolicy, rng: &mut Rng) -> Duration {
        let delay = match self.last {
            None => policy.initial,
            Some(last) => last.saturating_mul(policy.growth_percent.saturating_add(100)) / 100,
        };
        let delay = delay.min(policy.max);
        self.last = Some(delay);
        rng.jitter(delay, policy.jitter_percent)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use crate::client::upstream::backoff::*;

    #[test]
    fn delays_grow_to_the_maximum_and_restart_after_a_reset() {
        let policy = BackoffPolicy { jitter_percent: 0, ..BackoffPolicy::grpc() };
        let (mut backoff, mut rng) = (DelaySeries::default(), Rng::new(1));
        let delays: Vec<u64> =
            (0..13).map(|_| backoff.next(&policy, &mut rng).as_millis() as u64).collect();
        assert_eq!(delays[..4], [1_000, 1_600, 2_560, 4_096]);
        assert_eq!(delays[12], 120_000);
        backoff.reset();
        assert_eq!(backoff.next(&policy, &mut rng), Duration::from_secs(1));
    }

    #[test]
    fn envoy_delays_are_uniform_up_to_a_doubling_bound() {
        let (policy, mut rng) = (BackoffPolicy::envoy(), Rng::new(1));
        for (failures, bound) in [(1, 500), (2, 1_000), (3, 2_000), (7, 30_000), (9, 30_000)] {
            let mut drawn = Vec::new();
            for _ in 0..1_000 {
                let mut backoff = DelaySeries::default();
                let delays = (0..failures).map(|_| backoff.next(&policy, &mut rng).as_millis());
                drawn.extend(delays.last());
            }
            assert!(drawn.iter().all(|&millis| millis <= bound));
            assert!(drawn.iter().any(|&millis| millis < bound / 10));
            assert!(drawn.iter().any(|&millis| millis > bound * 9 / 10));
        }
    }
}
