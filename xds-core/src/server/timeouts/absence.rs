//! Grace time of requested names that do not exist, and delay of an empty first answer. A session
//! that waits has an alarm for the earliest of these times.
// M127, M39

use crate::{
    server::{Server, queue::timer_queue::Alarm, session::Session},
    slab::Slot,
};

impl Server {
    /// Sets the alarm to the earliest grace time of the session.
    pub(crate) fn watch_absence(&mut self, session: Slot) {
        let sessions = &self.subscriptions.sessions;
        if let (Some(key), Some(state)) = (sessions.key(session), sessions.at(session)) {
            self.alarms.set(Alarm::Absence(key), state.next_grace_period_end());
        }
    }

    /// Starts the delay of the first answer of a session that has lost due resources, perhaps all
    /// of them.
    // M39
    pub(crate) fn hold_first_response(&mut self, session: Slot) {
        let state = self.subscriptions.sessions.at(session);
        if !state.is_some_and(Session::awaits_first_response) {
            return;
        }
        let now = self.clock.now();
        if let Some(mut context) = self.subscriptions.context(session) {
            context.hold_first_response(now);
        }
        self.watch_absence(session);
    }

    pub(crate) fn absence_delay_ended(&mut self, session: Slot) {
        let now = self.clock.now();
        if let Some(mut context) = self.subscriptions.context(session) {
            context.end_grace_periods(now);
        }
        self.watch_absence(session);
        self.notify_if_due(session);
    }
}
