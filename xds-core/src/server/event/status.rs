//! A look inside: who subscribes to what, and has accepted what.

use alloc::{sync::Arc, vec::Vec};

use crate::{
    id::StreamId,
    text::{ResourceName, TypeUrl, Version, ViewName},
    time::Time,
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

/// Whether a list is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Extent {
    /// It has all there are.
    All,
    /// There are more than the limit
    /// [`rejected_names`](crate::server::ServerLimits::rejected_names).
    Part,
}

/// Whether a client has a resource as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ResourceSync {
    /// There is none of that name: the client waits for it, or has been told.
    Missing,
    /// It has not been sent as it is now.
    NotSent,
    /// It has been sent, or sent again though it had not changed, and that has not been answered.
    Stale,
    /// It has been sent and accepted.
    Synced,
    /// It has been sent and rejected, alone or with others.
    Error,
}

/// A response that a client rejected and has not accepted since, in whatever form.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejection<'a> {
    /// The id of the client's node; empty if it gave none.
    pub node_id: &'a str,
    /// The stream, unless the client has gone.
    pub stream: Option<StreamId>,
    /// What the client sees.
    pub view: &'a ViewName,
    /// The type.
    pub type_url: &'a TypeUrl,
    /// The version of the newest rejected response.
    pub version: &'a Version,
    /// The resources that were new to the client in it. Which of them it did not like, only its message
    /// says, or [`NackRecovery::Isolate`](crate::server::NackRecovery::Isolate) finds out.
    pub names: &'a [ResourceName],
    /// Whether these are all.
    pub extent: Extent,
    /// The status code of the error, as the client put it.
    pub code: i32,
    /// The client's message, cut to 4,096 bytes.
    pub message: &'a Arc<str>,
    /// How many responses it has rejected since it last had none to complain about.
    pub count: u64,
    /// When it rejected the first of these.
    pub since: Time,
    /// When it rejected the newest.
    pub last: Time,
}
