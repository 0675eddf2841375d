//! Clusters and endpoints that calls are balanced over.

use alloc::{format, string::String, sync::Arc, vec::Vec};

use super::{
    ConnectorId,
    picker::Limits,
    priority::{Members, WeightedPeers},
};
use crate::{
    cluster::{BalancingPolicy, Cluster},
    dependencies::{Children, ClusterConfiguration, ResolvedClusters},
    endpoint::ClusterLoadAssignment,
};

/// Returns the leaf clusters that calls to a cluster go to, in order: the cluster itself, or the
/// members of an aggregate.
#[must_use]
pub fn leaves<'a>(
    clusters: &'a ResolvedClusters,
    cluster: &'a Arc<ClusterConfiguration>,
) -> Vec<&'a Arc<ClusterConfiguration>> {
    match &cluster.children {
        Children::Leaf(_) => Vec::from([cluster]),
        Children::Aggregate(names) => {
            let found = names.iter().filter_map(|name| clusters.cluster(name).ok());
            found.filter(|leaf| matches!(leaf.children, Children::Leaf(_))).collect()
        }
    }
}

/// Cluster that calls are balanced over.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Source<'a> {
    /// Cluster.
    pub cluster: &'a Cluster,
    /// Endpoints of the cluster.
    pub endpoints: &'a ClusterLoadAssignment,
    /// Connector for the endpoints, or the reason why there is none.
    pub connector: Result<ConnectorId, String>,
}

/// Treatment of localities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Localities {
    ByWeight,
    AreOne,
}

impl<'a> Source<'a> {
    /// Creates a source with the default connector.
    #[must_use]
    pub const fn new(cluster: &'a Cluster, endpoints: &'a ClusterLoadAssignment) -> Self {
        Self { cluster, endpoints, connector: Ok(ConnectorId(0)) }
    }

    /// Sets the connector for the endpoints, or the reason why there is none.
    #[must_use]
    pub fn with_connector(self, connector: Result<ConnectorId, String>) -> Self {
        Self { connector, ..self }
    }

    /// Returns the priorities in order, or one that fails if the cluster cannot be used.
    pub(super) fn priorities(&self, limits: &Arc<Limits>) -> Vec<Members> {
        let (connector, how) = match self.usable() {
            Ok(usable) => usable,
            Err(why) => {
                let (name, limits) = ((self.cluster.name.clone(), 0), Arc::clone(limits));
                let failure = Some(why);
                return Vec::from([Members { name, localities: Vec::new(), limits, failure }]);
            }
        };
        let priorities = self.endpoints.priorities.iter().enumerate();
        let members = priorities.map(|(index, localities)| {
            let mut own: Vec<WeightedPeers> = Vec::new();
            for locality in localities {
                let endpoints = locality.endpoints.iter().filter(|it| it.health.takes_calls());
                let peers = endpoints.map(|it| (connector, it.addresses.clone()));
                match own.last_mut().filter(|_| how == Localities::AreOne) {
                    Some(all) => all.endpoints.extend(peers),
                    None => {
                        own.push(WeightedPeers {
                            weight: locality.weight,
                            endpoints: peers.collect(),
                        });
                    }
                }
            }
            let (name, limits) = ((self.cluster.name.clone(), index), Arc::clone(limits));
            Members { name, localities: own, limits, failure: None }
        });
        members.collect()
    }

    fn usable(&self) -> Result<(ConnectorId, Localities), String> {
        let how = localities_of(self.cluster)?;
        Ok((self.connector.clone()?, how))
    }
}

/// Whether the LB policy of a cluster is implemented. Otherwise its calls fail.
#[must_use]
pub fn can_balance(cluster: &Cluster) -> bool {
    localities_of(cluster).is_ok()
}

fn localities_of(cluster: &Cluster) -> Result<Localities, String> {
    match &cluster.balancing {
        BalancingPolicy::RoundRobin => Ok(Localities::AreOne),
        BalancingPolicy::WrrLocality(inner) if **inner == BalancingPolicy::RoundRobin => {
            Ok(Localities::ByWeight)
        }
        policy => {
            let name = &cluster.name;
            Err(format!("the LB policy of cluster `{name}` is not supported: {policy}"))
        }
    }
}
