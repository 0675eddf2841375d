//! Snapshots of a server's state for the application.

use std::sync::Arc;

use xds_core::{
    ResourceName, StreamId, Time, TypeUrl, Version, ViewName,
    server::{Completeness, RejectionStatus, SubscribedNames, SubscriptionStatus, SyncState},
};

/// Subscription of one stream to one type, at the time of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriptionSnapshot {
    /// Stream of the client.
    pub stream: StreamId,
    /// Node id; empty if the client sent none.
    pub node_id: String,
    /// View that the client sees. For a client in the cohort of a rollout, this is the copy of the
    /// view with the change.
    pub view: ViewName,
    /// Resource type.
    pub type_url: TypeUrl,
    /// Subscribed resources.
    pub subscribed: SubscribedNames,
    /// State of the newest response.
    pub state: SyncState,
    /// Version of the newest response.
    pub sent_version: Option<Version>,
    /// Version that the client accepted last.
    pub acked_version: Option<Version>,
    /// Number of responses sent.
    pub responses: u64,
    /// Number of responses accepted (ACKs).
    pub acks: u64,
    /// Number of responses rejected (NACKs).
    pub nacks: u64,
    /// Error message of the last NACK; `None` after an ACK.
    pub last_error: Option<String>,
    /// Resources identified as the cause of NACKs in their current version
    /// ([`NackRecovery::Isolate`](xds_core::server::NackRecovery::Isolate)).
    pub rejected_resources: Vec<ResourceName>,
}

impl From<SubscriptionStatus<'_>> for SubscriptionSnapshot {
    fn from(status: SubscriptionStatus<'_>) -> Self {
        Self {
            stream: status.stream,
            node_id: status.node_id.to_owned(),
            view: status.view.clone(),
            type_url: status.type_url.clone(),
            subscribed: status.subscribed,
            state: status.state,
            sent_version: status.sent_version,
            acked_version: status.acked_version,
            responses: status.responses,
            acks: status.acks,
            nacks: status.nacks,
            last_error: status.last_error.map(|error| error.to_string()),
            rejected_resources: status.rejected_resources.into_iter().cloned().collect(),
        }
    }
}

/// Rejected response whose resources the client has not accepted since, in any version, at the time
/// of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RejectionSnapshot {
    /// Node id; empty if the client sent none.
    pub node_id: String,
    /// Stream of the client; `None` if it has disconnected.
    pub stream: Option<StreamId>,
    /// View that the client sees. For a client in the cohort of a rollout, this is the copy of the
    /// view with the change.
    pub view: ViewName,
    /// Resource type.
    pub type_url: TypeUrl,
    /// Version of the newest rejected response.
    pub version: Version,
    /// Resources of that response that were new to the client.
    pub names: Vec<ResourceName>,
    /// Whether `names` is complete.
    pub completeness: Completeness,
    /// Status code in the client's error detail. It may be a number that is not a
    /// [`StatusCode`](xds_core::StatusCode).
    pub code: i32,
    /// Error message of the client, truncated to 4,096 bytes.
    pub message: Arc<str>,
    /// Number of responses rejected since the client last had no rejection.
    pub count: u64,
    /// Time of the first of these rejections, relative to the start of the server.
    pub since: Time,
    /// Time of the latest rejection, relative to the start of the server.
    pub last: Time,
}

impl From<RejectionStatus<'_>> for RejectionSnapshot {
    fn from(rejection: RejectionStatus<'_>) -> Self {
        Self {
            node_id: rejection.node_id.to_owned(),
            stream: rejection.stream,
            view: rejection.view.clone(),
            type_url: rejection.type_url.clone(),
            version: rejection.version.clone(),
            names: rejection.names.to_vec(),
            completeness: rejection.completeness,
            code: rejection.code,
            message: Arc::clone(rejection.message),
            count: rejection.count,
            since: rejection.since,
            last: rejection.last,
        }
    }
}
