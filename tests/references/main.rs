//! `xds_core::references` on resources of the real API: written as people write them, encoded by the
//! API's own descriptors.
//!
//! | file | what it shows |
//! |---|---|
//! | `extraction.rs` | each way in which a resource refers to others |
//! | `api.rs` | that no place of the API where a reference stands is overlooked |
//! | `consistency.rs` | the findings, M205 to M209 |
//! | `hostile.rs` | that any bytes are walked to an end, and any set is judged by the definition |

mod api;
mod consistency;
mod extraction;
mod hostile;

use xds_format::{Format, Resource, Schema, parse};

/// The resources of a YAML file. `HCM`, `ADS` and the like are written out first.
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
