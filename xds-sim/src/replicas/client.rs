//! Clients, and what their applications have observed.

use std::collections::BTreeMap;

use xds_core::{
    Client, TypeUrl, WatchId,
    client::{ClientConfig, Node, ServerAddress},
    service::Variant,
};

use super::source::{SourceKey, TYPES};
use crate::ToyType;

/// Application with its client.
#[derive(Debug)]
pub(super) struct ReplicaClient {
    pub(super) core: Client,
    pub(super) variant: Variant,
    /// Number of restarts of the client.
    pub(super) restarts: u64,
    pub(super) watches: BTreeMap<WatchId, ReplicaSubscription>,
    /// Subscriptions of the application, whether or not the client runs.
    pub(super) wants: Vec<ReplicaSubscription>,
    /// For each resource that was observed, the revision of the source that the application has seen
    /// at least. It survives restarts of the client.
    pub(super) seen: BTreeMap<SourceKey, u64>,
    /// Current values, as the client of this start has reported them.
    pub(super) values: BTreeMap<SourceKey, Option<String>>,
    /// Values in use: that of a resource whose removal was only reported stays.
    pub(super) cached: BTreeMap<SourceKey, String>,
    /// Link whose response was read last, for each type.
    pub(super) read_from: [Option<usize>; TYPES.len()],
    /// Replica of the last stream.
    pub(super) replica: Option<usize>,
}

/// Subscription of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplicaSubscription {
    Wildcard(usize),
    Name(SourceKey),
}

impl ReplicaSubscription {
    pub(super) fn kind(self) -> usize {
        match self {
            Self::Wildcard(kind) | Self::Name((kind, _)) => kind,
        }
    }
}

impl ReplicaClient {
    pub(super) fn new(core: Client, variant: Variant, wants: Vec<ReplicaSubscription>) -> Self {
        Self {
            core,
            variant,
            restarts: 0,
            watches: BTreeMap::new(),
            wants,
            seen: BTreeMap::new(),
            values: BTreeMap::new(),
            cached: BTreeMap::new(),
            read_from: [None; TYPES.len()],
            replica: None,
        }
    }
}

pub(super) fn config(number: usize, variant: Variant) -> ClientConfig {
    let address = ServerAddress::new("replicas").with_variant(variant);
    TYPES
        .iter()
        .fold(ClientConfig::new(Node::new(format!("node-{number}")), address), |config, it| {
            config.with_type(ToyType::new(TypeUrl::from(*it)))
        })
}
