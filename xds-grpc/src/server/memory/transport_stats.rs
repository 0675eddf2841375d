//! Counters of a server's transports, for operators.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;

use super::{requests::RequestMemory, responses::ResponseMemory};

/// Counters of a server's connections and budgets since its start, and gauges of their current state
/// ([`ServerHandle::transport_stats`](crate::server::ServerHandle::transport_stats)).
///
/// Fields of type `usize` are gauges; fields of type `u64` are counters. Connections and handshakes
/// are those of the server's own listeners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransportStats {
    /// Open connections, with those whose handshake is not finished.
    pub connections: usize,
    /// Bytes of incomplete requests
    /// ([`max_incomplete_bytes`](crate::server::ServerOptions::max_incomplete_bytes)).
    pub incomplete_request_bytes: usize,
    /// Bytes of responses that transports have not taken
    /// ([`max_unread_bytes`](crate::server::ServerOptions::max_unread_bytes)).
    pub unread_response_bytes: usize,
    /// Connections closed at once because of
    /// [`max_connections`](crate::server::ServerOptions::max_connections).
    pub refused_connections: u64,
    /// Connections closed at once because of
    /// [`max_connections_per_address`](crate::server::ServerOptions::max_connections_per_address).
    pub refused_connections_of_one_address: u64,
    /// Handshakes dropped in favour of newer connections
    /// ([`max_handshakes`](crate::server::ServerOptions::max_handshakes)).
    pub dropped_handshakes: u64,
    /// TLS handshakes that failed or took too long.
    pub failed_tls_handshakes: u64,
    /// Connections closed because no request head or HTTP/2 preface arrived in time.
    pub silent_connections: u64,
    /// Requests rejected because of the size limit, the deadline, or the budgets of incomplete
    /// requests.
    pub refused_requests: u64,
    /// Connections closed because of more than 100 SETTINGS frames, or 100 ping responses, in a
    /// second.
    pub flooded_connections: u64,
    /// Connections closed because their clients did not read responses
    /// ([`max_unread_bytes`](crate::server::ServerOptions::max_unread_bytes)).
    pub unread_connections: u64,
}

/// Shared counters of a server's transports.
#[derive(Clone, Debug, Default)]
pub(crate) struct TransportCounters(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    connections: AtomicUsize,
    refused_connections: AtomicU64,
    refused_connections_of_one_address: AtomicU64,
    dropped_handshakes: AtomicU64,
    failed_tls_handshakes: AtomicU64,
    silent_connections: AtomicU64,
    refused_requests: AtomicU64,
    flooded_connections: AtomicU64,
    unread_connections: AtomicU64,
}

/// Event that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransportEvent {
    RefusedConnection,
    RefusedConnectionOfOneAddress,
    DroppedHandshake,
    FailedTlsHandshake,
    SilentConnection,
    RefusedRequest,
    FloodedConnection,
    UnreadConnection,
}

/// Counts a connection as open until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection(TransportCounters);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let TransportCounters(counts) = &self.0;
        counts.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl TransportCounters {
    /// Counts one more open connection.
    pub(crate) fn open_connection(&self) -> OpenConnection {
        self.0.connections.fetch_add(1, Ordering::Relaxed);
        OpenConnection(self.clone())
    }

    pub(crate) fn note(&self, event: TransportEvent) {
        self.counter(event).fetch_add(1, Ordering::Relaxed);
    }

    fn counter(&self, event: TransportEvent) -> &AtomicU64 {
        let Self(counts) = self;
        match event {
            TransportEvent::RefusedConnection => &counts.refused_connections,
            TransportEvent::RefusedConnectionOfOneAddress => {
                &counts.refused_connections_of_one_address
            }
            TransportEvent::DroppedHandshake => &counts.dropped_handshakes,
            TransportEvent::FailedTlsHandshake => &counts.failed_tls_handshakes,
            TransportEvent::SilentConnection => &counts.silent_connections,
            TransportEvent::RefusedRequest => &counts.refused_requests,
            TransportEvent::FloodedConnection => &counts.flooded_connections,
            TransportEvent::UnreadConnection => &counts.unread_connections,
        }
    }

    /// Returns the counters, with the gauges of the budgets.
    pub(crate) fn stats(
        &self,
        requests: &RequestMemory,
        responses: &ResponseMemory,
    ) -> TransportStats {
        let read = |event| self.counter(event).load(Ordering::Relaxed);
        TransportStats {
            connections: self.0.connections.load(Ordering::Relaxed),
            incomplete_request_bytes: requests.used(),
            unread_response_bytes: responses.used(),
            refused_connections: read(TransportEvent::RefusedConnection),
            refused_connections_of_one_address: read(TransportEvent::RefusedConnectionOfOneAddress),
            dropped_handshakes: read(TransportEvent::DroppedHandshake),
            failed_tls_handshakes: read(TransportEvent::FailedTlsHandshake),
            silent_connections: read(TransportEvent::SilentConnection),
            refused_requests: read(TransportEvent::RefusedRequest),
            flooded_connections: read(TransportEvent::FloodedConnection),
            unread_connections: read(TransportEvent::UnreadConnection),
        }
    }
}
