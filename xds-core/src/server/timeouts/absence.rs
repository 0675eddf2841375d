//! Grace time of requested names that do not exist, and delay of an empty first answer. A session
//! that waits has an alarm for the earliest of these times.
// M127, M39

use crate::{
    server::{Server, queue::timer_queue::Alarm, session::Session},
    slab::Slot,
    time::Time,
};

impl Server {
    /// Earliest grace time of the session, as an alarm.
    pub(crate) fn absence_alarm(&self, session: Slot) -> Option<(Time, Alarm)> {
        let until = self.subscriptions.sessions.at(session)?.next_grace_period_end()?;
        Some((until, Alarm::Absence(self.subscriptions.sessions.key(session)?)))
    }

    /// Starts the delay of the first answer of a session that has lost due resources, perhaps all
    /// of them.
    // M39
    pub(crate) fn hold_first_response(&mut self, session: Slot) {
        let state = self.subscriptions.sessions.at(session);
        if !state.is_some_and(Session::awaits_first_response) {
            return;
        }
        let (before, now) = (self.absence_alarm(session), self.clock.now());
        if let Some(mut context) = self.subscriptions.context(session) {
            context.hold_first_response(now);
        }
        self.alarms.replace(before, self.absence_alarm(session));
    }

    pub(crate) fn absence_delay_ended(&mut self, session: Slot) {
        let now = self.clock.now();
        if let Some(mut context) = self.subscriptions.context(session) {
            context.end_grace_periods(now);
        }
        self.alarms.replace(None, self.absence_alarm(session));
        self.notify_if_due(session);
    }
}
