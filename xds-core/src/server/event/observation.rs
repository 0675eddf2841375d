//! Reports of what happens on the streams of a server.

use alloc::sync::Arc;
use core::time::Duration;

use bytes::Bytes;

use super::{server_transmit::ServerTransmit, status::SubscribedNames};
use crate::{
    id::StreamId,
    text::{Nonce, ResourceName, TypeUrl, Version},
};

/// Event on a stream that is reported for information. A request causes a handful of them at most.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Observation {
    /// A client opened a stream.
    Connected {
        /// Stream of the client.
        stream: StreamId,
    },
    /// The client sent its node.
    // M1
    Identified {
        /// Stream of the client.
        stream: StreamId,
        /// Id of the node.
        node_id: Arc<str>,
        /// Encoded `Node`. The server itself keeps only the id.
        node: Bytes,
    },
    /// A later request has a different node; the first one stays.
    // M3
    NodeChanged {
        /// Stream of the client.
        stream: StreamId,
    },
    /// The client requested a type that the server does not know and has no resources of.
    /// [`UnknownType`](crate::server::UnknownType) decides how the request is answered. Reported once
    /// per stream and type.
    // M8
    UnknownType {
        /// Stream of the client.
        stream: StreamId,
        /// Requested type.
        type_url: TypeUrl,
    },
    /// The stream is answered from the last state of the server, because the source could not
    /// confirm it in time ([`SourcePolicy`](crate::server::SourcePolicy)).
    ServedUnconfirmed {
        /// Stream of the client.
        stream: StreamId,
        /// Revision of the source that the server has reached.
        revision: u64,
    },
    /// The client uses resource locators with dynamic parameters, which the server ignores: it uses
    /// the name alone, whose resource may not be the requested variant. Reported once per stream
    /// and type; [`ServerStats::ignored_parameters`](crate::server::ServerStats) counts the requests.
    // M36
    ParametersIgnored {
        /// Stream of the client.
        stream: StreamId,
        /// Requested type.
        type_url: TypeUrl,
    },
    /// The client changed its subscription.
    Subscribed {
        /// Stream of the client.
        stream: StreamId,
        /// Type of the subscription.
        type_url: TypeUrl,
        /// Subscription after the change.
        subscribed: SubscribedNames,
    },
    /// A response was rendered, which counts as sent. Reported only if
    /// [configured](crate::server::ServerConfig::observe_responses), and not for custom messages.
    // M73
    Sent {
        /// Stream of the client.
        stream: StreamId,
        /// Id of the client's node; empty if it has none.
        node_id: Arc<str>,
        /// Description of the response.
        response: ServerTransmit,
    },
    /// The client ACKed a response.
    Acked {
        /// Stream of the client.
        stream: StreamId,
        /// Type of the response.
        type_url: TypeUrl,
        /// Accepted version.
        version: Version,
        /// Nonce of the response.
        nonce: Nonce,
    },
    /// The client NACKed a response.
    // B04
    Nacked {
        /// Stream of the client.
        stream: StreamId,
        /// Type of the response.
        type_url: TypeUrl,
        /// Rejected version.
        version: Version,
        /// Nonce of the response.
        nonce: Nonce,
        /// Status code in the client's `error_detail`. It may be a number that is not a
        /// [`StatusCode`](crate::StatusCode).
        code: i32,
        /// Message in the client's `error_detail`, cut to 4,096 bytes.
        message: Arc<str>,
    },
    /// The client is known to reject this resource with its current content.
    // M108
    Isolated {
        /// Stream of the client.
        stream: StreamId,
        /// Type of the resource.
        type_url: TypeUrl,
        /// Name of the resource.
        name: ResourceName,
    },
    /// A request ACKs a response and states a version other than the response's.
    // M57
    VersionMismatch {
        /// Stream of the client.
        stream: StreamId,
        /// Type of the request.
        type_url: TypeUrl,
        /// Version that was sent.
        version: Version,
    },
    /// A request answers a response that a newer one has replaced. A state-of-the-world request is
    /// dropped; of an incremental one, only the changes of the subscription apply.
    // M58, S0.147
    StaleNonce {
        /// Stream of the client.
        stream: StreamId,
        /// Type of the request.
        type_url: TypeUrl,
    },
    /// A request has a nonce that was never sent on the stream. A state-of-the-world request is
    /// dropped; of an incremental one, only the changes of the subscription apply.
    // M61
    BogusNonce {
        /// Stream of the client.
        stream: StreamId,
        /// Type of the request.
        type_url: TypeUrl,
    },
    /// The client has not answered a response in time.
    // M65
    AnswerOverdue {
        /// Stream of the client.
        stream: StreamId,
        /// Type of the response.
        type_url: TypeUrl,
        /// Nonce of the response.
        nonce: Nonce,
        /// Time that the server has waited.
        after: Duration,
    },
    /// Make before break has held back a change for the configured time.
    // M148
    Blocked {
        /// Stream of the client.
        stream: StreamId,
        /// Type of the change.
        type_url: TypeUrl,
        /// Kind of the change.
        change: BlockedChange,
        /// Type that it waits for.
        waits_for: TypeUrl,
        /// Reason for the wait.
        reason: BlockedBy,
        /// Configured time.
        after: Duration,
    },
    /// Requested resources that the client has never received were held back by make before break
    /// for the maximum time. They are sent now, whatever they refer to, because the client would
    /// soon conclude that they do not exist.
    SentOutOfOrder {
        /// Stream of the client.
        stream: StreamId,
        /// Type of the resources.
        type_url: TypeUrl,
        /// Configured time ([`MakeBeforeBreakPolicy::stage_timeout`](crate::server::MakeBeforeBreakPolicy::stage_timeout)).
        after: Duration,
    },
    /// A response was sent although it exceeds the limit, because it cannot be split: a full state,
    /// or a single resource for a wildcard client, which cannot be sent an error instead.
    // M83, IS26
    Oversize {
        /// Stream of the client.
        stream: StreamId,
        /// Type of the response.
        type_url: TypeUrl,
        /// Length of the resources in bytes.
        bytes: usize,
    },
    /// A resource exceeds the response limit of a client that subscribes to it by name
    /// ([`PerClientLimits::response_bytes`](crate::server::PerClientLimits::response_bytes)). The client was sent
    /// the resource error `RESOURCE_EXHAUSTED` instead.
    // IS26, TP3
    ResourceTooLong {
        /// Stream of the client.
        stream: StreamId,
        /// Type of the resource.
        type_url: TypeUrl,
        /// Name of the resource.
        name: ResourceName,
        /// Length of the resource in bytes.
        bytes: usize,
    },
    /// The stream has ended, and its state was discarded.
    Disconnected {
        /// Stream of the client.
        stream: StreamId,
    },
}

impl Observation {
    /// Returns the stream of the observation.
    #[must_use]
    pub const fn stream(&self) -> StreamId {
        match self {
            Self::Connected { stream }
            | Self::Identified { stream, .. }
            | Self::NodeChanged { stream }
            | Self::UnknownType { stream, .. }
            | Self::ParametersIgnored { stream, .. }
            | Self::Subscribed { stream, .. }
            | Self::Sent { stream, .. }
            | Self::Acked { stream, .. }
            | Self::Nacked { stream, .. }
            | Self::Isolated { stream, .. }
            | Self::VersionMismatch { stream, .. }
            | Self::StaleNonce { stream, .. }
            | Self::BogusNonce { stream, .. }
            | Self::AnswerOverdue { stream, .. }
            | Self::Blocked { stream, .. }
            | Self::SentOutOfOrder { stream, .. }
            | Self::Oversize { stream, .. }
            | Self::ResourceTooLong { stream, .. }
            | Self::ServedUnconfirmed { stream, .. }
            | Self::Disconnected { stream } => *stream,
        }
    }
}

/// Kind of change that make before break holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BlockedChange {
    /// Resources that were set or newly requested.
    // M146
    Changes,
    /// Deletions.
    // M147
    Deletions,
}

/// Reason for which the client has not ACKed the resources that a change waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BlockedBy {
    /// The resources have not been sent: they are held back themselves, or wait for room on the
    /// transport.
    Unsent,
    /// The client has not answered.
    Unanswered,
    /// The client has rejected them.
    Rejected,
    /// The client was sent a cluster, and has not requested these endpoints, which the cluster
    /// names.
    NotRequested(ResourceName),
    /// The client was sent clusters whose endpoints it has, and has not requested the endpoints
    /// again, as a client that warms these clusters does.
    NotRequestedAgain,
}
