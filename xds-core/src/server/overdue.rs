//! Clients that do not answer (M65): each response to be answered has an alarm until it is.

use super::{
    Server,
    alarms::Alarm,
    config::AnswerOverdue,
    event::{CloseReason, Observation},
};
use crate::{slab::Slot, time::Time};

impl Server {
    /// A response was rendered.
    pub(super) fn await_answer(&mut self, session: Slot) {
        if let Some((at, alarm)) = self.answer_alarm(session) {
            self.alarms.set(at, alarm);
        }
    }

    /// It was answered, or never will be.
    pub(super) fn stop_awaiting(&mut self, alarm: Option<(Time, Alarm)>) {
        if let Some((at, alarm)) = alarm {
            self.alarms.cancel(at, alarm);
        }
    }

    /// Until when the session's response should be answered, if it has one on its way.
    pub(super) fn answer_alarm(&self, session: Slot) -> Option<(Time, Alarm)> {
        let after = self.config.answer_overdue.after()?;
        let sent = self.subscriptions.sessions.at(session)?.awaits_since()?;
        let key = self.subscriptions.sessions.key(session)?;
        Some((sent.after(after), Alarm::AnswerOverdue(key)))
    }

    pub(super) fn answer_is_overdue(&mut self, session: Slot) {
        let policy = self.config.answer_overdue;
        let Some(after) = policy.after() else { return };
        let subscriptions = &self.subscriptions;
        let Some(session) = subscriptions.sessions.at(session) else { return };
        let Some(type_url) = subscriptions.store.arena(session.arena).map(|it| &it.type_url) else {
            return;
        };
        let (stream, Some(nonce)) = (session.stream, session.awaited()) else { return };
        self.out.observe(Observation::AnswerOverdue {
            stream,
            type_url: type_url.clone(),
            nonce: nonce.clone(),
            after,
        });
        if let AnswerOverdue::Close(_) = policy {
            let reason = CloseReason::AnswerOverdue { type_url: type_url.clone(), nonce, after };
            self.close(stream, reason);
        }
    }
}
