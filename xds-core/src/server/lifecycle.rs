//! Opening and closing of streams, and readiness of the server.

use alloc::vec::Vec;
use core::num::NonZeroU64;

use super::{
    Server,
    config::{Admission, Readiness},
    event::{CloseReason, Connection, Observation, Refusal, ServerEvent, ServerOutput, StreamKind},
    queue::timer_queue::Alarm,
    session::session_view::SessionView,
    stream::{Stream, push_order::Order},
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
        for id in self.select_streams(|_, stream| stream.view.is_none()) {
            match self.config.admission {
                Admission::All => {
                    self.assign(id, &ViewName::default(), self.clock.now());
                }
                Admission::ByApplication => self.request_decision(id),
            }
        }
    }

    /// Whether the application is asked about a client at its first request. While requests are
    /// held, it is asked only once the server is ready.
    pub(crate) fn requires_decision(&self) -> bool {
        self.config.admission == Admission::ByApplication && self.phase != Phase::Holding
    }

    /// Asks the application about a stream whose request was held. The time limit for its decision
    /// started with the request, because the client has waited since then.
    pub(crate) fn request_decision(&mut self, id: StreamId) {
        let stream = self.streams.get(id.0).filter(|stream| stream.held_count() > 0);
        let Some(node) = stream.map(|stream| stream.node().cloned().unwrap_or_default()) else {
            return;
        };
        self.out.event(ServerEvent::Authorize { stream: id, node_id: node });
    }

    /// Accepts a new stream, which counts as a connection of its own. If the transport knows the
    /// connection, use [`accept_on`](Self::accept_on).
    ///
    /// # Errors
    ///
    /// Returns a refusal if the server is not ready or shutting down, or if the number or rate of
    /// streams is at its limit. End the stream with the status of the refusal.
    pub fn accept(&mut self, kind: StreamKind, now: Time) -> Result<StreamId, Refusal> {
        self.accept_from(None, kind, now)
    }

    /// Accepts a new stream of a connection, like [`accept`](Self::accept). Streams of one connection
    /// share a budget of names, and streams of different authenticated clients count apart for
    /// the limits of a node.
    ///
    /// # Errors
    ///
    /// As for [`accept`](Self::accept).
    pub fn accept_on(
        &mut self,
        connection: &Connection,
        kind: StreamKind,
        now: Time,
    ) -> Result<StreamId, Refusal> {
        self.accept_from(Some(connection), kind, now)
    }

    fn accept_from(
        &mut self,
        connection: Option<&Connection>,
        kind: StreamKind,
        now: Time,
    ) -> Result<StreamId, Refusal> {
        self.clock.advance(now);
        let accepted = self.may_accept().and_then(|()| self.open(connection, kind));
        if let Err(refusal) = accepted {
            self.stats.note_refusal(refusal);
        }
        accepted
    }

    /// Ends all streams at once with `UNAVAILABLE` and refuses new ones, also during a
    /// [`drain`](Self::drain), which lets streams finish.
    /// [`ServerOutput::Drained`] follows, unless it was output before.
    // M14
    pub fn shut_down(&mut self, now: Time) {
        self.clock.advance(now);
        if self.phase == Phase::ShutDown {
            return;
        }
        self.phase = Phase::Draining;
        while let Some(key) = self.streams.key(self.streams.first()) {
            self.close(StreamId(key), CloseReason::ShuttingDown);
        }
        self.end_if_drained();
    }

    fn may_accept(&mut self) -> Result<(), Refusal> {
        match self.phase {
            Phase::NotReady => return Err(Refusal::NotReady),
            Phase::Draining | Phase::ShutDown => return Err(Refusal::ShuttingDown),
            Phase::Serving | Phase::Holding => {}
        }
        self.check_staleness()?;
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

    fn open(
        &mut self,
        connection: Option<&Connection>,
        kind: StreamKind,
    ) -> Result<StreamId, Refusal> {
        let view = match (self.phase, self.config.admission) {
            (Phase::Holding, _) | (_, Admission::ByApplication) => None,
            (_, Admission::All) => Some(self.subscriptions.store.default_view()),
        };
        let order = Order::of(&self.config.ordering, &kind);
        let limit = self.config.limits.streams;
        let state = Stream::new(kind, view, order);
        let key = self.streams.push_back(state).ok_or(Refusal::TooManyStreams { limit })?;
        if let Some(stream) = self.streams.get(key) {
            self.stats.note_opened(&stream.kind);
        }
        if let Some(view) = view {
            self.subscriptions.store.join_view(view);
            self.watch_views();
        }
        let stream = StreamId(key);
        self.subscriptions.usage.join(stream, connection);
        self.await_first_request(stream);
        self.out.observe(Observation::Connected { stream });
        Ok(stream)
    }

    /// Closes the stream from the server's side.
    pub(crate) fn close(&mut self, id: StreamId, reason: CloseReason) {
        if self.streams.get(id.0).is_some() {
            self.stats.note_close(&reason);
        }
        self.out.push(ServerOutput::Close(id, reason));
        self.remove_stream(id);
    }

    /// Finishes a fetch stream after its only response was rendered.
    // M196
    pub(crate) fn finish_fetch(&mut self, id: StreamId) {
        if self.streams.get(id.0).is_some_and(Stream::is_fetch) {
            self.finish(id);
        }
    }

    /// Notes that the client has closed its side of the stream: it waits for responses and cannot
    /// answer them.
    pub(crate) fn half_closed(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(id.0) {
            stream.is_half_closed = true;
        }
        self.finish_if_done(id);
    }

    /// Finishes a half-closed stream that has nothing to be sent now. A stream whose request waits
    /// for a view is kept until the decision, one with an unfinished request until its end, and a
    /// fetch ends with its response.
    pub(crate) fn finish_if_done(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get(id.0) else { return };
        let is_done = stream.is_half_closed && !stream.is_notified;
        if is_done && !stream.has_waiting_requests() && !stream.is_fetch() {
            self.stats.closed.by_clients += 1;
            self.finish(id);
        }
    }

    fn finish(&mut self, id: StreamId) {
        self.out.push(ServerOutput::Finished(id));
        self.remove_stream(id);
    }

    /// Returns the open streams, in the order in which they were opened.
    pub(crate) fn open_streams(&self) -> impl Iterator<Item = (StreamId, &Stream)> {
        let key = |slot| self.streams.key(slot).map(StreamId);
        self.streams.iter().filter_map(move |(slot, stream)| Some((key(slot)?, stream)))
    }

    /// Returns the sessions of a stream, in the order in which their types are sent.
    pub(crate) fn sessions_of(&self, id: StreamId) -> impl Iterator<Item = SessionView<'_>> {
        let handles = self.streams.get(id.0).into_iter().flat_map(|stream| &stream.sessions);
        handles.filter_map(|handle| SessionView::of(handle.session, &self.subscriptions))
    }

    /// Returns the ids of some open streams, in the order in which they were opened.
    pub(crate) fn select_streams(
        &self,
        is_meant: impl Fn(StreamId, &Stream) -> bool,
    ) -> Vec<StreamId> {
        self.open_streams().filter(|&(id, it)| is_meant(id, it)).map(|(id, _)| id).collect()
    }

    /// Frees all state of the stream. If it has many names, some of them are freed
    /// [later](Self::continue_work).
    // IS23
    pub(crate) fn remove_stream(&mut self, id: StreamId) {
        if self.streams.get(id.0).is_none() {
            return;
        }
        self.cancel_stage_timeout(id);
        self.leave_source_wait(id);
        drop(self.take_unfinished(id));
        let node = self.node_key(id);
        let Some(removed) = self.streams.remove(id.0.slot()) else { return };
        self.stats.note_ended(&removed.kind);
        self.nodes.release_bytes(&node, removed.held_bytes());
        if removed.view.is_some() {
            self.nodes.leave(&node);
        }
        for alarm in [Alarm::StreamEnd, Alarm::ResumeReading, Alarm::RequestTimeout] {
            self.alarms.cancel(alarm(id));
        }
        for handle in removed.sessions {
            if let Some(context) = self.subscriptions.context(handle.session) {
                context.cancel_answer_timers(NonZeroU64::MAX, &mut self.alarms);
            }
            if let Some(key) = self.subscriptions.sessions.key(handle.session) {
                self.alarms.cancel(Alarm::Absence(key));
            }
            self.keep_rejection(handle.session);
            let left = self.leave_waits(handle.session);
            self.end_waits(left);
            self.subscriptions.close(handle);
            self.update_heartbeat_alarm(handle.arena);
        }
        self.subscriptions.usage.leave(id);
        self.free_closed(self.config.limits.names_per_call.max(1));
        if let Some(view) = removed.view {
            self.subscriptions.store.leave_view(view);
            self.watch_views();
        }
        self.out.observe(Observation::Disconnected { stream: id });
        self.end_if_drained();
    }

    /// Shuts a draining server down if it has no streams.
    pub(crate) fn end_if_drained(&mut self) {
        if self.phase == Phase::Draining && self.streams.len() == 0 {
            self.phase = Phase::ShutDown;
            self.out.push(ServerOutput::Drained);
        }
    }
}
