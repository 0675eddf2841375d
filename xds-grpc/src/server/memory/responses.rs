//! Memory of responses that transports have not taken yet: a budget per connection and one per
//! server.
//!
//! A response is only rendered while both budgets have room; otherwise its stream waits. A budget
//! is therefore exceeded by at most one response. If the server's budget is exhausted while a
//! stream waits, connections that have not read for a while are closed, those that hold most first,
//! until half of the budget is free. Connections that read are never closed, even if others slow
//! them down.
//!
//! The memory of a response counts once for the server, even if several connections hold it. While
//! the store also holds it, it does not count.

use core::{
    fmt,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, Weak},
};

use bytes::Bytes;
use xds_core::Time;

use super::eviction::Eviction;
use crate::{clock::Clock, guard::locked};

/// Time without progress of a response after which its connection may be ended.
const STALLED: Duration = Duration::from_millis(250);

/// Size in bytes up to which pieces of a response do not count. The number of streams bounds their
/// number.
const SMALL: usize = 1 << 10;

/// Memory of a server's responses. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct ResponseMemory(Arc<Shared>);

struct Shared {
    per_connection: usize,
    per_server: usize,
    clock: Clock,
    /// Notifies the driver that memory was released, or is exhausted.
    notify: Box<dyn Fn() + Send + Sync>,
    state: Mutex<ResponseState>,
}

#[derive(Debug, Default)]
struct ResponseState {
    /// Bytes that count for the server.
    used: usize,
    /// Id of the next connection or response.
    next: u64,
    /// Connections with responses.
    connections: BTreeMap<u64, UnreadConnection>,
    /// Bodies that do not count because something else held them at the last check, by address and
    /// length.
    shared: BTreeMap<(usize, usize), Weak<Body>>,
    notification: Notification,
    /// Earliest time at which another connection may be stalled.
    next_check: Option<Time>,
}

/// Whether the driver wants to know when memory is released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Notification {
    #[default]
    None,
    Wanted,
}

#[derive(Debug)]
struct UnreadConnection {
    /// Bytes of its responses, including those that are also held elsewhere.
    held: usize,
    eviction: Arc<Eviction>,
    /// Time at which it was told to close.
    evicted_at: Option<Time>,
    /// Responses, each with the time at which the transport last took a part of it.
    responses: BTreeMap<u64, Arc<AtomicU64>>,
}

/// Bytes in one or more transports.
#[derive(Debug)]
struct Body {
    bytes: Bytes,
    is_counted: AtomicBool,
    memory: ResponseMemory,
}

/// Memory of the responses of one connection. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionResponses {
    memory: ResponseMemory,
    id: u64,
    eviction: Arc<Eviction>,
}

/// Bytes of a response, whose memory is released when they and all slices of them are dropped.
#[derive(Debug, Default)]
pub(crate) struct HeldResponse {
    pub(crate) bytes: Bytes,
    progress: Option<Progress>,
}

/// Time at which a transport last took a part of a response.
#[derive(Debug)]
struct Progress {
    at: Arc<AtomicU64>,
    clock: Clock,
}

/// Owner of the bytes of a response on one connection.
struct InTransport {
    body: Arc<Body>,
    connection: ConnectionResponses,
    id: u64,
}

/// Result of [`ResponseMemory::relieve`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Relief {
    /// The budget is not exhausted.
    NotNeeded,
    /// The connections with these ids are ended.
    Evicted(Vec<u64>),
    /// No connection is stalled before this time.
    After(Time),
}

impl ResponseMemory {
    pub(crate) fn new(
        per_connection: usize,
        per_server: usize,
        clock: Clock,
        notify: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let (notify, state) = (Box::new(notify), Mutex::default());
        Self(Arc::new(Shared { per_connection, per_server, clock, notify, state }))
    }

    /// Returns the memory of a new connection.
    pub(crate) fn connection(&self) -> ConnectionResponses {
        let id = self.lock().next_id();
        ConnectionResponses { memory: self.clone(), id, eviction: Arc::default() }
    }

    /// Returns the number of bytes that count.
    pub(crate) fn used(&self) -> usize {
        self.lock().used
    }

    /// Counts the bodies that nothing else holds any more.
    pub(crate) fn count_unshared(&self) {
        let mut state = self.lock();
        if state.shared.is_empty() {
            return;
        }
        // A body must not be dropped under the lock.
        let mut bodies = Vec::new();
        let mut unshared = 0;
        state.shared.retain(|_, body| {
            let Some(body) = body.upgrade() else { return false };
            let is_unshared = body.bytes.is_unique();
            if is_unshared {
                body.is_counted.store(true, Ordering::Relaxed);
                unshared += body.bytes.len();
            }
            bodies.push(body);
            !is_unshared
        });
        state.used += unshared;
        drop(state);
    }

    /// Ends stalled connections if the server's budget is exhausted: the heaviest first, until half of
    /// the budget is free.
    pub(crate) fn relieve(&self, now: Time) -> Relief {
        let mut state = self.lock();
        if state.used < self.0.per_server {
            return Relief::NotNeeded;
        }
        if let Some(at) = state.next_check.filter(|at| *at > now) {
            return Relief::After(at);
        }
        // The memory of the last one is about to be released.
        let evicted_at = state.connections.values().filter_map(|it| it.evicted_at).max();
        if let Some(until) = evicted_at.map(|at| at.after(STALLED)).filter(|until| *until > now) {
            return Relief::After(until);
        }
        let stalled_at = |connection: &UnreadConnection| {
            let oldest = connection.responses.values().map(|at| at.load(Ordering::Relaxed)).min();
            oldest.map_or(now, Time::from_nanos).after(STALLED)
        };
        let open = state.connections.iter().filter(|(_, it)| it.evicted_at.is_none());
        let stalled = open.filter(|(_, it)| stalled_at(it) <= now);
        let mut stalled: Vec<_> = stalled.map(|(id, it)| (it.held, *id)).collect();
        stalled.sort_unstable();
        let (mut left, mut evicted) = (state.used, Vec::new());
        while left >= self.0.per_server / 2
            && let Some((held, id)) = stalled.pop()
        {
            left = left.saturating_sub(held);
            evicted.push(id);
            if let Some(connection) = state.connections.get_mut(&id) {
                connection.evicted_at = Some(now);
                connection.eviction.set();
            }
        }
        if !evicted.is_empty() {
            return Relief::Evicted(evicted);
        }
        let open = state.connections.values().filter(|it| it.evicted_at.is_none());
        let next = open.map(stalled_at).min().unwrap_or_else(|| now.after(STALLED));
        state.next_check = Some(next);
        Relief::After(next)
    }

    /// Returns the text for the client of a connection that is ended.
    pub(crate) fn exceeded(&self) -> String {
        format!(
            "responses that their clients do not read exceed {} bytes, most of them on this \
             connection",
            self.0.per_server
        )
    }

    fn lock(&self) -> MutexGuard<'_, ResponseState> {
        locked(&self.0.state)
    }

    /// Notifies the driver, if it waits, that memory was released.
    fn note_released(&self, mut state: MutexGuard<'_, ResponseState>) {
        let notification = core::mem::take(&mut state.notification);
        drop(state);
        if notification == Notification::Wanted {
            (self.0.notify)();
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseMemory").field("state", &self.state).finish_non_exhaustive()
    }
}

impl ResponseState {
    fn next_id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl ConnectionResponses {
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns the number of bytes of the connection's responses.
    pub(crate) fn held(&self) -> usize {
        self.memory.lock().connections.get(&self.id).map_or(0, |connection| connection.held)
    }

    /// Whether a response may be rendered. If not, the driver is notified when memory is released.
    pub(crate) fn has_room(&self) -> bool {
        let Shared { per_connection, per_server, .. } = *self.memory.0;
        let mut state = self.memory.lock();
        let held = state.connections.get(&self.id).map_or(0, |connection| connection.held);
        let has_room = held < per_connection.max(1) && state.used < per_server.max(1);
        if !has_room {
            state.notification = Notification::Wanted;
        }
        has_room
    }

    /// Whether a response may be rendered outside of the driver. If not, the driver ends stalled
    /// connections.
    #[cfg(feature = "rest")]
    pub(crate) fn has_room_or_asks(&self) -> bool {
        let has_room = self.has_room();
        if !has_room {
            (self.memory.0.notify)();
        }
        has_room
    }

    /// Counts bytes until the transport has dropped them.
    pub(crate) fn hold(&self, bytes: Bytes) -> HeldResponse {
        let length = bytes.len();
        if length < SMALL {
            return HeldResponse { bytes, progress: None };
        }
        let clock = self.memory.0.clock.clone();
        let at = Arc::new(AtomicU64::new(clock.now().as_nanos()));
        let mut state = self.memory.lock();
        let id = state.next_id();
        let entry = state.connections.entry(self.id);
        let connection = entry.or_insert_with(|| UnreadConnection {
            held: 0,
            eviction: Arc::clone(&self.eviction),
            evicted_at: None,
            responses: BTreeMap::new(),
        });
        connection.held += length;
        connection.responses.insert(id, Arc::clone(&at));
        let body = self.memory.body(&mut state, bytes);
        drop(state);
        let bytes = Bytes::from_owner(InTransport { body, connection: self.clone(), id });
        HeldResponse { bytes, progress: Some(Progress { at, clock }) }
    }

    /// Waits until the connection has to end, and returns the reason.
    pub(crate) async fn evicted(&self) -> String {
        self.eviction.wait().await;
        self.memory.exceeded()
    }
}

impl ResponseMemory {
    /// Returns the body with these bytes.
    fn body(&self, state: &mut ResponseState, bytes: Bytes) -> Arc<Body> {
        let is_counted = bytes.is_unique();
        let key = (bytes.as_ptr().addr(), bytes.len());
        if let Some(known) = state.shared.get(&key).and_then(Weak::upgrade) {
            return known;
        }
        if is_counted {
            state.used += bytes.len();
        }
        let is_counted = AtomicBool::new(is_counted);
        let body = Arc::new(Body { bytes, is_counted, memory: self.clone() });
        if !body.is_counted.load(Ordering::Relaxed) {
            state.shared.insert(key, Arc::downgrade(&body));
        }
        body
    }
}

impl HeldResponse {
    /// Returns the next bytes, at most `most`, for the transport; empty at the end.
    pub(crate) fn take(&mut self, most: usize) -> Bytes {
        if let Some(Progress { at, clock }) = &self.progress {
            at.store(clock.now().as_nanos(), Ordering::Relaxed);
        }
        self.bytes.split_to(self.bytes.len().min(most))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

impl AsRef<[u8]> for InTransport {
    fn as_ref(&self) -> &[u8] {
        &self.body.bytes
    }
}

impl Drop for InTransport {
    fn drop(&mut self) {
        let ConnectionResponses { memory, id, .. } = &self.connection;
        let mut state = memory.lock();
        if let Some(connection) = state.connections.get_mut(id) {
            connection.held -= self.body.bytes.len();
            connection.responses.remove(&self.id);
            if connection.responses.is_empty() {
                state.connections.remove(id);
            }
        }
        memory.note_released(state);
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if self.is_counted.load(Ordering::Relaxed) {
            let mut state = self.memory.lock();
            state.used -= self.bytes.len();
            self.memory.note_released(state);
        }
    }
}
