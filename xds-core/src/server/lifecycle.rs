//! Opening and closing of streams, and readiness of the server.

use alloc::vec::Vec;
use core::num::NonZeroU64;

use super::{
    Server,
    config::{Admission, Readiness},
    event::{CloseReason, Observation, Refusal, ServerOutput, Via},
    queue::timer_queue::Alarm,
    stream::{Speech, Stream, Writable, push_order::Order},
};
use crate::{id::StreamId, text::ViewName, time::Time};

/// Phase of the server, which determines whether it accepts streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Resources are not loaded; new streams are refused.
    NotReady,
    /// Resources are not loaded; requests are held.
    Holding,
    Serving,
    /// New streams are refused, and open ones end one after the other.
    // M14
    Draining,
    ShutDown,
}

impl Phase {
    pub(crate) fn at_start(readiness: Readiness) -> Self {
        match readiness {
            Readiness::Ready => Self::Serving,
            Readiness::NotReady => Self::NotReady,
            Readiness::HoldRequests => Self::Holding,
        }
    }
}

impl Server {
    /// Declares the resources as loaded: from now on clients are answered ([`Readiness`]), first
    /// those whose requests were held. Without effect on a server that is ready, draining or shut
    /// down.
    pub fn set_ready(&mut self, now: Time) {
        self.clock.advance(now);
        match self.phase {
            Phase::NotReady => self.phase = Phase::Serving,
            Phase::Holding => {
                self.phase = Phase::Serving;
                self.admit_held();
            }
            Phase::Serving | Phase::Draining | Phase::ShutDown => {}
        }
    }

    /// Admits the streams that were opened before the server was ready, or asks the application
    /// about them, in the order of their opening.
    fn admit_held(&mut self) {
        let held = self.streams.iter().filter(|(_, stream)| stream.view.is_none());
        let held: Vec<_> = held.filter_map(|(at, _)| self.streams.key(at)).map(StreamId).collect();
        for id in held {
            match self.config.admission {
                Admission::Everybody => self.assign(id, &ViewName::default(), self.clock.now()),
                Admission::Asked => self.ask_about(id),
            }
        }
    }

    /// Whether the application is asked about a client at its first request. While requests are
    /// held, it is asked only once the server is ready.
    pub(crate) fn asks_about_clients(&self) -> bool {
        self.config.admission == Admission::Asked && self.phase != Phase::Holding
    }

    /// Asks the application about a stream whose request was held. The time limit for its decision
    /// started with the request, because the client has waited since then.
    fn ask_about(&mut self, id: StreamId) {
        let stream = self.streams.get(id.0).filter(|stream| !stream.latched.is_empty());
        let Some(node) = stream.map(|stream| stream.node().cloned().unwrap_or_default()) else {
            return;
        };
        self.out.authorize(id, node);
    }

    /// Accepts a new stream.
    ///
    /// # Errors
    ///
    /// Returns a refusal if the server is not ready or shutting down, or if the number or rate of
    /// streams is at its limit. End the stream with the status of the refusal.
    pub fn accept(&mut self, via: Via, now: Time) -> Result<StreamId, Refusal> {
        self.clock.advance(now);
        let accepted = self.may_accept().and_then(|()| self.open(via));
        if let Err(refusal) = accepted {
            self.stats.note_refusal(refusal);
        }
        accepted
    }

    /// Ends all streams at once with `UNAVAILABLE` and refuses new ones. [`drain`](Self::drain)
    /// lets streams finish.
    // M14
    pub fn shut_down(&mut self, now: Time) {
        self.clock.advance(now);
        self.phase = Phase::ShutDown;
        while let Some(key) = self.streams.key(self.streams.first()) {
            self.close(StreamId(key), CloseReason::ShuttingDown);
        }
    }

    fn may_accept(&mut self) -> Result<(), Refusal> {
        match self.phase {
            Phase::NotReady => return Err(Refusal::NotReady),
            Phase::Draining | Phase::ShutDown => return Err(Refusal::ShuttingDown),
            Phase::Serving | Phase::Holding => {}
        }
        let limit = self.config.limits.streams;
        if self.streams.len() >= limit {
            return Err(Refusal::TooManyStreams { limit });
        }
        if let Some(rate) = self.config.limits.new_streams {
            let now = self.clock.now();
            if !self.new_streams.has_one(rate, now) {
                return Err(Refusal::TooManyNewStreams { per_second: rate.per_second });
            }
            self.new_streams.take(rate, now);
        }
        Ok(())
    }

    fn open(&mut self, via: Via) -> Result<StreamId, Refusal> {
        let view = match (self.phase, self.config.admission) {
            (Phase::Holding, _) | (_, Admission::Asked) => None,
            (_, Admission::Everybody) => Some(self.subscriptions.store.default_view()),
        };
        let order = Order::of(&self.config.ordering, &via);
        let state = Stream::new(via, view, order);
        let limit = self.config.limits.streams;
        let key = self.streams.push_back(state).ok_or(Refusal::TooManyStreams { limit })?;
        if let Some(stream) = self.streams.get(key) {
            self.stats.note_opened(&stream.via);
        }
        if let Some(view) = view {
            self.subscriptions.store.join_view(view);
            self.watch_views();
        }
        let stream = StreamId(key);
        self.await_first_request(stream);
        self.out.observe(Observation::Connected { stream });
        Ok(stream)
    }

    /// Closes the stream from the server's side.
    pub(crate) fn close(&mut self, id: StreamId, reason: CloseReason) {
        if self.streams.get(id.0).is_some() {
            self.stats.note_close(&reason);
        }
        self.out.close(id, reason);
        self.forget(id);
    }

    /// Finishes a fetch stream after its only response was rendered.
    // M196
    pub(crate) fn finish_fetch(&mut self, id: StreamId) {
        if self.streams.get(id.0).is_some_and(|stream| matches!(stream.via, Via::Fetch { .. })) {
            self.out.tell(ServerOutput::Finished(id));
            self.forget(id);
        }
    }

    /// Notes that the client has closed its side of the stream: it waits for responses and cannot
    /// answer them.
    pub(crate) fn half_closed(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(id.0) {
            stream.speech = Speech::Over;
        }
        self.finish_if_over(id);
    }

    /// Finishes a half-closed stream that has nothing to be sent now. A stream whose request waits
    /// for a view is kept until the decision, and a fetch ends with its response.
    pub(crate) fn finish_if_over(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get(id.0) else { return };
        let waits = stream.view.is_none() && !stream.latched.is_empty();
        let is_over = stream.speech == Speech::Over && stream.writable == Writable::NotTold;
        if is_over && !waits && !matches!(stream.via, Via::Fetch { .. }) {
            self.stats.closed.by_clients += 1;
            self.out.tell(ServerOutput::Finished(id));
            self.forget(id);
        }
    }

    /// Frees all state of the stream.
    // IS23
    pub(crate) fn forget(&mut self, id: StreamId) {
        if self.streams.get(id.0).is_none() {
            return;
        }
        self.stop_holding(id);
        self.stop_waiting_for_order(id);
        let Some(gone) = self.streams.remove(id.0.slot()) else { return };
        self.stats.note_gone(&gone.via);
        self.nodes.unlatch(gone.node_id(), gone.latched_bytes());
        if gone.view.is_some() {
            self.nodes.leave(gone.node_id());
        }
        if let Some(at) = gone.ends_at() {
            self.alarms.cancel(at, Alarm::StreamEnd(id));
        }
        if let Some(at) = gone.reads_at {
            self.alarms.cancel(at, Alarm::ReadAgain(id));
        }
        for seat in gone.sessions {
            if let Some(turn) = self.subscriptions.turn(seat.session) {
                turn.stop_awaiting(NonZeroU64::MAX, &mut self.alarms);
            }
            self.alarms.replace(self.grace_alarm(seat.session), None);
            self.keep_rejection(seat.session);
            self.leave_waits(seat.session);
            self.subscriptions.close(seat);
            self.tend_heartbeats(seat.arena);
        }
        self.tell_wants();
        if let Some(view) = gone.view {
            self.subscriptions.store.leave_view(view);
            self.watch_views();
        }
        self.out.observe(Observation::Disconnected { stream: id });
        if self.phase == Phase::Draining && self.streams.len() == 0 {
            self.note_drained();
        }
    }

    pub(crate) fn note_drained(&mut self) {
        self.phase = Phase::ShutDown;
        self.out.tell(ServerOutput::Drained);
    }
}
