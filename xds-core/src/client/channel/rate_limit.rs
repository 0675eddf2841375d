//! Rate limits for the requests of one channel.
//!
//! Requests are rendered when the transport has room for them, so no queue of requests can grow. A
//! delayed change is sent later, merged into fewer requests, or not at all if the stream ends.
//!
//! [`RequestRate`] limits all requests of a stream. [`NackLimiter`] limits NACKs, because a server
//! that answers each NACK with the rejected response would otherwise cause an endless loop.
// BO-10

use alloc::collections::BTreeMap;
use core::time::Duration;

use crate::{client::config::request_rate::RequestRate, time::Time, token_bucket::TokenBucket};

/// Rate limit for all requests of one channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestLimiter {
    rate: RequestRate,
    bucket: TokenBucket,
}

impl RequestLimiter {
    /// Creates a limiter whose bucket is full.
    pub(crate) fn new(rate: RequestRate) -> Self {
        Self { rate, bucket: TokenBucket::default() }
    }

    /// Returns the time at which a request may be sent, possibly in the past.
    pub(crate) fn next(&self) -> Time {
        self.bucket.next(self.rate)
    }

    /// Takes a token for a request sent now.
    pub(crate) fn take(&mut self, now: Time) {
        self.bucket.take(self.rate, now);
    }
}

/// Time at which the next NACK of each type may be sent on one channel.
///
/// ```text
///  response rejected ─▶ NACK ──┐ sent at once; the next one for the type after `interval`
///                              ▼
///  response rejected ─▶ NACK delayed ── nothing is read; ACKs and requests of other types are sent
///                              │ `interval` after the previous NACK
///                              ▼
///                            NACK ─▶ the next response is read
/// ```
#[derive(Debug, Default)]
pub(crate) struct NackLimiter {
    /// Zero if NACKs are not limited.
    interval: Duration,
    next: BTreeMap<usize, Time>,
}

impl NackLimiter {
    pub(crate) fn new(interval: Duration) -> Self {
        Self { interval, next: BTreeMap::new() }
    }

    /// Returns the time at which a NACK of the type may be sent, possibly in the past.
    pub(crate) fn next(&self, type_index: usize) -> Time {
        self.next.get(&type_index).copied().unwrap_or(Time::ZERO)
    }

    /// Notes that a NACK of the type is sent now.
    pub(crate) fn note(&mut self, type_index: usize, now: Time) {
        if !self.interval.is_zero() {
            self.next.insert(type_index, now.after(self.interval));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::client::channel::rate_limit::*;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn nacks_are_rate_limited_per_type() {
        let mut pace = NackLimiter::new(Duration::from_secs(1));
        assert_eq!((pace.next(0), pace.next(1)), (at(0), at(0)));
        pace.note(0, at(500));
        assert_eq!((pace.next(0), pace.next(1)), (at(1_500), at(0)));
        let mut pace = NackLimiter::default();
        pace.note(0, at(500));
        assert_eq!(pace.next(0), at(0));
    }
}
