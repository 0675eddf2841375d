//! Clusters (CDS) as gRPC understands them: A27 with A29, A32, A37, A42, A48, A50, A52 and A75.

mod balancing;
mod outliers;
mod validate;

use alloc::vec::Vec;
use core::time::Duration;

use xds_core::ResourceName;

pub(crate) use self::validate::judge_cluster;
pub use self::{
    balancing::{BalancingPolicy, RingHash},
    outliers::{FailurePercentage, OutlierDetection, SuccessRate},
};
use crate::{listener::TlsContext, scalars::SocketAddress};

/// A validated cluster.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Cluster {
    /// The resource's name.
    pub name: ResourceName,
    /// How its endpoints are found.
    pub discovery: Discovery,
    /// How to choose between them.
    pub balancing: BalancingPolicy,
    /// How many calls may be under way at once (A32).
    pub max_requests: u32,
    /// When endpoints are left alone for a while (A50).
    pub outliers: Option<OutlierDetection>,
    /// How connections are secured; `None` is not at all (A29).
    pub tls: Option<TlsContext>,
    /// How long a connection without calls is kept; zero is without limit (B30b). The default is an hour.
    ///
    /// In gRPC only the policy of stateful sessions, `xds_override_host`, goes by it, for endpoints that its child
    /// does not use (A75, with A55 and A60); round robin keeps its connections. Whoever balances by a
    /// [`Balancer`](crate::balancer::Balancer), which does the same, has no use for it. The idle timeouts of routes and
    /// of the HTTP connection manager are for proxies, and not read.
    pub idle_timeout: Duration,
    /// Whether load is reported to the server that sent the cluster (A27).
    pub load_reporting: LoadReporting,
}

/// Whether load is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadReporting {
    /// No.
    Off,
    /// To the server that sent the cluster.
    SameServer,
}

/// How the endpoints of a cluster are found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Discovery {
    /// They are the resource of this name (S0.022).
    Eds(ResourceName),
    /// They are behind a name of DNS, which is one endpoint (A37).
    LogicalDns(SocketAddress),
    /// It is made of other clusters, each for when those before do not suffice (A37).
    Aggregate(Vec<ResourceName>),
}

impl Cluster {
    /// The endpoints' resource, if they are one.
    #[must_use]
    pub const fn endpoints(&self) -> Option<&ResourceName> {
        match &self.discovery {
            Discovery::Eds(name) => Some(name),
            Discovery::LogicalDns(_) | Discovery::Aggregate(_) => None,
        }
    }
}
