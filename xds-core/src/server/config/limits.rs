//! Limits on the resources, streams and requests of a server.

use core::time::Duration;

use super::Rate;
use crate::text::NAME_BYTES;

/// Limits on what one client, or the application, can make the server hold.
///
/// Unless a field says otherwise, a stream that exceeds a limit is closed with a
/// [`CloseReason`](super::super::CloseReason) and other streams continue, and a transaction that
/// exceeds one fails. [`PerClientLimits`] overrides some of them for single clients.
// M242, IS24
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerLimits {
    /// Maximum number of open streams; default 100,000. Further streams are refused
    /// ([`Refusal::TooManyStreams`](super::super::Refusal::TooManyStreams)).
    pub streams: usize,
    /// Maximum number of open streams of nodes with one id; default 1,000. A restarting client has
    /// two streams for a while, and a client with one stream per type or per target has many. A
    /// stream counts once it has both a node and a view. Streams of clients with different
    /// [principals](crate::server::Connection::principal) are counted apart.
    // M18
    pub streams_per_node: usize,
    /// Rate of new streams; no limit by default. Streams above the rate are refused with
    /// `RESOURCE_EXHAUSTED`.
    // M17
    pub new_streams: Option<Rate>,
    /// Time that a stream may be open without a request; default 1 minute, `None` for no limit.
    /// Such a stream has no node yet, so [`streams_per_node`](Self::streams_per_node) does not
    /// limit it.
    pub first_request: Option<Duration>,
    /// Time that a client may wait for the application to assign a view
    /// ([`Admission::ByApplication`](super::Admission::ByApplication)); default 5 seconds, `None` for no limit.
    /// After it the stream is closed
    /// ([`CloseReason::NoDecision`](crate::server::CloseReason::NoDecision)), and the client
    /// reconnects. It also limits requests held until the server is ready
    /// ([`Readiness::HoldRequests`](super::Readiness::HoldRequests)).
    ///
    /// Together with the other delays of an answer it should stay below the [does-not-exist
    /// timer](super::DOES_NOT_EXIST_TIMER) of 15 seconds: a client whose stream stays open longer
    /// concludes that its resources do not exist, while one whose stream is closed knows that the
    /// server is unavailable.
    pub decision: Option<Duration>,
    /// Rate of requests of one stream that do not answer a response; default 1,000 per second with
    /// a burst of 10,000. Above it the server pauses reading the stream; if twice the burst arrives
    /// nevertheless, it closes the stream. The longest pause is the time to refill the burst, which
    /// should stay below the [does-not-exist timer](super::DOES_NOT_EXIST_TIMER) of 15 seconds.
    pub requests: Option<Rate>,
    /// Bytes of a request that count as one request in [`requests`](Self::requests); default 16
    /// KiB. A longer request counts as several, at most as the whole burst, because processing time
    /// grows with its list of names.
    pub request_unit_bytes: usize,
    /// Rate at which NACKs of one stream are reported as observations; default 1 per second with a
    /// burst of 20. All of them are counted.
    // M241
    pub observed_nacks: Option<Rate>,
    /// Maximum number of resource types subscribed on one stream; default 64.
    pub types_per_stream: usize,
    /// Maximum number of names subscribed on one stream, over all types; default 1,000,000, but see
    /// [`names_per_connection`](Self::names_per_connection). A name repeated within a
    /// state-of-the-world request counts each time. The same number of names may be retained for clients that change to
    /// the wildcard, and for versions that clients state after a reconnect.
    ///
    /// Members of a glob do not count, because the client does not choose their number. Each takes
    /// some hundred bytes per stream while it is subscribed, once even if globs overlap. A stream
    /// holds at most as many as there are names of the type, which is bounded by
    /// [`resources`](Self::resources) plus this limit for each other stream.
    // M96
    pub names_per_stream: usize,
    /// Maximum number of names subscribed on the streams of one
    /// [connection](crate::server::Connection); default 100,000. A stream accepted without a connection
    /// counts as one. The stream that exceeds the limit is closed
    /// ([`CloseReason::TooManyNamesOnConnection`](super::super::CloseReason::TooManyNamesOnConnection)).
    ///
    /// A name counts once for each 256 bytes of its length, so that the limit also bounds the bytes
    /// of names. The same number of names may be retained for other reasons, as for
    /// [`names_per_stream`](Self::names_per_stream).
    pub names_per_connection: usize,
    /// Maximum number of names held for all streams, counted as for
    /// [`names_per_connection`](Self::names_per_connection); default 10,000,000. If it is exceeded,
    /// all streams of the connection that holds most names are closed
    /// ([`CloseReason::TooManyNamesInTotal`](super::super::CloseReason::TooManyNamesInTotal)).
    ///
    /// A subscription takes about 120 bytes, and a name without a resource about 250 bytes more.
    pub names: usize,
    /// Maximum number of names that one call of the server handles; default 256, at least 1.
    ///
    /// A request with more fields is handled in parts, and the names of a closed stream are freed in
    /// parts. [`handle_timeout`](crate::server::Server::handle_timeout) handles the next part, of
    /// each connection in turn, and is [due](crate::Timer::UnfinishedWork) until all are
    /// done. Meanwhile the stream of the request is sent nothing and its next request waits, while
    /// other streams are served. Handling names also frees as many names of closed streams.
    pub names_per_call: usize,
    /// Maximum length of a resource name, type URL or node id in bytes; default 2,048.
    pub name_bytes: usize,
    /// Maximum length of an encoded node in bytes; default 1 MiB. Envoy's node, with all
    /// extensions, has about 80 KiB.
    pub node_bytes: usize,
    /// Maximum length of a request in bytes; no limit by default except that of the transport.
    pub request_bytes: usize,
    /// Maximum number of views; default 100,000.
    pub views: usize,
    /// Maximum number of requests of a stream that are held until it has a view; default 64.
    pub held_requests: usize,
    /// Maximum number of bytes of such held requests over all streams of nodes with one id; default
    /// 64 MiB. Clients without a node id share one allowance. Clients with different
    /// [principals](crate::server::Connection::principal) are counted apart.
    pub held_bytes_per_node: usize,
    /// Maximum number of resources in the store, over all types and views; default 10,000,000.
    pub resources: usize,
    /// Maximum number of aliases of one resource; default 1,000.
    pub aliases_per_resource: usize,
    /// Maximum number of deletions of one type that are retained for incremental clients that have
    /// not been sent them; default 10,000. The stream of a client that is further behind is closed;
    /// on reconnecting it states the versions it has.
    ///
    /// It is also the maximum number of deletions of one type that make before break holds back for
    /// a client; beyond that, the oldest are sent.
    // M231
    pub deletions_per_type: usize,
    /// Time that deletions are retained, plus up to an eighth; default 10 minutes, `None` for no
    /// limit. A client is not closed for deletions that the server itself holds back from it
    /// ([`MakeBeforeBreakPolicy`](super::MakeBeforeBreakPolicy)).
    pub deletion_retention: Option<Duration>,
    /// Maximum number of custom messages that may be queued for one stream; default 64.
    pub custom_messages_per_stream: usize,
    /// Maximum number of names reported for a rejected response; default 16.
    pub rejected_names: usize,
    /// Time that a rejection is kept after its client has disconnected; default 10 minutes. It is
    /// removed earlier if the client reconnects and accepts a response.
    pub rejection_retention: Duration,
    /// Maximum number of kept rejections of disconnected clients; default 1,000. The oldest are
    /// removed first.
    pub retained_rejections: usize,
    /// Maximum number of concurrent
    /// [`Server::notify_when_converged`](crate::server::Server::notify_when_converged) calls; default
    /// 1,000.
    pub convergence_waits: usize,
    /// With [`NackRecovery::Isolate`](super::NackRecovery::Isolate): maximum number of resources of a
    /// rejected response that are sent one by one, and of rejected resources that are remembered, per
    /// subscription; default 64. Resources beyond the limit are not sent alone, so the client has
    /// them only once they change or, with full-state responses, once anything of the type changes.
    pub isolated_resources: usize,
    /// Maximum length of a resource in bytes; default 64 MiB.
    pub resource_bytes: usize,
    /// Maximum number of bytes of resources, removed names and errors in one response; default 4
    /// MiB less 16 KiB, which fits gRPC's default message limit.
    ///
    /// A larger incremental response, or a larger state-of-the-world response that need not be
    /// complete, is split; each part is sent after the ACK of the one before. A client that names a
    /// resource which is itself longer receives an error instead
    /// ([`Observation::ResourceTooLong`](crate::server::Observation::ResourceTooLong)) until the
    /// resource changes; a wildcard client receives it in a response of its own. A full-state
    /// response cannot be split: it is sent whole, and each part of the errors that go with it
    /// repeats it. Responses above the limit are reported
    /// ([`Observation::Oversize`](crate::server::Observation::Oversize)).
    // M83, M177
    pub response_bytes: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            streams: 100_000,
            streams_per_node: 1_000,
            new_streams: None,
            first_request: Some(Duration::from_secs(60)),
            decision: Some(Duration::from_secs(5)),
            requests: Some(Rate { per_second: 1_000, burst: 10_000 }),
            observed_nacks: Some(Rate { per_second: 1, burst: 20 }),
            types_per_stream: 64,
            names_per_stream: 1_000_000,
            names_per_connection: 100_000,
            names: 10_000_000,
            names_per_call: 256,
            name_bytes: NAME_BYTES,
            node_bytes: 1 << 20,
            request_bytes: usize::MAX,
            views: 100_000,
            held_requests: 64,
            held_bytes_per_node: 64 << 20,
            request_unit_bytes: 16 << 10,
            resources: 10_000_000,
            aliases_per_resource: 1_000,
            deletions_per_type: 10_000,
            deletion_retention: Some(Duration::from_secs(600)),
            custom_messages_per_stream: 64,
            rejected_names: 16,
            rejection_retention: Duration::from_secs(600),
            retained_rejections: 1_000,
            convergence_waits: 1_000,
            isolated_resources: 64,
            resource_bytes: 64 << 20,
            response_bytes: (4 << 20) - (16 << 10),
        }
    }
}

/// Limits for one client that replace the corresponding [`ServerLimits`]; see
/// [`Server::limit_client`](crate::server::Server::limit_client).
///
/// ```
/// use xds_core::server::{PerClientLimits, ServerLimits};
///
/// let mut limits = PerClientLimits::from(&ServerLimits::default());
/// limits.names_per_stream = 100;
/// assert_eq!(limits.types_per_stream, 64);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PerClientLimits {
    /// Replaces [`ServerLimits::streams_per_node`]. The stream that exceeds it is closed. To raise
    /// it, use [`Admission::ByApplication`](super::Admission::ByApplication) and set the limits before assigning a
    /// view; otherwise the default limit already applies to the first request.
    pub streams_per_node: usize,
    /// Replaces [`ServerLimits::requests`].
    pub requests: Option<Rate>,
    /// Replaces [`ServerLimits::types_per_stream`].
    pub types_per_stream: usize,
    /// Replaces [`ServerLimits::names_per_stream`].
    pub names_per_stream: usize,
    /// Replaces [`ServerLimits::names_per_connection`] for requests of this client. Names of other
    /// streams of its connection count, too.
    pub names_per_connection: usize,
    /// Replaces [`ServerLimits::name_bytes`] for resource names and type URLs, but not for node
    /// ids.
    pub name_bytes: usize,
    /// Replaces [`ServerLimits::request_bytes`].
    pub request_bytes: usize,
    /// Replaces [`ServerLimits::response_bytes`], to match the client's maximum message size.
    /// Clients with equal limits share the encoded parts of split responses.
    pub response_bytes: usize,
}

impl From<&ServerLimits> for PerClientLimits {
    fn from(limits: &ServerLimits) -> Self {
        Self {
            streams_per_node: limits.streams_per_node,
            requests: limits.requests,
            types_per_stream: limits.types_per_stream,
            names_per_stream: limits.names_per_stream,
            names_per_connection: limits.names_per_connection,
            name_bytes: limits.name_bytes,
            request_bytes: limits.request_bytes,
            response_bytes: limits.response_bytes,
        }
    }
}
