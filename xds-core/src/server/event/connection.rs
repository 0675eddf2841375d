//! Connection on which a stream arrives.

use alloc::sync::Arc;

/// Connection on which a stream arrives, as known to its transport; see
/// [`Server::accept_on`](crate::server::Server::accept_on).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Connection {
    /// Number that the transport chose, unique among open connections. Streams with the same number
    /// share the budget of the connection
    /// ([`names_per_connection`](crate::server::ServerLimits::names_per_connection)).
    pub id: u64,
    /// Authenticated identity of the client, such as a SPIFFE id; empty if it is unknown. Streams of
    /// different identities are counted apart even if their clients claim the same node id
    /// ([`streams_per_node`](crate::server::ServerLimits::streams_per_node)).
    pub principal: Arc<str>,
}

impl Connection {
    /// Creates a connection whose client is not authenticated.
    #[must_use]
    pub fn new(id: u64) -> Self {
        Self { id, principal: Arc::default() }
    }

    /// Sets the authenticated identity of the client.
    #[must_use]
    pub fn with_principal(self, principal: impl Into<Arc<str>>) -> Self {
        Self { principal: principal.into(), ..self }
    }
}
