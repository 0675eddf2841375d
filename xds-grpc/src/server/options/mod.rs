//! Options of a management server's transport. The protocol is configured with the core's
//! `ServerConfig`.

pub(crate) mod limit_advice;

use core::time::Duration;
use std::sync::Arc;

use xds_core::rollout::{NodeDetail, Sharing};

use self::limit_advice::LimitAdvice;
use crate::{
    credentials::ServerCredentials,
    keepalive::Keepalive,
    payload::{PayloadPrinter, Printer},
    server::{
        access::authorize::{Authorizer, SharedAuthorizer},
        load_reports::LoadCollector,
    },
};

/// Options for listeners, connections and logs of a management server.
///
/// The maximum response size is set in the core:
/// [`ServerLimits::response_bytes`](xds_core::server::ServerLimits::response_bytes).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerOptions {
    /// Seed of the core's hash tables. `None`, the default, selects a random seed, so that clients
    /// cannot choose colliding names.
    pub seed: Option<u64>,
    /// Keepalive pings and probes, which detect dead connections; [`Keepalive::SERVER`] by default.
    pub keepalive: Keepalive,
    /// Maximum size of a request in bytes; 4 MiB by default, as in gRPC, which is enough for about
    /// a hundred thousand names. A larger request ends its stream with `RESOURCE_EXHAUSTED` and a
    /// message that states the limit.
    pub max_request_bytes: usize,
    /// Maximum time between the first and the last byte of a request; 10 s by default, plus one
    /// second for each 16 KiB. A slower request ends its stream with `RESOURCE_EXHAUSTED`.
    pub request_timeout: Duration,
    /// Maximum number of bytes of incomplete requests on a connection; 16 MiB by default. The stream
    /// that exceeds it ends with `RESOURCE_EXHAUSTED`, or a REST request with status 413.
    pub max_incomplete_bytes_per_connection: usize,
    /// Maximum number of bytes of incomplete requests on all connections; 64 MiB by default. If it
    /// is exceeded, the connection that holds most of them gives up its incomplete requests: their
    /// streams end with `RESOURCE_EXHAUSTED`, or a REST request fails with status 503.
    pub max_incomplete_bytes: usize,
    /// Maximum number of bytes of responses on a connection that the client does not read, so that
    /// HTTP/2 has not taken them; 16 MiB by default. The last response may exceed it. Further
    /// responses are rendered once the client has read some.
    pub max_unread_bytes_per_connection: usize,
    /// Maximum number of bytes of such responses on all connections; 64 MiB by default. The last
    /// response may exceed it. Bytes that several clients share count once, and only after the
    /// server's state has dropped them.
    ///
    /// At the limit, further responses are rendered once clients have read some. In addition, the
    /// connections with most bytes are closed with `ENHANCE_YOUR_CALM`, which gRPC maps to
    /// `RESOURCE_EXHAUSTED`, until half of the limit is free. A connection is not closed if its
    /// client has read a part of each response within the last 250 ms. In a gRPC server of the
    /// application, each call counts as a connection, and only the call ends.
    pub max_unread_bytes: usize,
    /// Maximum number of concurrent calls on a connection; 100 by default. A client needs one, or
    /// one per type; a relay needs one per client. Further calls wait in the client.
    pub max_concurrent_streams: u32,
    /// Maximum number of concurrent connections of the server's listeners, including those in a
    /// handshake; 10,000 by default.
    ///
    /// Further connections are closed at once and [reported](crate::server::Observed::ConnectionRefused).
    /// Each connection needs a file descriptor. If the process has fewer, accepting pauses when
    /// they run out, so raise the process's limit or lower this one.
    pub max_connections: usize,
    /// Maximum number of concurrent connections from one IP address; `None`, the default, means no
    /// limit. IPv6 addresses with the same first 64 bits count as one. Connections over socket
    /// files are not limited.
    ///
    /// Further connections are closed at once and [reported](crate::server::Observed::ConnectionRefused).
    pub max_connections_per_address: Option<usize>,
    /// Maximum number of concurrent handshakes of the server's listeners; 1,024 by default, at
    /// least 1.
    ///
    /// A handshake comprises TLS and the client's HTTP/2 preface or, on a REST listener, the head
    /// of the first request. If this limit or that of connections is reached, a new connection
    /// replaces the oldest handshake, whose connection is closed. Clients that connect and send
    /// nothing therefore do not block others.
    pub max_handshakes: usize,
    /// Maximum time for connections to close after a shutdown; 5 s by default.
    pub shutdown_grace: Duration,
    /// Number of observations that wait for a slow reader before it loses the oldest; 1,024 by
    /// default, at least 1.
    pub observation_capacity: usize,
    /// Number of [events](crate::server::ServerHandle::events) that wait for the application before the
    /// server stops reading requests; 1,024 by default, at least 1.
    pub event_capacity: usize,
    /// Node data of connected clients that is kept for [rollouts](crate::server::ServerHandle::rollout). By
    /// default none is kept, so a policy can only select a share of all clients.
    /// [`NodeDetail::Full`] allows policies with conditions on the node, including its id, and
    /// costs some hundred bytes per client.
    pub node_detail: NodeDetail,
    /// Whether replicas, or this server after a restart, continue a
    /// [rollout](crate::server::ServerHandle::rollout). By default, a rollout exists only in this server
    /// and ends with it. With [`Sharing::Replicas`], the application must
    /// [store](crate::server::ServerHandle::shared_rollouts) each state of a rollout.
    pub rollout_sharing: Sharing,
    /// TLS credentials of the server's listeners; `None`, the default, serves without TLS.
    pub credentials: Option<ServerCredentials>,
    pub(crate) limit_advice: LimitAdvice,
    pub(crate) authorizer: Option<SharedAuthorizer>,
    pub(crate) load_reports: Option<LoadCollector>,
    pub(crate) printer: Printer,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            seed: None,
            keepalive: Keepalive::SERVER,
            max_request_bytes: 4 << 20,
            limit_advice: LimitAdvice::default(),
            request_timeout: Duration::from_secs(10),
            max_incomplete_bytes_per_connection: 16 << 20,
            max_incomplete_bytes: 64 << 20,
            max_unread_bytes_per_connection: 16 << 20,
            max_unread_bytes: 64 << 20,
            max_concurrent_streams: 100,
            max_connections: 10_000,
            max_connections_per_address: None,
            max_handshakes: 1_024,
            shutdown_grace: Duration::from_secs(5),
            observation_capacity: 1_024,
            event_capacity: 1_024,
            node_detail: NodeDetail::default(),
            rollout_sharing: Sharing::default(),
            credentials: None,
            authorizer: None,
            load_reports: None,
            printer: Printer::default(),
        }
    }
}

impl ServerOptions {
    /// Sets the seed of the core's hash tables.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets the keepalive pings and probes.
    #[must_use]
    pub fn with_keepalive(mut self, keepalive: Keepalive) -> Self {
        self.keepalive = keepalive;
        self
    }

    /// Sets the time for a request to arrive once it has begun.
    #[must_use]
    pub fn with_request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// Sets the maximum number of bytes of incomplete requests, on a connection and on all of them.
    #[must_use]
    pub fn with_max_incomplete_bytes(mut self, per_connection: usize, in_total: usize) -> Self {
        self.max_incomplete_bytes_per_connection = per_connection;
        self.max_incomplete_bytes = in_total;
        self
    }

    /// Sets the maximum number of bytes of responses that clients do not read, on a connection and on
    /// all of them.
    #[must_use]
    pub fn with_max_unread_bytes(mut self, per_connection: usize, in_total: usize) -> Self {
        self.max_unread_bytes_per_connection = per_connection;
        self.max_unread_bytes = in_total;
        self
    }

    /// Sets the maximum size of a request in bytes.
    #[must_use]
    pub fn with_max_request_bytes(mut self, bytes: usize) -> Self {
        self.max_request_bytes = bytes;
        self
    }

    /// Sets the advice that is appended to the error of a request that is too large, for example
    /// how to raise the limit. The client sees it.
    #[must_use]
    pub fn with_request_limit_advice(mut self, advice: impl Into<Arc<str>>) -> Self {
        self.limit_advice.request_bytes = Some(advice.into());
        self
    }

    /// Sets the advice that is appended to the error of a connection with too many names
    /// ([`names_per_connection`](xds_core::server::ServerLimits::names_per_connection)), and to
    /// that of the connection with the most names if all connections together have too many
    /// ([`names`](xds_core::server::ServerLimits::names)). The client sees it.
    #[must_use]
    pub fn with_name_limit_advice(
        mut self,
        per_connection: impl Into<Arc<str>>,
        in_total: impl Into<Arc<str>>,
    ) -> Self {
        self.limit_advice.names_per_connection = Some(per_connection.into());
        self.limit_advice.names = Some(in_total.into());
        self
    }

    /// Sets the maximum number of concurrent calls on a connection.
    #[must_use]
    pub fn with_max_concurrent_streams(mut self, streams: u32) -> Self {
        self.max_concurrent_streams = streams;
        self
    }

    /// Sets the maximum number of concurrent connections.
    #[must_use]
    pub fn with_max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections;
        self
    }

    /// Sets the maximum number of concurrent connections from one IP address.
    #[must_use]
    pub fn with_max_connections_per_address(mut self, connections: usize) -> Self {
        self.max_connections_per_address = Some(connections);
        self
    }

    /// Sets the maximum number of concurrent handshakes.
    #[must_use]
    pub fn with_max_handshakes(mut self, handshakes: usize) -> Self {
        self.max_handshakes = handshakes;
        self
    }

    /// Sets the maximum time for connections to close after a shutdown.
    #[must_use]
    pub fn with_shutdown_grace(mut self, grace: Duration) -> Self {
        self.shutdown_grace = grace;
        self
    }

    /// Sets the number of observations that wait for a slow reader.
    #[must_use]
    pub fn with_observation_capacity(mut self, observations: usize) -> Self {
        self.observation_capacity = observations;
        self
    }

    /// Sets the number of events that wait for the application before the server stops reading
    /// requests.
    #[must_use]
    pub fn with_event_capacity(mut self, events: usize) -> Self {
        self.event_capacity = events;
        self
    }

    /// Sets the node data that is kept for rollouts.
    #[must_use]
    pub fn with_node_detail(mut self, detail: NodeDetail) -> Self {
        self.node_detail = detail;
        self
    }

    /// Sets whether other servers, or this one after a restart, continue a rollout.
    #[must_use]
    pub fn with_rollout_sharing(mut self, sharing: Sharing) -> Self {
        self.rollout_sharing = sharing;
        self
    }

    /// Enables TLS on the server's listeners.
    #[must_use]
    pub fn with_credentials(mut self, credentials: ServerCredentials) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// Sets the authorizer, which decides whether a client is served and which view it sees. The
    /// server's admission becomes [`ByApplication`](xds_core::server::Admission::ByApplication). Without an
    /// authorizer, all clients see the default view.
    #[must_use]
    pub fn with_authorizer(mut self, authorizer: impl Authorizer + 'static) -> Self {
        self.authorizer = Some(SharedAuthorizer(Arc::new(authorizer)));
        self
    }

    /// Serves streams of load reports, and collects the reports. By default, clients that open such a
    /// stream get `UNIMPLEMENTED`.
    #[must_use]
    pub fn with_load_reports(mut self, collector: LoadCollector) -> Self {
        self.load_reports = Some(collector);
        self
    }

    /// Sets the printer of resources in logs at the level TRACE. By default only sizes are printed.
    #[must_use]
    pub fn with_payload_printer(mut self, printer: impl PayloadPrinter + 'static) -> Self {
        self.printer = Printer(Arc::new(printer));
        self
    }
}
