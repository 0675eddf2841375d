//! Wall clock of a server, for the times in a client status.

use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use xds_core::{Time, client::WallClock};

/// Smallest adjustment of the wall clock that takes effect. Readings of the two clocks are not of the
/// same moment, so their difference varies a little, and a busy driver's clock is late.
const ADJUSTMENT: Duration = Duration::from_secs(1);

/// Wall clock that converts a time in the same way until the system's clock is adjusted.
#[derive(Clone, Debug, Default)]
pub(crate) struct SteadyClock(Arc<Mutex<Option<WallClock>>>);

impl SteadyClock {
    /// Returns the wall clock, given the current time of both clocks.
    pub(crate) fn at(&self, since_1970: Duration, now: Time) -> WallClock {
        let read = WallClock::new(since_1970, now);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *kept {
            Some(clock) if shown(clock, now).abs_diff(since_1970) < ADJUSTMENT => clock,
            _ => *kept.insert(read),
        }
    }
}

fn shown(clock: WallClock, now: Time) -> Duration {
    let timestamp = clock.timestamp(now);
    let seconds = u64::try_from(timestamp.seconds).unwrap_or_default();
    Duration::new(seconds, u32::try_from(timestamp.nanos).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_converted_in_the_same_way_until_the_clock_is_adjusted() {
        let clock = SteadyClock::default();
        let update = Time::from_nanos(500);
        let converted = |since_1970: Duration, now: u64| {
            clock.at(since_1970, Time::from_nanos(now)).timestamp(update)
        };
        let start = Duration::from_secs(1_000);
        let first = converted(start, 1_000);
        assert_eq!(converted(start + Duration::from_nanos(2_345), 3_000), first);
        let adjusted = converted(start + Duration::from_secs(60), 5_000);
        assert_eq!(adjusted.seconds, first.seconds + 60);
        assert_eq!(converted(start + Duration::from_secs(60), 5_010), adjusted);
    }
}
