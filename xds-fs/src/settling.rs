//! Debouncing of changes before a read, without a clock of its own.

use core::{mem, time::Duration};
use std::time::Instant;

use xds_core::client::FilePolicy;

use crate::watch::Cause;

/// Interval between checks if watching is not possible.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Number of times that an empty file is read again before it counts as empty, and the pause
/// between them. A program that saves in place truncates the file first.
pub(crate) const EMPTY_READS: u32 = 5;
pub(crate) const EMPTY_PAUSE: Duration = Duration::from_millis(100);

/// Shortest time between checks whether a writer has closed its file.
const MIN_QUIET: Duration = Duration::from_millis(1);

/// Maximum wait. Longer configured times, such as [`Duration::MAX`], cannot be added to every instant.
const LONGEST_WAIT: Duration = Duration::from_secs(30 * 365 * 24 * 3_600);

/// Returns the instant `wait` after `time`. Any duration is allowed; long ones are limited.
pub(crate) fn after(time: Instant, wait: Duration) -> Instant {
    time + wait.min(LONGEST_WAIT)
}

/// Signals that were not processed yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Noticed {
    pub(crate) is_changed: bool,
    pub(crate) is_triggered: bool,
}

impl Noticed {
    pub(crate) const fn is_any(self) -> bool {
        self.is_changed || self.is_triggered
    }

    pub(crate) fn take(&mut self) -> Self {
        mem::take(self)
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.is_changed |= other.is_changed;
        self.is_triggered |= other.is_triggered;
    }
}

/// State of a wait until no change has occurred for a while and all writers have closed their
/// files, up to a maximum time. Requested reads wait too, because a half-written file may parse.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settling {
    cause: Cause,
    started: Instant,
    /// End of the quiet period, unless there is another signal.
    quiet_at: Instant,
}

/// Result of a step of [`Settling`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// The file can be read.
    Done(Cause),
    Wait(Instant),
}

impl Settling {
    pub(crate) fn start(first: Noticed, policy: &FilePolicy, now: Instant) -> Self {
        let cause = if first.is_triggered { Cause::Requested } else { Cause::Changed };
        Self { cause, started: now, quiet_at: after(now, policy.debounce.quiet) }
    }

    pub(crate) fn step(
        &mut self,
        noticed: Noticed,
        is_being_written: bool,
        policy: &FilePolicy,
        now: Instant,
    ) -> Settled {
        if noticed.is_triggered {
            self.cause = Cause::Requested;
        }
        let quiet = policy.debounce.quiet.max(MIN_QUIET);
        if noticed.is_any() {
            self.quiet_at = after(now, quiet);
        }
        let longest = if is_being_written { policy.writer_timeout } else { policy.debounce.max };
        let end = after(self.started, longest);
        if now >= self.quiet_at {
            if !is_being_written {
                return Settled::Done(self.cause);
            }
            self.quiet_at = after(now, quiet);
        }
        match now >= end {
            true => Settled::Done(self.cause),
            false => Settled::Wait(self.quiet_at.min(end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use xds_core::Debounce;

    use super::*;

    const CHANGED: Noticed = Noticed { is_changed: true, is_triggered: false };
    const TRIGGERED: Noticed = Noticed { is_changed: false, is_triggered: true };
    const NOTHING: Noticed = Noticed { is_changed: false, is_triggered: false };

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn policy(quiet: u64, max: u64) -> FilePolicy {
        FilePolicy::default().with_debounce(Debounce::new(ms(quiet), ms(max)))
    }

    #[test]
    fn changes_within_the_debounce_are_merged() {
        let (policy, start) = (policy(20, 60_000), Instant::now());
        let mut settling = Settling::start(CHANGED, &policy, start);
        for at in [0, 10, 25, 40] {
            let wait = settling.step(CHANGED, false, &policy, start + ms(at));
            assert_eq!(wait, Settled::Wait(start + ms(at + 20)));
        }
        assert_eq!(
            settling.step(NOTHING, false, &policy, start + ms(60)),
            Settled::Done(Cause::Changed)
        );
    }

    #[test]
    fn debounce_ends_at_its_maximum_under_constant_changes() {
        let (policy, start) = (policy(60_000, 50), Instant::now());
        let mut settling = Settling::start(CHANGED, &policy, start);
        for at in 0..50 {
            let wait = settling.step(CHANGED, false, &policy, start + ms(at));
            assert_eq!(wait, Settled::Wait(start + ms(50)));
        }
        let done = settling.step(CHANGED, false, &policy, start + ms(50));
        assert_eq!(done, Settled::Done(Cause::Changed));
    }

    #[test]
    fn trigger_during_a_debounce_is_reported_as_requested() {
        let (policy, start) = (policy(20, 60_000), Instant::now());
        let mut settling = Settling::start(CHANGED, &policy, start);
        let wait = settling.step(TRIGGERED, false, &policy, start + ms(1));
        assert_eq!(wait, Settled::Wait(start + ms(21)));
        let done = settling.step(NOTHING, false, &policy, start + ms(21));
        assert_eq!(done, Settled::Done(Cause::Requested));
    }

    #[test]
    fn open_writer_delays_the_read_until_it_closes() {
        let (policy, start) = (policy(1, 1), Instant::now());
        let mut settling = Settling::start(CHANGED, &policy, start);
        for at in 1..10 {
            let wait = settling.step(NOTHING, true, &policy, start + ms(at));
            assert_eq!(wait, Settled::Wait(start + ms(at + 1)));
        }
        let done = settling.step(NOTHING, false, &policy, start + ms(10));
        assert_eq!(done, Settled::Done(Cause::Changed));
    }

    #[test]
    fn read_happens_after_writer_timeout_if_the_file_is_not_closed() {
        let mut policy = policy(1, 1);
        policy.writer_timeout = ms(20);
        let start = Instant::now();
        let mut settling = Settling::start(CHANGED, &policy, start);
        for at in 1..20 {
            let wait = settling.step(NOTHING, true, &policy, start + ms(at));
            assert_eq!(wait, Settled::Wait(start + ms(at + 1)));
        }
        let done = settling.step(NOTHING, true, &policy, start + ms(20));
        assert_eq!(done, Settled::Done(Cause::Changed));
    }

    #[test]
    fn longest_times_do_not_overflow() {
        let mut policy = FilePolicy::default()
            .with_debounce(Debounce::new(Duration::MAX, ms(50)))
            .with_writer_timeout(Duration::MAX);
        let start = Instant::now();
        let mut settling = Settling::start(CHANGED, &policy, start);
        let wait = settling.step(CHANGED, false, &policy, start);
        assert_eq!(wait, Settled::Wait(start + ms(50)));
        policy.debounce.quiet = ms(20);
        let mut settling = Settling::start(CHANGED, &policy, start);
        let wait = settling.step(NOTHING, true, &policy, start);
        assert_eq!(wait, Settled::Wait(start + ms(20)));
        let done = settling.step(NOTHING, false, &policy, start + ms(20));
        assert_eq!(done, Settled::Done(Cause::Changed));
    }
}
