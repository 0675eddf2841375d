//! Reasons for closing or refusing a stream, and their gRPC status codes.

use alloc::sync::Arc;
use core::time::Duration;

use thiserror::Error;

use crate::{
    status_code::StatusCode,
    text::{Nonce, TypeUrl},
    wire::Malformed,
};

/// Reason for which the server closes a stream. Its `Display` is the status message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// A request is not a `DiscoveryRequest`.
    #[error("malformed request: {0}")]
    Malformed(Malformed),
    /// The transport could not deliver a request.
    #[error("undeliverable request: {0}")]
    Undeliverable(Arc<str>),
    /// A request exceeds the size limit of the transport or of the server.
    // M242
    #[error("request too long: {0}")]
    RequestTooLong(Arc<str>),
    /// The node of the first request exceeds the limit.
    #[error("node of {bytes} bytes exceeds the limit of {limit}")]
    NodeTooLong {
        /// Length of the node in bytes.
        bytes: usize,
        /// Configured limit in bytes.
        limit: usize,
    },
    /// The first request has no node, or a node without an id.
    // M4
    #[error("the first request has no node id")]
    MissingNode,
    /// A later request has a different node than the first
    /// ([`NodeChanged::Close`](crate::server::NodeChanged)).
    // M3
    #[error("the node differs from the node of the first request")]
    NodeChanged,
    /// A request is for a type that the server does not know
    /// ([`UnknownType::Close`](crate::server::UnknownType)).
    // M8
    #[error("unknown type {type_url}")]
    UnknownType {
        /// Requested type.
        type_url: TypeUrl,
    },
    /// A request on an aggregated stream has no type URL.
    // M5
    #[error("request without type URL on an aggregated stream")]
    MissingTypeUrl,
    /// A request on a stream of one type is for another type.
    // M7
    #[error("request for {requested} on a stream of {served}")]
    WrongTypeUrl {
        /// Requested type.
        requested: TypeUrl,
        /// Type of the stream.
        served: TypeUrl,
    },
    /// A name, type URL or node id exceeds the limit.
    #[error("name of {bytes} bytes exceeds the limit of {limit}")]
    NameTooLong {
        /// Length of the name in bytes.
        bytes: usize,
        /// Configured limit in bytes.
        limit: usize,
    },
    /// The stream subscribes to too many names.
    #[error("more than {limit} resource names on one stream")]
    TooManyNames {
        /// Configured limit.
        limit: usize,
    },
    /// The streams of the connection subscribe to too many names, or hold too many
    /// ([`names_per_connection`](crate::server::ServerLimits::names_per_connection)).
    #[error("more than {limit} resource names on one connection")]
    TooManyNamesOnConnection {
        /// Configured limit.
        limit: usize,
    },
    /// All connections hold too many names, most of them this one
    /// ([`names`](crate::server::ServerLimits::names)).
    #[error("more than {limit} resource names on all connections, most of them on this one")]
    TooManyNamesInTotal {
        /// Configured limit.
        limit: usize,
    },
    /// The stream subscribes to too many types.
    #[error("more than {limit} resource types on one stream")]
    TooManyTypes {
        /// Configured limit.
        limit: usize,
    },
    /// The number of requests of the stream that wait for a view exceeds the limit.
    #[error("more than {limit} requests before the client was authorized")]
    TooManyHeldRequests {
        /// Configured limit.
        limit: usize,
    },
    /// The requests of the node that wait for a view exceed the limit in bytes.
    #[error("more than {limit} bytes of requests of one node before it was authorized")]
    TooManyHeldBytes {
        /// Configured limit in bytes.
        limit: usize,
    },
    /// Requests arrive faster than the rate limit although the server has stopped reading.
    // M242
    #[error("more than {per_second} requests per second")]
    RequestRate {
        /// Configured rate.
        per_second: u32,
    },
    /// The node has too many streams.
    // IS24
    #[error("more than {limit} streams of one node")]
    TooManyStreamsOfNode {
        /// Configured limit.
        limit: usize,
    },
    /// The client was assigned a new view, and the number of views is at its limit.
    #[error("more than {limit} views")]
    TooManyViews {
        /// Configured limit.
        limit: usize,
    },
    /// The application refused the client.
    // M10-M12, M236, M237
    #[error("{message}")]
    Refused {
        /// gRPC status code set by the application.
        code: StatusCode,
        /// Message set by the application.
        message: Arc<str>,
    },
    /// The application dropped the client's view.
    // M213
    #[error("the configuration for this client was removed")]
    ViewDropped,
    /// The client read so slowly that the server no longer retains all deletions it has not been
    /// sent. On reconnecting, the client states the versions that it has.
    // M231
    #[error("the client is too far behind: reconnect to resynchronize")]
    Behind,
    /// The client has not answered a response in time.
    // M65
    #[error("response {nonce} of {type_url} was not answered within {after:?}")]
    AnswerOverdue {
        /// Type of the response.
        type_url: TypeUrl,
        /// Nonce of the response.
        nonce: Nonce,
        /// Configured time.
        after: Duration,
    },
    /// The stream has had no request in time.
    #[error("no request within {after:?}")]
    NoRequest {
        /// Configured time.
        after: Duration,
    },
    /// The application has not assigned a view to the client in time.
    #[error("the client was not authorized within {after:?}")]
    NoDecision {
        /// Configured time.
        after: Duration,
    },
    /// The server has not become ready in time while it held the requests of the stream
    /// ([`Readiness::HoldRequests`](crate::server::Readiness::HoldRequests)).
    #[error("the server is still not ready after {after:?}")]
    NotReady {
        /// Configured time.
        after: Duration,
    },
    /// The server lags behind what the client, or the source, is known to have
    /// ([`Server::source_reached`](crate::server::Server::source_reached)). Another server may have
    /// it.
    #[error("this server is at revision {reached} of its source and has not reached {required}")]
    BehindSource {
        /// Revision that the client states to have, or that the source has confirmed.
        required: u64,
        /// Revision that the server has reached.
        reached: u64,
    },
    /// The source was unreachable for longer than
    /// [`SourcePolicy::max_staleness`](crate::server::SourcePolicy), and could not confirm that the
    /// server is up to date.
    #[error("the source of this server has been unreachable for {unreachable_for:?}")]
    SourceUnreachable {
        /// Time for which it has been unreachable.
        unreachable_for: Duration,
    },
    /// The stream has reached its maximum age ([`StreamAge`](crate::server::StreamAge)).
    // M239
    #[error("the stream has reached its maximum age")]
    StreamAge,
    /// The server is shutting down.
    // M14
    #[error("the server is shutting down")]
    ShuttingDown,
}

impl CloseReason {
    /// Returns the gRPC status code with which to end the stream.
    #[must_use]
    pub const fn code(&self) -> StatusCode {
        match self {
            Self::Malformed(_)
            | Self::Undeliverable(_)
            | Self::MissingNode
            | Self::NodeChanged
            | Self::UnknownType { .. }
            | Self::MissingTypeUrl
            | Self::WrongTypeUrl { .. } => StatusCode::InvalidArgument,
            Self::RequestTooLong(_)
            | Self::NodeTooLong { .. }
            | Self::NameTooLong { .. }
            | Self::TooManyNames { .. }
            | Self::TooManyNamesOnConnection { .. }
            | Self::TooManyNamesInTotal { .. }
            | Self::TooManyTypes { .. }
            | Self::TooManyHeldRequests { .. }
            | Self::TooManyHeldBytes { .. }
            | Self::RequestRate { .. }
            | Self::TooManyStreamsOfNode { .. }
            | Self::TooManyViews { .. } => StatusCode::ResourceExhausted,
            Self::AnswerOverdue { .. } | Self::NoRequest { .. } => StatusCode::DeadlineExceeded,
            Self::Refused { code, .. } => *code,
            Self::NoDecision { .. }
            | Self::NotReady { .. }
            | Self::BehindSource { .. }
            | Self::SourceUnreachable { .. }
            | Self::ViewDropped
            | Self::Behind
            | Self::StreamAge
            | Self::ShuttingDown => StatusCode::Unavailable,
        }
    }
}

/// Reason for which the server refuses a new stream. Its `Display` is the status message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The server is not ready ([`Readiness`](crate::server::Readiness)).
    // M16
    #[error("the server is not ready yet")]
    NotReady,
    /// The source was unreachable for longer than
    /// [`SourcePolicy::max_staleness`](crate::server::SourcePolicy).
    #[error("the source of this server has been unreachable for {unreachable_for:?}")]
    Stale {
        /// Time for which it has been unreachable.
        unreachable_for: Duration,
    },
    /// New streams exceed the rate limit.
    // M17
    #[error("more than {per_second} new streams per second")]
    TooManyNewStreams {
        /// Configured rate.
        per_second: u32,
    },
    /// The number of open streams is at its limit.
    #[error("more than {limit} streams")]
    TooManyStreams {
        /// Configured limit.
        limit: usize,
    },
    /// The server is shutting down.
    // M14
    #[error("the server is shutting down")]
    ShuttingDown,
}

impl Refusal {
    /// Returns the gRPC status code with which to refuse the stream.
    #[must_use]
    pub const fn code(&self) -> StatusCode {
        match self {
            Self::TooManyStreams { .. } | Self::TooManyNewStreams { .. } => {
                StatusCode::ResourceExhausted
            }
            Self::NotReady | Self::Stale { .. } | Self::ShuttingDown => StatusCode::Unavailable,
        }
    }
}
