//! Names that do not exist and may come a little later (M127, M39): a session that waits for some, or whose
//! first answer is held, has an alarm for the first of them.

use crate::{
    server::{Server, queue::timer_queue::Alarm, session::Session},
    slab::Slot,
    time::Time,
};

impl Server {
    /// When the session is to be told of the first name that it waits for.
    pub(crate) fn grace_alarm(&self, session: Slot) -> Option<(Time, Alarm)> {
        let until = self.subscriptions.sessions.at(session)?.grace_ends()?;
        Some((until, Alarm::Absence(self.subscriptions.sessions.key(session)?)))
    }

    /// A session has less to say than before, perhaps nothing: its first answer is held then (M39).
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
