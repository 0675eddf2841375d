//! Convergence: the clients that have accepted a change, and those that have not.
//!
//! A change is identified by a type, a view, and the sequence number of a transaction
//! ([`Applied`](crate::server::Applied)). A client has accepted it when it has ACKed a response
//! with everything of the change, or of its later replacements, that it subscribes to; a client
//! that subscribes to nothing of it has accepted it too. The clients of a view include those of
//! views that have it as a layer, and those that see a candidate in place of any of these views.
//!
//! A report takes one step per stream. A wait takes the same once, and then a check at each answer
//! for the type in the view.
// IS29

use alloc::{sync::Arc, vec::Vec};

use thiserror::Error;

use crate::{
    id::StreamId,
    server::{
        Server,
        session::session_view::SessionView,
        stream::{Stream, convergence_waits::ConvergenceWait},
    },
    slab::Slot,
    text::ViewName,
    time::Time,
};

/// Number of connected clients that have accepted a change, of those that subscribe to its type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Convergence {
    /// Number of clients that have accepted it.
    pub accepted: usize,
    /// Number of clients that have not been sent it, or have not answered.
    pub pending: usize,
    /// Number of clients that have rejected it.
    pub rejected: usize,
    /// Clients that have not accepted it, in the order in which their streams were opened.
    pub lagging: Vec<LaggingClient>,
}

impl Convergence {
    /// Whether all clients have accepted the change.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.lagging.is_empty()
    }
}

/// Client that has not accepted a change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaggingClient {
    /// Stream of the client.
    pub stream: StreamId,
    /// Id of the client's node; empty if it has none.
    pub node_id: Arc<str>,
    /// Reason.
    pub reason: LagReason,
}

/// Reason for which a client has not accepted a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LagReason {
    /// The change has not been sent, or not been answered.
    Pending,
    /// The client has rejected the change.
    Rejected,
}

/// Error of [`Server::notify_when_converged`]: the number of waits is at its limit
/// ([`convergence_waits`](crate::server::ServerLimits::convergence_waits)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[error("more than {limit} pending convergence waits")]
pub struct TooManyWaits {
    /// Configured limit.
    pub limit: usize,
}

impl Server {
    /// Reports how many clients have accepted the change of this sequence number
    /// ([`Applied::sequence`](crate::server::Applied::sequence)), and all changes before it, of a
    /// type in a view. This includes clients that see the view as a layer; if another layer hides
    /// the change, there is nothing to accept. A number in the future stands for the newest
    /// transaction.
    ///
    /// During a rollout of the view ([`ServerRollouts`](crate::rollout::ServerRollouts)), it includes
    /// the clients that see the candidate: these have to accept what the rollout sends them.
    #[must_use]
    pub fn convergence(&self, view: &ViewName, type_url: &str, sequence: u64) -> Convergence {
        let sequence = sequence.min(self.subscriptions.store.sequence());
        let mut convergence = Convergence::default();
        let store = &self.subscriptions.store;
        let arenas = store.arenas_of_type(view, type_url);
        for (stream, state) in self.open_streams() {
            let Some(session) = self.session_above(state, &arenas) else { continue };
            let Some(lag) = self.lag_reason(session, sequence) else {
                convergence.accepted += 1;
                continue;
            };
            match lag {
                LagReason::Pending => convergence.pending += 1,
                LagReason::Rejected => convergence.rejected += 1,
            }
            let node_id = state.node().cloned().unwrap_or_default();
            convergence.lagging.push(LaggingClient { stream, node_id, reason: lag });
        }
        convergence
    }

    /// Returns the reason for which a client has not accepted everything that it subscribes to;
    /// `None` if it has. Takes one step per type of the stream.
    #[must_use]
    pub fn lag_of(&self, stream: StreamId) -> Option<LagReason> {
        let sequence = self.subscriptions.store.sequence();
        self.sessions_of(stream).filter_map(|it| self.lag_reason(it.slot, sequence)).max()
    }

    /// Requests one [`ServerOutput::Converged`](crate::server::ServerOutput::Converged) when all clients that are connected now have
    /// accepted a change; it is queued at once if they have. Returns the sequence number that will
    /// be reported. Another call for the same change replaces the earlier one, with the clients of
    /// the later call.
    ///
    /// # Errors
    ///
    /// Returns an error if the number of waits is at its limit.
    pub fn notify_when_converged(
        &mut self,
        view: &ViewName,
        type_url: &str,
        sequence: u64,
        now: Time,
    ) -> Result<u64, TooManyWaits> {
        self.clock.advance(now);
        let (arena, sequence) = self.wait_key(view, type_url, sequence);
        let arenas = self.subscriptions.store.arenas_of_type(view, type_url);
        let limit = self.config.limits.convergence_waits;
        let is_new = !self.waits.contains_key(&(arena, sequence));
        if is_new && self.waits.len() >= limit {
            return Err(TooManyWaits { limit });
        }
        let on_arena =
            self.open_streams().filter_map(|(_, state)| self.session_above(state, &arenas));
        let lagging =
            on_arena.filter(|&session| self.lag_reason(session, sequence).is_some()).collect();
        let wait = ConvergenceWait { view: view.clone(), type_url: type_url.into(), lagging };
        if wait.lagging.is_empty() {
            self.out.push(wait.into_output(sequence));
        } else {
            self.waits.insert((arena, sequence), wait);
        }
        Ok(sequence)
    }

    /// Cancels the wait for a change, identified by the sequence number that
    /// [`notify_when_converged`](Self::notify_when_converged) returned.
    pub fn cancel_convergence_wait(&mut self, view: &ViewName, type_url: &str, sequence: u64) {
        let place = self.wait_key(view, type_url, sequence);
        self.waits.remove(&place);
    }

    fn wait_key(&self, view: &ViewName, type_url: &str, sequence: u64) -> (Slot, u64) {
        let store = &self.subscriptions.store;
        let arena = store.find_view(view).and_then(|view| store.find_arena(view, type_url));
        (arena.unwrap_or(Slot::NONE), sequence.min(store.sequence()))
    }

    /// Notes that the change of this number, or a later one, may have made resources due.
    pub(crate) fn note_progress(&mut self, session: Slot, change: u64) {
        let subscriptions = &mut self.subscriptions;
        let Some(state) = subscriptions.sessions.at_mut(session) else { return };
        let Some(arena) = subscriptions.store.arena(state.arena) else { return };
        state.note_due(arena, change);
        self.review_waits(session);
    }

    /// Notes that a response was rendered on the stream, or that none was due.
    pub(crate) fn note_rendered(&mut self, id: StreamId) {
        let next = self.subscriptions.store.sequence() + 1;
        let count = self.streams.get(id.0).map_or(0, |stream| stream.sessions.len());
        for position in 0..count {
            let handles = self.streams.get(id.0).map(|stream| &stream.sessions);
            if let Some(handle) = handles.and_then(|handles| handles.get(position)) {
                self.note_progress(handle.session, next);
            }
        }
    }

    /// Updates the waits that concern a session after its progress changed.
    pub(crate) fn review_waits(&mut self, session: Slot) {
        if self.waits.is_empty() {
            return;
        }
        let Some(arena) = self.subscriptions.sessions.at(session).map(|it| it.arena) else {
            return;
        };
        for arena in self.subscriptions.store.reporting_arenas(arena) {
            let on_arena = self.waits.range((arena, 0)..=(arena, u64::MAX));
            let keys: Vec<_> = on_arena.map(|(&key, _)| key).collect();
            for key in keys {
                let lags = self.lag_reason(session, key.1).is_some();
                let Some(wait) = self.waits.get_mut(&key) else { continue };
                if lags {
                    wait.lagging.insert(session);
                } else {
                    wait.lagging.remove(&session);
                    self.end_wait(key);
                }
            }
        }
    }

    /// Removes a session from all waits, and returns the keys of those that it delayed. Costs one
    /// step per wait.
    pub(crate) fn leave_waits(&mut self, session: Slot) -> Vec<(Slot, u64)> {
        let left = self.waits.iter_mut();
        left.filter_map(|(&key, wait)| wait.lagging.remove(&session).then_some(key)).collect()
    }

    /// Ends those of these waits that no session delays any more.
    pub(crate) fn end_waits(&mut self, waits: Vec<(Slot, u64)>) {
        waits.into_iter().for_each(|key| self.end_wait(key));
    }

    /// Removes the sessions from waits that no longer concern them after a change of layers.
    pub(crate) fn review_layers(&mut self) {
        let store = &self.subscriptions.store;
        let sessions = &self.subscriptions.sessions;
        for (&(arena, _), wait) in &mut self.waits {
            wait.lagging.retain(|&session| {
                let on = sessions.at(session).map(|session| session.arena);
                on.is_some_and(|on| store.reporting_arenas(on).contains(&arena))
            });
        }
        let places: Vec<_> = self.waits.keys().copied().collect();
        self.end_waits(places);
    }

    /// Session of the stream that sees one of the arenas, directly or through layers.
    fn session_above(&self, stream: &Stream, arenas: &[Slot]) -> Option<Slot> {
        arenas.iter().find_map(|&arena| {
            let above = self.subscriptions.store.arena(arena).map(|arena| &arena.above);
            stream.session_on(arena).or_else(|| {
                let above = above.filter(|above| !above.is_empty())?;
                let handle = stream.sessions.iter().find(|handle| above.contains(&handle.arena))?;
                Some(handle.session)
            })
        })
    }

    fn end_wait(&mut self, key: (Slot, u64)) {
        if self.waits.get(&key).is_some_and(|wait| wait.lagging.is_empty())
            && let Some(wait) = self.waits.remove(&key)
        {
            self.out.push(wait.into_output(key.1));
        }
    }

    /// Reason for which the client of the session has not accepted a change; `None` if it has.
    fn lag_reason(&self, session: Slot, sequence: u64) -> Option<LagReason> {
        if sequence >= self.rejections.oldest(session) {
            return Some(LagReason::Rejected);
        }
        let view = SessionView::of(session, &self.subscriptions)?;
        (sequence >= view.session.answered_before(view.arena)).then_some(LagReason::Pending)
    }
}
