//! Time limit for changes that make before break holds back.
// M148

use alloc::boxed::Box;

use crate::{
    id::StreamId,
    server::{
        Server,
        config::StageTimeoutAction,
        event::{BlockedBy, Observation},
        make_before_break::Blocked,
        queue::timer_queue::Alarm,
        stream::{
            held_since::RequestTimes,
            push_order::{Order, StepByStep},
        },
    },
    text::TypeUrl,
    time::Time,
    types,
    zoo::{self, Bug},
};

/// Whether the change waits for a request that the client has not sent and may never send.
fn is_unrequested(reason: &BlockedBy) -> bool {
    matches!(reason, BlockedBy::NotRequested(_) | BlockedBy::NotRequestedAgain)
}

impl Server {
    /// Whether something may be sent on a stream under make before break. Updates the alarms of
    /// changes that are held back.
    pub(crate) fn update_decision(&mut self, id: StreamId) -> bool {
        let Some(policy) = self.config.ordering.make_before_break() else { return false };
        // The list of a busy stream is applied in part only.
        let stream = self.streams.get_mut(id.0).filter(|stream| !stream.is_busy());
        let Some(stream) = stream else { return false };
        let Order::MakeBeforeBreak(state) = &mut stream.order else { return false };
        let StepByStep { make_before_break, held_since: held } = &mut **state;
        self.subscriptions.look_up_newest_due(&stream.sessions);
        let requests = held.requests.states();
        let decision =
            make_before_break.decide(&stream.sessions, &requests, &self.subscriptions, policy);
        let alarm_of = |since: Time| (since.after(policy.stage_timeout), Alarm::StageTimeout(id));
        let overdue_of = |requests: &RequestTimes| {
            Some((requests.first_overdue(policy.stage_timeout)?, Alarm::RequestTimeout(id)))
        };
        let overdue = overdue_of(&held.requests);
        held.requests.note(&decision.pending_requests, self.clock.now());
        self.alarms.replace(overdue, overdue_of(&held.requests));
        let before = held.change.take();
        self.stats.note_blocked(before.is_some(), decision.blocked.is_some());
        let now = self.clock.now();
        // A wait for a request that may never come starts only after the wait for an answer.
        let waits_anew = |before: &Blocked, blocked: &Blocked, since: Time| {
            let is_request = is_unrequested(&blocked.reason) && !is_unrequested(&before.reason);
            is_request && since.after(policy.stage_timeout) <= now
        };
        match (before.map(|it| *it), decision.blocked) {
            (Some((before, since)), Some(blocked))
                if before.is_same(&blocked) && !waits_anew(&before, &blocked, since) =>
            {
                held.change = Some(Box::new((blocked, since)));
            }
            (before, blocked) => {
                if let Some((_, since)) = before {
                    let (at, alarm) = alarm_of(since);
                    self.alarms.cancel(at, alarm);
                }
                if let Some(blocked) = blocked {
                    let (at, alarm) = alarm_of(now);
                    self.alarms.set(at, alarm);
                    held.change = Some(Box::new((blocked, now)));
                }
            }
        }
        decision.next.is_some()
    }

    /// Handles a change that has been held back for the time limit.
    pub(crate) fn stage_timed_out(&mut self, id: StreamId) {
        if zoo::is(Bug::BlockNeverReleased) {
            return;
        }
        let Some(policy) = self.config.ordering.make_before_break() else { return };
        let Some(stream) = self.streams.get_mut(id.0) else { return };
        let Order::MakeBeforeBreak(state) = &mut stream.order else { return };
        let StepByStep { make_before_break, held_since: held } = &mut **state;
        let Some((blocked, _)) = held.change.as_deref() else { return };
        self.stats.stage_timeouts += 1;
        let type_of = |rank| TypeUrl::from(types::by_rank(rank).unwrap_or_default());
        self.out.observe(Observation::Blocked {
            stream: id,
            type_url: type_of(usize::from(blocked.rank)),
            change: blocked.change,
            waits_for: type_of(blocked.waits_for),
            reason: blocked.reason.clone(),
            after: policy.stage_timeout,
        });
        let reason = blocked.reason.clone();
        if is_unrequested(&reason) {
            make_before_break.stop_expecting(&reason, &stream.sessions, &self.subscriptions);
        }
        if policy.on_stage_timeout == StageTimeoutAction::Continue {
            make_before_break.waive(self.subscriptions.store.clock());
        }
        if is_unrequested(&reason) || policy.on_stage_timeout == StageTimeoutAction::Continue {
            held.change = None;
            self.stats.note_blocked(true, false);
            if self.update_decision(id) {
                self.notify_writable(id);
            }
        }
    }

    /// Releases requested resources that have been held back for the time limit.
    pub(crate) fn request_timed_out(&mut self, id: StreamId) {
        if zoo::is(Bug::BlockNeverReleased) {
            return;
        }
        let Some(policy) = self.config.ordering.make_before_break() else { return };
        let Some(stream) = self.streams.get_mut(id.0) else { return };
        let Some(held) = stream.order.held_since() else { return };
        let after = policy.stage_timeout;
        for rank in held.requests.expire(self.clock.now(), after) {
            let type_url = TypeUrl::from(types::by_rank(rank).unwrap_or_default());
            self.out.observe(Observation::SentOutOfOrder { stream: id, type_url, after });
        }
        let next = held.requests.first_overdue(after).map(|at| (at, Alarm::RequestTimeout(id)));
        self.alarms.replace(None, next);
        if self.update_decision(id) {
            self.notify_writable(id);
        }
    }

    /// Cancels the alarm of the unanswered requests of a stream that ends.
    pub(crate) fn cancel_request_timeout(&mut self, id: StreamId) {
        let Some(policy) = self.config.ordering.make_before_break() else { return };
        let held = self.streams.get_mut(id.0).and_then(|stream| stream.order.held_since());
        if let Some(at) = held.and_then(|held| held.requests.first_overdue(policy.stage_timeout)) {
            self.alarms.cancel(at, Alarm::RequestTimeout(id));
        }
    }

    /// Cancels the alarm of the held-back change of a stream that ends or changes its view.
    pub(crate) fn cancel_stage_timeout(&mut self, id: StreamId) {
        let Some(policy) = self.config.ordering.make_before_break() else { return };
        let held = self.streams.get_mut(id.0).and_then(|stream| stream.order.held_since());
        if let Some((_, since)) = held.and_then(|held| held.change.take()).map(|it| *it) {
            self.stats.note_blocked(true, false);
            self.alarms.cancel(since.after(policy.stage_timeout), Alarm::StageTimeout(id));
        }
    }
}
