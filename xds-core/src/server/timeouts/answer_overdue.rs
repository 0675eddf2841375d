//! Time limit for answers to responses. Each response has an alarm until it is answered.
// M65

use crate::{
    server::{
        Server,
        config::AnswerOverdue,
        event::{CloseReason, Observation},
        session::subscriptions::Subscriptions,
    },
    slab::Slot,
};

impl Server {
    /// Sets the alarm of the response that was just rendered.
    pub(crate) fn await_answer(&mut self, slot: Slot) {
        let Subscriptions { sessions, store, .. } = &mut self.subscriptions;
        let (Some(key), Some(session)) = (sessions.key(slot), sessions.at_mut(slot)) else {
            return;
        };
        let arena = store.arena(session.arena);
        if let Some(within) = arena.and_then(|arena| arena.config.answer_overdue.after()) {
            session.set_answer_timer(self.alarms.await_answer(key, self.clock.now(), within));
        }
    }

    pub(crate) fn answer_is_overdue(&mut self, slot: Slot) {
        let Some(policy) = self.overdue_policy(slot) else { return };
        let Some(after) = policy.after() else { return };
        let Subscriptions { sessions, store, .. } = &mut self.subscriptions;
        let Some(session) = sessions.at_mut(slot) else { return };
        let Some(type_url) = store.arena(session.arena).map(|it| it.type_url.clone()) else {
            return;
        };
        let (stream, Some(nonce)) = (session.stream, session.mark_overdue()) else { return };
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
        self.notify_if_due(slot);
    }

    fn overdue_policy(&self, session: Slot) -> Option<AnswerOverdue> {
        let arena = self.subscriptions.sessions.at(session)?.arena;
        Some(self.subscriptions.store.arena(arena)?.config.answer_overdue)
    }
}
