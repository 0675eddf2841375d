//! Conversion of driver times to wall clock times.
//!
//! The core uses the driver's clock, which has no date. To convert, both clocks are read at the
//! same moment, and their difference is applied. An adjustment of the wall clock therefore takes
//! effect with the next conversion.

use std::time::{SystemTime, UNIX_EPOCH};

use xds_core::{Time, client::WallClock};

/// Returns the time of the wall clock.
pub(crate) fn read() -> SystemTime {
    SystemTime::now()
}

/// Returns the wall clock for the core, when the driver's clock shows `now`.
pub(crate) fn core(now: Time) -> WallClock {
    // A wall clock before 1970 is wrong anyway.
    WallClock::new(read().duration_since(UNIX_EPOCH).unwrap_or_default(), now)
}

/// Converts the driver time `then`, when the driver's clock shows `now` and the wall clock `shown`.
pub(crate) fn date_of(then: Time, now: Time, shown: SystemTime) -> SystemTime {
    shown.checked_sub(now.since(then)).unwrap_or(UNIX_EPOCH)
}
