//! Inputs and outputs of a server: stream events, outputs, observations and status.

pub(crate) mod close_reason;
mod server_event;
pub(crate) mod stats;
pub(crate) mod status;

use alloc::sync::Arc;
use core::{fmt, time::Duration};

use bytes::Bytes;

use self::status::SubscribedNames;
pub use self::{
    close_reason::{CloseReason, Refusal, StatusCode},
    server_event::ServerEvent,
};
use crate::{
    id::StreamId,
    service::{Method, Variant},
    text::{Nonce, ResourceName, TypeUrl, Version, ViewName},
};

/// Service and protocol variant that a client called.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamKind {
    /// Aggregated service: all types share the stream, and every request states its type URL.
    Aggregated(Variant),
    /// Service of one type. Requests may omit the type URL.
    // M6
    Single {
        /// Type of the service.
        type_url: TypeUrl,
        /// Protocol variant.
        variant: Variant,
    },
    /// Fetch method of the service of one type: one request and one state-of-the-world response.
    ///
    /// The stream [ends](ServerOutput::Finished) with the response. The response is sent once the
    /// version of the requested resources differs from the version in the request or, if the
    /// request has an `error_detail`, from that of the rejected response, which the request
    /// identifies by its nonce.
    // M196, M185-M187, M189
    Fetch {
        /// Type of the service.
        type_url: TypeUrl,
    },
}

/// Lifetime of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamLifetime {
    /// Open until one side ends it.
    LongLived,
    /// Ends with one response. The state of the client is known only from its request.
    SingleResponse,
}

impl StreamKind {
    /// Returns the service and variant that a method belongs to.
    #[must_use]
    pub fn of(method: Method) -> Self {
        match method {
            Method::Aggregated(variant) => Self::Aggregated(variant),
            Method::Single { type_url, variant } => {
                Self::Single { type_url: TypeUrl::from(type_url), variant }
            }
            Method::Fetch { type_url } => Self::Fetch { type_url: TypeUrl::from(type_url) },
        }
    }

    /// Returns the lifetime of the stream.
    pub(crate) const fn lifetime(&self) -> StreamLifetime {
        match self {
            Self::Aggregated(_) | Self::Single { .. } => StreamLifetime::LongLived,
            Self::Fetch { .. } => StreamLifetime::SingleResponse,
        }
    }

    /// Returns the protocol variant of the stream.
    #[must_use]
    pub const fn variant(&self) -> Variant {
        match self {
            Self::Aggregated(variant) | Self::Single { variant, .. } => *variant,
            Self::Fetch { .. } => Variant::StateOfTheWorld,
        }
    }
}

/// Event of a transport, reported by an adapter.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StreamEvent {
    /// A request arrived.
    Message(StreamId, Bytes),
    /// A request arrived that the transport could not deliver.
    Malformed(StreamId, Arc<str>),
    /// A request arrived that exceeds the transport's size limit.
    TooLong(StreamId, Arc<str>),
    /// The client closed its side of the stream and waits for responses.
    ///
    /// Because it can no longer answer, the stream [ends](ServerOutput::Finished) when everything
    /// that can be sent now has been sent. If the client still waits for a
    /// [view](ServerEvent::Authorize), the stream ends after that decision.
    // M13
    HalfClosed(StreamId),
    /// The stream ended, on either side and for any reason.
    // M13, M15
    Closed(StreamId),
}

/// Action for the driver of a server.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
#[non_exhaustive]
pub enum ServerOutput {
    /// The stream has something to send. Call [`poll_transmit`](super::Server::poll_transmit)
    /// whenever the transport has room, until it returns `None`. Not repeated until then.
    Writable(StreamId),
    /// A question or notification for the application.
    Event(ServerEvent),
    /// End the stream with this status. No further output refers to it.
    Close(StreamId, CloseReason),
    /// End the stream without an error after its last response is written, because everything
    /// requested was sent ([`StreamKind::Fetch`], [`StreamEvent::HalfClosed`]). No further output refers
    /// to it.
    Finished(StreamId),
    /// All connected clients have ACKed a change, as requested by
    /// [`notify_when_converged`](super::Server::notify_when_converged).
    Converged {
        /// View of the change.
        view: ViewName,
        /// Type of the change.
        type_url: TypeUrl,
        /// Sequence number of the transaction.
        sequence: u64,
    },
    /// The last stream has ended after [`drain`](super::Server::drain). Sent once.
    Drained,
    /// Report of an event; requires no action.
    Observed(Observation),
}

/// Description of a rendered response, for logs and tests.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct ServerTransmit {
    /// Type of the response.
    pub type_url: TypeUrl,
    /// Version that the response states: that of all resources of the type or, for a client that
    /// subscribes to a full-state type by name, of its resources. See
    /// [`VersionMode`](super::VersionMode).
    // M72
    pub version: Version,
    /// Nonce that the client returns in its answer; unique on the stream.
    // M62
    pub nonce: Nonce,
    /// Protocol variant, which is the type of the message.
    pub variant: Variant,
    /// Number of resources.
    pub resources: usize,
    /// Number of names reported as not existing, in `removed_resources` or as empty resources;
    /// incremental responses only.
    pub removed: usize,
    /// Number of resource errors, each in place of a resource.
    // TP3
    pub errors: usize,
    /// Reason for which it is sent.
    pub cause: ResponseCause,
}

/// Reason for which a response is sent. If several apply, the first in this order is stated.
// IS5: no response without a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ResponseCause {
    /// Part of the first answer to the subscription.
    First,
    /// A subscribed resource was created, changed or, in full state, deleted.
    Changed,
    /// The client subscribed to more resources, or again to resources that it had unsubscribed
    /// from.
    Resubscribed,
    /// The client may be warming clusters and wait for their endpoints.
    // M151, M152
    Warming,
    /// Custom message of the application, without version and nonce.
    // M21
    CustomMessage,
    /// Heartbeat that renews the TTL of the client's resources.
    // M161
    Heartbeat,
    /// Resource of a rejected response, sent alone to find the invalid one; or a rejected full
    /// state, sent again without the resources that the client unsubscribed from since.
    // M108, M107
    Recovery,
}

impl fmt::Display for ResponseCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "first",
            Self::Changed => "changed",
            Self::Resubscribed => "resubscribed",
            Self::Warming => "warming",
            Self::CustomMessage => "custom-message",
            Self::Heartbeat => "heartbeat",
            Self::Recovery => "recovery",
        })
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
    /// The client requests a type that the server does not know and has no resources of. The
    /// request is held, and answered once there are any. Reported once per stream and type.
    // M8
    UnknownType {
        /// Stream of the client.
        stream: StreamId,
        /// Requested type.
        type_url: TypeUrl,
    },
    /// The client uses resource locators with dynamic parameters, which the server ignores: it uses
    /// the name alone, whose resource may not be the requested variant. Reported once per stream
    /// and type; [`ServerStats::ignored_parameters`](super::ServerStats) counts the requests.
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
    /// [configured](super::ServerConfig::observe_responses), and not for custom messages.
    // M73
    Sent {
        /// Stream of the client.
        stream: StreamId,
        /// Id of the client's node; empty if it has none.
        node_id: Arc<str>,
        /// Type of the response.
        type_url: TypeUrl,
        /// Version that the response states.
        version: Version,
        /// Nonce of the response.
        nonce: Nonce,
        /// Number of resources.
        resources: usize,
        /// Number of names reported as not existing; incremental responses only.
        removed: usize,
        /// Number of resource errors, each in place of a resource.
        // TP3
        errors: usize,
        /// Reason for which it is sent.
        cause: ResponseCause,
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
        /// Status code in the client's `error_detail`.
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
    /// A request answers a response that a newer one has replaced. The request is dropped.
    // M58, S0.147
    StaleNonce {
        /// Stream of the client.
        stream: StreamId,
        /// Type of the request.
        type_url: TypeUrl,
    },
    /// A request has a nonce that was never sent on the stream. The request is dropped.
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
        /// Configured time ([`MakeBeforeBreakPolicy::stage_timeout`](super::MakeBeforeBreakPolicy::stage_timeout)).
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
    /// ([`PerClientLimits::response_bytes`](super::PerClientLimits::response_bytes)). The client was sent
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
            | Self::Disconnected { stream } => *stream,
        }
    }
}

/// Whether a request subscribes to something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestEffect {
    Subscribed,
    None,
}
