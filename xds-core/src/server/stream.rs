//! One stream: who is at the other end, and what is counted across its types.

use alloc::{sync::Arc, vec::Vec};
use core::hash::BuildHasher as _;

use bytes::Bytes;
use foldhash::fast::FixedState;

use super::{
    config::{RequireNode, ServerConfig, ServerLimits},
    event::{CloseReason, Observation, Via},
    outbox::Outbox,
};
use crate::{
    id::StreamId,
    slab::Slot,
    text::TypeUrl,
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
    node: Option<Node>,
}

/// Where a session of the stream is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    pub(crate) rank: usize,
    pub(crate) arena: Slot,
    pub(crate) session: Slot,
}

/// Whether the driver has been told that there is something to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writable {
    Told,
    NotTold,
}

/// The client as it introduced itself. Its `Node` may be long, so it is handed on and only a digest
/// kept, to notice another one.
#[derive(Debug)]
struct Node {
    id: Arc<str>,
    digest: u64,
}

impl Stream {
    pub(crate) fn new(via: Via) -> Self {
        Self { via, sessions: Vec::new(), nonces: 0, writable: Writable::NotTold, node: None }
    }

    /// The id of the client's node; empty if it has given none.
    pub(crate) fn node_id(&self) -> &str {
        self.node.as_ref().map_or("", |node| &node.id)
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
                if hasher.hash_one(encoded) != node.digest {
                    out.observe(Observation::NodeChanged { stream: id });
                }
                Ok(())
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
        Ok(Self { id: id.into(), digest: hasher.hash_one(encoded) })
    }
}

impl Via {
    /// What type a request is about: that of the stream, or on an aggregated one what the request says
    /// (M5-M7, IS22).
    pub(crate) fn type_of<'a>(&'a self, stated: &'a str) -> Result<&'a str, CloseReason> {
        match self {
            Self::Aggregated(_) if stated.is_empty() => Err(CloseReason::MissingTypeUrl),
            Self::Aggregated(_) => Ok(stated),
            Self::Single { type_url, .. } if stated.is_empty() || *type_url == *stated => {
                Ok(type_url.as_str())
            }
            Self::Single { type_url, .. } => Err(CloseReason::ForeignTypeUrl {
                asked: TypeUrl::from(stated),
                served: type_url.clone(),
            }),
        }
    }
}

/// The lengths every request must keep to (M242).
pub(crate) fn check_lengths(
    request: &Request<'_>,
    limits: &ServerLimits,
) -> Result<(), CloseReason> {
    let (bytes, limit) = (request.longest_name.max(request.type_url.len()), limits.name_bytes);
    if bytes > limit { Err(CloseReason::NameTooLong { bytes, limit }) } else { Ok(()) }
}
