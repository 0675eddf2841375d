//! The runtime's clock as the cores see it, and what randomness starts from.

use core::{
    hash::{BuildHasher as _, Hasher as _},
    time::Duration,
};
use std::{hash::RandomState, time::Instant};

use hyper::rt::Timer as _;
use xds_core::Time;

use crate::runtime::Shared;

/// Time since a driver started.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    runtime: Shared,
    start: Instant,
}

impl Clock {
    pub(crate) fn start(runtime: Shared) -> Self {
        let start = runtime.now();
        Self { runtime, start }
    }

    pub(crate) fn now(&self) -> Time {
        Time::ZERO.after(self.now_instant().saturating_duration_since(self.start))
    }

    pub(crate) fn now_instant(&self) -> Instant {
        self.runtime.now()
    }

    /// The instant of the runtime's clock at which `time` is reached.
    pub(crate) fn instant(&self, time: Time) -> Instant {
        // Beyond what the clock can express lies far enough in the future.
        let since_start = time.since(Time::ZERO).min(FAR);
        self.start.checked_add(since_start).unwrap_or(self.start)
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
    use crate::runtime::tests::Still;

    #[test]
    fn the_end_of_time_is_an_instant() {
        let clock = Clock::start(Shared::new(Still));
        assert!(clock.instant(Time::from_nanos(u64::MAX)) > clock.instant(Time::ZERO));
    }

    #[test]
    fn entropy_differs() {
        assert_ne!(entropy(), entropy());
    }
}
