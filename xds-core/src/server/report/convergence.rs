//! Who has accepted a change, and who has not (IS29).
//!
//! What is asked for is a type in a view and the number of a transaction ([`Applied`](crate::server::Applied)).
//! A client has accepted it when it has accepted a response with everything of it, or of
//! what replaced it since, that it subscribes to. One that subscribes to nothing of it has as well. The clients of a
//! view are also those of views that have it as a layer.
//!
//! Counting costs a step for each stream, when asked. Being told costs that once, and then a look at each
//! answer on the type in the view, as long as somebody waits.

use alloc::{sync::Arc, vec::Vec};

use thiserror::Error;

use crate::{
    id::StreamId,
    server::{
        Server,
        stream::{Stream, convergence_waits::Wait},
    },
    slab::Slot,
    text::ViewName,
    time::Time,
};

/// How many clients have accepted a change, of those that are connected and subscribe to its type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Convergence {
    /// How many have accepted it.
    pub accepted: usize,
    /// How many have not been sent it, or have not answered.
    pub pending: usize,
    /// How many have rejected it.
    pub rejected: usize,
    /// Those that have not accepted it, in the order in which their streams came.
    pub lagging: Vec<Laggard>,
}

impl Convergence {
    /// Whether all have accepted it.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.lagging.is_empty()
    }
}

/// A client that has not accepted a change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Laggard {
    /// Its stream.
    pub stream: StreamId,
    /// The id of its node; empty if it gave none.
    pub node_id: Arc<str>,
    /// Why.
    pub lag: Lag,
}

/// Why a client has not accepted a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Lag {
    /// It has not been sent it, or has not answered.
    Pending,
    /// It has rejected it.
    Rejected,
}

/// As many calls wait to be told as may ([`convergence_waits`](crate::server::ServerLimits::convergence_waits)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("more than {limit} calls wait for convergence")]
pub struct TooManyWaits {
    /// The configured limit.
    pub limit: usize,
}

impl Server {
    /// How far the change of this number ([`Applied::sequence`](crate::server::Applied::sequence)), and every one
    /// before it, has got with the clients of a type in a view, be it that they see it as a layer: who is shown none of
    /// the change because another layer hides it has nothing to accept. A number that was not given out yet stands
    /// for the newest.
    #[must_use]
    pub fn convergence(&self, view: &ViewName, type_url: &str, sequence: u64) -> Convergence {
        let sequence = sequence.min(self.subscriptions.store.sequence());
        let mut convergence = Convergence::default();
        let store = &self.subscriptions.store;
        let arena = store.find_view(view).and_then(|view| store.find_arena(view, type_url));
        let Some(arena) = arena else { return convergence };
        for (slot, state) in self.streams.iter() {
            let Some(session) = self.session_above(state, arena) else { continue };
            let Some(lag) = self.lag(session, sequence) else {
                convergence.accepted += 1;
                continue;
            };
            match lag {
                Lag::Pending => convergence.pending += 1,
                Lag::Rejected => convergence.rejected += 1,
            }
            let Some(stream) = self.streams.key(slot).map(StreamId) else { continue };
            let node_id = state.node().cloned().unwrap_or_default();
            convergence.lagging.push(Laggard { stream, node_id, lag });
        }
        convergence
    }

    /// Asks to be told, once, when all clients that are connected then have accepted a change
    /// ([`ServerOutput::Converged`]): at once if they have. Gives the number that will be told. Asked about the
    /// same change again, it tells once, of the clients there are at the last call.
    ///
    /// # Errors
    ///
    /// As many calls wait as may.
    pub fn tell_when_converged(
        &mut self,
        view: &ViewName,
        type_url: &str,
        sequence: u64,
        now: Time,
    ) -> Result<u64, TooManyWaits> {
        self.clock.advance(now);
        let (arena, sequence) = self.place_of_wait(view, type_url, sequence);
        let limit = self.config.limits.convergence_waits;
        let is_new = !self.waits.waits.contains_key(&(arena, sequence));
        if is_new && self.waits.waits.len() >= limit {
            return Err(TooManyWaits { limit });
        }
        let on_arena =
            self.streams.iter().filter_map(|(_, state)| self.session_above(state, arena));
        let lagging = on_arena.filter(|&session| self.lag(session, sequence).is_some()).collect();
        let wait = Wait { view: view.clone(), type_url: type_url.into(), lagging };
        if wait.lagging.is_empty() {
            self.out.tell(wait.over(sequence));
        } else {
            self.waits.waits.insert((arena, sequence), wait);
        }
        Ok(sequence)
    }

    /// Nobody waits any longer to be told of a change, by the number that
    /// [`tell_when_converged`](Self::tell_when_converged) gave: that makes room for others.
    pub fn stop_waiting(&mut self, view: &ViewName, type_url: &str, sequence: u64) {
        let place = self.place_of_wait(view, type_url, sequence);
        self.waits.waits.remove(&place);
    }

    fn place_of_wait(&self, view: &ViewName, type_url: &str, sequence: u64) -> (Slot, u64) {
        let store = &self.subscriptions.store;
        let arena = store.find_view(view).and_then(|view| store.find_arena(view, type_url));
        (arena.unwrap_or(Slot::NONE), sequence.min(store.sequence()))
    }

    /// The change of the number `change`, or something that came after it, may have made something due.
    pub(crate) fn note_progress(&mut self, session: Slot, change: u64) {
        let subscriptions = &mut self.subscriptions;
        let Some(state) = subscriptions.sessions.at_mut(session) else { return };
        let Some(arena) = subscriptions.store.arena(state.arena) else { return };
        state.note_due(arena, change);
        self.review_waits(session);
    }

    /// Something was rendered on the stream, which may have made other things due, or it turned out that
    /// nothing is.
    pub(crate) fn note_rendered(&mut self, id: StreamId) {
        let next = self.subscriptions.store.sequence() + 1;
        let count = self.streams.get(id.0).map_or(0, |stream| stream.sessions.len());
        for position in 0..count {
            let seats = self.streams.get(id.0).map(|stream| &stream.sessions);
            if let Some(seat) = seats.and_then(|seats| seats.get(position)) {
                self.note_progress(seat.session, next);
            }
        }
    }

    /// The session has got further, or fallen back.
    pub(crate) fn review_waits(&mut self, session: Slot) {
        if self.waits.waits.is_empty() {
            return;
        }
        let Some(arena) = self.subscriptions.sessions.at(session).map(|it| it.arena) else {
            return;
        };
        for arena in self.subscriptions.store.shown_in(arena) {
            for sequence in self.waits.on(arena) {
                let lags = self.lag(session, sequence).is_some();
                let Some(wait) = self.waits.waits.get_mut(&(arena, sequence)) else { continue };
                if lags {
                    wait.lagging.insert(session);
                } else {
                    wait.lagging.remove(&session);
                    self.end_wait(arena, sequence);
                }
            }
        }
    }

    /// The session is no longer where it was. Costs a step for each wait.
    pub(crate) fn leave_waits(&mut self, session: Slot) {
        let left = self.waits.waits.iter_mut();
        let left: Vec<_> =
            left.filter_map(|(&at, wait)| wait.lagging.remove(&session).then_some(at)).collect();
        for (arena, sequence) in left {
            self.end_wait(arena, sequence);
        }
    }

    /// A view has other layers: who sees it is waited for no longer where it is not concerned any more.
    pub(crate) fn review_layers(&mut self) {
        let store = &self.subscriptions.store;
        let sessions = &self.subscriptions.sessions;
        for (&(arena, _), wait) in &mut self.waits.waits {
            wait.lagging.retain(|&session| {
                let on = sessions.at(session).map(|session| session.arena);
                on.is_some_and(|on| store.shown_in(on).contains(&arena))
            });
        }
        let places: Vec<_> = self.waits.waits.keys().copied().collect();
        for (arena, sequence) in places {
            self.end_wait(arena, sequence);
        }
    }

    /// The session of a stream that sees an arena: on it, or on one of layers that shows it.
    fn session_above(&self, stream: &Stream, arena: Slot) -> Option<Slot> {
        let above = self.subscriptions.store.arena(arena).map(|arena| &arena.above);
        stream.session_on(arena).or_else(|| {
            let above = above.filter(|above| !above.is_empty())?;
            let seat = stream.sessions.iter().find(|seat| above.contains(&seat.arena))?;
            Some(seat.session)
        })
    }

    fn end_wait(&mut self, arena: Slot, sequence: u64) {
        let key = (arena, sequence);
        if self.waits.waits.get(&key).is_some_and(|wait| wait.lagging.is_empty())
            && let Some(wait) = self.waits.waits.remove(&key)
        {
            self.out.tell(wait.over(sequence));
        }
    }

    /// Why the client of the session has not accepted a change, if it has not.
    fn lag(&self, session: Slot, sequence: u64) -> Option<Lag> {
        if sequence >= self.rejections.oldest(session) {
            return Some(Lag::Rejected);
        }
        let state = self.subscriptions.sessions.at(session)?;
        let arena = self.subscriptions.store.arena(state.arena)?;
        (sequence >= state.answered_before(arena)).then_some(Lag::Pending)
    }
}
