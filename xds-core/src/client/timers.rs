//! Does-not-exist timers: all of one server have the same duration, so they are a queue.

use alloc::{collections::VecDeque, vec::Vec};
use core::time::Duration;

use crate::{slab::Key, time::Time};

/// The timers that run on one channel, or towards one server where time counts from the moment of
/// interest on (D10), in the order in which they will fire.
///
/// They measure time during which responses could be read. While watchers or unsent answers hold back
/// reading, the queue stands still: otherwise a resource that lies unread in the transport would be
/// taken not to exist.
#[derive(Debug, Default)]
pub(crate) struct DoesNotExistTimers {
    queue: VecDeque<Armed>,
    /// For how long the queue has stood still so far.
    paused: Duration,
    paused_since: Option<Time>,
}

/// A running timer. It counts only if its subject still carries the token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Armed {
    /// On the queue's own clock.
    due: Time,
    pub(crate) type_index: usize,
    pub(crate) subject: Subject,
    pub(crate) token: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Subscription(Key),
    Collection,
    /// What another server sent before.
    Leftovers,
    /// The same of one glob.
    GlobLeftovers(Key),
}

impl DoesNotExistTimers {
    /// Starts a timer known by `token`, which is never zero and never repeats, and returns that.
    pub(crate) fn arm(
        &mut self,
        type_index: usize,
        subject: Subject,
        after: Duration,
        now: Time,
        token: u64,
    ) -> u64 {
        let due = self.reading_time(now).after(after);
        self.queue.push_back(Armed { due, type_index, subject, token });
        token
    }

    /// When the first timer fires, if responses can be read until then.
    pub(crate) fn next(&self) -> Option<Time> {
        match self.paused_since {
            Some(_) => None,
            None => self.queue.front().map(|armed| armed.due.after(self.paused)),
        }
    }

    pub(crate) fn front(&self) -> Option<&Armed> {
        self.queue.front()
    }

    pub(crate) fn pop(&mut self) -> Option<Armed> {
        let first = self.queue.pop_front();
        crate::room::give_back(&mut self.queue);
        first
    }

    /// Some of the timers, in their order.
    pub(crate) fn take_those(&mut self, is_one: impl Fn(&Armed) -> bool) -> Vec<Armed> {
        let taken = self.queue.iter().copied().filter(&is_one).collect();
        self.queue.retain(|armed| !is_one(armed));
        crate::room::give_back(&mut self.queue);
        taken
    }

    /// The timers of a channel that is gone.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Armed> {
        core::mem::take(&mut self.queue).into_iter()
    }

    /// The time on the queue's own clock, which leaves out the pauses.
    fn reading_time(&self, now: Time) -> Time {
        let until = self.paused_since.unwrap_or(now).since(Time::ZERO);
        Time::ZERO.after(until.saturating_sub(self.paused))
    }

    /// Stands still from now on.
    pub(crate) fn pause(&mut self, now: Time) {
        self.paused_since.get_or_insert(now);
    }

    /// Runs again.
    pub(crate) fn resume(&mut self, now: Time) {
        if let Some(since) = self.paused_since.take() {
            self.paused += now.since(since);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Time {
        Time::from_nanos(n * 1_000_000_000)
    }

    #[test]
    fn a_pause_delays_by_its_length() {
        let mut timers = DoesNotExistTimers::default();
        let after = Duration::from_secs(15);
        timers.arm(0, Subject::Collection, after, seconds(1), 1);
        assert_eq!(timers.next(), Some(seconds(16)));
        timers.pause(seconds(5));
        timers.pause(seconds(6));
        assert_eq!(timers.next(), None, "nothing fires while reading is held back");
        timers.arm(0, Subject::Collection, after, seconds(7), 2);
        timers.resume(seconds(9));
        assert_eq!(timers.next(), Some(seconds(20)));
        timers.pop();
        assert_eq!(
            timers.next(),
            Some(seconds(24)),
            "armed while paused: fifteen seconds of reading"
        );
    }
}
