//! Does-not-exist timers, in one queue per duration because these fire in the order of arming.

use alloc::{collections::VecDeque, vec::Vec};
use core::time::Duration;

use crate::{slab::Key, time::Time};

/// Running does-not-exist timers of one channel or, with
/// [`TimerStart::Subscription`](crate::client::TimerStart::Subscription), of one server.
///
/// They measure time during which responses can be read. The queues pause while watchers or unsent
/// ACKs hold back reading, because the resource may be waiting in the transport.
// D10
#[derive(Debug, Default)]
pub(crate) struct DoesNotExistTimers {
    /// Non-empty queues. Few are needed: durations only differ by type and authority.
    queues: Vec<TimerQueue>,
    /// Total length of past pauses.
    paused: Duration,
    paused_since: Option<Time>,
}

/// Timers of one duration.
#[derive(Debug)]
struct TimerQueue {
    after: Duration,
    armed: VecDeque<ArmedTimer>,
}

/// Running timer. It is only valid while its subject has the same token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArmedTimer {
    /// Expiry time on the queues' own clock.
    due: Time,
    pub(crate) type_index: usize,
    pub(crate) subject: TimerSubject,
    pub(crate) token: u64,
}

impl ArmedTimer {
    fn order(&self) -> (Time, u64) {
        (self.due, self.token)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerSubject {
    Subscription(Key),
    Collection,
    /// Resources sent earlier by another server.
    Unconfirmed,
    /// Members of one glob sent earlier by another server.
    UnconfirmedMembers(Key),
}

impl DoesNotExistTimers {
    /// Starts a timer identified by `token`, which must be unique and not zero, and returns the
    /// token.
    pub(crate) fn arm(
        &mut self,
        type_index: usize,
        subject: TimerSubject,
        after: Duration,
        now: Time,
        token: u64,
    ) -> u64 {
        let due = self.reading_time(now).after(after);
        let armed = ArmedTimer { due, type_index, subject, token };
        match self.queues.iter_mut().find(|queue| queue.after == after) {
            Some(queue) => queue.armed.push_back(armed),
            None => self.queues.push(TimerQueue { after, armed: VecDeque::from([armed]) }),
        }
        token
    }

    /// Returns the time at which the first timer fires, assuming that responses can be read until
    /// then.
    pub(crate) fn next(&self) -> Option<Time> {
        match self.paused_since {
            Some(_) => None,
            None => self.front().map(|armed| armed.due.after(self.paused)),
        }
    }

    /// Returns the timer that fires first; among simultaneous ones the one that was armed first.
    pub(crate) fn front(&self) -> Option<&ArmedTimer> {
        self.fronts().map(|(_, front)| front).min_by_key(|armed| armed.order())
    }

    pub(crate) fn pop(&mut self) -> Option<ArmedTimer> {
        let (at, _) = self.fronts().min_by_key(|(_, armed)| armed.order())?;
        let queue = self.queues.get_mut(at)?;
        let first = queue.armed.pop_front();
        crate::room::shrink_if_empty(&mut queue.armed);
        if queue.armed.is_empty() {
            #[expect(clippy::disallowed_methods, reason = "a queue was found at `at`")]
            self.queues.swap_remove(at);
        }
        first
    }

    fn fronts(&self) -> impl Iterator<Item = (usize, &ArmedTimer)> {
        let fronts = self.queues.iter().enumerate();
        fronts.filter_map(|(at, queue)| Some((at, queue.armed.front()?)))
    }

    /// Removes and returns the timers that match, in order of expiry.
    pub(crate) fn take_matching(
        &mut self,
        is_one: impl Fn(&ArmedTimer) -> bool,
    ) -> Vec<ArmedTimer> {
        let all = self.queues.iter().flat_map(|queue| &queue.armed);
        let mut taken: Vec<_> = all.copied().filter(&is_one).collect();
        taken.sort_by_key(ArmedTimer::order);
        self.queues.retain_mut(|queue| {
            queue.armed.retain(|armed| !is_one(armed));
            crate::room::shrink_if_empty(&mut queue.armed);
            !queue.armed.is_empty()
        });
        taken
    }

    /// Removes and returns all timers, in order of expiry.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = ArmedTimer> {
        let all = core::mem::take(&mut self.queues).into_iter().flat_map(|queue| queue.armed);
        let mut taken: Vec<_> = all.collect();
        taken.sort_by_key(ArmedTimer::order);
        taken.into_iter()
    }

    /// Returns the time on the queues' own clock, which stops during pauses.
    fn reading_time(&self, now: Time) -> Time {
        let until = self.paused_since.unwrap_or(now).since(Time::ZERO);
        Time::ZERO.after(until.saturating_sub(self.paused))
    }

    /// Pauses all timers.
    pub(crate) fn pause(&mut self, now: Time) {
        self.paused_since.get_or_insert(now);
    }

    /// Resumes all timers.
    pub(crate) fn resume(&mut self, now: Time) {
        if let Some(since) = self.paused_since.take() {
            self.paused += now.since(since);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::client::subscription::does_not_exist_timers::*;

    fn seconds(n: u64) -> Time {
        Time::from_nanos(n * 1_000_000_000)
    }

    #[test]
    fn pause_delays_timers_by_its_length() {
        let mut timers = DoesNotExistTimers::default();
        let after = Duration::from_secs(15);
        timers.arm(0, TimerSubject::Collection, after, seconds(1), 1);
        assert_eq!(timers.next(), Some(seconds(16)));
        timers.pause(seconds(5));
        timers.pause(seconds(6));
        assert_eq!(timers.next(), None, "nothing fires while reading is held back");
        timers.arm(0, TimerSubject::Collection, after, seconds(7), 2);
        timers.resume(seconds(9));
        assert_eq!(timers.next(), Some(seconds(20)));
        timers.pop();
        assert_eq!(
            timers.next(),
            Some(seconds(24)),
            "armed while paused: fifteen seconds of reading"
        );
    }

    #[test]
    fn timers_fire_by_deadline_whatever_their_duration() {
        let mut timers = DoesNotExistTimers::default();
        for (type_index, after, token) in [(2, 9, 1), (0, 5, 2), (2, 9, 3), (1, 9, 4), (0, 5, 5)] {
            let after = Duration::from_secs(after);
            timers.arm(type_index, TimerSubject::Collection, after, seconds(token), token);
        }
        let taken = timers.take_matching(|armed| armed.type_index == 1);
        assert_eq!(taken.iter().map(|armed| armed.token).collect::<Vec<_>>(), [4]);
        let popped = core::iter::from_fn(|| timers.pop()).map(|armed| armed.token);
        assert_eq!(popped.collect::<Vec<_>>(), [2, 1, 5, 3], "at 7, 10, 10 and 12");
    }
}
