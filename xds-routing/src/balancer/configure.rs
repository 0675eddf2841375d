//! Clusters and endpoints that calls are balanced over, from a configuration.

use alloc::{
    string::{String, ToString as _},
    sync::Arc,
    vec::Vec,
};

use xds_core::{ResourceName, Time, proto::Locality as LocalityName};

use super::{Balancer, ConnectorId, Source, leaves};
use crate::{
    dependencies::{Children, ClusterConfiguration, Endpoints, ResolvedClusters},
    endpoint::{ClusterLoadAssignment, Endpoint, Health, Locality},
    router::Failure,
    scalars::SocketAddress,
};

impl Balancer {
    /// Sets the clusters from a configuration, like [`update`](Self::update). `connector` returns
    /// the connector for the endpoints of each leaf cluster, or the reason why there is none.
    ///
    /// # Errors
    ///
    /// Returns the failure of calls to the cluster if it cannot be used. The balancer is unchanged
    /// then, and its picker still returns the old endpoints: the caller fails the calls with this
    /// failure, and [clears](Self::clear) the balancer to release the connections.
    pub fn configure(
        &mut self,
        clusters: &ResolvedClusters,
        cluster: &ResourceName,
        mut connector: impl FnMut(&ClusterConfiguration) -> Result<ConnectorId, String>,
        now: Time,
    ) -> Result<(), Failure> {
        let cluster = clusters.cluster(cluster)?;
        let mut found = Vec::new();
        for leaf in leaves(clusters, cluster) {
            let Children::Leaf(children) = &leaf.children else { continue };
            let endpoints = match &children.endpoints {
                Endpoints::Known(endpoints) => Arc::clone(endpoints),
                Endpoints::Dns(address) => Arc::new(dns_assignment(&leaf.cluster.name, address)),
                Endpoints::Missing => Arc::new(without_endpoints(&leaf.cluster.name)),
            };
            found.push((leaf, endpoints, connector(leaf)));
        }
        let sources = found.iter().map(|(leaf, endpoints, connector)| {
            Source::new(&leaf.cluster, endpoints).with_connector(connector.clone())
        });
        self.update(&sources.collect::<Vec<_>>(), now);
        Ok(())
    }
}

/// Returns an assignment without endpoints.
fn without_endpoints(cluster: &ResourceName) -> ClusterLoadAssignment {
    ClusterLoadAssignment { name: cluster.clone(), priorities: Vec::new(), drops: Vec::new() }
}

/// Returns an assignment with one endpoint for a DNS name (gRFC A37).
fn dns_assignment(cluster: &ResourceName, address: &SocketAddress) -> ClusterLoadAssignment {
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
