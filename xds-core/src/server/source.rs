//! Servers that follow a source together with others: streams wait until the server has caught up.
// M257, M258, M259

use alloc::{sync::Arc, vec::Vec};
use core::time::Duration;

use bytes::Bytes;

use super::{
    Server,
    config::Confirmation,
    event::{CloseReason, Observation, Refusal, ServerEvent},
    queue::timer_queue::Alarm,
    stream::source_wait::{SourceCheck, SourceWait, WaitConfirmation},
};
use crate::{id::StreamId, time::Time, wire::request::Request};

/// State of the source as a server knows it ([`Server::source_status`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceStatus {
    /// Revision up to which all changes of the source were applied; `None` before the first.
    pub revision: Option<u64>,
    /// Time since which the source cannot be read, watched or asked for a confirmation; `None` while
    /// it can.
    pub unreachable_since: Option<Time>,
    /// Number of streams that wait until the server has caught up with the source.
    pub waiting_streams: usize,
    /// Whether a confirmation of the source is in progress.
    pub is_confirming: bool,
}

impl Server {
    /// Notes that all changes of the source up to a revision were applied. Lower revisions have no
    /// effect.
    ///
    /// Call it after the [transactions](super::Transaction::source_revision) of each change, also
    /// when the source reports that nothing else has changed up to a revision.
    ///
    /// # Replicas
    ///
    /// Several servers may follow one source, such as etcd. Their clients may move from one to
    /// another, which may lag behind. Two rules keep a client from seeing an older state than it has
    /// seen:
    ///
    /// - A request whose versions have a source revision that this server has not reached waits. It
    ///   is answered as soon as the server has reached it. After
    ///   [`catch_up_timeout`](super::SourcePolicy::catch_up_timeout) the stream is closed with
    ///   `UNAVAILABLE` ([`CloseReason::BehindSource`]), and the client goes to another server.
    /// - Versions do not reveal everything: a new client of a process that has used another server
    ///   states none, and an incremental client does not state removals. With
    ///   [`Confirmation::EachStream`], the first request of each stream waits until the source has
    ///   confirmed its newest revision ([`ServerEvent::ConfirmSource`]) and this server has reached
    ///   it. Every other server has what it sent from the source, so it cannot have sent anything
    ///   newer before.
    ///
    /// If no confirmation arrives within `catch_up_timeout`, the source is unreachable: the stream
    /// is then answered from the last state, unless it states a revision that was not reached, or
    /// the state is older than [`max_staleness`](super::SourcePolicy::max_staleness).
    pub fn source_reached(&mut self, revision: u64, now: Time) {
        self.clock.advance(now);
        self.source.unreachable_since = None;
        self.source.reached = self.source.reached.max(Some(revision));
        self.watch_staleness();
        self.release_caught_up();
    }

    /// Answers [`ServerEvent::ConfirmSource`] with the newest revision of the source, read after the
    /// event. The read must be linearizable: it must not return an older revision than one that any
    /// server has read before.
    ///
    /// The revision is `None` if the source cannot tell it: a stream then waits only for the revision
    /// that its versions state, and after
    /// [`catch_up_timeout`](super::SourcePolicy::catch_up_timeout) it is answered from what was read,
    /// unless the source is unreachable.
    pub fn source_confirmed(&mut self, revision: Option<u64>, now: Time) {
        self.clock.advance(now);
        self.source.end_confirmation(revision);
        self.watch_staleness();
        self.release_caught_up();
        self.confirm_source();
    }

    /// Notes that reading or watching the source has failed. It counts as reachable again with the
    /// next [`source_reached`](Self::source_reached), or with a confirmation of the revision that was
    /// reached.
    pub fn source_unreachable(&mut self, now: Time) {
        let now = self.clock.advance(now);
        self.source.unreachable_since.get_or_insert(now);
        self.watch_staleness();
    }

    /// Notes that an attempt to answer [`ServerEvent::ConfirmSource`] has failed, and is to be
    /// repeated. Streams that begin after the attempts have failed for
    /// [`catch_up_timeout`](super::SourcePolicy::catch_up_timeout) do not wait for a confirmation.
    pub fn source_confirmation_failed(&mut self, now: Time) {
        let now = self.clock.advance(now);
        self.source.unconfirmed_since.get_or_insert(now);
        self.watch_staleness();
    }

    /// Notes why the newest state of the source is not served, such as a
    /// [refused change](crate::guards::RefusedChange), and `None` once it is. It has no effect except
    /// on [`refused_change`](Self::refused_change).
    pub fn source_refused(&mut self, why: Option<Arc<str>>) {
        self.source.refused = why;
    }

    /// Returns why the newest state of the source is not served; `None` if it is.
    #[must_use]
    pub fn refused_change(&self) -> Option<Arc<str>> {
        self.source.refused.clone()
    }

    /// Returns what the server knows of its source.
    #[must_use]
    pub fn source_status(&self) -> SourceStatus {
        let source = &self.source;
        SourceStatus {
            revision: source.reached,
            unreachable_since: self.unreachable_since(),
            waiting_streams: source.waiting.len(),
            is_confirming: source.is_confirming,
        }
    }

    /// Whether the source has been unreachable for longer than
    /// [`max_staleness`](super::SourcePolicy::max_staleness), so that new streams are refused. A
    /// timer is due at the time at which this becomes true.
    #[must_use]
    pub fn is_stale(&self, now: Time) -> bool {
        self.source_unreachable_for(now)
            .is_some_and(|it| self.config.source.max_staleness.is_some_and(|max| it >= max))
    }

    /// Time for which the source cannot be read, watched or asked for a confirmation; `None` while it
    /// can.
    #[must_use]
    pub fn source_unreachable_for(&self, now: Time) -> Option<Duration> {
        Some(now.since(self.unreachable_since()?))
    }

    /// Refuses a new stream if the state is too old.
    pub(crate) fn check_staleness(&self) -> Result<(), Refusal> {
        let now = self.clock.now();
        match self.source_unreachable_for(now).filter(|_| self.is_stale(now)) {
            Some(unreachable_for) => Err(Refusal::Stale { unreachable_for }),
            None => Ok(()),
        }
    }

    /// Whether a request for a new type has to wait for the source. If so, the request is held.
    pub(crate) fn await_source(
        &mut self,
        id: StreamId,
        request: &Request<'_>,
        message: &Bytes,
    ) -> Result<bool, CloseReason> {
        let (policy, now) = (self.config.source, self.clock.now());
        let confirms = policy.confirmation == Confirmation::EachStream;
        let Some(stream) = self.streams.get_mut(id.0) else { return Ok(true) };
        let check = core::mem::replace(&mut stream.source_check, SourceCheck::Done);
        if check == SourceCheck::Released || !confirms && self.source.reached.is_none() {
            return Ok(false);
        }
        let stated = request.stated_revision();
        let is_ahead = stated > 0 && !self.source.has(stated);
        if !is_ahead && (!confirms || check == SourceCheck::Done) {
            return Ok(false);
        }
        let confirmation = match confirms {
            true => WaitConfirmation::Next,
            false => WaitConfirmation::NotNeeded,
        };
        // The time for which confirmations have failed already counts.
        let since = self.source.unconfirmed_since.filter(|_| !is_ahead).unwrap_or(now);
        let until = since.after(policy.catch_up_timeout);
        let wait = SourceWait { stated, confirmation };
        if until <= now {
            self.serve_unconfirmed(id, wait)?;
            return Ok(false);
        }
        stream.source_check = SourceCheck::Waiting;
        stream.hold_first(message);
        self.note_held(id, message)?;
        self.source.waiting.insert(id, wait);
        self.alarms.set(Alarm::SourceWait(id), until);
        self.stats.source_waits += 1;
        self.confirm_source();
        Ok(true)
    }

    /// Ends the wait of a stream whose time is over.
    pub(crate) fn source_wait_is_over(&mut self, id: StreamId) {
        let Some(wait) = self.source.waiting.remove(&id) else { return };
        let reached = self.source.reached.unwrap_or_default();
        let is_reachable = self.unreachable_since().is_none();
        let decision = match (wait.confirmation, wait.required()) {
            // Nobody can tell whether the stated revision is of another history.
            (WaitConfirmation::Impossible, _) if is_reachable => Ok(()),
            (_, Some(required)) => Err(CloseReason::BehindSource { required, reached }),
            (_, None) => self.serve_unconfirmed(id, wait),
        };
        match decision {
            Ok(()) => self.release_from_source(id),
            Err(reason) => self.close(id, reason),
        }
        self.enforce_total_names();
    }

    /// Removes the wait of a stream that ends.
    pub(crate) fn leave_source_wait(&mut self, id: StreamId) {
        self.source.waiting.remove(&id);
        self.alarms.cancel(Alarm::SourceWait(id));
    }

    /// Decides whether a stream whose wait was not confirmed is answered from the last state.
    fn serve_unconfirmed(&mut self, id: StreamId, wait: SourceWait) -> Result<(), CloseReason> {
        let reached = self.source.reached.unwrap_or_default();
        if wait.stated > reached {
            return Err(CloseReason::BehindSource { required: wait.stated, reached });
        }
        let unreachable_for = self.source_unreachable_for(self.clock.now()).unwrap_or_default();
        if self.config.source.max_staleness.is_some_and(|max| unreachable_for >= max) {
            return Err(CloseReason::SourceUnreachable { unreachable_for });
        }
        self.stats.unconfirmed_streams += 1;
        self.out.observe(Observation::ServedUnconfirmed { stream: id, revision: reached });
        Ok(())
    }

    /// Handles the requests of streams that waited for a revision that is reached.
    fn release_caught_up(&mut self) {
        let is_released = |wait: &SourceWait| wait.required().is_some_and(|it| self.source.has(it));
        let waiting = self.source.waiting.iter().filter(|(_, wait)| is_released(wait));
        let released: Vec<_> = waiting.map(|(&id, _)| id).collect();
        for &id in &released {
            self.leave_source_wait(id);
            self.release_from_source(id);
        }
        if !released.is_empty() {
            self.enforce_total_names();
        }
    }

    fn release_from_source(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(id.0) {
            stream.source_check = SourceCheck::Released;
            self.take_held(id);
        }
    }

    /// Asks the application to confirm the revision of the source, if a stream waits for that.
    fn confirm_source(&mut self) {
        if self.source.begin_confirmation() {
            self.out.event(ServerEvent::ConfirmSource);
        }
    }

    /// Keeps the alarm of the time at which the state becomes too old for new streams.
    fn watch_staleness(&mut self) {
        let at = |max| Some(self.unreachable_since()?.after(max));
        let stale_at = self.config.source.max_staleness.and_then(at);
        self.alarms.set(Alarm::SourceStale, stale_at.filter(|at| *at >= self.clock.now()));
    }

    fn unreachable_since(&self) -> Option<Time> {
        let source = &self.source;
        [source.unreachable_since, source.unconfirmed_since].into_iter().flatten().min()
    }
}
