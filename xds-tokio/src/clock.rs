//! The runtime's clock as the cores see it, and what randomness starts from.

use core::{
    hash::{BuildHasher as _, Hasher as _},
    time::Duration,
};
use std::hash::RandomState;

use tokio::time::Instant;
use xds_core::Time;

/// Time since a driver started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Time {
        Time::ZERO.after(self.0.elapsed())
    }

    /// The instant of the runtime's clock at which `time` is reached.
    pub(crate) fn instant(self, time: Time) -> Instant {
        // Beyond what the clock can express lies far enough in the future.
        let since_start = time.since(Time::ZERO).min(FAR);
        self.0.checked_add(since_start).unwrap_or(self.0)
    }
}

const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3_600);

/// A number that differs in every process and every call. Not fit for secrets, which nothing here
/// needs: it spreads retries.
pub(crate) fn entropy() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_time_is_an_instant() {
        let clock = Clock::start();
        assert!(clock.instant(Time::from_nanos(u64::MAX)) > clock.instant(Time::ZERO));
    }

    #[test]
    fn entropy_differs() {
        assert_ne!(entropy(), entropy());
    }
}
