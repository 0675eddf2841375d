//! State of one stream that its types share: node, view, sessions, limits and planned end.

pub(crate) mod convergence_waits;
mod extras;
pub(crate) mod node_quota;
pub(crate) mod push_order;
pub(crate) mod rejection_log;
pub(crate) mod source_wait;
pub(crate) mod unfinished_request;

use alloc::{boxed::Box, format, sync::Arc, vec::Vec};
use core::{hash::BuildHasher as _, time::Duration};

use bytes::Bytes;
use foldhash::fast::FixedState;

use self::{extras::StreamExtras, push_order::Order, source_wait::SourceCheck};
use super::{
    config::{NodeChanged, PerClientLimits, RequireNode, ServerConfig, ServerLimits},
    event::{CloseReason, Observation, StreamKind},
    queue::outbox::Outbox,
    session::{peer::ClientFeatures, session_handle::SessionHandle},
};
use crate::{
    id::StreamId,
    slab::Slot,
    text::TypeUrl,
    time::Time,
    token_bucket::TokenBucket,
    wire::{request::Request, walk},
};

/// State of one stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) kind: StreamKind,
    /// Sessions in the order in which their types are sent.
    // M144
    pub(crate) sessions: Vec<SessionHandle>,
    /// Highest nonce sent.
    pub(crate) nonces: u64,
    /// Whether the driver has been notified that the stream has something to send.
    pub(crate) is_notified: bool,
    /// Whether the client cannot send more requests.
    pub(crate) is_half_closed: bool,
    pub(crate) source_check: SourceCheck,
    pub(crate) order: Order,
    /// View of the client, once assigned.
    pub(crate) view: Option<Slot>,
    node: Option<NodeIdentity>,
    /// Planned end of the stream.
    pub(crate) end: Option<PlannedEnd>,
    /// Token bucket for requests that do not answer a response.
    pub(crate) requests: TokenBucket,
    /// Token bucket for observations of NACKs.
    pub(crate) nacks: TokenBucket,
    extras: Option<Box<StreamExtras>>,
}

/// Planned end of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedEnd {
    /// Time at which the end begins; once begun, time at which the wait for answers ends.
    pub(crate) at: Time,
    pub(crate) grace_period: Duration,
    pub(crate) reason: EndReason,
    /// Whether the end has begun, so that nothing more is sent.
    pub(crate) has_begun: bool,
}

/// Reason for a planned end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndReason {
    Drain,
    Age,
    /// The stream has had no request. The time limit is in the configuration, because every stream
    /// reserves memory for this type.
    NoRequest,
    /// The application has not assigned a view.
    NoDecision,
}

impl PlannedEnd {
    /// Time at which the wait for answers ends.
    fn deadline(self) -> Time {
        if self.has_begun { self.at } else { self.at.after(self.grace_period) }
    }

    /// Combines two planned ends: the end begins at the earlier of the two times, and the wait for
    /// answers ends at the earlier of the two deadlines.
    pub(crate) fn or_sooner(self, other: Self) -> Self {
        let deadline = self.deadline().min(other.deadline());
        if self.has_begun {
            let reason = if deadline < self.at { other.reason } else { self.reason };
            return Self { at: deadline, reason, ..self };
        }
        let first = if other.at < self.at { other } else { self };
        Self { grace_period: deadline.since(first.at), ..first }
    }
}

/// Identity of the client. Its `NodeIdentity` may be long, so it is passed to the application, and only a
/// digest is kept to detect a different one.
#[derive(Debug)]
struct NodeIdentity {
    id: Arc<str>,
    features: ClientFeatures,
    digest: u64,
}

impl Stream {
    pub(crate) fn new(kind: StreamKind, view: Option<Slot>, order: Order) -> Self {
        Self {
            kind,
            sessions: Vec::new(),
            nonces: 0,
            is_notified: false,
            is_half_closed: false,
            source_check: SourceCheck::Pending,
            order,
            view,
            node: None,
            end: None,
            requests: TokenBucket::default(),
            nacks: TokenBucket::default(),
            extras: None,
        }
    }

    pub(crate) fn is_fetch(&self) -> bool {
        matches!(self.kind, StreamKind::Fetch { .. })
    }

    /// Limits of this client.
    pub(crate) fn limits(&self, defaults: &ServerLimits) -> PerClientLimits {
        self.own_limits().copied().unwrap_or_else(|| defaults.into())
    }

    /// Whether the driver should read another request.
    pub(crate) fn wants_read(&self, limits: &ServerLimits, now: Time) -> bool {
        let rate = self.limits(limits).requests;
        let is_slow_enough = rate.is_none_or(|rate| self.requests.has_one(rate, now));
        !self.has_waiting_requests() && is_slow_enough
    }

    /// Whether a request is held or not finished.
    pub(crate) fn has_waiting_requests(&self) -> bool {
        self.is_busy() || self.held_count() > 0
    }

    /// Whether a request waits until the server has caught up with its source.
    pub(crate) fn awaits_source(&self) -> bool {
        self.source_check == SourceCheck::Waiting
    }

    /// Whether the stream only waits for answers before it ends.
    pub(crate) fn is_ending(&self) -> bool {
        self.end.is_some_and(|end| end.has_begun)
    }

    /// Id of the client's node; empty if it has none.
    pub(crate) fn node_id(&self) -> &str {
        self.node.as_ref().map_or("", |node| &node.id)
    }

    /// Shared id of the client's node.
    pub(crate) fn node(&self) -> Option<&Arc<str>> {
        self.node.as_ref().map(|node| &node.id)
    }

    /// Features that the client's node declares; none without a node.
    pub(crate) fn features(&self) -> ClientFeatures {
        self.node.as_ref().map_or_else(ClientFeatures::default, |node| node.features)
    }

    pub(crate) fn session_handle(&self, session: Slot) -> Option<SessionHandle> {
        self.sessions.iter().find(|handle| handle.session == session).copied()
    }

    pub(crate) fn session_on(&self, arena: Slot) -> Option<Slot> {
        self.sessions.iter().find(|handle| handle.arena == arena).map(|handle| handle.session)
    }

    /// Inserts a session after those of its rank.
    pub(crate) fn add_session(&mut self, handle: SessionHandle) {
        let position = self.sessions.partition_point(|other| other.rank <= handle.rank);
        #[expect(clippy::disallowed_methods, reason = "a partition point is at most the length")]
        self.sessions.insert(position, handle);
    }

    /// Stores the node of the first request that has one, and compares later nodes with it.
    // M1, M2, M3
    pub(crate) fn identify(
        &mut self,
        id: StreamId,
        request: &Request<'_>,
        config: &ServerConfig,
        hasher: &FixedState,
        out: &mut Outbox,
    ) -> Result<(), CloseReason> {
        match (request.node, &self.node) {
            (None, None) if config.require_node == RequireNode::Required => {
                Err(CloseReason::MissingNode)
            }
            (None, _) => Ok(()),
            (Some(encoded), Some(node)) => {
                if hasher.hash_one(encoded) == node.digest {
                    return Ok(());
                }
                out.observe(Observation::NodeChanged { stream: id });
                match config.node_changed {
                    NodeChanged::Ignore => Ok(()),
                    NodeChanged::Close => Err(CloseReason::NodeChanged),
                }
            }
            (Some(encoded), None) => {
                let node = NodeIdentity::read(encoded, config, hasher)?;
                out.observe(Observation::Identified {
                    stream: id,
                    node_id: node.id.clone(),
                    node: Bytes::copy_from_slice(encoded),
                });
                self.node = Some(node);
                Ok(())
            }
        }
    }
}

impl NodeIdentity {
    fn read(
        encoded: &[u8],
        config: &ServerConfig,
        hasher: &FixedState,
    ) -> Result<Self, CloseReason> {
        const ID: u32 = 1;

        let (bytes, limit) = (encoded.len(), config.limits.node_bytes);
        if bytes > limit {
            return Err(CloseReason::NodeTooLong { bytes, limit });
        }
        let id = walk::string_field(encoded, ID).map_err(CloseReason::Malformed)?;
        let limit = config.limits.name_bytes;
        if id.len() > limit {
            return Err(CloseReason::NameTooLong { bytes: id.len(), limit });
        }
        if id.is_empty() && config.require_node == RequireNode::Required {
            return Err(CloseReason::MissingNode);
        }
        let features = ClientFeatures::read(encoded).map_err(CloseReason::Malformed)?;
        Ok(Self { id: id.into(), features, digest: hasher.hash_one(encoded) })
    }
}

impl StreamKind {
    /// Type of a request: that of the stream or, on an aggregated stream, that in the request.
    // M5-M7, IS22
    pub(crate) fn type_of<'a>(&'a self, stated: &'a str) -> Result<&'a str, CloseReason> {
        match self {
            Self::Aggregated(_) if stated.is_empty() => Err(CloseReason::MissingTypeUrl),
            Self::Aggregated(_) => Ok(stated),
            Self::Single { type_url, .. } | Self::Fetch { type_url }
                if stated.is_empty() || *type_url == *stated =>
            {
                Ok(type_url.as_str())
            }
            Self::Single { type_url, .. } | Self::Fetch { type_url } => {
                Err(CloseReason::WrongTypeUrl {
                    requested: TypeUrl::from(stated),
                    served: type_url.clone(),
                })
            }
        }
    }
}

/// Checks the length of a request.
// M242
pub(crate) fn check_length(message: &Bytes, limits: &PerClientLimits) -> Result<(), CloseReason> {
    let (bytes, limit) = (message.len(), limits.request_bytes);
    if bytes <= limit {
        return Ok(());
    }
    Err(CloseReason::RequestTooLong(format!("{bytes} bytes exceed the limit of {limit}").into()))
}

/// Checks the lengths of the names and of the type URL of a request.
// M242
pub(crate) fn check_lengths(
    request: &Request<'_>,
    limits: &PerClientLimits,
) -> Result<(), CloseReason> {
    let (bytes, limit) = (request.longest_name.max(request.type_url.len()), limits.name_bytes);
    if bytes > limit { Err(CloseReason::NameTooLong { bytes, limit }) } else { Ok(()) }
}
