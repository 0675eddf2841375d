//! Clusters and endpoints that calls are balanced over.

use alloc::{format, string::String, sync::Arc, vec::Vec};

use super::{
    Way,
    picker::Limits,
    priority::{Locality as Together, Members},
};
use crate::{
    cluster::{BalancingPolicy, Cluster},
    dependencies::{Children, ClusterConfiguration, FollowedClusters},
    endpoint::ClusterLoadAssignment,
};

/// Returns the leaf clusters that calls to a cluster go to, in order: the cluster itself, or the
/// members of an aggregate.
#[must_use]
pub fn leaves<'a>(
    clusters: &'a FollowedClusters,
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
    /// Way to connect to the endpoints, or the reason why this is impossible.
    pub way: Result<Way, String>,
}

/// Treatment of localities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Localities {
    ByWeight,
    AreOne,
}

impl<'a> Source<'a> {
    /// Creates a source with the default way to connect.
    #[must_use]
    pub const fn new(cluster: &'a Cluster, endpoints: &'a ClusterLoadAssignment) -> Self {
        Self { cluster, endpoints, way: Ok(Way(0)) }
    }

    /// Sets the way to connect to the endpoints, or the reason why this is impossible.
    #[must_use]
    pub fn with_way(self, way: Result<Way, String>) -> Self {
        Self { way, ..self }
    }

    /// Returns the priorities in order, or one that fails if the cluster cannot be used.
    pub(super) fn priorities(&self, limits: &Arc<Limits>) -> Vec<Members> {
        let (way, how) = match self.usable() {
            Ok(usable) => usable,
            Err(why) => {
                let (name, limits) = ((self.cluster.name.clone(), 0), Arc::clone(limits));
                let failure = Some(why);
                return Vec::from([Members { name, localities: Vec::new(), limits, failure }]);
            }
        };
        let priorities = self.endpoints.priorities.iter().enumerate();
        let members = priorities.map(|(index, localities)| {
            let mut own: Vec<Together> = Vec::new();
            for locality in localities {
                let endpoints = locality.endpoints.iter().filter(|it| it.health.takes_calls());
                let peers = endpoints.map(|it| (way, it.addresses.clone()));
                match own.last_mut().filter(|_| how == Localities::AreOne) {
                    Some(all) => all.endpoints.extend(peers),
                    None => {
                        own.push(Together { weight: locality.weight, endpoints: peers.collect() });
                    }
                }
            }
            let (name, limits) = ((self.cluster.name.clone(), index), Arc::clone(limits));
            Members { name, localities: own, limits, failure: None }
        });
        members.collect()
    }

    fn usable(&self) -> Result<(Way, Localities), String> {
        let how = localities_of(self.cluster)?;
        Ok((self.way.clone()?, how))
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
        BalancingPolicy::Localities(inner) if **inner == BalancingPolicy::RoundRobin => {
            Ok(Localities::ByWeight)
        }
        _ => {
            let name = &cluster.name;
            Err(format!("cluster `{name}` asks for a way to balance calls that is not supported"))
        }
    }
}
