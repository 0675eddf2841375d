//! The runtime's clock as the core's [`Time`].

use core::time::Duration;
use std::time::Instant;

use hyper::rt::Timer as _;
use xds_core::Time;

use crate::runtime::SharedRuntime;

/// Clock that counts from its start.
#[derive(Clone, Debug)]
pub struct Clock {
    runtime: SharedRuntime,
    start: Instant,
}

impl Clock {
    /// Starts a clock at [`Time::ZERO`].
    #[must_use]
    pub fn start(runtime: SharedRuntime) -> Self {
        let start = runtime.now();
        Self { runtime, start }
    }

    /// Returns the time since the start.
    #[must_use]
    pub fn now(&self) -> Time {
        Time::ZERO.after(self.now_instant().saturating_duration_since(self.start))
    }

    pub(crate) fn now_instant(&self) -> Instant {
        self.runtime.now()
    }

    /// Returns the runtime's instant for `time`.
    pub(crate) fn instant(&self, time: Time) -> Instant {
        // A time that the runtime's clock cannot represent is replaced by one far in the future.
        let since_start = time.since(Time::ZERO).min(FAR);
        self.start.checked_add(since_start).unwrap_or(self.start)
    }

    /// Waits until `time`.
    pub async fn sleep_until(&self, time: Time) {
        self.runtime.sleep_until(self.instant(time)).await;
    }
}

/// Duration that stands for "never". Longer ones, such as [`Duration::MAX`], cannot be added to an
/// instant.
pub(crate) const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3_600);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::tests::Still;

    #[test]
    fn maximum_time_converts_to_an_instant() {
        let clock = Clock::start(SharedRuntime::new(Still));
        assert!(clock.instant(Time::from_nanos(u64::MAX)) > clock.instant(Time::ZERO));
    }
}
