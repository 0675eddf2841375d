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
    pub(crate) fn grace_alarm(&self, session: Slot) -> Option<(Time, Alarm)> {
        let until = self.subscriptions.sessions.at(session)?.grace_ends()?;
        Some((until, Alarm::Absence(self.subscriptions.sessions.key(session)?)))
    }

    /// Starts the delay of the first answer of a session that has lost due resources, perhaps all
    /// of them.
    // M39
    pub(crate) fn hold_first_answer(&mut self, session: Slot) {
        let state = self.subscriptions.sessions.at(session);
        if !state.is_some_and(Session::lacks_first_answer) {
            return;
        }
        let (before, now) = (self.grace_alarm(session), self.clock.now());
        if let Some(mut turn) = self.subscriptions.turn(session) {
            turn.hold_first_answer(now);
        }
        self.alarms.replace(before, self.grace_alarm(session));
    }

    pub(crate) fn grace_is_over(&mut self, session: Slot) {
        let now = self.clock.now();
        if let Some(mut turn) = self.subscriptions.turn(session) {
            turn.end_graces(now);
        }
        self.alarms.replace(None, self.grace_alarm(session));
        self.announce(session);
    }
}
