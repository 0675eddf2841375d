//! Time that a thread works. Other programs on the machine do not count, except for their effect on
//! caches.

use std::time::Duration;

/// Stopwatch of the time that the current thread works on Linux, and of wall-clock time elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(clock::ClockTime);

impl Stopwatch {
    /// Starts the stopwatch.
    #[must_use]
    pub fn start() -> Self {
        Self(clock::read())
    }

    /// Returns the time since the start. Must be called on the same thread.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        clock::since(self.0)
    }
}

#[cfg(target_os = "linux")]
mod clock {
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};

    pub(super) type ClockTime = Duration;

    pub(super) fn read() -> ClockTime {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
        Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), nanos)
    }

    pub(super) fn since(start: ClockTime) -> Duration {
        read().saturating_sub(start)
    }
}

#[cfg(not(target_os = "linux"))]
mod clock {
    use std::time::{Duration, Instant};

    pub(super) type ClockTime = Instant;

    pub(super) fn read() -> ClockTime {
        Instant::now()
    }

    pub(super) fn since(start: ClockTime) -> Duration {
        start.elapsed()
    }
}
