//! A look inside: who subscribes to what, and has accepted what.

use alloc::{sync::Arc, vec::Vec};

use crate::{
    id::StreamId,
    text::{ResourceName, TypeUrl, Version, ViewName},
};

/// What one stream subscribes to of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Interest {
    /// Nothing at all, or nothing any more.
    Nothing,
    /// Everything.
    Wildcard,
    /// So many names.
    Names(usize),
    /// Everything, and so many names besides.
    WildcardAndNames(usize),
}

/// How far one stream is with one type (M233).
///
/// A heartbeat, which only renews the time of what the client has, counts as a response that is on its way, but that it
/// is accepted says nothing of what was rejected before: what was [`Nacked`](Self::Nacked) is so still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SyncState {
    /// Nothing was sent: none of it exists, or the transport has not taken it yet.
    Waiting,
    /// A response is on its way and not yet answered.
    Sent,
    /// The newest response was accepted.
    Acked,
    /// The newest response that was no heartbeat was rejected.
    Nacked,
}

/// One subscription: one stream and one type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriptionStatus<'a> {
    /// The stream.
    pub stream: StreamId,
    /// The id of the client's node; empty if it gave none.
    pub node_id: &'a str,
    /// What the client sees.
    pub view: &'a ViewName,
    /// The type.
    pub type_url: &'a TypeUrl,
    /// What is subscribed.
    pub interest: Interest,
    /// How far the client is.
    pub state: SyncState,
    /// The version of the newest response.
    pub sent_version: Option<Version>,
    /// The version the client accepted last.
    pub acked_version: Option<Version>,
    /// Responses sent.
    pub responses: u64,
    /// Responses accepted.
    pub acks: u64,
    /// Responses rejected.
    pub nacks: u64,
    /// What the client last rejected a response for, until it accepts one.
    pub last_error: Option<&'a Arc<str>>,
    /// The resources that it is known to reject as they are (M108).
    pub culprits: Vec<&'a ResourceName>,
}
