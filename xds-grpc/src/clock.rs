//! The runtime's clock as the core's [`Time`], and a seed for the core's random numbers.

use core::{
    hash::{BuildHasher as _, Hasher as _},
    time::Duration,
};
use std::{hash::RandomState, time::Instant};

use hyper::rt::Timer as _;
use xds_core::Time;

use crate::runtime::SharedRuntime;

/// Clock that counts from the start of a driver.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    runtime: SharedRuntime,
    start: Instant,
}

impl Clock {
    pub(crate) fn start(runtime: SharedRuntime) -> Self {
        let start = runtime.now();
        Self { runtime, start }
    }

    pub(crate) fn now(&self) -> Time {
        Time::ZERO.after(self.now_instant().saturating_duration_since(self.start))
    }

    pub(crate) fn now_instant(&self) -> Instant {
        self.runtime.now()
    }

    /// Returns the runtime's instant for `time`.
    pub(crate) fn instant(&self, time: Time) -> Instant {
        // A time that the runtime's clock cannot express becomes one far in the future.
        let since_start = time.since(Time::ZERO).min(FAR);
        self.start.checked_add(since_start).unwrap_or(self.start)
    }
}

const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3_600);

/// Returns a number that differs in every process and every call. It spreads retries and is not fit
/// for secrets.
pub(crate) fn entropy() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::tests::Still;

    #[test]
    fn maximum_time_converts_to_an_instant() {
        let clock = Clock::start(SharedRuntime::new(Still));
        assert!(clock.instant(Time::from_nanos(u64::MAX)) > clock.instant(Time::ZERO));
    }

    #[test]
    fn entropy_differs_between_calls() {
        assert_ne!(entropy(), entropy());
    }
}
