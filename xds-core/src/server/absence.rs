//! Names that do not exist and may come a little later (M127): a session that waits for some has an alarm
//! for the first of them.

use super::{Server, alarms::Alarm};
use crate::{slab::Slot, time::Time};

impl Server {
    /// When the session is to be told of the first name that it waits for.
    pub(super) fn grace_alarm(&self, session: Slot) -> Option<(Time, Alarm)> {
        let until = self.subscriptions.sessions.at(session)?.grace_ends()?;
        Some((until, Alarm::Absence(self.subscriptions.sessions.key(session)?)))
    }

    pub(super) fn grace_is_over(&mut self, session: Slot) {
        let now = self.clock.now();
        if let Some(mut turn) = self.subscriptions.turn(session) {
            turn.end_graces(now);
        }
        self.alarms.replace(None, self.grace_alarm(session));
        self.announce(session);
    }
}
