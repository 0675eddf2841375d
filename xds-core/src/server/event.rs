//! Everything that goes into a server and comes out of it, with who sends it and when.

use alloc::sync::Arc;
use core::{fmt, time::Duration};

use bytes::Bytes;
use thiserror::Error;

use super::status::Interest;
use crate::{
    id::StreamId,
    service::{Method, Variant},
    text::{Nonce, ResourceName, TypeUrl, Version, ViewName},
    wire::Malformed,
};

/// How a client reached the server: which service it called, and in which variant of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Via {
    /// The aggregated service: all types share the stream, and every request says which one it is about.
    Aggregated(Variant),
    /// The service of one type, which requests need not repeat (M6).
    Single {
        /// The type.
        type_url: TypeUrl,
        /// The variant.
        variant: Variant,
    },
}

impl Via {
    /// What a client reached by calling a method; `None` if that is no stream.
    #[must_use]
    pub fn of(method: Method) -> Option<Self> {
        match method {
            Method::Aggregated(variant) => Some(Self::Aggregated(variant)),
            Method::Single { type_url, variant } => {
                Some(Self::Single { type_url: TypeUrl::from(type_url), variant })
            }
            Method::Fetch { .. } => None,
        }
    }

    /// The variant of the protocol that is spoken on the stream.
    #[must_use]
    pub const fn variant(&self) -> Variant {
        match self {
            Self::Aggregated(variant) | Self::Single { variant, .. } => *variant,
        }
    }
}

/// News of a transport, from an adapter.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StreamEvent {
    /// One request arrived.
    Message(StreamId, Bytes),
    /// A request arrived that the transport could not deliver.
    Malformed(StreamId, Arc<str>),
    /// A request arrived that is over the transport's size limit.
    TooLong(StreamId, Arc<str>),
    /// The stream has ended, whoever ended it and however (M13, M15).
    Closed(StreamId),
}

/// What a driver does next for a server.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
#[non_exhaustive]
pub enum ServerOutput {
    /// The stream has something to send: call [`poll_transmit`](super::Server::poll_transmit)
    /// whenever the transport has room, until it returns `None`. Said once until then.
    Writable(StreamId),
    /// Decide what the client sees, with [`assign`](super::Server::assign), or
    /// [`refuse`](super::Server::refuse) it: it has said who it is and waits
    /// ([`Admission::Asked`](super::Admission::Asked)). The whole node came before, in
    /// [`Observation::Identified`].
    Authorize {
        /// The stream.
        stream: StreamId,
        /// The id of the client's node; empty if it gave none.
        node_id: Arc<str>,
    },
    /// End the stream with this status. Nothing more is said about it.
    Close(StreamId, CloseReason),
    /// A client names a resource that the store lacks
    /// ([`OnDemand::Told`](super::OnDemand::Told), M254): set it, or say that it does not exist. Said once
    /// until it is unwanted.
    Wanted {
        /// The view of the client.
        view: ViewName,
        /// The type.
        type_url: TypeUrl,
        /// The name.
        name: ResourceName,
    },
    /// Nobody names a resource any more that was wanted, whether or not it has been set since (M256). It
    /// may stay or be removed.
    Unwanted {
        /// The view of the client.
        view: ViewName,
        /// The type.
        type_url: TypeUrl,
        /// The name.
        name: ResourceName,
    },
    /// A client says something of a type that is the application's
    /// ([`ServerConfig::asides`](super::ServerConfig), M21).
    Aside {
        /// The stream.
        stream: StreamId,
        /// The type.
        type_url: TypeUrl,
        /// The whole encoded request.
        message: Bytes,
    },
    /// All clients that are connected have accepted the change, as asked for with
    /// [`tell_when_converged`](super::Server::tell_when_converged).
    Converged {
        /// The view.
        view: ViewName,
        /// The type.
        type_url: TypeUrl,
        /// The number of the transaction.
        sequence: u64,
    },
    /// The last stream has ended after [`drain`](super::Server::drain). Said once.
    Drained,
    /// Something worth knowing happened; nothing is to be done.
    Observed(Observation),
}

/// Why the server ends a stream. `Display` is the status message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// A request is not a `DiscoveryRequest`.
    #[error("malformed request: {0}")]
    Malformed(Malformed),
    /// The transport could not deliver a request.
    #[error("undeliverable request: {0}")]
    Undeliverable(Arc<str>),
    /// A request is longer than the transport takes (M242).
    #[error("request too long: {0}")]
    RequestTooLong(Arc<str>),
    /// The node of the first request is too long.
    #[error("a node of {bytes} bytes exceeds the limit of {limit}")]
    NodeTooLong {
        /// Its length in bytes.
        bytes: usize,
        /// The configured limit in bytes.
        limit: usize,
    },
    /// The first request names no node, or one without an id (M4).
    #[error("the first request has no node id")]
    MissingNode,
    /// A request on an aggregated stream does not say which type it is about (M5).
    #[error("request without type URL on an aggregated stream")]
    MissingTypeUrl,
    /// A request on the stream of one type is about another one (M7).
    #[error("request for {asked} on a stream of {served}")]
    ForeignTypeUrl {
        /// The type of the request.
        asked: TypeUrl,
        /// The type of the stream.
        served: TypeUrl,
    },
    /// A name, type URL or node id is too long.
    #[error("a name of {bytes} bytes exceeds the limit of {limit}")]
    NameTooLong {
        /// Its length in bytes.
        bytes: usize,
        /// The configured limit in bytes.
        limit: usize,
    },
    /// More names are subscribed on the stream than the server holds.
    #[error("more than {limit} resource names on one stream")]
    TooManyNames {
        /// The configured limit.
        limit: usize,
    },
    /// More types are subscribed on the stream than the server holds.
    #[error("more than {limit} resource types on one stream")]
    TooManyTypes {
        /// The configured limit.
        limit: usize,
    },
    /// More requests wait for a view than the server holds back.
    #[error("more than {limit} requests before it is known what the client may see")]
    TooManyRequests {
        /// The configured limit.
        limit: usize,
    },
    /// Requests come faster than the server reads them, though it stopped reading (M242).
    #[error("more than {per_second} requests per second")]
    RequestRate {
        /// The configured rate.
        per_second: u32,
    },
    /// The node has too many streams already (IS24).
    #[error("more than {limit} streams of one node")]
    TooManyStreamsOfNode {
        /// The configured limit.
        limit: usize,
    },
    /// The application refuses the client (M10-M12, M236, M237).
    #[error("{message}")]
    Refused {
        /// The gRPC status code it gives.
        code: StatusCode,
        /// The message it gives.
        message: Arc<str>,
    },
    /// The application has dropped the view of the client (M213).
    #[error("the configuration for this client is gone")]
    ViewDropped,
    /// The client took so long to read that deletions were forgotten which it was not told of. It is to
    /// come back and say what it has (M231).
    #[error("too far behind: resync")]
    Behind,
    /// The client has not answered a response in time (M65).
    #[error("no answer to the response {nonce} of {type_url} within {after:?}")]
    AnswerOverdue {
        /// The type.
        type_url: TypeUrl,
        /// The response's nonce.
        nonce: Nonce,
        /// The configured time.
        after: Duration,
    },
    /// The stream has reached the age at which clients spread over the servers again (M239).
    #[error("the stream has reached its maximum age")]
    StreamAge,
    /// The server is shutting down (M14).
    #[error("the server is shutting down")]
    ShuttingDown,
}

impl CloseReason {
    /// The gRPC status code to end the stream with.
    #[must_use]
    pub const fn code(&self) -> StatusCode {
        match self {
            Self::Malformed(_)
            | Self::Undeliverable(_)
            | Self::MissingNode
            | Self::MissingTypeUrl
            | Self::ForeignTypeUrl { .. } => StatusCode::InvalidArgument,
            Self::RequestTooLong(_)
            | Self::NodeTooLong { .. }
            | Self::NameTooLong { .. }
            | Self::TooManyNames { .. }
            | Self::TooManyTypes { .. }
            | Self::TooManyRequests { .. }
            | Self::RequestRate { .. }
            | Self::TooManyStreamsOfNode { .. } => StatusCode::ResourceExhausted,
            Self::AnswerOverdue { .. } => StatusCode::DeadlineExceeded,
            Self::Refused { code, .. } => *code,
            Self::ViewDropped | Self::Behind | Self::StreamAge | Self::ShuttingDown => {
                StatusCode::Unavailable
            }
        }
    }
}

/// Why the server does not take a new stream. `Display` is the status message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The server has not loaded its resources yet (M16).
    #[error("the server is not ready yet")]
    NotReady,
    /// Streams come faster than the server takes them (M17).
    #[error("more than {per_second} new streams per second")]
    TooManyNewStreams {
        /// The configured rate.
        per_second: u32,
    },
    /// As many streams are open as the server holds.
    #[error("more than {limit} streams")]
    TooManyStreams {
        /// The configured limit.
        limit: usize,
    },
    /// The server is shutting down (M14).
    #[error("the server is shutting down")]
    ShuttingDown,
}

impl Refusal {
    /// The gRPC status code to refuse the stream with.
    #[must_use]
    pub const fn code(&self) -> StatusCode {
        match self {
            Self::TooManyStreams { .. } | Self::TooManyNewStreams { .. } => {
                StatusCode::ResourceExhausted
            }
            Self::NotReady | Self::ShuttingDown => StatusCode::Unavailable,
        }
    }
}

/// The gRPC status codes a server ends streams with; the value is the code on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StatusCode {
    /// The client broke the protocol.
    InvalidArgument = 3,
    /// The client took too long.
    DeadlineExceeded = 4,
    /// There is nothing for this client.
    NotFound = 5,
    /// The client may not have this.
    PermissionDenied = 7,
    /// The client asked for more than the server holds.
    ResourceExhausted = 8,
    /// The server's state does not allow it.
    FailedPrecondition = 9,
    /// The client asked for a method that the server does not serve.
    Unimplemented = 12,
    /// Something is wrong with the server.
    Internal = 13,
    /// The server cannot serve now; another one may.
    Unavailable = 14,
    /// The client has not proved who it is.
    Unauthenticated = 16,
}

impl StatusCode {
    /// The code as a number.
    #[must_use]
    pub const fn as_i32(self) -> i32 {
        self as i32
    }
}

/// What a rendered response is, for logs and tests.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct ServerTransmit {
    /// The type the response is about.
    pub type_url: TypeUrl,
    /// The version it states, derived from content (M72): of all resources of the type or, to a
    /// client that names what it wants of a type in full state, of those it has.
    pub version: Version,
    /// What the client will acknowledge it by; unique on the stream (M62).
    pub nonce: Nonce,
    /// The variant of the protocol: which message it is.
    pub variant: Variant,
    /// How many resources it has.
    pub resources: usize,
    /// How many names it has of resources that do not exist, however that is put; an incremental response
    /// only.
    pub removed: usize,
    /// How many errors it has, each instead of a resource (TP3).
    pub errors: usize,
    /// Why it is sent.
    pub cause: Cause,
}

/// Why a response is sent. There is none without a reason (IS5); where several apply, the first in
/// this order is stated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// It is part of the first answer to the subscription.
    First,
    /// A subscribed resource was created, altered or, in full state, deleted.
    Changed,
    /// The client newly subscribed to something, or again to something it had dropped.
    Resubscribed,
    /// The client may be warming clusters and waits for their endpoints (M151, M152).
    Warming,
    /// It is the application's own message, without version and nonce (M21).
    Aside,
    /// The client is to go on using what it has (M161).
    Heartbeat,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "first",
            Self::Changed => "changed",
            Self::Resubscribed => "resubscribed",
            Self::Warming => "warming",
            Self::Aside => "aside",
            Self::Heartbeat => "heartbeat",
        })
    }
}

/// Something worth knowing that happened on a stream. A request causes at most four of them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Observation {
    /// A client opened a stream.
    Connected {
        /// The stream.
        stream: StreamId,
    },
    /// The client said who it is (M1).
    Identified {
        /// The stream.
        stream: StreamId,
        /// The node's id.
        node_id: Arc<str>,
        /// The whole encoded `Node`. The server itself keeps only the id.
        node: Bytes,
    },
    /// A later request has another node, which is ignored (M3).
    NodeChanged {
        /// The stream.
        stream: StreamId,
    },
    /// The client asks for a type that the server neither knows nor has resources of. It is held,
    /// and answered once there are any (M8). Said once per stream and type.
    UnknownType {
        /// The stream.
        stream: StreamId,
        /// The type.
        type_url: TypeUrl,
    },
    /// The client changed what it subscribes to.
    Subscribed {
        /// The stream.
        stream: StreamId,
        /// The type.
        type_url: TypeUrl,
        /// What it subscribes to now.
        interest: Interest,
    },
    /// The client accepted a response.
    Acked {
        /// The stream.
        stream: StreamId,
        /// The type.
        type_url: TypeUrl,
        /// The accepted version.
        version: Version,
        /// The response's nonce.
        nonce: Nonce,
    },
    /// The client rejected a response (B04).
    Nacked {
        /// The stream.
        stream: StreamId,
        /// The type.
        type_url: TypeUrl,
        /// The rejected version.
        version: Version,
        /// The response's nonce.
        nonce: Nonce,
        /// The status code of the error, as the client put it.
        code: i32,
        /// The client's message, cut to 4,096 bytes.
        message: Arc<str>,
    },
    /// A request accepts a response but states another version than the response had (M57).
    VersionMismatch {
        /// The stream.
        stream: StreamId,
        /// The type.
        type_url: TypeUrl,
        /// The version that was sent.
        version: Version,
    },
    /// A request answers a response that a newer one has replaced; it is dropped (M58, S0.147).
    StaleNonce {
        /// The stream.
        stream: StreamId,
        /// The type.
        type_url: TypeUrl,
    },
    /// A request has a nonce that was never given out on the stream; it is dropped (M61).
    BogusNonce {
        /// The stream.
        stream: StreamId,
        /// The type.
        type_url: TypeUrl,
    },
    /// The client has not answered a response in time (M65).
    AnswerOverdue {
        /// The stream.
        stream: StreamId,
        /// The type.
        type_url: TypeUrl,
        /// The response's nonce.
        nonce: Nonce,
        /// How long it has been waited for.
        after: Duration,
    },
    /// A response in full state is longer than the limit for responses and was sent whole (M83).
    Oversize {
        /// The stream.
        stream: StreamId,
        /// The type.
        type_url: TypeUrl,
        /// The length of its resources in bytes.
        bytes: usize,
    },
    /// The stream is gone, and all that was held for it.
    Disconnected {
        /// The stream.
        stream: StreamId,
    },
}

impl Observation {
    /// The stream it is about.
    #[must_use]
    pub const fn stream(&self) -> StreamId {
        match self {
            Self::Connected { stream }
            | Self::Identified { stream, .. }
            | Self::NodeChanged { stream }
            | Self::UnknownType { stream, .. }
            | Self::Subscribed { stream, .. }
            | Self::Acked { stream, .. }
            | Self::Nacked { stream, .. }
            | Self::VersionMismatch { stream, .. }
            | Self::StaleNonce { stream, .. }
            | Self::BogusNonce { stream, .. }
            | Self::AnswerOverdue { stream, .. }
            | Self::Oversize { stream, .. }
            | Self::Disconnected { stream } => *stream,
        }
    }
}
