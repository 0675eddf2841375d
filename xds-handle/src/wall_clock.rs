//! Conversion of driver times to wall clock times.
//!
//! The core uses the driver's clock, which has no date. To convert, both clocks are read at the
//! same moment, and their difference is applied. An adjustment of the wall clock therefore takes
//! effect with the next conversion.

use core::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use xds_core::{Time, client::WallClock};

/// Source of the date and time.
pub(crate) struct SystemTimeSource(pub(crate) Box<dyn Fn() -> SystemTime + Send>);

impl SystemTimeSource {
    /// Returns the reading of both clocks.
    pub(crate) fn read(&self, now: Time) -> ClockReading {
        ClockReading { now, date: (self.0)() }
    }
}

impl Default for SystemTimeSource {
    fn default() -> Self {
        Self(Box::new(SystemTime::now))
    }
}

impl fmt::Debug for SystemTimeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SystemTimeSource")
    }
}

/// Reading of the driver's clock and of the wall clock at the same moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockReading {
    now: Time,
    date: SystemTime,
}

impl ClockReading {
    /// Returns the wall clock for the core.
    pub(crate) fn wall_clock(self) -> WallClock {
        // A wall clock before 1970 is wrong anyway.
        WallClock::new(self.date.duration_since(UNIX_EPOCH).unwrap_or_default(), self.now)
    }

    /// Converts a driver time.
    pub(crate) fn date_of(self, then: Time) -> SystemTime {
        self.date.checked_sub(self.now.since(then)).unwrap_or(UNIX_EPOCH)
    }
}
