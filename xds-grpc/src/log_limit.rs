//! Rate limit for log lines whose number a peer controls.

use core::time::Duration;
use std::collections::BTreeMap;

use xds_core::Time;

/// Admits a number of lines of each kind per interval and counts the others.
#[derive(Debug)]
pub(crate) struct LogLimit<K> {
    lines: u32,
    interval: Duration,
    counts: BTreeMap<K, KindCounts>,
}

/// Counts of the lines of one kind in the current interval.
#[derive(Debug)]
struct KindCounts {
    since: Time,
    taken: u32,
    suppressed: u64,
}

/// Decision about one log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogDecision {
    /// Log the line, together with the number of lines suppressed before it.
    Logged {
        suppressed: u64,
    },
    Suppressed,
}

impl<K: Ord> LogLimit<K> {
    /// Creates a limit of `lines` of each kind per `interval`. An interval begins with a kind's
    /// first line.
    pub(crate) fn new(lines: u32, interval: Duration) -> Self {
        Self { lines, interval, counts: BTreeMap::new() }
    }

    /// Counts a line of a kind and decides whether to log it.
    pub(crate) fn admit(&mut self, kind: K, now: Time) -> LogDecision {
        let counts =
            self.counts.entry(kind).or_insert(KindCounts { since: now, taken: 0, suppressed: 0 });
        if now.since(counts.since) >= self.interval {
            (counts.since, counts.taken) = (now, 0);
        }
        if counts.taken >= self.lines {
            counts.suppressed += 1;
            return LogDecision::Suppressed;
        }
        counts.taken += 1;
        LogDecision::Logged { suppressed: core::mem::take(&mut counts.suppressed) }
    }

    /// Returns the time at which [`overdue`](Self::overdue) will return something if no further
    /// lines are counted.
    pub(crate) fn due(&self) -> Option<Time> {
        let suppressed = self.counts.values().filter(|counts| counts.suppressed > 0);
        suppressed.map(|counts| counts.since.after(2 * self.interval)).min()
    }

    /// Removes and returns the kinds whose last lines were suppressed, with the number of these
    /// lines, once a whole interval has passed without a logged line that could report the number.
    pub(crate) fn overdue(&mut self, now: Time) -> Vec<(K, u64)> {
        if self.due().is_none_or(|due| due > now) {
            return Vec::new();
        }
        let over = 2 * self.interval;
        let is_over =
            |counts: &KindCounts| counts.suppressed > 0 && now.since(counts.since) >= over;
        let (over, counts): (BTreeMap<_, _>, _) =
            core::mem::take(&mut self.counts).into_iter().partition(|(_, it)| is_over(it));
        self.counts = counts;
        over.into_iter().map(|(kind, counts)| (kind, counts.suppressed)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{LogDecision::*, *};

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn suppressed_lines_are_counted_by_the_next_line() {
        let mut limit = LogLimit::new(1, Duration::from_secs(1));
        assert_eq!(limit.admit("cds", at(5_000)), Logged { suppressed: 0 });
        for millis in [5_000, 5_500, 5_999] {
            assert_eq!(limit.admit("cds", at(millis)), Suppressed, "{millis}");
        }
        assert_eq!(limit.admit("eds", at(5_999)), Logged { suppressed: 0 }, "another kind");
        assert_eq!(limit.admit("cds", at(6_000)), Logged { suppressed: 3 });
        assert_eq!(limit.admit("cds", at(6_999)), Suppressed, "from the line that was logged");
        assert_eq!(limit.admit("cds", at(60_000)), Logged { suppressed: 1 });
    }

    #[test]
    fn suppressed_lines_are_counted_at_the_end_of_a_flood() {
        let mut limit = LogLimit::new(1, Duration::from_secs(1));
        assert_eq!(limit.due(), None);
        for (kind, millis) in [("cds", 5_000), ("eds", 5_500), ("cds", 5_600), ("cds", 5_700)] {
            limit.admit(kind, at(millis));
        }
        assert_eq!(limit.due(), Some(at(7_000)));
        assert_eq!(limit.overdue(at(6_999)), []);
        assert_eq!(limit.overdue(at(7_000)), [("cds", 2)]);
        assert_eq!((limit.due(), limit.overdue(at(9_000))), (None, vec![]));
        assert_eq!(limit.admit("cds", at(9_000)), Logged { suppressed: 0 });
        // A line within the interval after it reports the number itself.
        assert_eq!(limit.admit("cds", at(9_100)), Suppressed);
        assert_eq!(limit.admit("cds", at(10_000)), Logged { suppressed: 1 });
        assert_eq!(limit.due(), None);
    }

    #[test]
    fn limit_allows_several_lines_per_interval() {
        let mut limit = LogLimit::new(2, Duration::from_secs(10));
        let admitted = [0, 1, 2, 9_999, 10_000].map(|millis| limit.admit((), at(millis)));
        let logged = Logged { suppressed: 0 };
        assert_eq!(admitted, [logged, logged, Suppressed, Suppressed, Logged { suppressed: 2 }]);
    }
}
