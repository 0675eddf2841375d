//! Clusters and endpoints that calls are balanced over.

use alloc::{string::String, sync::Arc, vec::Vec};

use super::{
    ConnectorId,
    picker::Limits,
    policy::{EndpointPolicy, Localities, policies_of},
    priority::{Members, WeightedPeers},
};
use crate::{
    cluster::Cluster,
    dependencies::{Children, ClusterConfiguration, ResolvedClusters},
    endpoint::ClusterLoadAssignment,
    random::Random,
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
    /// Equal addresses are shuffled equally with the same seed, so that they keep their connection.
    pub(super) fn priorities(&self, limits: &Arc<Limits>, seed: u64) -> Vec<Members> {
        let (connector, localities_are, policy) = match self.usable() {
            Ok(usable) => usable,
            Err(why) => {
                let (name, limits) = ((self.cluster.name.clone(), 0), Arc::clone(limits));
                return Vec::from([Members::failing(name, limits, why)]);
            }
        };
        let priorities = self.endpoints.priorities.iter().enumerate();
        let members = priorities.map(|(index, localities)| {
            let mut own: Vec<WeightedPeers> = Vec::new();
            for locality in localities {
                let endpoints = locality.endpoints.iter().filter(|it| it.health.takes_calls());
                let peers = endpoints.map(|it| (connector, it.addresses.clone()));
                match own.last_mut().filter(|_| localities_are == Localities::AreOne) {
                    Some(all) => all.endpoints.extend(peers),
                    None => {
                        own.push(WeightedPeers {
                            weight: locality.weight,
                            endpoints: peers.collect(),
                        });
                    }
                }
            }
            if let EndpointPolicy::PickFirst { shuffle } = policy {
                own.iter_mut().for_each(|locality| locality.merge(shuffle.then_some(seed)));
            }
            let (name, limits) = ((self.cluster.name.clone(), index), Arc::clone(limits));
            Members { name, localities: own, policy, limits, failure: None }
        });
        members.collect()
    }

    fn usable(&self) -> Result<(ConnectorId, Localities, EndpointPolicy), String> {
        let (localities, policy) = policies_of(self.cluster)?;
        Ok((self.connector.clone()?, localities, policy))
    }
}

impl WeightedPeers {
    /// Combines the endpoints into one with all their addresses, in their order or shuffled.
    fn merge(&mut self, seed: Option<u64>) {
        let endpoints = core::mem::take(&mut self.endpoints);
        let Some(&(connector, _)) = endpoints.first() else { return };
        let mut addresses: Vec<_> = endpoints.into_iter().flat_map(|(_, it)| it).collect();
        if let Some(seed) = seed {
            Random::new(seed).shuffle(&mut addresses);
        }
        self.endpoints.push((connector, addresses));
    }
}
