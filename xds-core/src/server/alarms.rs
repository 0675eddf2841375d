//! What the server has to do at a certain time: one list, in the order of time.

use alloc::collections::BTreeSet;

use crate::{
    id::StreamId,
    slab::{Key, Slot},
    time::{Deadline, Time, Timer},
};

/// All alarms. Whoever sets one knows its time, and [cancels](Self::cancel) it when there is nothing to
/// wait for any more: there are never more alarms than things that are waited for.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    waiting: BTreeSet<(Time, Alarm)>,
    /// The first of them.
    next: Option<Deadline>,
}

/// What is done when the time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Alarm {
    /// The newest response of the session should have been answered by now (M65).
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
    /// A name that the session asked for has had its time to come into being (M127).
    Absence(Key),
}

impl Alarms {
    pub(crate) fn set(&mut self, at: Time, alarm: Alarm) {
        self.waiting.insert((at, alarm));
        self.note_next();
    }

    /// Harmless if it has gone off, or was never set.
    pub(crate) fn cancel(&mut self, at: Time, alarm: Alarm) {
        self.waiting.remove(&(at, alarm));
        self.note_next();
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
        let &(_, alarm) = self.waiting.first().filter(|(at, _)| *at <= now)?;
        self.waiting.pop_first();
        self.note_next();
        Some(alarm)
    }

    fn note_next(&mut self) {
        self.next = self.waiting.first().map(|&(at, alarm)| Deadline { at, why: alarm.timer() });
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
            Self::Held(_) => Timer::Held,
            Self::Absence(_) => Timer::Absence,
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
}
