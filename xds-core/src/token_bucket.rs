//! Token bucket for rate limits, stored as one time.

use core::time::Duration;

use crate::time::Time;

/// Rate limit of a token bucket.
pub(crate) trait RateLimit: Copy {
    /// Time in which one token is added.
    fn interval(self) -> Duration;

    /// Number of tokens in a full bucket.
    fn burst(self) -> u32;

    /// Time in which an empty bucket fills.
    fn fill_time(self) -> Duration {
        self.interval().saturating_mul(self.burst().max(1))
    }
}

/// Time at which the bucket will be full if no more tokens are taken.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TokenBucket(Time);

impl TokenBucket {
    /// Takes a token, even if the bucket is empty. The debt delays later tokens.
    pub(crate) fn take(&mut self, rate: impl RateLimit, now: Time) {
        self.take_some(1, rate, now);
    }

    /// Takes a number of tokens, even if the bucket has fewer. The debt delays later tokens.
    pub(crate) fn take_some(&mut self, count: u32, rate: impl RateLimit, now: Time) {
        self.0 = self.0.max(now).after(rate.interval().saturating_mul(count));
    }

    /// Returns a number of tokens.
    pub(crate) fn put_back(&mut self, count: u32, rate: impl RateLimit) {
        let interval = rate.interval().saturating_mul(count).as_nanos();
        let before = u128::from(self.0.as_nanos()).saturating_sub(interval);
        self.0 = Time::from_nanos(u64::try_from(before).unwrap_or(u64::MAX));
    }

    /// Whether there is a token.
    pub(crate) fn has_one(self, rate: impl RateLimit, now: Time) -> bool {
        self.0.since(now).saturating_add(rate.interval()) <= rate.fill_time()
    }

    /// Time at which there will be a token, possibly in the past.
    pub(crate) fn next(self, rate: impl RateLimit) -> Time {
        let spare = rate.fill_time().saturating_sub(rate.interval());
        Time::from_nanos(0).after(self.0.since(Time::from_nanos(0).after(spare)))
    }

    /// Whether more than twice the capacity was taken.
    pub(crate) fn is_overdrawn(self, rate: impl RateLimit, now: Time) -> bool {
        self.0.since(now) > rate.fill_time().saturating_mul(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy)]
    struct Rate {
        interval: Duration,
        burst: u32,
    }

    impl RateLimit for Rate {
        fn interval(self) -> Duration {
            self.interval
        }

        fn burst(self) -> u32 {
            self.burst
        }
    }

    const RATE: Rate = Rate { interval: Duration::from_millis(100), burst: 3 };

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn bucket_drains_its_burst_and_refills_over_time() {
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
    fn bucket_refills_one_token_per_interval_up_to_its_burst() {
        let rate = Rate { burst: 2, ..RATE };
        let mut bucket = TokenBucket::default();
        bucket.take(rate, at(0));
        bucket.take(rate, at(10));
        assert_eq!(bucket.next(rate), at(100), "counted from when the bucket was full");
        bucket.take(rate, at(110));
        assert_eq!(bucket.next(rate), at(200));
        bucket.take(rate, at(5_000));
        assert!(bucket.has_one(rate, at(5_000)), "one is left");
        bucket.take(rate, at(5_000));
        assert_eq!(bucket.next(rate), at(5_100));
    }

    #[test]
    fn slowest_rate_does_not_overflow() {
        let rate = Rate { interval: Duration::MAX, burst: u32::MAX };
        let mut bucket = TokenBucket::default();
        bucket.take(rate, at(0));
        assert!(bucket.has_one(rate, at(0)));
        assert!(!bucket.is_overdrawn(rate, at(0)));
    }

    #[test]
    fn bucket_is_overdrawn_beyond_twice_its_burst() {
        let mut bucket = TokenBucket::default();
        (0..6).for_each(|_| bucket.take(RATE, at(0)));
        assert!(!bucket.is_overdrawn(RATE, at(0)));
        bucket.take(RATE, at(0));
        assert!(bucket.is_overdrawn(RATE, at(0)));
        assert!(!bucket.is_overdrawn(RATE, at(100)));
    }

    #[test]
    fn taking_several_tokens_equals_taking_them_one_by_one() {
        let (mut one, mut other) = (TokenBucket::default(), TokenBucket::default());
        one.take_some(2, RATE, at(0));
        (0..2).for_each(|_| other.take(RATE, at(0)));
        assert_eq!(one.next(RATE), other.next(RATE));
        assert!(one.has_one(RATE, at(0)));
        one.put_back(2, RATE);
        assert_eq!(one.next(RATE), TokenBucket::default().next(RATE));
        let slow = Rate { interval: Duration::from_secs(1), burst: u32::MAX };
        one.take_some(u32::MAX, slow, at(0));
    }

    #[test]
    fn zero_rate_and_maximum_time_do_not_overflow() {
        let none = Rate { interval: Duration::from_secs(1), burst: 0 };
        let mut bucket = TokenBucket(Time::from_nanos(u64::MAX));
        bucket.take(none, Time::ZERO);
        assert!(!bucket.has_one(none, Time::ZERO) && bucket.is_overdrawn(none, Time::ZERO));
        let mut empty = TokenBucket::default();
        empty.put_back(1, none);
        assert!(empty.has_one(none, Time::ZERO));
        let most = Rate { interval: Duration::ZERO, burst: u32::MAX };
        empty.take(most, Time::ZERO);
        assert!(empty.has_one(most, Time::ZERO));
    }
}
