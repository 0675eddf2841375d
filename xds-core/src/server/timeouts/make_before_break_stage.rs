//! Time limit for changes and requested resources that make before break holds back.
// M148

use crate::{
    id::StreamId,
    server::{Server, config::StageTimeoutAction, event::Observation, queue::timer_queue::Alarm},
    text::TypeUrl,
    types,
    zoo::{self, Bug},
};

fn type_of(rank: usize) -> TypeUrl {
    TypeUrl::from(types::by_rank(rank).unwrap_or_default())
}

impl Server {
    /// Handles a change that has been held back for the time limit.
    pub(crate) fn stage_timed_out(&mut self, id: StreamId) {
        if zoo::is(Bug::BlockNeverReleased) {
            return;
        }
        let Some(policy) = self.config.ordering.make_before_break() else { return };
        let Some(stream) = self.streams.get_mut(id.0) else { return };
        let Some(state) = stream.order.make_before_break() else { return };
        let Some((blocked, _)) = state.held_since.change.as_deref().cloned() else { return };
        let waits_for_request = blocked.waits_for_request();
        self.stats.stage_timeouts += 1;
        self.out.observe(Observation::Blocked {
            stream: id,
            type_url: type_of(usize::from(blocked.rank)),
            change: blocked.change,
            waits_for: type_of(blocked.waits_for),
            reason: blocked.reason.clone(),
            after: policy.stage_timeout,
        });
        if waits_for_request {
            state.stop_expecting(&blocked.reason, &stream.sessions, &self.subscriptions);
        }
        if policy.on_stage_timeout == StageTimeoutAction::Continue {
            state.waive(self.subscriptions.store.clock());
        }
        if waits_for_request || policy.on_stage_timeout == StageTimeoutAction::Continue {
            self.cancel_stage_timeout(id);
            self.send_released(id);
        }
    }

    /// Releases requested resources that have been held back for the time limit.
    pub(crate) fn request_timed_out(&mut self, id: StreamId) {
        if zoo::is(Bug::BlockNeverReleased) {
            return;
        }
        let Some(policy) = self.config.ordering.make_before_break() else { return };
        let Some(stream) = self.streams.get_mut(id.0) else { return };
        let Some(state) = stream.order.make_before_break() else { return };
        let after = policy.stage_timeout;
        for rank in state.held_since.requests.expire(self.clock.now(), after) {
            let type_url = type_of(rank);
            self.out.observe(Observation::SentOutOfOrder { stream: id, type_url, after });
        }
        let next = state.held_since.requests.first_overdue(after);
        self.alarms.set(Alarm::RequestTimeout(id), next);
        self.send_released(id);
    }

    /// Cancels the alarm of the held-back change of a stream that ends or changes its view.
    pub(crate) fn cancel_stage_timeout(&mut self, id: StreamId) {
        self.alarms.cancel(Alarm::StageTimeout(id));
        let stream = self.streams.get_mut(id.0);
        if let Some(state) = stream.and_then(|stream| stream.order.make_before_break()) {
            let change = state.held_since.change.take();
            self.stats.note_blocked(change.is_some(), false);
        }
    }

    fn send_released(&mut self, id: StreamId) {
        if self.update_decision(id) {
            self.notify_writable(id);
        }
    }
}
