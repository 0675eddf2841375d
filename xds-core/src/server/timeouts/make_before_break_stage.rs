//! Time limit for changes that make before break holds back.
// M148

use crate::{
    id::StreamId,
    server::{
        Server,
        config::OnStuck,
        event::{HeldBy, Observation},
        make_before_break::{Hold, Requests},
        queue::timer_queue::Alarm,
        stream::push_order::Order,
    },
    text::TypeUrl,
    time::Time,
    types,
    zoo::{self, Bug},
};

/// Whether the change waits for a request that the client has not sent and may never send.
fn is_unasked(why: &HeldBy) -> bool {
    matches!(why, HeldBy::NotAsked(_) | HeldBy::NotAskedAgain)
}

impl Server {
    /// Whether something may be sent on a stream under make before break. Updates the alarms of
    /// changes that are held back.
    pub(crate) fn look_at(&mut self, id: StreamId) -> bool {
        let Some(policy) = self.config.ordering.gated() else { return false };
        let Some(stream) = self.streams.get_mut(id.0) else { return false };
        let Order::Gated(gate) = &mut stream.order else { return false };
        self.subscriptions.look_up_newest_due(&stream.sessions);
        let outlook = gate.look(&stream.sessions, &self.subscriptions, policy);
        let alarm_of = |since: Time| (since.after(policy.stage_timeout), Alarm::Held(id));
        let overdue_of = |requests: &Requests| {
            Some((requests.first_overdue(policy.stage_timeout)?, Alarm::Unanswered(id)))
        };
        let overdue = overdue_of(&gate.requests);
        gate.requests.note(&outlook.asks, self.clock.now());
        self.alarms.replace(overdue, overdue_of(&gate.requests));
        let before = gate.held.take();
        self.stats.note_held(before.is_some(), outlook.hold.is_some());
        let now = self.clock.now();
        // A wait for a request that may never come starts only after the wait for an answer.
        let waits_anew = |before: &Hold, hold: &Hold, since: Time| {
            let is_request = is_unasked(&hold.why) && !is_unasked(&before.why);
            is_request && since.after(policy.stage_timeout) <= now
        };
        match (before, outlook.hold) {
            (Some((before, since)), Some(hold))
                if before.is_same(&hold) && !waits_anew(&before, &hold, since) =>
            {
                gate.held = Some((hold, since));
            }
            (before, hold) => {
                if let Some((_, since)) = before {
                    let (at, alarm) = alarm_of(since);
                    self.alarms.cancel(at, alarm);
                }
                if let Some(hold) = hold {
                    let (at, alarm) = alarm_of(now);
                    self.alarms.set(at, alarm);
                    gate.held = Some((hold, now));
                }
            }
        }
        outlook.next.is_some()
    }

    /// Handles a change that has been held back for the time limit.
    pub(crate) fn held_too_long(&mut self, id: StreamId) {
        if zoo::is(Bug::HoldNeverReleased) {
            return;
        }
        let Some(policy) = self.config.ordering.gated() else { return };
        let Some(stream) = self.streams.get_mut(id.0) else { return };
        let Order::Gated(gate) = &mut stream.order else { return };
        let Some((hold, _)) = &gate.held else { return };
        self.stats.overdue_holds += 1;
        let type_of = |rank| TypeUrl::from(types::by_rank(rank).unwrap_or_default());
        self.out.observe(Observation::Held {
            stream: id,
            type_url: type_of(usize::from(hold.rank)),
            what: hold.what,
            waits_for: type_of(hold.waits_for),
            why: hold.why.clone(),
            after: policy.stage_timeout,
        });
        let why = hold.why.clone();
        if is_unasked(&why) {
            gate.stop_expecting(&why, &stream.sessions, &self.subscriptions);
        }
        if policy.on_stuck == OnStuck::Continue {
            gate.waive(self.subscriptions.store.clock());
        }
        if is_unasked(&why) || policy.on_stuck == OnStuck::Continue {
            gate.held = None;
            self.stats.note_held(true, false);
            if self.look_at(id) {
                self.tell_writable(id);
            }
        }
    }

    /// Releases requested resources that have been held back for the time limit.
    pub(crate) fn asked_too_long(&mut self, id: StreamId) {
        if zoo::is(Bug::HoldNeverReleased) {
            return;
        }
        let Some(policy) = self.config.ordering.gated() else { return };
        let Some(stream) = self.streams.get_mut(id.0) else { return };
        let Order::Gated(gate) = &mut stream.order else { return };
        let after = policy.stage_timeout;
        for rank in gate.requests.expire(self.clock.now(), after) {
            let type_url = TypeUrl::from(types::by_rank(rank).unwrap_or_default());
            self.out.observe(Observation::SentOutOfOrder { stream: id, type_url, after });
        }
        let next = gate.requests.first_overdue(after).map(|at| (at, Alarm::Unanswered(id)));
        self.alarms.replace(None, next);
        if self.look_at(id) {
            self.tell_writable(id);
        }
    }

    /// Cancels the alarm of the unanswered requests of a stream that ends.
    pub(crate) fn stop_waiting_for_order(&mut self, id: StreamId) {
        let Some(policy) = self.config.ordering.gated() else { return };
        let gate = self.streams.get_mut(id.0).and_then(|stream| stream.order.gate());
        if let Some(at) = gate.and_then(|gate| gate.requests.first_overdue(policy.stage_timeout)) {
            self.alarms.cancel(at, Alarm::Unanswered(id));
        }
    }

    /// Cancels the alarm of the held-back change of a stream that ends or changes its view.
    pub(crate) fn stop_holding(&mut self, id: StreamId) {
        let Some(policy) = self.config.ordering.gated() else { return };
        let gate = self.streams.get_mut(id.0).and_then(|stream| stream.order.gate());
        if let Some((_, since)) = gate.and_then(|gate| gate.held.take()) {
            self.stats.note_held(true, false);
            self.alarms.cancel(since.after(policy.stage_timeout), Alarm::Held(id));
        }
    }
}
