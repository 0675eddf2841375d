//! Memory of incomplete requests: a budget per connection and one per server.
//!
//! Limits per request are multiplied by the number of streams and connections, so they do not bound
//! the memory of a server. Only bytes that have arrived count: nothing is reserved for the length
//! that a client announces.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

use thiserror::Error;

use super::eviction::Eviction;
use crate::guard::locked;

/// Memory of a server's incomplete requests.
#[derive(Clone, Debug)]
pub(crate) struct RequestMemory(Arc<Budgets>);

#[derive(Debug)]
struct Budgets {
    per_connection: usize,
    per_server: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Sum of the connections' bytes.
    used: usize,
    next: u64,
    /// Connections with bytes.
    connections: BTreeMap<u64, Connection>,
}

#[derive(Debug)]
struct Connection {
    used: usize,
    /// Tells the connection to give up its incomplete requests.
    eviction: Arc<Eviction>,
}

/// Memory of one connection's incomplete requests. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionMemory {
    memory: RequestMemory,
    id: u64,
    eviction: Arc<Eviction>,
}

/// Reason why an incomplete request is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum MemoryExceeded {
    #[error("the incomplete requests of the connection exceed {0} bytes")]
    Connection(usize),
    #[error(
        "the incomplete requests of all connections exceed {0} bytes, most of them on this one"
    )]
    Server(usize),
}

impl RequestMemory {
    pub(crate) fn new(per_connection: usize, per_server: usize) -> Self {
        Self(Arc::new(Budgets { per_connection, per_server, state: Mutex::default() }))
    }

    /// Returns the memory of a new connection.
    pub(crate) fn connection(&self) -> ConnectionMemory {
        let mut state = self.lock();
        let id = state.next;
        state.next += 1;
        ConnectionMemory { memory: self.clone(), id, eviction: Arc::default() }
    }

    /// Returns the number of bytes of all incomplete requests.
    pub(crate) fn used(&self) -> usize {
        self.lock().used
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        locked(&self.0.state)
    }
}

impl ConnectionMemory {
    /// Returns the memory of an incomplete request, which is empty.
    pub(crate) fn request(&self) -> HeldBytes {
        HeldBytes { connection: self.clone(), bytes: 0 }
    }

    fn server_limit(&self) -> MemoryExceeded {
        MemoryExceeded::Server(self.memory.0.per_server)
    }
}

/// Memory of one incomplete request. Dropping it releases the bytes.
#[derive(Debug)]
pub(crate) struct HeldBytes {
    connection: ConnectionMemory,
    bytes: usize,
}

impl HeldBytes {
    /// Adds bytes that have arrived. If the server's budget is exceeded, the connection that holds
    /// most has to give up its requests.
    pub(crate) fn add(&mut self, bytes: usize) -> Result<(), MemoryExceeded> {
        let ConnectionMemory { memory, id, eviction } = &self.connection;
        if eviction.is_set() {
            return Err(self.connection.server_limit());
        }
        let Budgets { per_connection, per_server, .. } = *memory.0;
        let mut state = memory.lock();
        let entry = state.connections.entry(*id);
        let connection =
            entry.or_insert_with(|| Connection { used: 0, eviction: Arc::clone(eviction) });
        if connection.used + bytes > per_connection {
            return Err(MemoryExceeded::Connection(per_connection));
        }
        connection.used += bytes;
        state.used += bytes;
        self.bytes += bytes;
        if state.used <= per_server {
            return Ok(());
        }
        // If several are equal, the newest.
        let heaviest = state.connections.iter().max_by_key(|(_, connection)| connection.used);
        let Some((heaviest, connection)) = heaviest else { return Ok(()) };
        if heaviest == id {
            return Err(self.connection.server_limit());
        }
        // Under the lock: the connection may release all that it holds, and then clears this.
        connection.eviction.set();
        Ok(())
    }

    /// Releases the bytes of a complete request.
    pub(crate) fn release(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let ConnectionMemory { memory, id, .. } = &self.connection;
        let mut state = memory.lock();
        state.used -= self.bytes;
        if let Some(connection) = state.connections.get_mut(id) {
            connection.used -= self.bytes;
            if connection.used == 0 {
                // Its requests are gone, so it may begin others.
                self.connection.eviction.clear();
                state.connections.remove(id);
            }
        }
        self.bytes = 0;
    }

    /// Waits until the connection has to give up its requests.
    pub(crate) fn evicted(&self) -> impl Future<Output = MemoryExceeded> + Send + use<> {
        let connection = self.connection.clone();
        async move {
            connection.eviction.wait().await;
            connection.server_limit()
        }
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn connection_may_use_its_budget_and_no_more() {
        let connection = RequestMemory::new(100, 1_000).connection();
        let (mut one, mut other) = (connection.request(), connection.request());
        assert_eq!(one.add(60), Ok(()));
        assert_eq!(other.add(40), Ok(()));
        assert_eq!(other.add(1), Err(MemoryExceeded::Connection(100)));
        one.release();
        assert_eq!(other.add(60), Ok(()));
    }

    #[test]
    fn heaviest_connection_gives_way_when_the_server_is_full() {
        let memory = RequestMemory::new(100, 150);
        let (heavy, light) = (memory.connection(), memory.connection());
        let (mut held, mut new) = (heavy.request(), light.request());
        assert_eq!(held.add(100), Ok(()));
        assert_eq!(new.add(50), Ok(()));
        assert!(held.evicted().now_or_never().is_none());
        assert_eq!(new.add(1), Ok(()));
        assert_eq!(held.evicted().now_or_never(), Some(MemoryExceeded::Server(150)));
        assert_eq!(held.add(1), Err(MemoryExceeded::Server(150)));
        drop(held);
        // The connection may go on.
        assert_eq!(heavy.request().add(10), Ok(()));
        assert_eq!(memory.lock().used, 51);
        drop(new);
        assert!(memory.lock().connections.is_empty());
    }
}
