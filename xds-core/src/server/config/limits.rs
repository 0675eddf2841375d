//! How much a server holds.

use core::time::Duration;

use super::Rate;
use crate::text::NAME_BYTES;

/// What a single client, or the application, can make the server hold (M242, IS24). What concerns a client may
/// be another for some of them: [`ClientLimits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerLimits {
    /// Streams open at a time; default 100,000.
    pub streams: usize,
    /// Streams open at a time of nodes with the same id; default 1,000. A client that restarts has two for
    /// a while (M18), one that has a stream for each type or for each of its targets many. Streams count from when
    /// they have both a node and a view.
    pub streams_per_node: usize,
    /// How fast new streams may come; no limit by default (M17). Others are refused with
    /// `RESOURCE_EXHAUSTED`, and their clients come back later.
    pub new_streams: Option<Rate>,
    /// How long a stream may be open without a request; default 1 minute, `None` for any time. Such a
    /// stream says of no node that it is its own, so that
    /// [`streams_per_node`](Self::streams_per_node) does not bound it.
    pub first_request: Option<Duration>,
    /// How long a client may wait until somebody has decided what it sees, where the application is asked
    /// ([`Admission::Asked`](super::Admission::Asked)); default 5 seconds, `None` for any time. Then its stream is closed
    /// ([`CloseReason::NoDecision`](crate::server::CloseReason::NoDecision)), and it comes back. The same limit applies to
    /// requests that are held until the server is ready ([`Readiness::HoldRequests`](super::Readiness::HoldRequests)).
    ///
    /// It should stay below [15 s](super::DOES_NOT_EXIST_TIMER), together with the other waits before an answer: a
    /// client whose stream is open for longer takes what it asks for not to exist, while one whose stream is closed
    /// knows that there is no server.
    pub decision: Option<Duration>,
    /// How fast requests of one stream may come, those aside that answer a response; default 1,000 per
    /// second, 10,000 at once. Beyond it the server reads no more of the stream for a while, and if twice
    /// as many come at once nevertheless, it closes the stream. A client that keeps to it waits for at most as long as
    /// a whole burst takes to be refilled, which should stay below [15 s](super::DOES_NOT_EXIST_TIMER).
    pub requests: Option<Rate>,
    /// Bytes of a request that count as one in [`requests`](Self::requests): a longer one counts as several, as long
    /// lists of names cost what they have, but never as more than may come at once; default 16 KiB.
    pub request_unit_bytes: usize,
    /// How fast rejections of one stream are observed; default 1 per second, 20 at once (M241). All of
    /// them are counted.
    pub observed_nacks: Option<Rate>,
    /// Resource types subscribed on one stream; default 64.
    pub types_per_stream: usize,
    /// Names subscribed on one stream, over all types; default 1,000,000. Names repeated within a
    /// request count, but not those that an incremental client subscribes to already (M96). As many again may be
    /// remembered for clients that go over to the wildcard, or state the versions that they have when they come back.
    ///
    /// The members of a glob do not count: the client does not choose how many there are. They take some hundred bytes
    /// each while it is subscribed, once for each stream however many globs overlap, so that a stream holds no more of
    /// them than there are names of the type: what [`resources`](Self::resources) bounds, and this limit for each of
    /// the other streams.
    pub names_per_stream: usize,
    /// Bytes of a resource name, type URL or node id; default 2,048.
    pub name_bytes: usize,
    /// Bytes of an encoded node; default 1 MiB. Envoy's, with all its extensions, has some 80 KiB.
    pub node_bytes: usize,
    /// Bytes of one request; no limit by default beyond that of the transport.
    pub request_bytes: usize,
    /// Views; default 100,000.
    pub views: usize,
    /// Requests held back on a stream until a view is assigned to it; default 64.
    pub latched_requests: usize,
    /// Bytes of the requests held back like that on all streams of nodes with the same id; default 64 MiB. Who gives
    /// no id shares them with all others who give none.
    pub latched_bytes_per_node: usize,
    /// Resources in the store, over all types and views; default 10,000,000.
    pub resources: usize,
    /// Aliases of one resource; default 1,000.
    pub aliases_per_resource: usize,
    /// Deletions remembered per type for incremental clients that have not been told of them; default
    /// 10,000. A client that is further behind is closed, and comes back to say what it has (M231).
    pub deletions_per_type: usize,
    /// How long they are, and up to an eighth more; default 10 minutes, `None` for as long as it takes. What the
    /// server itself holds back from a client ([`AckGated`](super::AckGated)) is no reason to close it.
    pub deletions_for: Option<Duration>,
    /// Messages of the application that may wait for a client to read; default 64.
    pub asides_per_stream: usize,
    /// Names told of each rejected response; default 16.
    pub rejected_names: usize,
    /// How long a rejection is remembered after its client has gone, unless it comes back and accepts what
    /// it is sent; default 10 minutes.
    pub keep_rejections: Duration,
    /// Rejections remembered of clients that have gone; default 1,000. The oldest ones go first.
    pub remembered_rejections: usize,
    /// Calls of [`Server::tell_when_converged`](crate::server::Server::tell_when_converged) that may wait at
    /// a time; default 1,000.
    pub convergence_waits: usize,
    /// Resources of one rejected response that are sent one by one to find the culprit, and culprits that
    /// are remembered, for each subscription; default 64
    /// ([`NackRecovery::Isolate`](super::NackRecovery::Isolate)).
    pub suspects: usize,
    /// Bytes of one resource; default 64 MiB.
    pub resource_bytes: usize,
    /// Bytes of resources, names of what is gone, and errors together in one response; default 4 MiB less
    /// 16 KiB, which fits gRPC's default for what a client takes. What exceeds it is sent in several
    /// responses, one behind the other's ACK. Of a single resource that is itself longer, who names it is told an
    /// error instead ([`Observation::ResourceTooLong`](crate::server::Observation::ResourceTooLong)), until it changes;
    /// to who subscribes to everything it goes alone, which is reported, as it is of a state that is too long
    /// ([`Observation::Oversize`](crate::server::Observation::Oversize)). The resources of a
    /// full state cannot be split: a state that is too long is reported instead (M83), and each part of the
    /// errors beside one comes with all of it (M177).
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
            name_bytes: NAME_BYTES,
            node_bytes: 1 << 20,
            request_bytes: usize::MAX,
            views: 100_000,
            latched_requests: 64,
            latched_bytes_per_node: 64 << 20,
            request_unit_bytes: 16 << 10,
            resources: 10_000_000,
            aliases_per_resource: 1_000,
            deletions_per_type: 10_000,
            deletions_for: Some(Duration::from_secs(600)),
            asides_per_stream: 64,
            rejected_names: 16,
            keep_rejections: Duration::from_secs(600),
            remembered_rejections: 1_000,
            convergence_waits: 1_000,
            suspects: 64,
            resource_bytes: 64 << 20,
            response_bytes: (4 << 20) - (16 << 10),
        }
    }
}

/// What one client can make the server hold, where that is not what [`ServerLimits`] says of everybody: see
/// [`Server::limit_client`](crate::server::Server::limit_client) (M242).
///
/// ```
/// use xds_core::server::{ClientLimits, ServerLimits};
///
/// let mut limits = ClientLimits::from(&ServerLimits::default());
/// limits.names_per_stream = 100;
/// assert_eq!(limits.types_per_stream, 64);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientLimits {
    /// [`ServerLimits::streams_per_node`], more or less of it: with one more, this stream is closed. It can be more
    /// where clients are [asked about](super::Admission::Asked) and their limits are set before they are let in;
    /// elsewhere the first request is measured by what everybody may have.
    pub streams_per_node: usize,
    /// [`ServerLimits::requests`].
    pub requests: Option<Rate>,
    /// [`ServerLimits::types_per_stream`].
    pub types_per_stream: usize,
    /// [`ServerLimits::names_per_stream`].
    pub names_per_stream: usize,
    /// [`ServerLimits::name_bytes`], but of resource names and type URLs alone.
    pub name_bytes: usize,
    /// [`ServerLimits::request_bytes`].
    pub request_bytes: usize,
    /// [`ServerLimits::response_bytes`]: more for clients that take longer messages, or less. Clients with the
    /// same limit share the bytes of what is split.
    pub response_bytes: usize,
}

impl From<&ServerLimits> for ClientLimits {
    fn from(limits: &ServerLimits) -> Self {
        Self {
            streams_per_node: limits.streams_per_node,
            requests: limits.requests,
            types_per_stream: limits.types_per_stream,
            names_per_stream: limits.names_per_stream,
            name_bytes: limits.name_bytes,
            request_bytes: limits.request_bytes,
            response_bytes: limits.response_bytes,
        }
    }
}
