//! Clients that do not answer (M65): each response to be answered has an alarm until it is.

use super::{
    Server,
    alarms::Alarm,
    config::AnswerOverdue,
    event::{CloseReason, Observation},
    subscriptions::Subscriptions,
};
use crate::{slab::Slot, time::Time};

impl Server {
    /// Until when the session's oldest response should be answered, if it has one on its way.
    pub(super) fn answer_alarm(&self, session: Slot) -> Option<(Time, Alarm)> {
        let after = self.overdue_policy(session)?.after()?;
        let sent = self.subscriptions.sessions.at(session)?.awaits_since()?;
        let key = self.subscriptions.sessions.key(session)?;
        Some((sent.after(after), Alarm::AnswerOverdue(key)))
    }

    pub(super) fn answer_is_overdue(&mut self, slot: Slot) {
        let Some(policy) = self.overdue_policy(slot) else { return };
        let Some(after) = policy.after() else { return };
        let Subscriptions { sessions, store, .. } = &mut self.subscriptions;
        let Some(session) = sessions.at_mut(slot) else { return };
        let Some(type_url) = store.arena(session.arena).map(|it| it.type_url.clone()) else {
            return;
        };
        let (stream, Some(nonce)) = (session.stream, session.give_up_awaiting()) else { return };
        self.out.observe(Observation::AnswerOverdue {
            stream,
            type_url: type_url.clone(),
            nonce: nonce.clone(),
            after,
        });
        if let AnswerOverdue::Close(_) = policy {
            let reason = CloseReason::AnswerOverdue { type_url, nonce, after };
            return self.close(stream, reason);
        }
        self.alarms.replace(None, self.answer_alarm(slot));
        self.announce(slot);
    }

    fn overdue_policy(&self, session: Slot) -> Option<AnswerOverdue> {
        let arena = self.subscriptions.sessions.at(session)?.arena;
        Some(self.subscriptions.store.arena(arena)?.config.answer_overdue)
    }
}
