//! Settings of the backoff between connection attempts.

use core::time::Duration;

/// Delays between connection attempts: exponential, with jitter and an upper bound.
// S1.010-S1.012
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackoffPolicy {
    /// Delay after the first failure, and after a stream that lasted longer than
    /// [`min_stream_lifetime`](Self::min_stream_lifetime).
    // D8
    pub initial: Duration,
    /// Growth of each further delay over the previous one, in percent.
    pub growth_percent: u32,
    /// Random part of each delay, in percent, added or subtracted.
    pub jitter_percent: u32,
    /// Upper bound of the delay, before jitter.
    pub max: Duration,
    /// Minimum lifetime of a stream after its first response. A stream that ends sooner counts as a
    /// failure for the backoff, but not for watchers. Otherwise, a client would reconnect
    /// immediately to a server that answers once and fails.
    // X23, S3.106
    pub min_stream_lifetime: Duration,
}

impl BackoffPolicy {
    /// Returns the connection backoff of gRPC: 1 s initially, factor 1.6, 20 % jitter, at most 120
    /// s.
    #[must_use]
    pub const fn grpc() -> Self {
        Self {
            initial: Duration::from_secs(1),
            growth_percent: 60,
            jitter_percent: 20,
            max: Duration::from_secs(120),
            min_stream_lifetime: Duration::from_secs(10),
        }
    }
}

impl BackoffPolicy {
    /// Returns the backoff of Envoy: a random delay between 0 and an upper bound of 500 ms, which
    /// doubles with each further failure to at most 30 s. Any response resets it.
    // D8, D9: a delay drawn from 0 to a bound is half the bound with 100 % jitter.
    #[must_use]
    pub const fn envoy() -> Self {
        Self {
            initial: Duration::from_millis(250),
            growth_percent: 100,
            jitter_percent: 100,
            max: Duration::from_secs(15),
            min_stream_lifetime: Duration::ZERO,
        }
    }
}

impl Default for BackoffPolicy {
    fn default() -> Self {
        Self::grpc()
    }
}
