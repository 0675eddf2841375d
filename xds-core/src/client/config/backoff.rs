//! Settings of the backoff between connection attempts.

use core::time::Duration;

/// The delays between attempts: exponential, jittered, bounded (S1.010-S1.012).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackoffPolicy {
    /// The delay after the first failure, and after a stream that had served well (D8).
    pub initial: Duration,
    /// By how many per cent each further delay is longer than the last.
    pub growth_percent: u32,
    /// The part of each delay that is drawn at random, either way, in per cent.
    pub jitter_percent: u32,
    /// The longest delay, before jitter.
    pub max: Duration,
    /// A stream that ends sooner than this after its first response counts as a failure for the
    /// delay, though not for watchers: otherwise a server that answers once and dies would be
    /// hammered (X23, S3.106).
    pub young: Duration,
}

impl BackoffPolicy {
    /// gRPC's connection backoff: 1 s, times 1.6, 20 % jitter, at most 120 s.
    #[must_use]
    pub const fn grpc() -> Self {
        Self {
            initial: Duration::from_secs(1),
            growth_percent: 60,
            jitter_percent: 20,
            max: Duration::from_secs(120),
            young: Duration::from_secs(10),
        }
    }
}

impl BackoffPolicy {
    /// Envoy's: anything up to 500 ms, up to twice as much after each further failure, at most 30 s.
    /// Any response makes the next failure a first one (D8, D9).
    ///
    /// A draw from nothing up to a bound is a draw around half the bound, either way by all of it.
    #[must_use]
    pub const fn envoy() -> Self {
        Self {
            initial: Duration::from_millis(250),
            growth_percent: 100,
            jitter_percent: 100,
            max: Duration::from_secs(15),
            young: Duration::ZERO,
        }
    }
}

impl Default for BackoffPolicy {
    fn default() -> Self {
        Self::grpc()
    }
}
