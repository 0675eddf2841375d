//! Where calls to a cluster can go, from a configuration.

use alloc::{
    string::{String, ToString as _},
    sync::Arc,
    vec::Vec,
};

use xds_core::{ResourceName, Time, proto::Locality as LocalityName};

use super::Balancer;
use crate::{
    cluster::Cluster,
    dependencies::{Children, ClusterConfiguration, Endpoints, FollowedClusters},
    endpoint::{ClusterLoadAssignment, Endpoint, Health, Locality},
    router::Failure,
    scalars::SocketAddress,
};

/// The clusters that calls to one go to: itself, or those that it is made of, in their order.
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

impl Balancer {
    /// Takes what is known of a cluster, as [`update`](Self::update) does.
    ///
    /// # Errors
    ///
    /// How calls to it fail: it cannot be used, or asks for a policy that is not here.
    pub fn configure(
        &mut self,
        clusters: &FollowedClusters,
        cluster: &ResourceName,
        now: Time,
    ) -> Result<(), Failure> {
        let cluster = clusters.cluster(cluster)?;
        let mut sources: Vec<(Arc<Cluster>, Arc<ClusterLoadAssignment>)> = Vec::new();
        for leaf in leaves(clusters, cluster) {
            let Children::Leaf(found) = &leaf.children else { continue };
            let endpoints = match &found.endpoints {
                Endpoints::Known(endpoints) => Arc::clone(endpoints),
                Endpoints::Dns(address) => Arc::new(behind(&leaf.cluster.name, address)),
                Endpoints::Missing => continue,
            };
            sources.push((Arc::clone(&leaf.cluster), endpoints));
        }
        let sources: Vec<_> =
            sources.iter().map(|(cluster, endpoints)| (&**cluster, &**endpoints)).collect();
        self.update(&sources, now).map_err(|why| cluster.failure(why.to_string()))
    }
}

/// The one endpoint behind a name (A37).
fn behind(cluster: &ResourceName, address: &SocketAddress) -> ClusterLoadAssignment {
    let endpoint = Endpoint {
        addresses: Vec::from([address.clone()]),
        weight: 1,
        hostname: address.to_string(),
        health: Health::Unknown,
        hash_key: String::new(),
    };
    let endpoints = Vec::from([endpoint]);
    let locality = Locality { name: LocalityName::default(), weight: 1, endpoints };
    let priorities = Vec::from([Vec::from([locality])]);
    ClusterLoadAssignment { name: cluster.clone(), priorities, drops: Vec::new() }
}
