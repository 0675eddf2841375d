//! Resources of a management server.

use prost::Message;
use xds_routing::proto::envoy::{
    config::{
        cluster::v3::{
            Cluster,
            cluster::{ClusterDiscoveryType, CustomClusterType, DiscoveryType, EdsClusterConfig},
        },
        endpoint::v3::{
            ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints,
            lb_endpoint::HostIdentifier,
        },
    },
    extensions::{
        clusters::aggregate::v3::ClusterConfig,
        filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier,
    },
};

use crate::support::*;

pub(crate) fn listener(name: &str, routes: &str) -> Vec<u8> {
    api_listener(name, &manager(rds(routes))).encode_to_vec()
}

/// Listener with inline routes.
pub(crate) fn listener_with(name: &str, clusters: &[&str]) -> Vec<u8> {
    let routes = RouteSpecifier::RouteConfig(table_of("", clusters));
    api_listener(name, &manager(routes)).encode_to_vec()
}

/// Route configuration with a route to each cluster. The prefix is the name of the cluster.
pub(crate) fn table_of(
    name: &str,
    clusters: &[&str],
) -> xds_routing::proto::envoy::config::route::v3::RouteConfiguration {
    let to = |name: &&str| route(prefix(&format!("/{name}/")), cluster(name));
    routes(name, vec![host(&["*"], clusters.iter().map(to).collect())])
}

pub(crate) fn route_table(name: &str, clusters: &[&str]) -> Vec<u8> {
    table_of(name, clusters).encode_to_vec()
}

/// EDS cluster with this service name, which may be empty.
pub(crate) fn eds(name: &str, service: &str) -> Vec<u8> {
    let cluster = Cluster {
        name: name.into(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds as i32)),
        eds_cluster_config: Some(EdsClusterConfig {
            eds_config: ads(),
            service_name: service.into(),
        }),
        ..Cluster::default()
    };
    cluster.encode_to_vec()
}

pub(crate) fn aggregate(name: &str, members: &[&str]) -> Vec<u8> {
    let config = ClusterConfig { clusters: members.iter().map(ToString::to_string).collect() };
    let cluster = Cluster {
        name: name.into(),
        cluster_discovery_type: Some(ClusterDiscoveryType::ClusterType(CustomClusterType {
            name: "envoy.clusters.aggregate".into(),
            typed_config: Some(packed(&config)),
        })),
        ..Cluster::default()
    };
    cluster.encode_to_vec()
}

/// Logical DNS cluster.
pub(crate) fn dns(name: &str, host: &str) -> Vec<u8> {
    let mut endpoints = assignment("", &[1]);
    let only = &mut endpoints.endpoints[0];
    only.load_balancing_weight = None;
    let Some(HostIdentifier::Endpoint(endpoint)) = &mut only.lb_endpoints[0].host_identifier else {
        panic!("made above");
    };
    endpoint.address = Some(address(host, 443));
    let cluster = Cluster {
        name: name.into(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::LogicalDns as i32)),
        load_assignment: Some(endpoints),
        ..Cluster::default()
    };
    cluster.encode_to_vec()
}

/// Assignment with endpoints at these ports.
pub(crate) fn endpoints(name: &str, ports: &[u32]) -> Vec<u8> {
    assignment(name, ports).encode_to_vec()
}

/// Assignment without localities.
pub(crate) fn no_endpoints(name: &str) -> Vec<u8> {
    let nothing = ClusterLoadAssignment { cluster_name: name.into(), ..Default::default() };
    nothing.encode_to_vec()
}

fn assignment(name: &str, ports: &[u32]) -> ClusterLoadAssignment {
    let endpoint = |&port: &u32| LbEndpoint {
        host_identifier: Some(HostIdentifier::Endpoint(Endpoint {
            address: Some(address("10.0.0.1", port)),
            ..Endpoint::default()
        })),
        ..LbEndpoint::default()
    };
    ClusterLoadAssignment {
        cluster_name: name.into(),
        endpoints: vec![LocalityLbEndpoints {
            locality: Some(xds_core::proto::Locality { zone: "z".into(), ..Default::default() }),
            lb_endpoints: ports.iter().map(endpoint).collect(),
            load_balancing_weight: number(1),
            ..LocalityLbEndpoints::default()
        }],
        ..ClusterLoadAssignment::default()
    }
}
