//! Queue of all timers of a server, earliest first.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use core::time::Duration;

use crate::{
    id::StreamId,
    slab::{Key, Slab, Slot},
    time::{Deadline, Time, Timer},
};

/// All alarms. The code that sets one [cancels](Self::cancel) it when it is no longer needed, so
/// their number is bounded by the state that waits for them.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    waiting: BTreeSet<(Time, Alarm)>,
    /// Times of the alarms in `waiting`.
    times: BTreeMap<Alarm, Time>,
    /// Alarms of unanswered responses, which are numerous.
    answers: Vec<AnswerAlarms>,
    /// Earliest deadline of all alarms.
    next: Option<Deadline>,
}

/// Alarms of responses that share one time limit, with their sessions. They become overdue in the
/// order in which they were sent, so no sorting is needed.
#[derive(Debug)]
struct AnswerAlarms {
    within: Duration,
    waiting: Slab<(Time, Key)>,
}

/// Action of an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Alarm {
    /// The oldest unanswered response of the session is overdue.
    // M65
    AnswerOverdue(Key),
    /// The planned end of the stream is due.
    // M14, M239
    StreamEnd(StreamId),
    /// The stream may be read again.
    // M242
    ResumeReading(StreamId),
    /// Rejections of disconnected clients expire.
    ExpireRejections,
    /// Resources of the arena are to be renewed. Removing the arena cancels it.
    // M161
    Heartbeat(Slot),
    /// The burst of held-back changes is over.
    // M225
    BurstEnd,
    /// The view has had no client for the configured time.
    // M221
    ViewIdle(Key),
    /// Make before break has held back a change of the stream for the configured time.
    // M148
    StageTimeout(StreamId),
    /// Make before break has held back a requested resource of the stream for the configured time.
    RequestTimeout(StreamId),
    /// The grace time of a name that the session requested is over.
    // M127
    Absence(Key),
    /// A request of the stream has waited for the source for the configured time.
    SourceWait(StreamId),
    /// The source has been unreachable for the configured time.
    // M259
    SourceStale,
    /// The retention time of deletions is over.
    // M231
    DiscardDeletions,
}

impl Alarms {
    /// Sets an alarm, which replaces an earlier time of it. Without a time, the alarm is cancelled.
    pub(crate) fn set(&mut self, alarm: Alarm, at: impl Into<Option<Time>>) {
        let at = at.into();
        let before = match at {
            Some(at) => self.times.insert(alarm, at),
            None => self.times.remove(&alarm),
        };
        if before == at {
            return;
        }
        if let Some(before) = before {
            self.waiting.remove(&(before, alarm));
            self.note_cancelled(Some(before));
        }
        if let Some(at) = at {
            self.waiting.insert((at, alarm));
            self.note_set(at);
        }
    }

    pub(crate) fn cancel(&mut self, alarm: Alarm) {
        self.set(alarm, None);
    }

    pub(crate) fn is_set(&self, alarm: Alarm) -> bool {
        self.times.contains_key(&alarm)
    }

    /// Sets the alarm of a response that is being sent. Returns its place for [`stop_awaiting`],
    /// which is valid until the alarm is taken.
    ///
    /// [`stop_awaiting`]: Self::stop_awaiting
    pub(crate) fn await_answer(&mut self, session: Key, now: Time, within: Duration) -> Slot {
        let at = now.after(within);
        let Some(answers) = self.answers.iter_mut().find(|it| it.within == within) else {
            self.answers.push(AnswerAlarms { within, waiting: Slab::default() });
            return self.await_answer(session, now, within);
        };
        let key = answers.waiting.push_back((at, session));
        self.note_set(at);
        key.map_or(Slot::NONE, Key::slot)
    }

    /// Cancels the alarm of a response that was answered, or will not be.
    pub(crate) fn stop_awaiting(&mut self, slot: Slot, within: Duration) {
        let Some(answers) = self.answers.iter_mut().find(|it| it.within == within) else { return };
        let removed = answers.remove(slot);
        self.note_cancelled(removed);
    }

    /// Next deadline. O(1).
    pub(crate) fn next(&self) -> Option<Deadline> {
        self.next
    }

    /// Removes and returns the first alarm that is due.
    pub(crate) fn take_due(&mut self, now: Time) -> Option<Alarm> {
        let first = self.first().filter(|(at, _)| *at <= now)?;
        if self.waiting.remove(&first) {
            self.times.remove(&first.1);
        } else if let Some(answers) = self.answers.iter_mut().find(|it| it.first() == Some(first)) {
            answers.remove(answers.waiting.first());
        }
        self.note_next();
        Some(first.1)
    }

    fn first(&self) -> Option<(Time, Alarm)> {
        let answers = self.answers.iter().filter_map(AnswerAlarms::first);
        answers.chain(self.waiting.first().copied()).min()
    }

    fn note_set(&mut self, at: Time) {
        if self.next.is_none_or(|next| at < next.at) {
            self.note_next();
        }
    }

    fn note_cancelled(&mut self, at: Option<Time>) {
        if self.next.map(|next| next.at) == at {
            self.note_next();
        }
    }

    fn note_next(&mut self) {
        self.next = self.first().map(|(at, alarm)| Deadline { at, why: alarm.timer() });
    }
}

impl AnswerAlarms {
    fn first(&self) -> Option<(Time, Alarm)> {
        let &(at, session) = self.waiting.at(self.waiting.first())?;
        Some((at, Alarm::AnswerOverdue(session)))
    }

    /// Removes an alarm and returns its time.
    fn remove(&mut self, slot: Slot) -> Option<Time> {
        let removed = self.waiting.remove(slot);
        if self.waiting.len() == 0 {
            // Frees the memory of a peak while no alarm is set.
            self.waiting = Slab::default();
        }
        removed.map(|(at, _)| at)
    }
}

impl Alarm {
    fn timer(self) -> Timer {
        match self {
            Self::AnswerOverdue(_) => Timer::AnswerOverdue,
            Self::StreamEnd(_) => Timer::StreamEnd,
            Self::ResumeReading(_) => Timer::ResumeReading,
            Self::ExpireRejections => Timer::ExpireRejections,
            Self::Heartbeat(_) => Timer::Heartbeat,
            Self::BurstEnd => Timer::Debounce,
            Self::ViewIdle(_) => Timer::ViewIdle,
            Self::StageTimeout(_) | Self::RequestTimeout(_) => Timer::StageTimeout,
            Self::Absence(_) => Timer::Absence,
            Self::SourceWait(_) => Timer::SourceWait,
            Self::SourceStale => Timer::SourceStale,
            Self::DiscardDeletions => Timer::DiscardDeletions,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::server::queue::timer_queue::*;
    use crate::slab::Slab;

    #[test]
    fn alarms_fire_in_order_and_only_when_due() {
        let mut slab = Slab::default();
        let keys: [Key; 3] = core::array::from_fn(|_| slab.push_back(()).unwrap());
        let [one, two, three] = keys.map(Alarm::AnswerOverdue);
        let at = Time::from_nanos;
        let mut alarms = Alarms::default();
        alarms.set(one, at(3));
        alarms.set(one, at(9));
        alarms.set(two, at(5));
        alarms.set(three, at(1));
        assert_eq!(alarms.next().map(|next| next.at), Some(at(1)));
        alarms.cancel(three);
        assert_eq!(alarms.next().map(|next| next.at), Some(at(5)));
        assert_eq!(alarms.take_due(at(4)), None);
        assert_eq!(alarms.take_due(at(8)), Some(two));
        assert_eq!(alarms.take_due(at(8)), None);
        assert_eq!(alarms.take_due(at(9)), Some(one));
        assert_eq!(alarms.next(), None);
    }

    #[test]
    fn overdue_answers_fire_by_deadline_whatever_their_timeout() {
        let mut slab = Slab::default();
        let [one, two, three, four] = core::array::from_fn(|_| slab.push_back(()).unwrap());
        let at = Time::from_nanos;
        let [long, short] = [9, 2].map(Duration::from_nanos);
        let mut alarms = Alarms::default();
        let answered = alarms.await_answer(one, at(0), long);
        alarms.await_answer(two, at(1), long);
        alarms.await_answer(three, at(4), short);
        alarms.set(Alarm::AnswerOverdue(four), at(8));
        assert_eq!(alarms.next().map(|next| next.at), Some(at(6)));
        alarms.stop_awaiting(answered, long);
        let due = core::iter::from_fn(|| alarms.take_due(at(99)));
        assert!(due.eq([three, four, two].map(Alarm::AnswerOverdue)));
        assert_eq!(alarms.next(), None);
    }
}
