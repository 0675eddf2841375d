//! How fast requests go to a server (BO-10).
//!
//! Requests are rendered when the transport has room for them, so there is no queue of requests that
//! could grow: what has to wait is said later, in fewer requests, and is gone with its stream.
//!
//! [`RequestRate`] bounds all requests of a stream. [`NackPace`] bounds NACKs, which a server could otherwise provoke
//! without end: one that answers each NACK with the response that was rejected.

use alloc::collections::BTreeMap;
use core::time::Duration;

use thiserror::Error;

use super::Client;
use crate::time::{Deadline, Time, Timer};

/// The requests that each stream to a server may carry: a bucket of tokens, of which every request takes
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRate {
    burst: u32,
    /// The time in which one token comes back; more than zero.
    interval: Duration,
}

/// Why a rate is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidRequestRate {
    /// No request could ever be sent.
    #[error("a bucket without tokens lets nothing through")]
    NoTokens,
    /// What comes back in a second is not a number, or not more than zero, or next to nothing.
    #[error("tokens must come back at a rate of more than zero")]
    Rate,
}

impl RequestRate {
    /// `burst` requests at once, and `per_second` more each second.
    ///
    /// # Errors
    ///
    /// Nothing would get through, or `per_second` is no rate.
    pub fn new(burst: u32, per_second: f64) -> Result<Self, InvalidRequestRate> {
        if burst == 0 {
            return Err(InvalidRequestRate::NoTokens);
        }
        let interval = Duration::try_from_secs_f64(per_second.recip());
        let interval = interval.map_err(|_| InvalidRequestRate::Rate)?;
        let is_rate = per_second > 0.0;
        if is_rate { Ok(Self { burst, interval }) } else { Err(InvalidRequestRate::Rate) }
    }

    /// Envoy's, where it has a limit and nothing else is said: a hundred at once, ten more each second.
    #[must_use]
    pub const fn envoy() -> Self {
        Self { burst: 100, interval: Duration::from_millis(100) }
    }
}

/// The bucket of one channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    rate: RequestRate,
    /// How many tokens there were at `counted`.
    tokens: u32,
    counted: Time,
}

impl Bucket {
    pub(crate) fn full(rate: RequestRate, now: Time) -> Self {
        Self { rate, tokens: rate.burst, counted: now }
    }

    /// When a request may be sent; it may be in the past.
    pub(crate) fn next(&self) -> Time {
        match self.tokens {
            0 => self.counted.after(self.rate.interval),
            _ => self.counted,
        }
    }

    /// Takes a token for a request that is sent now.
    pub(crate) fn take(&mut self, now: Time) {
        let interval = self.rate.interval.as_nanos().max(1);
        let returned = now.since(self.counted).as_nanos() / interval;
        let room = self.rate.burst - self.tokens;
        match u32::try_from(returned).ok().filter(|&returned| returned < room) {
            Some(returned) => {
                self.tokens += returned;
                self.counted = self.counted.after(self.rate.interval.saturating_mul(returned));
            }
            None => (self.tokens, self.counted) = (self.rate.burst, now),
        }
        self.tokens = self.tokens.saturating_sub(1);
    }
}

/// When a further NACK of each type may be sent on one channel.
///
/// ```text
///  response, rejected ─▶ NACK ─┐ sent at once; the next one of the type at `interval` after it
///                              ▼
///  response, rejected ─▶ NACK held ── nothing is read, other types' answers and requests are sent
///                              │ `interval` after the last one
///                              ▼
///                            NACK ─▶ the next response is read
/// ```
#[derive(Debug, Default)]
pub(crate) struct NackPace {
    /// Zero where NACKs have no pace of their own.
    interval: Duration,
    next: BTreeMap<usize, Time>,
}

impl NackPace {
    pub(crate) fn new(interval: Duration) -> Self {
        Self { interval, next: BTreeMap::new() }
    }

    /// When a NACK of the type may be sent; it may be in the past.
    pub(crate) fn next(&self, type_index: usize) -> Time {
        self.next.get(&type_index).copied().unwrap_or(Time::ZERO)
    }

    /// A NACK of the type is sent now.
    pub(crate) fn note(&mut self, type_index: usize, now: Time) {
        if !self.interval.is_zero() {
            self.next.insert(type_index, now.after(self.interval));
        }
    }
}

impl Client {
    /// When a stream may say what it has to say, of those that have to wait for that.
    pub(super) fn next_request(&self) -> Option<Deadline> {
        let now = self.clock.now();
        let held_back = self.upstreams.channels.iter().filter_map(|(_, channel)| {
            // Reading goes on then, whether or not there is room for the NACK by that time.
            if channel.announced
                && channel.is_open
                && let Some(at) = channel.next_held_nack(now)
            {
                return Some(Deadline { at, why: Timer::RepeatedNack });
            }
            let server = self.upstreams.servers.get(channel.upstream)?;
            let why = match channel.polls() {
                Some(_) => Timer::Poll,
                None if channel.bucket.is_some() => Timer::RequestRate,
                None if channel.has_answers() => Timer::RepeatedNack,
                None => return None,
            };
            let has_to_wait = !channel.announced && channel.is_open;
            let at = has_to_wait.then(|| channel.next_request(&self.types, &server.serves))??;
            Some(Deadline { at, why })
        });
        held_back.min_by_key(|due| (due.at, due.why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_rate_lets_something_through() {
        for (burst, per_second, expected) in [
            (0, 1.0, Err(InvalidRequestRate::NoTokens)),
            (1, f64::NAN, Err(InvalidRequestRate::Rate)),
            (1, 0.0, Err(InvalidRequestRate::Rate)),
            (1, -0.0, Err(InvalidRequestRate::Rate)),
            (1, -1.0, Err(InvalidRequestRate::Rate)),
            (1, f64::MIN_POSITIVE, Err(InvalidRequestRate::Rate)),
            (100, 10.0, Ok(RequestRate::envoy())),
            (5, f64::INFINITY, Ok(RequestRate { burst: 5, interval: Duration::ZERO })),
        ] {
            assert_eq!(RequestRate::new(burst, per_second), expected, "{burst} {per_second}");
        }
    }

    #[test]
    fn tokens_come_back_one_by_one_until_the_bucket_is_full() {
        let mut bucket = Bucket::full(RequestRate::new(2, 10.0).unwrap(), at(0));
        assert_eq!(bucket.next(), at(0));
        bucket.take(at(0));
        bucket.take(at(10));
        assert_eq!(bucket.next(), at(100), "counted from when the bucket was full");
        bucket.take(at(110));
        assert_eq!(bucket.next(), at(200));
        bucket.take(at(5_000));
        assert_eq!(bucket.next(), at(5_000), "one is left");
        bucket.take(at(5_000));
        assert_eq!(bucket.next(), at(5_100));
    }

    #[test]
    fn each_type_has_a_pace_of_its_own() {
        let mut pace = NackPace::new(Duration::from_secs(1));
        assert_eq!((pace.next(0), pace.next(1)), (at(0), at(0)));
        pace.note(0, at(500));
        assert_eq!((pace.next(0), pace.next(1)), (at(1_500), at(0)));
        let mut pace = NackPace::default();
        pace.note(0, at(500));
        assert_eq!(pace.next(0), at(0));
    }
}
