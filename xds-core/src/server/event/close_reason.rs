//! Why a server ends a stream or does not take one, and with which status.

use alloc::sync::Arc;
use core::time::Duration;

use thiserror::Error;

use crate::{
    text::{Nonce, TypeUrl},
    wire::Malformed,
};

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
    /// A later request has another node than the first (M3, [`NodeChanged::Closed`](crate::server::NodeChanged)).
    #[error("the node differs from that of the first request")]
    NodeChanged,
    /// A request is for a type that the server does not know (M8,
    /// [`UnknownType::Closed`](crate::server::UnknownType)).
    #[error("unknown type {type_url}")]
    UnknownType {
        /// The type.
        type_url: TypeUrl,
    },
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
    /// More bytes of requests of one node wait for a view than the server holds back.
    #[error("more than {limit} bytes of requests of one node before it is known what it may see")]
    TooManyLatchedBytes {
        /// The configured limit in bytes.
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
    /// The client was assigned a view that does not exist yet, and there are as many as may be.
    #[error("more than {limit} views")]
    TooManyViews {
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
    /// Nothing was asked on the stream in time.
    #[error("no request within {after:?}")]
    NoRequest {
        /// The configured time.
        after: Duration,
    },
    /// Nobody has decided in time whether the client is served, and what it sees.
    #[error("not decided within {after:?} whether this client is served")]
    NoDecision {
        /// The configured time.
        after: Duration,
    },
    /// The server has not become ready while it held the requests of the stream
    /// ([`Readiness::HoldRequests`](crate::server::Readiness::HoldRequests)).
    #[error("the server is not ready yet, after {after:?}")]
    NotReady {
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
            | Self::NodeChanged
            | Self::UnknownType { .. }
            | Self::MissingTypeUrl
            | Self::ForeignTypeUrl { .. } => StatusCode::InvalidArgument,
            Self::RequestTooLong(_)
            | Self::NodeTooLong { .. }
            | Self::NameTooLong { .. }
            | Self::TooManyNames { .. }
            | Self::TooManyTypes { .. }
            | Self::TooManyRequests { .. }
            | Self::TooManyLatchedBytes { .. }
            | Self::RequestRate { .. }
            | Self::TooManyStreamsOfNode { .. }
            | Self::TooManyViews { .. } => StatusCode::ResourceExhausted,
            Self::AnswerOverdue { .. } | Self::NoRequest { .. } => StatusCode::DeadlineExceeded,
            Self::Refused { code, .. } => *code,
            Self::NoDecision { .. }
            | Self::NotReady { .. }
            | Self::ViewDropped
            | Self::Behind
            | Self::StreamAge
            | Self::ShuttingDown => StatusCode::Unavailable,
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
