//! Time limit for answers to responses. Each response has an alarm until it is answered.
// M65

use crate::{
    server::{
        Server,
        config::AnswerOverdue,
        event::{CloseReason, Observation},
        session::context::SessionContext,
    },
    slab::Slot,
};

impl Server {
    /// Sets the alarm of the response that was just rendered.
    pub(crate) fn await_answer(&mut self, slot: Slot) {
        let key = self.subscriptions.sessions.key(slot);
        if let (Some(key), Some(context)) = (key, self.subscriptions.context(slot))
            && let Some(within) = context.arena.config.answer_overdue.after()
        {
            let timer = self.alarms.await_answer(key, self.clock.now(), within);
            context.session.set_answer_timer(timer);
        }
    }

    pub(crate) fn answer_is_overdue(&mut self, slot: Slot) {
        let Some(SessionContext { session, arena, .. }) = self.subscriptions.context(slot) else {
            return;
        };
        let (policy, type_url) = (arena.config.answer_overdue, arena.type_url.clone());
        let Some(after) = policy.after() else { return };
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
}
