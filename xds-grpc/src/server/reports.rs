//! What the application is told when it asks.

use std::sync::Arc;

use xds_core::{
    ResourceName, StreamId, Time, TypeUrl, Version, ViewName,
    server::{Extent, Interest, Rejection, SubscriptionStatus, SyncState},
};

/// One subscription, one stream and one type, at the moment of the question.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriptionSnapshot {
    /// The stream.
    pub stream: StreamId,
    /// The id of the client's node; empty if it gave none.
    pub node_id: String,
    /// What the client sees.
    pub view: ViewName,
    /// The type.
    pub type_url: TypeUrl,
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
    pub last_error: Option<String>,
    /// The resources that it is known to reject as they are
    /// ([`NackRecovery::Isolate`](xds_core::server::NackRecovery::Isolate)).
    pub culprits: Vec<ResourceName>,
}

impl From<SubscriptionStatus<'_>> for SubscriptionSnapshot {
    fn from(status: SubscriptionStatus<'_>) -> Self {
        Self {
            stream: status.stream,
            node_id: status.node_id.to_owned(),
            view: status.view.clone(),
            type_url: status.type_url.clone(),
            interest: status.interest,
            state: status.state,
            sent_version: status.sent_version,
            acked_version: status.acked_version,
            responses: status.responses,
            acks: status.acks,
            nacks: status.nacks,
            last_error: status.last_error.map(|error| error.to_string()),
            culprits: status.culprits.into_iter().cloned().collect(),
        }
    }
}

/// Responses that a client has rejected and not accepted since, at the moment of the question.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RejectionSnapshot {
    /// The id of the client's node; empty if it gave none.
    pub node_id: String,
    /// The stream, unless the client has gone.
    pub stream: Option<StreamId>,
    /// What the client sees.
    pub view: ViewName,
    /// The type.
    pub type_url: TypeUrl,
    /// The version of the newest rejected response.
    pub version: Version,
    /// The resources that were new to the client in it.
    pub names: Vec<ResourceName>,
    /// Whether these are all.
    pub extent: Extent,
    /// The status code of the error, as the client put it.
    pub code: i32,
    /// The client's message, cut to 4,096 bytes.
    pub message: Arc<str>,
    /// How many responses it has rejected since it last had none to complain about.
    pub count: u64,
    /// When it rejected the first of these, since the server started.
    pub since: Time,
    /// When it rejected the newest.
    pub last: Time,
}

impl From<Rejection<'_>> for RejectionSnapshot {
    fn from(rejection: Rejection<'_>) -> Self {
        Self {
            node_id: rejection.node_id.to_owned(),
            stream: rejection.stream,
            view: rejection.view.clone(),
            type_url: rejection.type_url.clone(),
            version: rejection.version.clone(),
            names: rejection.names.to_vec(),
            extent: rejection.extent,
            code: rejection.code,
            message: Arc::clone(rejection.message),
            count: rejection.count,
            since: rejection.since,
            last: rejection.last,
        }
    }
}
