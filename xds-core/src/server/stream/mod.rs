//! One stream: who is at the other end, and what is counted across its types.

pub(crate) mod convergence_waits;
pub(crate) mod custom_messages;
pub(crate) mod debounce;
pub(crate) mod deletion_horizon;
pub(crate) mod node_quota;
pub(crate) mod push_order;
pub(crate) mod rejection_log;

use alloc::{boxed::Box, format, sync::Arc, vec::Vec};
use core::{hash::BuildHasher as _, time::Duration};

use bytes::Bytes;
use foldhash::fast::FixedState;

use self::{custom_messages::Queue, push_order::Order};
use super::{
    config::{ClientLimits, NodeChanged, Rate, RequireNode, ServerConfig, ServerLimits},
    event::{CloseReason, Observation, Via},
    queue::{outbox::Outbox, token_bucket::Bucket},
    session::{client_features::Features, seat::Seat},
};
use crate::{
    id::StreamId,
    slab::Slot,
    text::TypeUrl,
    time::Time,
    wire::{request::Request, walk},
};

/// One stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) via: Via,
    /// In the order in which types are sent (M144).
    pub(crate) sessions: Vec<Seat>,
    /// The highest nonce given out.
    pub(crate) nonces: u64,
    pub(crate) writable: Writable,
    pub(crate) speech: Speech,
    pub(crate) order: Order,
    /// What the client sees, once that is known.
    pub(crate) view: Option<Slot>,
    node: Option<Node>,
    /// Requests that wait for that.
    pub(crate) latched: Vec<Bytes>,
    /// What the application sends beside the resources.
    pub(crate) asides: Option<Box<Queue>>,
    /// When it is to end, if that is planned.
    pub(crate) end: Option<End>,
    /// What its requests take from, unless they answer a response.
    pub(crate) requests: Bucket,
    /// When it is read again.
    pub(crate) reads_at: Option<Time>,
    /// What observations of rejections take from.
    pub(crate) nacks: Bucket,
    /// If not those of everybody.
    pub(crate) limits: Option<Box<ClientLimits>>,
}

/// The end that a stream has before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    /// When it is due; once begun, when it is waited for no longer.
    pub(crate) at: Time,
    pub(crate) grace: Duration,
    pub(crate) reason: EndReason,
    /// Nothing more is sent.
    pub(crate) is_begun: bool,
}

/// Why a stream is ended by plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndReason {
    Drain,
    Age,
    /// Nothing has been asked on it. How long that is waited for is in the configuration: every stream has room for
    /// this.
    NoRequest,
    /// Nobody has decided what its client sees.
    NoDecision,
}

impl End {
    pub(crate) fn planned(at: Time, grace: Duration, reason: EndReason) -> Self {
        Self { at, grace, reason, is_begun: false }
    }

    /// When it is waited for no longer.
    fn deadline(self) -> Time {
        if self.is_begun { self.at } else { self.at.after(self.grace) }
    }

    /// This end, or as far as it comes earlier, another one that is planned: it begins with the first of them, and
    /// is waited for as long as both would.
    pub(crate) fn or_sooner(self, other: Self) -> Self {
        let deadline = self.deadline().min(other.deadline());
        if self.is_begun {
            let reason = if deadline < self.at { other.reason } else { self.reason };
            return Self { at: deadline, reason, ..self };
        }
        let first = if other.at < self.at { other } else { self };
        Self { grace: deadline.since(first.at), ..first }
    }
}

/// Whether the driver has been told that there is something to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writable {
    Told,
    NotTold,
}

/// Whether the client may say more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speech {
    GoesOn,
    Over,
}

/// The client as it introduced itself. Its `Node` may be long, so it is handed on and only a digest
/// kept, to notice another one.
#[derive(Debug)]
struct Node {
    id: Arc<str>,
    features: Features,
    digest: u64,
}

impl Stream {
    pub(crate) fn new(via: Via, view: Option<Slot>, order: Order) -> Self {
        Self {
            via,
            sessions: Vec::new(),
            nonces: 0,
            writable: Writable::NotTold,
            speech: Speech::GoesOn,
            order,
            view,
            node: None,
            latched: Vec::new(),
            asides: None,
            end: None,
            requests: Bucket::default(),
            reads_at: None,
            nacks: Bucket::default(),
            limits: None,
        }
    }

    /// What the client may take up.
    pub(crate) fn limits(&self, everybody: &ServerLimits) -> ClientLimits {
        self.limits.as_deref().copied().unwrap_or_else(|| everybody.into())
    }

    /// How fast its requests may come.
    pub(crate) fn request_rate(&self, everybody: &ServerLimits) -> Option<Rate> {
        self.limits.as_deref().map_or(everybody.requests, |limits| limits.requests)
    }

    /// Whether another request would be welcome.
    pub(crate) fn wants_read(&self, limits: &ServerLimits, now: Time) -> bool {
        let rate = self.request_rate(limits);
        let is_slow_enough = rate.is_none_or(|rate| self.requests.has_one(rate, now));
        self.latched.is_empty() && is_slow_enough
    }

    /// When it is to end, if that is planned.
    pub(crate) fn ends_at(&self) -> Option<Time> {
        self.end.map(|end| end.at)
    }

    /// Whether it only waits for answers, and then ends.
    pub(crate) fn is_ending(&self) -> bool {
        self.end.is_some_and(|end| end.is_begun)
    }

    /// Puts a request aside until the stream has a view.
    pub(crate) fn latch(
        &mut self,
        message: &Bytes,
        limits: &ServerLimits,
    ) -> Result<(), CloseReason> {
        let limit = limits.latched_requests;
        if self.latched.len() >= limit {
            return Err(CloseReason::TooManyRequests { limit });
        }
        self.latched.push(message.clone());
        Ok(())
    }

    /// How long the requests are that wait until it has a view.
    pub(crate) fn latched_bytes(&self) -> usize {
        self.latched.iter().map(Bytes::len).sum()
    }

    /// The id of the client's node; empty if it has given none.
    pub(crate) fn node_id(&self) -> &str {
        self.node.as_ref().map_or("", |node| &node.id)
    }

    /// The same, to keep.
    pub(crate) fn node(&self) -> Option<&Arc<str>> {
        self.node.as_ref().map(|node| &node.id)
    }

    /// What the client said it can take; nothing if it has given no node.
    pub(crate) fn features(&self) -> Features {
        self.node.as_ref().map_or_else(Features::default, |node| node.features)
    }

    pub(crate) fn seat_of(&self, session: Slot) -> Option<Seat> {
        self.sessions.iter().find(|seat| seat.session == session).copied()
    }

    pub(crate) fn session_on(&self, arena: Slot) -> Option<Slot> {
        self.sessions.iter().find(|seat| seat.arena == arena).map(|seat| seat.session)
    }

    /// Adds a session behind those of its rank.
    pub(crate) fn seat(&mut self, seat: Seat) {
        let position = self.sessions.partition_point(|other| other.rank <= seat.rank);
        self.sessions.insert(position, seat);
    }

    /// Takes the node of the first request that has one (M1) and compares later ones with it
    /// (M2, M3).
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
                    NodeChanged::Ignored => Ok(()),
                    NodeChanged::Closed => Err(CloseReason::NodeChanged),
                }
            }
            (Some(encoded), None) => {
                let node = Node::read(encoded, config, hasher)?;
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

impl Node {
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
        let features = Features::read(encoded).map_err(CloseReason::Malformed)?;
        Ok(Self { id: id.into(), features, digest: hasher.hash_one(encoded) })
    }
}

impl Via {
    /// What type a request is about: that of the stream, or on an aggregated one what the request says
    /// (M5-M7, IS22).
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
                Err(CloseReason::ForeignTypeUrl {
                    asked: TypeUrl::from(stated),
                    served: type_url.clone(),
                })
            }
        }
    }
}

/// The length that a request must keep to as a whole (M242).
pub(crate) fn check_length(message: &Bytes, limits: &ClientLimits) -> Result<(), CloseReason> {
    let (bytes, limit) = (message.len(), limits.request_bytes);
    if bytes <= limit {
        return Ok(());
    }
    Err(CloseReason::RequestTooLong(format!("{bytes} bytes exceed the limit of {limit}").into()))
}

/// The lengths every request must keep to (M242).
pub(crate) fn check_lengths(
    request: &Request<'_>,
    limits: &ClientLimits,
) -> Result<(), CloseReason> {
    let (bytes, limit) = (request.longest_name.max(request.type_url.len()), limits.name_bytes);
    if bytes > limit { Err(CloseReason::NameTooLong { bytes, limit }) } else { Ok(()) }
}
