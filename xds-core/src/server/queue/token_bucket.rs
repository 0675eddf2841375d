//! Token bucket for a rate limit, stored as one time.

use core::time::Duration;

use crate::{server::config::Rate, time::Time};

/// Time at which the bucket will be full if no more tokens are taken.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TokenBucket(Time);

impl TokenBucket {
    /// Takes a token, even if there is none.
    pub(crate) fn take(&mut self, rate: Rate, now: Time) {
        self.take_some(1, rate, now);
    }

    /// Takes a number of tokens, even if there are fewer.
    pub(crate) fn take_some(&mut self, count: u32, rate: Rate, now: Time) {
        self.0 = self.0.max(now).after(rate.interval().saturating_mul(count));
    }

    /// Returns a number of tokens.
    pub(crate) fn put_back(&mut self, count: u32, rate: Rate) {
        let interval = rate.interval().saturating_mul(count).as_nanos();
        let before = u128::from(self.0.as_nanos()).saturating_sub(interval);
        self.0 = Time::from_nanos(u64::try_from(before).unwrap_or(u64::MAX));
    }

    /// Whether there is a token.
    pub(crate) fn has_one(self, rate: Rate, now: Time) -> bool {
        self.0.since(now) + rate.interval() <= rate.capacity()
    }

    /// Time at which there will be a token.
    pub(crate) fn next(self, rate: Rate) -> Time {
        let spare = rate.capacity().saturating_sub(rate.interval());
        Time::from_nanos(0).after(self.0.since(Time::from_nanos(0).after(spare)))
    }

    /// Whether more than twice the capacity was taken.
    pub(crate) fn is_overdrawn(self, rate: Rate, now: Time) -> bool {
        self.0.since(now) > rate.capacity() * 2
    }
}

impl Rate {
    fn interval(self) -> Duration {
        Duration::from_secs(1) / self.per_second.max(1)
    }

    fn capacity(self) -> Duration {
        self.interval() * self.burst.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_second: 10, burst: 3 };

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_bucket_empties_at_once_and_fills_in_time() {
        let mut bucket = TokenBucket::default();
        for _ in 0..3 {
            assert!(bucket.has_one(RATE, at(1_000)));
            bucket.take(RATE, at(1_000));
        }
        assert!(!bucket.has_one(RATE, at(1_099)));
        assert_eq!(bucket.next(RATE), at(1_100));
        assert!(bucket.has_one(RATE, at(1_100)));
        bucket.put_back(1, RATE);
        assert!(bucket.has_one(RATE, at(1_000)));
        assert!(bucket.has_one(RATE, at(9_000)), "no more than full");
        bucket.take(RATE, at(9_000));
        assert_eq!(bucket.next(RATE), at(8_900));
    }

    #[test]
    fn debts_are_noticed() {
        let mut bucket = TokenBucket::default();
        (0..6).for_each(|_| bucket.take(RATE, at(0)));
        assert!(!bucket.is_overdrawn(RATE, at(0)));
        bucket.take(RATE, at(0));
        assert!(bucket.is_overdrawn(RATE, at(0)));
        assert!(!bucket.is_overdrawn(RATE, at(100)));
    }

    #[test]
    fn several_tokens_are_as_many_at_a_time() {
        let (mut one, mut other) = (TokenBucket::default(), TokenBucket::default());
        one.take_some(2, RATE, at(0));
        (0..2).for_each(|_| other.take(RATE, at(0)));
        assert_eq!(one.next(RATE), other.next(RATE));
        assert!(one.has_one(RATE, at(0)));
        one.put_back(2, RATE);
        assert_eq!(one.next(RATE), TokenBucket::default().next(RATE));
        one.take_some(u32::MAX, Rate { per_second: 1, burst: u32::MAX }, at(0));
    }

    #[test]
    fn rates_of_nothing_and_the_end_of_time_do_no_harm() {
        let none = Rate { per_second: 0, burst: 0 };
        let mut bucket = TokenBucket(Time::from_nanos(u64::MAX));
        bucket.take(none, Time::ZERO);
        assert!(!bucket.has_one(none, Time::ZERO) && bucket.is_overdrawn(none, Time::ZERO));
        let mut empty = TokenBucket::default();
        empty.put_back(1, none);
        assert!(empty.has_one(none, Time::ZERO));
        let most = Rate { per_second: u32::MAX, burst: u32::MAX };
        empty.take(most, Time::ZERO);
        assert!(empty.has_one(most, Time::ZERO));
    }
}
