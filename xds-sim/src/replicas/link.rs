//! Streams between clients and replicas.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use prost::Message as _;
use xds_core::{
    ChannelId, StreamId, Time,
    proto::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse},
    service::Variant,
};

/// Stream of a client to a replica.
#[derive(Debug)]
pub(super) struct ReplicaLink {
    pub(super) client: usize,
    pub(super) channel: ChannelId,
    pub(super) variant: Variant,
    pub(super) replica: usize,
    /// Stream at the server, while it is open there.
    pub(super) stream: Option<StreamId>,
    /// Whether the client still has the channel.
    pub(super) is_open: bool,
    /// Responses that the client has not read.
    pub(super) inbox: VecDeque<Bytes>,
    /// Earliest arrival of the next message in each direction: streams keep the order.
    pub(super) arrivals: [Time; 2],
    /// Whether a confirmation of the source preceded the answers.
    pub(super) is_confirmed: bool,
    /// First requests by type.
    pub(super) stated: BTreeMap<usize, StatedVersions>,
    /// Types with a response.
    pub(super) answered: BTreeSet<usize>,
    /// Revision that the replica had reached at the last response.
    pub(super) reached: Option<u64>,
}

/// Versions that the first request of a type states.
#[derive(Clone, Debug, Default)]
pub(super) struct StatedVersions {
    /// Version of the type in the state of the world.
    pub(super) version: String,
    /// Versions of resources in the incremental variant.
    pub(super) resources: BTreeMap<String, String>,
    /// Whether the request subscribes to the wildcard alone.
    pub(super) is_wildcard: bool,
    /// Revision that the replica had reached when the request arrived.
    pub(super) reached: u64,
    /// Revision that the stated versions stand for, as the oracle knows it.
    pub(super) floor: u64,
}

/// Request as far as the oracles need it.
pub(super) struct ReadRequest {
    pub(super) type_url: String,
    pub(super) stated: StatedVersions,
}

pub(super) fn read_request(variant: Variant, message: &[u8]) -> Option<ReadRequest> {
    Some(match variant {
        Variant::StateOfTheWorld => {
            let request = DiscoveryRequest::decode(message).ok()?;
            let is_wildcard = request.resource_names.iter().all(|name| name == "*");
            let version = request.version_info;
            let stated = StatedVersions { version, is_wildcard, ..StatedVersions::default() };
            ReadRequest { type_url: request.type_url, stated }
        }
        Variant::Incremental => {
            let request = DeltaDiscoveryRequest::decode(message).ok()?;
            let resources = request.initial_resource_versions.into_iter().collect();
            let stated = StatedVersions { resources, ..StatedVersions::default() };
            ReadRequest { type_url: request.type_url, stated }
        }
    })
}

/// Response as far as the oracles need it: type, version, and the versions of resources.
pub(super) struct ReadResponse {
    pub(super) type_url: String,
    pub(super) version: String,
    pub(super) resources: BTreeMap<String, String>,
}

pub(super) fn read_response(variant: Variant, message: &[u8]) -> Option<ReadResponse> {
    Some(match variant {
        Variant::StateOfTheWorld => {
            let response = DiscoveryResponse::decode(message).ok()?;
            let (type_url, version) = (response.type_url, response.version_info);
            ReadResponse { type_url, version, resources: BTreeMap::new() }
        }
        Variant::Incremental => {
            let response = DeltaDiscoveryResponse::decode(message).ok()?;
            let resources = response.resources.into_iter().map(|it| (it.name, it.version));
            let (type_url, version) = (response.type_url, response.system_version_info);
            ReadResponse { type_url, version, resources: resources.collect() }
        }
    })
}

/// Returns the hash in a version.
pub(super) fn hash_of(version: &str) -> &str {
    version.rsplit_once('-').map_or(version, |(_, hash)| hash)
}
