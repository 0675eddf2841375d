//! Status of subscriptions and of rejected responses.

use alloc::{sync::Arc, vec::Vec};

use crate::{
    id::StreamId,
    text::{ResourceName, TypeUrl, Version, ViewName},
    time::Time,
};

/// Subscription of one stream to one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubscribedNames {
    /// No subscription.
    Nothing,
    /// Wildcard subscription.
    Wildcard,
    /// Subscription to this number of names.
    Names(usize),
    /// Wildcard subscription, and subscription to this number of names.
    WildcardAndNames(usize),
}

/// Progress of one subscription.
///
/// A heartbeat, which only renews TTLs, counts as a sent response, but its ACK does not change the
/// state from [`Nacked`](Self::Nacked) to [`Acked`](Self::Acked).
// M233
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SyncState {
    /// No response was sent, because no subscribed resource exists or the transport has no room.
    Waiting,
    /// A response was sent and has not been answered.
    Sent,
    /// The client ACKed the newest response.
    Acked,
    /// The client NACKed the newest response that was not a heartbeat.
    Nacked,
}

/// Status of the subscription of one stream to one type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriptionStatus<'a> {
    /// Stream of the client.
    pub stream: StreamId,
    /// Id of the client's node; empty if it has none.
    pub node_id: &'a str,
    /// View of the client.
    pub view: &'a ViewName,
    /// Type of the subscription.
    pub type_url: &'a TypeUrl,
    /// Subscribed names or wildcard.
    pub subscribed: SubscribedNames,
    /// Progress of the client.
    pub state: SyncState,
    /// Version of the newest response.
    pub sent_version: Option<Version>,
    /// Version that the client ACKed last.
    pub acked_version: Option<Version>,
    /// Number of responses sent.
    pub responses: u64,
    /// Number of responses ACKed.
    pub acks: u64,
    /// Number of responses NACKed.
    pub nacks: u64,
    /// Error message of the last NACK; cleared by an ACK.
    pub last_error: Option<&'a Arc<str>>,
    /// Resources that the client is known to reject with their current content.
    // M108
    pub rejected_resources: Vec<&'a ResourceName>,
}

/// Whether a list is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Completeness {
    /// The list is complete.
    Complete,
    /// The list was cut at [`rejected_names`](crate::server::ServerLimits::rejected_names) entries.
    Truncated,
}

/// Whether a client has the current content of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ResourceSync {
    /// No resource of that name exists.
    Missing,
    /// The current content has not been sent.
    NotSent,
    /// The current content has been sent, possibly again without a change, and not answered.
    Stale,
    /// The current content has been ACKed.
    Synced,
    /// The current content was in a response that the client NACKed.
    Error,
}

/// Rejected response whose resources the client has not accepted since, in any version.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RejectionStatus<'a> {
    /// Id of the client's node; empty if it has none.
    pub node_id: &'a str,
    /// Stream of the client; `None` if it has disconnected.
    pub stream: Option<StreamId>,
    /// View of the client.
    pub view: &'a ViewName,
    /// Type of the response.
    pub type_url: &'a TypeUrl,
    /// Version of the newest rejected response.
    pub version: &'a Version,
    /// Resources of that response that were new to the client. Which of them it rejected is known
    /// only from `message`, or with
    /// [`NackRecovery::Isolate`](crate::server::NackRecovery::Isolate).
    pub names: &'a [ResourceName],
    /// Whether `names` is complete.
    pub completeness: Completeness,
    /// Status code in the client's `error_detail`. It may be a number that is not a
    /// [`StatusCode`](crate::StatusCode).
    pub code: i32,
    /// Message in the client's `error_detail`, cut to 4,096 bytes.
    pub message: &'a Arc<str>,
    /// Number of responses rejected since the client last had no rejection.
    pub count: u64,
    /// Time of the first of these rejections.
    pub since: Time,
    /// Time of the latest rejection.
    pub last: Time,
}
