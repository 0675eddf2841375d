//! Timers of all streams, soonest first.

use alloc::{collections::BTreeSet, vec::Vec};
use core::time::Duration;

use crate::{
    id::StreamId,
    slab::{Key, Slab, Slot},
    time::{Deadline, Time, Timer},
};

/// All alarms. Whoever sets one knows its time, and [cancels](Self::cancel) it when there is nothing to
/// wait for any more: there are never more alarms than things that are waited for.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    waiting: BTreeSet<(Time, Alarm)>,
    /// Those of responses, of which there are many.
    answers: Vec<Answers>,
    /// The first of all.
    next: Option<Deadline>,
}

/// Responses to be answered within a certain time, with their sessions. The first to be sent is the first
/// to be overdue, so that they need no sorting.
#[derive(Debug)]
struct Answers {
    within: Duration,
    waiting: Slab<(Time, Key)>,
}

/// What is done when the time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Alarm {
    /// The oldest response of the session that is not answered should have been by now (M65).
    AnswerOverdue(Key),
    /// The stream is to end (M14, M239).
    StreamEnd(StreamId),
    /// A request of the stream would be welcome again (M242).
    ReadAgain(StreamId),
    /// Rejections of clients that have gone are forgotten.
    ForgetRejections,
    /// Resources of the arena are to be renewed (M161). Who takes an arena's slot away cancels it.
    Heartbeat(Slot),
    /// Changes were held back for long enough (M225).
    Debounced,
    /// Nobody has seen the view for long enough (M221).
    ViewIdle(Key),
    /// Something of the stream has been held back for long enough (M148).
    Held(StreamId),
    /// What the client of the stream asked for has been held back for long enough.
    Unanswered(StreamId),
    /// A name that the session asked for has had its time to come into being (M127).
    Absence(Key),
    /// Deletions have been remembered for long enough (M231).
    Horizon,
}

impl Alarms {
    pub(crate) fn set(&mut self, at: Time, alarm: Alarm) {
        self.waiting.insert((at, alarm));
        self.note_set(at);
    }

    /// Sets the alarm of a response that is sent now. Says where it is, for [`stop_awaiting`]; that is no
    /// longer so once it has gone off.
    ///
    /// [`stop_awaiting`]: Self::stop_awaiting
    pub(crate) fn await_answer(&mut self, session: Key, now: Time, within: Duration) -> Slot {
        let at = now.after(within);
        let Some(answers) = self.answers.iter_mut().find(|it| it.within == within) else {
            self.answers.push(Answers { within, waiting: Slab::default() });
            return self.await_answer(session, now, within);
        };
        let key = answers.waiting.push_back((at, session));
        self.note_set(at);
        key.map_or(Slot::NONE, Key::slot)
    }

    /// The response was answered, or will not be.
    pub(crate) fn stop_awaiting(&mut self, slot: Slot, within: Duration) {
        let Some(answers) = self.answers.iter_mut().find(|it| it.within == within) else { return };
        let removed = answers.remove(slot);
        self.note_cancelled(removed);
    }

    /// Harmless if it has gone off, or was never set.
    pub(crate) fn cancel(&mut self, at: Time, alarm: Alarm) {
        self.waiting.remove(&(at, alarm));
        self.note_cancelled(Some(at));
    }

    /// Replaces an alarm, if it is another one.
    pub(crate) fn replace(&mut self, before: Option<(Time, Alarm)>, after: Option<(Time, Alarm)>) {
        if before == after {
            return;
        }
        if let Some((at, alarm)) = before {
            self.cancel(at, alarm);
        }
        if let Some((at, alarm)) = after {
            self.set(at, alarm);
        }
    }

    /// The next deadline. O(1).
    pub(crate) fn next(&self) -> Option<Deadline> {
        self.next
    }

    /// The first alarm that is due.
    pub(crate) fn take_due(&mut self, now: Time) -> Option<Alarm> {
        let first = self.first().filter(|(at, _)| *at <= now)?;
        if !self.waiting.remove(&first)
            && let Some(answers) = self.answers.iter_mut().find(|it| it.first() == Some(first))
        {
            answers.remove(answers.waiting.first());
        }
        self.note_next();
        Some(first.1)
    }

    fn first(&self) -> Option<(Time, Alarm)> {
        let answers = self.answers.iter().filter_map(Answers::first);
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

impl Answers {
    fn first(&self) -> Option<(Time, Alarm)> {
        let &(at, session) = self.waiting.at(self.waiting.first())?;
        Some((at, Alarm::AnswerOverdue(session)))
    }

    /// Removes an alarm, and says when it would have gone off.
    fn remove(&mut self, slot: Slot) -> Option<Time> {
        let removed = self.waiting.remove(slot);
        if self.waiting.len() == 0 {
            // What many took at once is not kept while they are idle.
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
            Self::ReadAgain(_) => Timer::ReadAgain,
            Self::ForgetRejections => Timer::ForgetRejections,
            Self::Heartbeat(_) => Timer::Heartbeat,
            Self::Debounced => Timer::Debounced,
            Self::ViewIdle(_) => Timer::ViewIdle,
            Self::Held(_) | Self::Unanswered(_) => Timer::Held,
            Self::Absence(_) => Timer::Absence,
            Self::Horizon => Timer::ForgetDeletions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::Slab;

    #[test]
    fn alarms_go_off_in_order_and_only_when_due() {
        let mut slab = Slab::default();
        let keys: [Key; 3] = core::array::from_fn(|_| slab.push_back(()).unwrap());
        let [one, two, three] = keys.map(Alarm::AnswerOverdue);
        let at = Time::from_nanos;
        let mut alarms = Alarms::default();
        alarms.set(at(9), one);
        alarms.set(at(5), two);
        alarms.set(at(1), three);
        assert_eq!(alarms.next().map(|next| next.at), Some(at(1)));
        alarms.cancel(at(1), three);
        assert_eq!(alarms.next().map(|next| next.at), Some(at(5)));
        assert_eq!(alarms.take_due(at(4)), None);
        assert_eq!(alarms.take_due(at(8)), Some(two));
        assert_eq!(alarms.take_due(at(8)), None);
        assert_eq!(alarms.take_due(at(9)), Some(one));
        assert_eq!(alarms.next(), None);
    }

    #[test]
    fn answers_are_overdue_in_order_however_long_each_may_take() {
        let mut slab = Slab::default();
        let [one, two, three, four] = core::array::from_fn(|_| slab.push_back(()).unwrap());
        let at = Time::from_nanos;
        let [long, short] = [9, 2].map(Duration::from_nanos);
        let mut alarms = Alarms::default();
        let answered = alarms.await_answer(one, at(0), long);
        alarms.await_answer(two, at(1), long);
        alarms.await_answer(three, at(4), short);
        alarms.set(at(8), Alarm::AnswerOverdue(four));
        assert_eq!(alarms.next().map(|next| next.at), Some(at(6)));
        alarms.stop_awaiting(answered, long);
        let due = core::iter::from_fn(|| alarms.take_due(at(99)));
        assert!(due.eq([three, four, two].map(Alarm::AnswerOverdue)));
        assert_eq!(alarms.next(), None);
    }
}
