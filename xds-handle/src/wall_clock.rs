//! The system's wall clock beside the driver's own.
//!
//! Times in the core are those of the driver's clock, which has no date. Whenever somebody asks for
//! one, both clocks are read at the same moment and the difference is what lies between them; so a
//! wall clock that was set since is right again with the next question.

use std::time::{SystemTime, UNIX_EPOCH};

use xds_core::{Time, client::WallClock};

/// What the system's clock shows.
pub(crate) fn read() -> SystemTime {
    SystemTime::now()
}

/// The wall clock as the core takes it; the driver's own clock shows `now`.
pub(crate) fn core(now: Time) -> WallClock {
    // A system that believes to live before 1970 does not know the date.
    WallClock::new(read().duration_since(UNIX_EPOCH).unwrap_or_default(), now)
}

/// When it was `then` by the driver's clock, if that shows `now` while the wall clock shows `shown`.
pub(crate) fn date_of(then: Time, now: Time, shown: SystemTime) -> SystemTime {
    shown.checked_sub(now.since(then)).unwrap_or(UNIX_EPOCH)
}
