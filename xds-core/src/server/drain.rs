//! Ending streams by plan: all of them when the server goes (M14, M238, IS33), each when it has become
//! old (M239).
//!
//! ```text
//!            its time has come        all answered, or the grace time is over
//!   serving -------------------> ending -------------------------------------> closed, UNAVAILABLE
//!            nothing on its way: closed at once
//! ```
//!
//! A stream that is ending is sent nothing more, so it waits for at most one answer per type.

use alloc::vec::Vec;
use core::time::Duration;

use super::{
    Server,
    config::DrainPlan,
    event::CloseReason,
    lifecycle::Phase,
    queue::timer_queue::Alarm,
    stream::{End, EndReason, Stream},
};
use crate::{id::StreamId, time::Time};

impl Server {
    /// Takes no new streams from now on and ends those there are with `UNAVAILABLE`, each after the answer
    /// to what is on its way, spread over the time of the plan in the order in which they came. When the
    /// last one has ended, [`ServerOutput::Drained`](super::ServerOutput::Drained) says so. Called again,
    /// it can only make it faster, for streams that are ending as well: each begins to end at the earlier of the two
    /// times, and waits for answers no longer than the shorter of the two would.
    pub fn drain(&mut self, plan: DrainPlan, now: Time) {
        let now = self.clock.advance(now);
        if self.phase == Phase::ShutDown {
            return;
        }
        self.phase = Phase::Draining;
        let count = u32::try_from(self.streams.len()).unwrap_or(u32::MAX);
        if count == 0 {
            self.note_drained();
            return;
        }
        let share = plan.over / count;
        let mut start = now;
        let ids: Vec<_> =
            self.streams.iter().filter_map(|(at, _)| self.streams.key(at)).map(StreamId).collect();
        for id in ids {
            let at = start.after(self.rng.part_of(share));
            self.end_at(id, End::planned(at, plan.grace, EndReason::Drain));
            start = start.after(share);
        }
    }

    /// Sets when a new stream is to end if nothing is asked on it.
    pub(crate) fn await_first_request(&mut self, id: StreamId) {
        match self.config.limits.first_request {
            Some(after) => {
                let at = self.clock.now().after(after);
                self.end_at(id, End::planned(at, Duration::ZERO, EndReason::NoRequest));
            }
            None => self.limit_age(id),
        }
    }

    /// A request has come.
    pub(crate) fn note_request(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(id.0) else { return };
        if let Some(End { at, reason: EndReason::NoRequest, .. }) = stream.end {
            stream.end = None;
            self.alarms.cancel(at, Alarm::StreamEnd(id));
            self.limit_age(id);
        }
    }

    /// Sets when a stream is to end if nobody decides what its client sees. Who drains decides nothing any more.
    pub(crate) fn await_decision(&mut self, id: StreamId) {
        let Some(after) = self.config.limits.decision else { return };
        let end = self.streams.get(id.0).and_then(|stream| stream.end);
        if end.is_none_or(|end| end.reason != EndReason::Drain) {
            let at = self.clock.now().after(after);
            self.end_at(id, End::planned(at, Duration::ZERO, EndReason::NoDecision));
        }
    }

    /// It has been decided what the client sees.
    pub(crate) fn note_decision(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(id.0) else { return };
        if let Some(End { at, reason: EndReason::NoDecision, .. }) = stream.end {
            stream.end = None;
            self.alarms.cancel(at, Alarm::StreamEnd(id));
            self.limit_age(id);
        }
    }

    /// Sets when a stream is to end, if streams may not become old.
    fn limit_age(&mut self, id: StreamId) {
        let Some(limit) = self.config.max_stream_age else { return };
        let age = self.rng.jitter(limit.age, limit.jitter_percent);
        let at = self.clock.now().after(age);
        self.end_at(id, End::planned(at, limit.grace, EndReason::Age));
    }

    /// The stream ends then, unless it is to end earlier, other than for want of a request or a decision.
    fn end_at(&mut self, id: StreamId, end: End) {
        let Some(stream) = self.streams.get_mut(id.0) else { return };
        let before = stream.end;
        let end = match before {
            Some(End { reason: EndReason::NoRequest | EndReason::NoDecision, .. }) | None => end,
            Some(before) => before.or_sooner(end),
        };
        stream.end = Some(end);
        let alarm = |end: End| (end.at, Alarm::StreamEnd(id));
        self.alarms.replace(before.map(alarm), Some(alarm(end)));
    }

    /// The alarm of a stream that is to end has gone off.
    pub(crate) fn end_is_due(&mut self, id: StreamId) {
        let awaits = self.awaits_answer(id);
        let Some(stream) = self.streams.get_mut(id.0) else { return };
        let Some(end) = &mut stream.end else { return };
        if awaits && !end.is_begun && end.grace > Duration::ZERO {
            end.is_begun = true;
            end.at = self.clock.now().after(end.grace);
            self.alarms.set(end.at, Alarm::StreamEnd(id));
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

    /// Ends the stream if that was only waiting for answers.
    pub(crate) fn end_if_answered(&mut self, id: StreamId) {
        if self.streams.get(id.0).is_some_and(Stream::is_ending) && !self.awaits_answer(id) {
            self.end_is_due(id);
        }
    }

    /// Whether a response is on its way on the stream.
    fn awaits_answer(&self, id: StreamId) -> bool {
        let sessions = self.streams.get(id.0).map(|stream| &stream.sessions);
        let mut seats = sessions.into_iter().flatten();
        seats.any(|seat| self.subscriptions.awaits_answer(seat.session))
    }
}
