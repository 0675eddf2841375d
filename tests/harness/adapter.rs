//! Requests to the suite's adapter as changes of a management server's resources.
//!
//! The suite names resources and versions and does not look at their contents, so the contents are
//! made up. Each node has its own view. Versions are used as given. One version may be given to
//! several sets of resources, because the suite adds resources under the existing version.

use std::collections::BTreeSet;

use prost::Message;
use xds_core::{
    ViewName,
    proto::Any,
    server::{ResourceOptions, ServerConfig, Transaction, VersionMode},
    types,
};

/// Returns the configuration of a server for the suite.
pub(crate) fn config() -> ServerConfig {
    ServerConfig::default().with_every_type(|it| it.versions = VersionMode::Label)
}

/// Request to replace all resources of a node.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SetStateRequest {
    #[prost(string, tag = "1")]
    pub(crate) node: String,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
    /// Resources, of which only type and name are used.
    #[prost(message, repeated, tag = "3")]
    pub(crate) resources: Vec<Any>,
}

/// Request about one resource of a node.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResourceRequest {
    #[prost(string, tag = "1")]
    pub(crate) node: String,
    #[prost(string, tag = "2")]
    pub(crate) type_url: String,
    #[prost(string, tag = "3")]
    pub(crate) resource_name: String,
    /// New version of the type.
    #[prost(string, tag = "4")]
    pub(crate) version: String,
}

impl SetStateRequest {
    pub(crate) fn view(&self) -> ViewName {
        ViewName::from(self.node.as_str())
    }

    /// Returns the resources without duplicates, which the suite may list.
    pub(crate) fn snapshot(&self) -> Transaction {
        let mut snapshot = Transaction::snapshot(self.view());
        let resources: BTreeSet<_> = self
            .resources
            .iter()
            .filter_map(|any| Some((any.type_url.as_str(), name_of(&any.value)?)))
            .collect();
        for (type_url, name) in resources {
            let body = body(type_url, &name, &self.version);
            snapshot.set_with(type_url, name, body, versioned(&self.version));
            snapshot.set_version(type_url, self.version.as_str());
        }
        snapshot
    }
}

impl ResourceRequest {
    /// Adds or changes the resource.
    pub(crate) fn set(&self) -> Transaction {
        let (type_url, name) = (self.type_url.as_str(), self.resource_name.as_str());
        let mut change = Transaction::in_view(self.node.as_str());
        change.set_with(
            type_url,
            name,
            body(type_url, name, &self.version),
            versioned(&self.version),
        );
        change.set_version(type_url, self.version.as_str());
        change
    }

    pub(crate) fn remove(&self) -> Transaction {
        let mut change = Transaction::in_view(self.node.as_str());
        change.remove(self.type_url.as_str(), self.resource_name.as_str());
        if !self.version.is_empty() {
            change.set_version(self.type_url.as_str(), self.version.as_str());
        }
        change
    }
}

fn versioned(version: &str) -> ResourceOptions {
    ResourceOptions::default().with_version(version)
}

/// Encodes a resource of one of the four types, with its name and a field that contains the
/// version.
pub(crate) fn body(type_url: &str, name: &str, version: &str) -> Vec<u8> {
    let (name, version) = (name.to_owned(), version.to_owned());
    match type_url {
        types::CLUSTER_LOAD_ASSIGNMENT => {
            let lb_endpoint = LbEndpoint { endpoint_name: version };
            let endpoints = vec![LocalityLbEndpoints { lb_endpoints: vec![lb_endpoint] }];
            ClusterLoadAssignment { cluster_name: name, endpoints }.encode_to_vec()
        }
        types::ROUTE_CONFIGURATION => {
            RouteConfiguration { name, internal_only_headers: vec![version] }.encode_to_vec()
        }
        _ => ClusterOrListener { name, stat_name: version }.encode_to_vec(),
    }
}

/// Returns the name of a resource of one of the four types.
pub(crate) fn name_of(body: &[u8]) -> Option<String> {
    ClusterOrListener::decode(body).ok().map(|it| it.name)
}

/// Common fields: `Cluster` with `alt_stat_name`, `Listener` with `stat_prefix`.
#[derive(Clone, PartialEq, Message)]
struct ClusterOrListener {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "28")]
    stat_name: String,
}

#[derive(Clone, PartialEq, Message)]
struct RouteConfiguration {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, repeated, tag = "3")]
    internal_only_headers: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct ClusterLoadAssignment {
    #[prost(string, tag = "1")]
    cluster_name: String,
    #[prost(message, repeated, tag = "2")]
    endpoints: Vec<LocalityLbEndpoints>,
}

#[derive(Clone, PartialEq, Message)]
struct LocalityLbEndpoints {
    #[prost(message, repeated, tag = "2")]
    lb_endpoints: Vec<LbEndpoint>,
}

#[derive(Clone, PartialEq, Message)]
struct LbEndpoint {
    #[prost(string, tag = "5")]
    endpoint_name: String,
}
