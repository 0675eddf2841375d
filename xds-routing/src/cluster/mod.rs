//! Clusters (CDS) as gRPC uses them: [gRFC A27], with gRFCs A29, A32, A37, A42, A48, A50, A52, A55
//! and A75.
//!
//! [gRFC A27]: https://github.com/grpc/proposal/blob/master/A27-xds-global-load-balancing.md

mod balancing;
mod load_reporting;
mod outliers;
mod validate;

use alloc::{collections::BTreeSet, vec::Vec};
use core::time::Duration;

use xds_core::ResourceName;

pub(crate) use self::validate::validate_cluster;
pub use self::{
    balancing::{BalancingPolicy, RingHash, UtilizationMetric, WeightedRoundRobin},
    load_reporting::{LoadReporting, ReportedMetrics},
    outliers::{FailurePercentage, OutlierDetection, SuccessRate},
};
use crate::{endpoint::Health, listener::TlsContext, scalars::SocketAddress};

/// Validated cluster.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Cluster {
    /// Name of the resource.
    pub name: ResourceName,
    /// Source of the endpoints.
    pub discovery: Discovery,
    /// LB policy. Aggregate clusters use the policies of their members; that of their own resource
    /// is not read, and this is round robin ([gRFC A75]).
    ///
    /// [gRFC A75]:
    ///     https://github.com/grpc/proposal/blob/master/A75-xds-aggregate-cluster-behavior-fixes.md
    pub balancing: BalancingPolicy,
    /// Maximum number of concurrent calls (gRFC A32). Default: 1,024.
    pub max_requests: u32,
    /// Outlier detection, if enabled (gRFC A50).
    pub outliers: Option<OutlierDetection>,
    /// TLS for connections to endpoints. `None` means no TLS (gRFC A29).
    pub tls: Option<TlsContext>,
    /// Time for which a connection that only sessions need is kept after the last call of a session. The
    /// balancer keeps it for at least five seconds. Default: one hour.
    ///
    /// Connections that the LB policy needs are not closed when they are idle (gRFC A75). The idle
    /// timeouts of routes and of the HTTP connection manager are for proxies and are not read.
    // B30b
    pub idle_timeout: Duration,
    /// Health statuses of endpoints to which calls of their sessions are sent. Default: unknown and
    /// healthy (gRFC A55).
    // B39a
    pub override_host_status: BTreeSet<Health>,
    /// Load reports to the server that sent the cluster, if they are requested (gRFC A27).
    pub load_reporting: Option<LoadReporting>,
}

/// Source of a cluster's endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Discovery {
    /// The EDS resource with this name.
    // S0.022
    Eds(ResourceName),
    /// A DNS name, treated as one endpoint (gRFC A37).
    LogicalDns(SocketAddress),
    /// Other clusters, in order of priority: each is used if the earlier ones fail (gRFC A37).
    Aggregate(Vec<ResourceName>),
}

impl Cluster {
    /// Returns the name of the EDS resource, for a cluster of type EDS.
    #[must_use]
    pub const fn endpoints(&self) -> Option<&ResourceName> {
        match &self.discovery {
            Discovery::Eds(name) => Some(name),
            Discovery::LogicalDns(_) | Discovery::Aggregate(_) => None,
        }
    }
}
