//! Endpoints that are ready for calls, and the limits of their clusters.

use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::AtomicU32;

use xds_core::ResourceName;

use super::{
    ConnectionId,
    by_address::{EndpointLocality, Hostnames},
    counters::{CallResults, EndpointCounters},
};
use crate::{cluster::WeightedRoundRobin, endpoint::DropCategory};

/// Endpoint that is ready for calls.
#[derive(Clone, Debug)]
pub(super) struct PickEndpoint {
    pub(super) id: ConnectionId,
    pub(super) counters: Arc<EndpointCounters>,
    /// Results of calls, for outlier detection.
    pub(super) results: Option<Arc<CallResults>>,
    pub(super) hostnames: Hostnames,
    pub(super) locality: EndpointLocality,
    /// Parameters for the load reports of responses, if they count.
    pub(super) loads: Option<Arc<WeightedRoundRobin>>,
}

/// Limits of a cluster on its calls: drop categories and the maximum number of concurrent calls
/// (gRFC A32).
#[derive(Debug)]
pub(super) struct Limits {
    pub(super) cluster: ResourceName,
    pub(super) drops: Vec<DropCategory>,
    /// Number of active calls.
    pub(super) requests: Arc<AtomicU32>,
    pub(super) max: u32,
}
