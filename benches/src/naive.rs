//! A management server of the common design: it keeps a map of versions for each client,
//! compares it with all resources after every change, and encodes the differences for
//! each client separately.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use prost::Message as _;
use xds_core::{proto, types};

/// Resources, and the versions that each client has.
#[derive(Debug)]
pub struct Naive {
    resources: BTreeMap<String, (String, Bytes)>,
    clients: Vec<HashMap<String, String>>,
}

impl Naive {
    /// Creates a server with `clients` that have all resources.
    #[must_use]
    pub fn new(resources: impl Iterator<Item = (String, Bytes)>, clients: usize) -> Self {
        let resources: BTreeMap<_, _> =
            resources.map(|(name, bytes)| (name, ("1".to_owned(), bytes))).collect();
        let held: HashMap<_, _> =
            resources.iter().map(|(name, (version, _))| (name.clone(), version.clone())).collect();
        Self { resources, clients: vec![held; clients] }
    }

    /// Sets a resource.
    pub fn change(&mut self, name: String, version: String, bytes: Bytes) {
        self.resources.insert(name, (version, bytes));
    }

    /// Returns the responses that bring all clients up to date.
    pub fn fan_out(&mut self) -> Vec<Bytes> {
        let resources = &self.resources;
        self.clients.iter_mut().map(|held| difference(resources, held)).collect()
    }
}

fn difference(
    resources: &BTreeMap<String, (String, Bytes)>,
    held: &mut HashMap<String, String>,
) -> Bytes {
    let mut response = proto::DeltaDiscoveryResponse {
        type_url: types::CLUSTER_LOAD_ASSIGNMENT.into(),
        ..proto::DeltaDiscoveryResponse::default()
    };
    for (name, (version, bytes)) in resources {
        if held.get(name) == Some(version) {
            continue;
        }
        held.insert(name.clone(), version.clone());
        response.resources.push(proto::Resource {
            name: name.clone(),
            version: version.clone(),
            resource: Some(proto::Any {
                type_url: types::CLUSTER_LOAD_ASSIGNMENT.into(),
                value: bytes.clone(),
            }),
            ..proto::Resource::default()
        });
    }
    response.removed_resources =
        held.keys().filter(|name| !resources.contains_key(*name)).cloned().collect();
    response.encode_to_vec().into()
}
