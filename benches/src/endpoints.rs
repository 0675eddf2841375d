//! Small resources in large numbers: the endpoints of one cluster each.

use bytes::Bytes;
use envoy_types::pb::envoy::config::{
    core::v3::{
        Address, SocketAddress, address::Address as AddressKind, socket_address::PortSpecifier,
    },
    endpoint::v3::{
        ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints,
        lb_endpoint::HostIdentifier,
    },
};
use prost::Message as _;
use xds_core::{proto, types};

use crate::frames;

/// Returns incremental responses with `count` resources together.
pub fn first(count: usize) -> impl Iterator<Item = Bytes> {
    (0..count)
        .step_by(CHUNK)
        .map(move |begin| response("1", (begin..count.min(begin + CHUNK)).map(|index| (index, 1))))
}

/// Returns an incremental response with only the `index`-th resource in this version.
#[must_use]
pub fn changed(index: usize, version: u16) -> Bytes {
    response(&version.to_string(), [(index, version)].into_iter())
}

/// Returns the encoded endpoints of the `index`-th cluster in this version.
#[must_use]
pub fn encoded(index: usize, version: u16) -> Bytes {
    load_assignment(index, version).encode_to_vec().into()
}

/// Number of resources per response, as a server splits long responses.
const CHUNK: usize = 10_000;

fn response(version: &str, resources: impl Iterator<Item = (usize, u16)>) -> Bytes {
    let resource = |(index, port): (usize, u16)| proto::Resource {
        name: frames::name(index),
        version: version.into(),
        resource: Some(proto::Any {
            type_url: types::CLUSTER_LOAD_ASSIGNMENT.into(),
            value: encoded(index, port),
        }),
        ..proto::Resource::default()
    };
    proto::DeltaDiscoveryResponse {
        system_version_info: version.into(),
        nonce: version.into(),
        type_url: types::CLUSTER_LOAD_ASSIGNMENT.into(),
        resources: resources.map(resource).collect(),
        ..proto::DeltaDiscoveryResponse::default()
    }
    .encode_to_vec()
    .into()
}

fn load_assignment(index: usize, port: u16) -> ClusterLoadAssignment {
    let address = SocketAddress {
        address: "10.0.0.1".into(),
        port_specifier: Some(PortSpecifier::PortValue(port.into())),
        ..SocketAddress::default()
    };
    let endpoint = Endpoint {
        address: Some(Address { address: Some(AddressKind::SocketAddress(address)) }),
        ..Endpoint::default()
    };
    let endpoint = LbEndpoint {
        host_identifier: Some(HostIdentifier::Endpoint(endpoint)),
        ..LbEndpoint::default()
    };
    ClusterLoadAssignment {
        cluster_name: frames::name(index),
        endpoints: vec![LocalityLbEndpoints {
            lb_endpoints: vec![endpoint],
            ..LocalityLbEndpoints::default()
        }],
        ..ClusterLoadAssignment::default()
    }
}
