//! Clusters and endpoints that calls are balanced over, from a configuration.

use alloc::{
    string::{String, ToString as _},
    sync::Arc,
    vec::Vec,
};

use xds_core::{ResourceName, Time, proto::Locality as LocalityName};

use super::{Balancer, Source, Way, leaves};
use crate::{
    dependencies::{Children, ClusterConfiguration, Endpoints, FollowedClusters},
    endpoint::{ClusterLoadAssignment, Endpoint, Health, Locality},
    router::Failure,
    scalars::SocketAddress,
};

impl Balancer {
    /// Sets the clusters from a configuration, like [`update`](Self::update). `way` returns the way
    /// to connect to the endpoints of each leaf cluster, or the reason why this is impossible.
    ///
    /// # Errors
    ///
    /// Returns the failure of calls to the cluster if it cannot be used. The balancer is unchanged
    /// then.
    pub fn configure(
        &mut self,
        clusters: &FollowedClusters,
        cluster: &ResourceName,
        mut way: impl FnMut(&ClusterConfiguration) -> Result<Way, String>,
        now: Time,
    ) -> Result<(), Failure> {
        let cluster = clusters.cluster(cluster)?;
        let mut found = Vec::new();
        for leaf in leaves(clusters, cluster) {
            let Children::Leaf(children) = &leaf.children else { continue };
            let endpoints = match &children.endpoints {
                Endpoints::Known(endpoints) => Arc::clone(endpoints),
                Endpoints::Dns(address) => Arc::new(behind(&leaf.cluster.name, address)),
                Endpoints::Missing => Arc::new(nobody(&leaf.cluster.name)),
            };
            found.push((leaf, endpoints, way(leaf)));
        }
        let sources = found.iter().map(|(leaf, endpoints, way)| {
            Source::new(&leaf.cluster, endpoints).with_way(way.clone())
        });
        self.update(&sources.collect::<Vec<_>>(), now);
        Ok(())
    }
}

/// Returns an assignment without endpoints.
fn nobody(cluster: &ResourceName) -> ClusterLoadAssignment {
    ClusterLoadAssignment { name: cluster.clone(), priorities: Vec::new(), drops: Vec::new() }
}

/// Returns an assignment with one endpoint for a DNS name (gRFC A37).
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
