//! How a management server's transport behaves. What is said on it is the core's matter.

use core::time::Duration;
use std::sync::Arc;

use super::authorize::{Authorizer, Gatekeeper};
use crate::{
    credentials::ServerCredentials,
    keepalive::Keepalive,
    payload::{PayloadPrinter, Printer},
};

/// How a management server listens, and what it logs.
///
/// How long its responses may be is part of the protocol's side, and therefore in the core's
/// [`ServerLimits::response_bytes`](xds_core::server::ServerLimits::response_bytes).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerOptions {
    /// What keys the core's hash tables; `None`, the default, draws it, so that clients cannot choose
    /// names that collide.
    pub seed: Option<u64>,
    /// How a dead connection is found out; without it the state of a client that vanished stays.
    pub keepalive: Keepalive,
    /// The longest request that is taken, in bytes; 16 MiB by default, four times gRPC's, which
    /// holds a few hundred thousand names. A longer one ends its stream with `RESOURCE_EXHAUSTED`.
    pub max_request_bytes: usize,
    /// How many calls one connection may have at a time; 1,000 by default. A client needs one, a
    /// relay one for each of its clients.
    pub max_concurrent_streams: u32,
    /// How many connections the listeners of the server have at a time, those that shake hands included; 10,000 by
    /// default. What comes beyond is closed at once, and [told](super::Observed::ConnectionRefused). Each takes a file
    /// descriptor: a process that may have fewer open than this runs out of them first, and then accepts nobody for
    /// a while, so raise its limit, or lower this one below it.
    pub max_connections: usize,
    /// How long connections may take to close after a shut-down before they are cut; 5 s by default.
    pub shutdown_grace: Duration,
    /// How many observations wait for a slow reader before the oldest are lost to it; 1,024 by
    /// default.
    pub observation_capacity: usize,
    /// How many [events](super::ServerHandle::events) wait for the application before no more requests are
    /// read; 1,024 by default.
    pub event_capacity: usize,
    /// How connections are secured; `None`, the default, is not at all, as within a machine.
    pub credentials: Option<ServerCredentials>,
    pub(crate) authorizer: Option<Gatekeeper>,
    pub(crate) printer: Printer,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            seed: None,
            keepalive: Keepalive::SERVER,
            max_request_bytes: 16 << 20,
            max_concurrent_streams: 1_000,
            max_connections: 10_000,
            shutdown_grace: Duration::from_secs(5),
            observation_capacity: 1_024,
            event_capacity: 1_024,
            credentials: None,
            authorizer: None,
            printer: Printer::default(),
        }
    }
}

impl ServerOptions {
    /// Fixes the core's randomness.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets how a dead connection is found out.
    #[must_use]
    pub fn with_keepalive(mut self, keepalive: Keepalive) -> Self {
        self.keepalive = keepalive;
        self
    }

    /// Sets the longest request that is taken, in bytes.
    #[must_use]
    pub fn with_max_request_bytes(mut self, bytes: usize) -> Self {
        self.max_request_bytes = bytes;
        self
    }

    /// Sets how many calls one connection may have at a time.
    #[must_use]
    pub fn with_max_concurrent_streams(mut self, streams: u32) -> Self {
        self.max_concurrent_streams = streams;
        self
    }

    /// Sets how many connections the listeners of the server have at a time.
    #[must_use]
    pub fn with_max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections;
        self
    }

    /// Sets how long connections may take to close after a shut-down.
    #[must_use]
    pub fn with_shutdown_grace(mut self, grace: Duration) -> Self {
        self.shutdown_grace = grace;
        self
    }

    /// Sets how many observations wait for a slow reader; at least one does.
    #[must_use]
    pub fn with_observation_capacity(mut self, observations: usize) -> Self {
        self.observation_capacity = observations;
        self
    }

    /// Sets how many events wait for the application before no more requests are read; at least one does.
    #[must_use]
    pub fn with_event_capacity(mut self, events: usize) -> Self {
        self.event_capacity = events;
        self
    }

    /// Speaks TLS on the connections of the server's own listeners.
    #[must_use]
    pub fn with_credentials(mut self, credentials: ServerCredentials) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// Sets who decides whether a client is served and what it sees, which makes the admission of the
    /// server [`Asked`](xds_core::server::Admission::Asked). Without one all clients see the default
    /// view.
    #[must_use]
    pub fn with_authorizer(mut self, authorizer: impl Authorizer + 'static) -> Self {
        self.authorizer = Some(Gatekeeper(Arc::new(authorizer)));
        self
    }

    /// Sets what logs at the level TRACE show of resources; by default their sizes.
    #[must_use]
    pub fn with_payload_printer(mut self, printer: impl PayloadPrinter + 'static) -> Self {
        self.printer = Printer(Arc::new(printer));
        self
    }
}
