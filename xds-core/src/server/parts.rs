//! Work in parts: long requests, and closed streams with many names.
//!
//! ```text
//!   request ──▶ first part ──▶ done                                 closed stream
//!                  │ names are left                                      │
//!                  ▼                                                     ▼
//!   queue per connection ◀─┐                                 queue of closed sessions
//!                  │       │ names are left                                │
//!                  ▼       │                                             ▼
//!   handle_timeout: a part of a stream, and as many names of closed sessions
//! ```
//!
//! A part has at most [`names_per_call`](super::ServerLimits::names_per_call) names. Each part also
//! frees as many names of closed sessions as it handles, so these never accumulate: while there are
//! any, the number of names does not grow.
//!
//! Connections take turns, one part each. So a request waits for one part of each other connection
//! per part of its own, however many streams these have.
//!
//! While a request is unfinished, its stream reads no other one and is sent nothing, so no response
//! shows a half-applied list. A stream that closes drops its request. A view is assigned after the
//! whole request.
// IS25

use super::{
    Server,
    event::CloseReason,
    session::name_usage::NameUnits,
    stream::{Stream, unfinished_request::OpenRequest},
};
use crate::id::StreamId;

impl Server {
    /// Whether work is left for [`continue_work`](Self::continue_work).
    pub(crate) fn has_work(&self) -> bool {
        !self.unfinished.is_empty() || self.subscriptions.closed() > 0
    }

    /// Frees names of closed streams, and handles a part of the requests of the connection whose turn
    /// it is. If that part is shorter than the limit, the rest of the limit is not used, because it would
    /// be the whole turn of another connection.
    pub(crate) fn continue_work(&mut self) {
        self.free_closed(self.part());
        let start = self.stats.handled_names;
        while self.stats.handled_names == start
            && let Some(id) = self.unfinished.pop()
        {
            match self.streams.get(id.0).is_some_and(Stream::is_busy) {
                true => self.continue_request(id, self.part()),
                false => self.take_held(id),
            }
            self.notify_wanted();
        }
        self.enforce_total_names();
    }

    /// Queues a stream whose requests are to be continued.
    fn continue_later(&mut self, id: StreamId) {
        self.unfinished.push(self.subscriptions.usage.account_of(id), id);
    }

    /// Applies the rest of a request that is not finished, before the stream changes its view. Takes
    /// as long as its names need, like the change itself.
    pub(crate) fn finish_request(&mut self, id: StreamId) {
        if self.streams.get(id.0).is_some_and(Stream::is_busy) {
            self.continue_request(id, usize::MAX);
        }
    }

    /// Handles the requests of a stream that were held, until one is unfinished or a part is full.
    pub(crate) fn take_held(&mut self, id: StreamId) {
        let full = self.stats.handled_names.saturating_add(self.part() as u64);
        while let Some(stream) = self.streams.get_mut(id.0)
            && !stream.is_busy()
            && !stream.awaits_source()
            && stream.view.is_some()
            && stream.held_count() > 0
        {
            if self.stats.handled_names >= full {
                return self.continue_later(id);
            }
            let Some(message) = stream.take_held() else { break };
            let key = self.node_key(id);
            self.nodes.release_bytes(&key, message.len());
            // The request was already counted when it arrived.
            self.stats.requests -= 1;
            self.stats.request_bytes -= message.len() as u64;
            self.take_message(id, &message);
        }
        self.finish_if_done(id);
    }

    /// Frees at most this many names of closed streams.
    pub(crate) fn free_closed(&mut self, limit: usize) {
        if self.subscriptions.closed() == 0 {
            return;
        }
        let (freed, arenas) = self.subscriptions.free_closed(limit);
        self.stats.handled_names += freed as u64;
        for &arena in &arenas {
            self.update_heartbeat_alarm(arena);
        }
        self.notify_wanted();
        if !arenas.is_empty() {
            self.watch_views();
        }
    }

    pub(crate) fn part(&self) -> usize {
        self.config.limits.names_per_call.max(1)
    }

    fn continue_request(&mut self, id: StreamId, limit: usize) {
        let Some(request) = self.take_unfinished(id) else { return };
        if let Err(reason) = self.apply_part(id, request, limit) {
            return self.close(id, reason);
        }
        if self.streams.get(id.0).is_some_and(|stream| !stream.is_busy()) {
            self.notify_all_due(id);
            self.end_if_answered(id);
            self.finish_if_done(id);
        }
        if self.streams.get(id.0).is_some_and(|it| !it.is_busy() && it.has_waiting_requests()) {
            self.continue_later(id);
        }
    }

    /// Removes the unfinished request of a stream, which no longer counts.
    pub(crate) fn take_unfinished(&mut self, id: StreamId) -> Option<OpenRequest> {
        let stream = self.streams.get_mut(id.0)?;
        let unfinished = stream.take_unfinished()?;
        self.stats.unfinished_requests -= 1;
        let units = NameUnits::of_request(unfinished.message.len());
        self.subscriptions.usage.subtract(id, units);
        Some(unfinished)
    }

    pub(crate) fn apply_part(
        &mut self,
        id: StreamId,
        mut open: OpenRequest,
        limit: usize,
    ) -> Result<(), CloseReason> {
        let (session, now, mut left) = (open.session, self.clock.now(), limit);
        let Some(mut context) = self.subscriptions.context(session) else { return Ok(()) };
        let is_last = context.apply_names(&open.message, &mut open.progress, &mut left, now);
        let asks = is_last.then(|| context.finish_request(&mut open.progress, now, &mut self.out));
        let handled = limit - left;
        self.stats.handled_names += handled as u64;
        self.watch_absence(session);
        self.free_closed(handled);
        if open.progress.has_names() {
            self.check_names(id, &open, is_last)?;
        }
        match asks {
            Some(asks) => {
                self.end_request(id, &open, asks);
                Ok(())
            }
            None => self.suspend(id, open),
        }
    }

    /// Keeps a request for its next part. Its bytes count towards the names of the connection.
    fn suspend(&mut self, id: StreamId, request: OpenRequest) -> Result<(), CloseReason> {
        let Some(stream) = self.streams.get_mut(id.0) else { return Ok(()) };
        self.subscriptions.usage.add(id, NameUnits::of_request(request.message.len()));
        let session = request.session;
        stream.suspend(request);
        self.stats.unfinished_requests += 1;
        self.continue_later(id);
        // The answer counts at once.
        self.review_waits(session);
        self.check_connection(id, false)
    }
}
