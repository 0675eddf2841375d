//! Everything that goes into a server and comes out of it, with who sends it and when.

pub(crate) mod close_reason;
pub(crate) mod stats;
pub(crate) mod status;

use alloc::{sync::Arc, vec::Vec};
use core::{fmt, time::Duration};

use bytes::Bytes;

pub use self::close_reason::{CloseReason, Refusal, StatusCode};
use self::status::Interest;
use crate::{
    id::StreamId,
    service::{Method, Variant},
    text::{Nonce, ResourceName, TypeUrl, Version, ViewName},
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
    /// The service of one type, for one request and one response in the state-of-the-world variant (M196).
    /// The stream [ends](ServerOutput::Finished) with the response. Until then it waits: for what is asked for
    /// to have another version than the request states, which is that of just these names (M185-M187), or,
    /// with an `error_detail`, than the rejected response had, whose nonce the request states (M189).
    Fetch {
        /// The type.
        type_url: TypeUrl,
    },
}

/// How long a client stays on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visit {
    /// Until one side ends it.
    Stays,
    /// For one response. What the client has is known from its request alone.
    Fetches,
}

impl Via {
    /// What a client reached by calling a method.
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

    /// How long the client stays.
    pub(crate) const fn visit(&self) -> Visit {
        match self {
            Self::Aggregated(_) | Self::Single { .. } => Visit::Stays,
            Self::Fetch { .. } => Visit::Fetches,
        }
    }

    /// The variant of the protocol that is spoken on the stream.
    #[must_use]
    pub const fn variant(&self) -> Variant {
        match self {
            Self::Aggregated(variant) | Self::Single { variant, .. } => *variant,
            Self::Fetch { .. } => Variant::StateOfTheWorld,
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
    /// The client says no more and waits for what it has asked for (M13). The stream
    /// [ends](ServerOutput::Finished) when it has been sent what can be sent now, as it cannot answer; if it has yet
    /// to be [let in](ServerOutput::Authorize), then.
    HalfClosed(StreamId),
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
    /// No client has seen the view for as long as
    /// [`ServerConfig::idle_views`](super::ServerConfig::idle_views) says, and it was dropped with its
    /// resources (M221).
    ViewDropped(ViewName),
    /// End the stream with this status. Nothing more is said about it.
    Close(StreamId, CloseReason),
    /// End the stream well, once its last response is written: all that was asked for was sent
    /// ([`Via::Fetch`], [`StreamEvent::HalfClosed`]). Nothing more is said about it.
    Finished(StreamId),
    /// A client names resources that the store lacks
    /// ([`OnDemand::Told`](super::OnDemand::Told), M254): set them, or say that they do not exist. Said once
    /// of each until it is unwanted, and together of those of one request.
    Wanted {
        /// The view of the client.
        view: ViewName,
        /// The type.
        type_url: TypeUrl,
        /// The names, at least one.
        names: Vec<ResourceName>,
    },
    /// Nobody names resources any more that were wanted, whether or not they have been set since (M256). They
    /// may stay or be removed. If somebody names one after that, it is [wanted](Self::Wanted) again, also
    /// while it is still there, so that the application can let go of it after a time (M250). One that the server did
    /// not have by then, and is set later, is taken to be there unasked, and of those who name it nothing is said: who
    /// wants to let go of such a one looks whether [somebody names it](super::Server::is_named), and if so again later.
    Unwanted {
        /// The view of the client.
        view: ViewName,
        /// The type.
        type_url: TypeUrl,
        /// The names, at least one.
        names: Vec<ResourceName>,
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
    /// It has one of the resources that the client rejected together, to learn whether it is the one
    /// (M108). Or it is a full state that the client rejected, without what it has dropped since (M107).
    Recovery,
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
            Self::Recovery => "recovery",
        })
    }
}

/// What make before break holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HeldBack {
    /// What was set, or newly asked for (M146).
    Changes,
    /// That resources are gone (M147).
    Deletions,
}

/// Why the client has not accepted what something waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HeldBy {
    /// It waits itself, or for room on the transport.
    Unsent,
    /// The client has not answered.
    Unanswered,
    /// The client has rejected it.
    Rejected,
    /// The client was sent a cluster, and has not asked for these endpoints that it names.
    NotAsked(ResourceName),
    /// The client was sent clusters whose endpoints it has, and has not asked for these again, as one
    /// does that warms them.
    NotAskedAgain,
}

/// Something worth knowing that happened on a stream. A request causes a handful of them at most.
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
    /// A later request has another node; the first one stays (M3).
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
    /// The client subscribes, or unsubscribes, by locators with dynamic parameters, which the server does not look
    /// at: each is taken for its name alone, whose resource may not be the variant that was meant (M36). Said once
    /// per stream and type; [`ServerStats::ignored_parameters`](super::ServerStats) counts the requests.
    ParametersIgnored {
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
    /// A response was rendered, which counts as sent (M73). Only if the configuration
    /// [asks](super::ServerConfig::observe_responses) for it; messages of the application's own are not observed.
    Sent {
        /// The stream.
        stream: StreamId,
        /// The id of the client's node; empty if it gave none.
        node_id: Arc<str>,
        /// The type.
        type_url: TypeUrl,
        /// The version that the response states.
        version: Version,
        /// Its nonce.
        nonce: Nonce,
        /// How many resources it has.
        resources: usize,
        /// How many names it has of resources that do not exist; an incremental response only.
        removed: usize,
        /// How many errors it has, each instead of a resource (TP3).
        errors: usize,
        /// Why it is sent.
        cause: Cause,
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
    /// It is known that this resource is one that the client rejects as it is (M108).
    Isolated {
        /// The stream.
        stream: StreamId,
        /// The type.
        type_url: TypeUrl,
        /// The resource.
        name: ResourceName,
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
    /// Make before break has held something back for as long as it is meant to (M148).
    Held {
        /// The stream.
        stream: StreamId,
        /// The type of what is held back.
        type_url: TypeUrl,
        /// What is held back of it.
        what: HeldBack,
        /// The type that it waits for.
        waits_for: TypeUrl,
        /// Why that takes so long.
        why: HeldBy,
        /// The configured time.
        after: Duration,
    },
    /// Under make before break, the resources of a type that a client has asked for and never received have been held
    /// back for as long as they may be. They are sent now, whatever they refer to: the client would soon take them not
    /// to exist.
    SentOutOfOrder {
        /// The stream.
        stream: StreamId,
        /// The type.
        type_url: TypeUrl,
        /// The configured time ([`AckGated::stage_timeout`](super::AckGated::stage_timeout)).
        after: Duration,
    },
    /// A response is longer than the limit for responses and was sent all the same: a full state, which cannot be
    /// split (M83), or a resource of a client that subscribes to everything, which cannot be told an error instead
    /// (IS26).
    Oversize {
        /// The stream.
        stream: StreamId,
        /// The type.
        type_url: TypeUrl,
        /// The length of its resources in bytes.
        bytes: usize,
    },
    /// A resource is longer than a response to this client may be
    /// ([`ClientLimits::response_bytes`](super::ClientLimits::response_bytes)). The client, which names it, was told the
    /// error `RESOURCE_EXHAUSTED` instead (IS26, TP3).
    ResourceTooLong {
        /// The stream.
        stream: StreamId,
        /// The type.
        type_url: TypeUrl,
        /// The resource.
        name: ResourceName,
        /// Its length in bytes.
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
            | Self::Held { stream, .. }
            | Self::SentOutOfOrder { stream, .. }
            | Self::Oversize { stream, .. }
            | Self::ResourceTooLong { stream, .. }
            | Self::Disconnected { stream } => *stream,
        }
    }
}

/// Whether a request asks for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Something,
    Nothing,
}
