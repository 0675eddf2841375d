//! Tests of `xds_core::references` on resources of the real API, written in YAML and encoded with
//! the API's descriptors.
//!
//! | file | subject |
//! |---|---|
//! | `extraction.rs` | references of each kind of resource |
//! | `api.rs` | check that no field of the API with references is overlooked |
//! | `consistency.rs` | findings |
//! | `hostile.rs` | arbitrary bytes, and sets compared with the definition of consistency |
// M205 to M209

mod api;
mod consistency;
mod extraction;
mod hostile;

use xds_format::{Format, Resource, Schema, parse};

/// Parses the resources of a YAML file after replacing short forms such as `$HCM` and `$ADS`.
fn resources(yaml: &str) -> Vec<Resource> {
    let yaml =
        SHORT_FORMS.iter().fold(yaml.to_owned(), |yaml, (short, long)| yaml.replace(short, long));
    parse(Schema::envoy(), "test.yaml", Format::Yaml, yaml.as_bytes())
        .unwrap_or_else(|why| panic!("{why}\n{yaml}"))
        .resources
}

const SHORT_FORMS: &[(&str, &str)] = &[
    ("$ADS", "{ resource_api_version: V3, ads: {} }"),
    ("$SELF", "{ resource_api_version: V3, self: {} }"),
    (
        "$API",
        "{ resource_api_version: V3, api_config_source: { api_type: GRPC, transport_api_version: V3, grpc_services: [{ envoy_grpc: { cluster_name: management } }] } }",
    ),
    ("$FILE", "{ resource_api_version: V3, path_config_source: { path: /etc/envoy/it.yaml } }"),
    ("$OLDFILE", "{ path: /etc/envoy/it.yaml }"),
    ("$LISTENER", "'@type': type.googleapis.com/envoy.config.listener.v3.Listener"),
    ("$CLUSTER", "'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster"),
    ("$ROUTES", "'@type': type.googleapis.com/envoy.config.route.v3.RouteConfiguration"),
    ("$SCOPE", "'@type': type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration"),
    ("$HOST", "'@type': type.googleapis.com/envoy.config.route.v3.VirtualHost"),
    ("$EXTENSION", "'@type': type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"),
    ("$ENDPOINTS", "'@type': type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"),
    (
        "$HCM",
        "'@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager, stat_prefix: s",
    ),
    (
        "$TCP",
        "'@type': type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy, stat_prefix: s",
    ),
    ("$T/", "type.googleapis.com/envoy.extensions."),
    ("$SOCKET/", "type.googleapis.com/envoy.extensions.transport_sockets."),
];
