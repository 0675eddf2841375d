//! Planned ends of streams: drain, maximum age, and missing first request or decision.
//!
//! ```text
//!            planned time             all answered, or the grace time is over
//!   serving -------------------> ending -------------------------------------> closed, UNAVAILABLE
//!            nothing in flight: closed at once
//! ```
//!
//! A stream that is ending is sent nothing more, so it waits for at most one window of answers per
//! type.
// M14, M238, IS33: drain. M239: maximum age.

use core::time::Duration;

use super::{
    Server,
    config::DrainPlan,
    event::CloseReason,
    lifecycle::Phase,
    queue::timer_queue::Alarm,
    stream::{EndReason, PlannedEnd, Stream},
};
use crate::{id::StreamId, time::Time};

impl Server {
    /// Refuses new streams and ends the open ones with `UNAVAILABLE`, spread over `plan.period` in
    /// the order of their opening. Each first waits, for at most `plan.grace_period`, for the answers to
    /// responses in flight. [`ServerOutput::Drained`](super::ServerOutput::Drained) follows the
    /// last one. On a server that is shut down, the call has no effect.
    ///
    /// Another call can only accelerate the end, including that of streams that are already ending:
    /// each begins to end at the earlier of the two times, and waits for answers until the earlier
    /// of the two deadlines.
    pub fn drain(&mut self, plan: DrainPlan, now: Time) {
        let now = self.clock.advance(now);
        if self.phase == Phase::ShutDown {
            return;
        }
        self.phase = Phase::Draining;
        let count = u32::try_from(self.streams.len()).unwrap_or(u32::MAX);
        if count == 0 {
            return self.end_if_drained();
        }
        let share = plan.period / count;
        let mut start = now;
        for id in self.select_streams(|_, _| true) {
            let at = start.after(self.rng.part_of(share));
            self.end_at(id, at, plan.grace_period, EndReason::Drain);
            start = start.after(share);
        }
    }

    /// Schedules the end of a new stream for the case that it has no request.
    pub(crate) fn await_first_request(&mut self, id: StreamId) {
        match self.config.limits.first_request {
            Some(after) => {
                let at = self.clock.now().after(after);
                self.end_at(id, at, Duration::ZERO, EndReason::NoRequest);
            }
            None => self.limit_age(id),
        }
    }

    /// Cancels the end scheduled for a missing request or decision.
    pub(crate) fn cancel_end(&mut self, id: StreamId, reason: EndReason) {
        let Some(stream) = self.streams.get_mut(id.0) else { return };
        if stream.end.take_if(|end| end.reason == reason).is_some() {
            self.alarms.cancel(Alarm::StreamEnd(id));
            self.limit_age(id);
        }
    }

    /// Schedules the end of the stream for the case that the application does not assign a view. A
    /// draining stream keeps its planned end.
    pub(crate) fn await_decision(&mut self, id: StreamId) {
        let Some(after) = self.config.limits.decision else { return };
        let end = self.streams.get(id.0).and_then(|stream| stream.end);
        if end.is_none_or(|end| end.reason != EndReason::Drain) {
            let at = self.clock.now().after(after);
            self.end_at(id, at, Duration::ZERO, EndReason::NoDecision);
        }
    }

    /// Schedules the end of the stream at the maximum age, if there is one.
    fn limit_age(&mut self, id: StreamId) {
        let Some(limit) = self.config.max_stream_age else { return };
        let age = self.rng.jitter(limit.age, limit.jitter_percent);
        let at = self.clock.now().after(age);
        self.end_at(id, at, limit.grace_period, EndReason::Age);
    }

    /// Schedules the end of the stream, or keeps an earlier planned end. An end scheduled for a
    /// missing request or decision is replaced.
    fn end_at(&mut self, id: StreamId, at: Time, grace_period: Duration, reason: EndReason) {
        let Some(stream) = self.streams.get_mut(id.0) else { return };
        let end = PlannedEnd { at, grace_period, reason, has_begun: false };
        let end = match stream.end {
            Some(PlannedEnd { reason: EndReason::NoRequest | EndReason::NoDecision, .. })
            | None => end,
            Some(before) => before.or_sooner(end),
        };
        stream.end = Some(end);
        self.alarms.set(Alarm::StreamEnd(id), end.at);
    }

    /// Begins or completes the planned end of a stream whose alarm is due.
    pub(crate) fn end_is_due(&mut self, id: StreamId) {
        let awaits = self.awaits_answer(id);
        let Some(stream) = self.streams.get_mut(id.0) else { return };
        let Some(end) = &mut stream.end else { return };
        if awaits && !end.has_begun && end.grace_period > Duration::ZERO {
            end.has_begun = true;
            end.at = self.clock.now().after(end.grace_period);
            self.alarms.set(Alarm::StreamEnd(id), end.at);
            return;
        }
        let limits = &self.config.limits;
        let reason = match end.reason {
            EndReason::Drain => CloseReason::ShuttingDown,
            EndReason::Age => CloseReason::StreamAge,
            EndReason::NoRequest => {
                CloseReason::NoRequest { after: limits.first_request.unwrap_or_default() }
            }
            EndReason::NoDecision if self.phase == Phase::Holding => {
                CloseReason::NotReady { after: limits.decision.unwrap_or_default() }
            }
            EndReason::NoDecision => {
                CloseReason::NoDecision { after: limits.decision.unwrap_or_default() }
            }
        };
        self.close(id, reason);
    }

    /// Closes an ending stream that no longer waits for answers.
    pub(crate) fn end_if_answered(&mut self, id: StreamId) {
        if self.streams.get(id.0).is_some_and(Stream::is_ending) && !self.awaits_answer(id) {
            self.end_is_due(id);
        }
    }

    /// Whether a response of the stream is unanswered.
    fn awaits_answer(&self, id: StreamId) -> bool {
        self.sessions_of(id).any(|it| it.session.awaits_answer())
    }
}
