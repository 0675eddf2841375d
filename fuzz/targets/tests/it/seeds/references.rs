//! Resources with many kinds of references.

use xds_format::{Format, Schema, parse};

use super::Seed;

pub(super) fn resources() -> Vec<Seed> {
    let resources =
        [("seed-cluster", CLUSTER), ("seed-listener", LISTENER), ("seed-routes", ROUTES)];
    resources.map(|(name, yaml)| ("references", name, encoded(yaml))).into()
}

fn encoded(yaml: &str) -> Vec<u8> {
    let file = parse(Schema::envoy(), "seed", Format::Yaml, yaml.as_bytes()).expect("a good file");
    file.resources[0].bytes.to_vec()
}

/// Refers to endpoints, a secret, a cluster that mirrors, and the configuration of a filter.
const CLUSTER: &str = "\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster
name: c
type: EDS
eds_cluster_config:
  service_name: s
  eds_config: {resource_api_version: V3, ads: {}}
transport_socket:
  name: t
  typed_config:
    \"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
    common_tls_context:
      tls_certificate_sds_secret_configs:
      - {name: own, sds_config: {resource_api_version: V3, self: {}}}
typed_extension_protocol_options:
  envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
    \"@type\": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
    explicit_http_config: {http_protocol_options: {}}
    request_mirror_policies: [{cluster: m}]
filters:
- name: f
  config_discovery: {config_source: {resource_api_version: V3, ads: {}}, type_urls: [t/a.B]}
";

/// Refers to routes by name, all scoped routes, a collection, and clusters of a TCP proxy.
const LISTENER: &str = "\"@type\": type.googleapis.com/envoy.config.listener.v3.Listener
name: l
filter_chains:
- filters:
  - name: rds
    typed_config: &manager
      \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: s
      rds: {route_config_name: r, config_source: {resource_api_version: V3, ads: {}}}
- filters:
  - name: scopes
    typed_config:
      \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: s
      scoped_routes:
        name: scopes
        scope_key_builder: {fragments: [{header_value_extractor: {name: h, index: 0}}]}
        scoped_rds: {scoped_rds_config_source: {resource_api_version: V3, ads: {}}}
  - name: collection
    typed_config:
      \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: s
      rds:
        route_config_name: \"xdstp://a/envoy.config.route.v3.RouteConfiguration/r/*?k=v\"
        config_source: {resource_api_version: V3, self: {}}
- filters:
  - name: tcp
    typed_config:
      \"@type\": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
      stat_prefix: s
      weighted_clusters: {clusters: [{name: a, weight: 1}, {name: b, weight: 2}]}
api_listener:
  api_listener: *manager
";

/// Refers to virtual hosts, and to clusters of routes and of their mirrors.
const ROUTES: &str = "\"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: r
vhds: {config_source: {resource_api_version: V3, ads: {}}}
virtual_hosts:
- name: v
  domains: [a]
  routes:
  - {match: {prefix: /one}, route: {cluster: one}}
  - match: {prefix: /}
    route:
      weighted_clusters: {clusters: [{name: one, weight: 1}, {name: two, weight: 2}]}
      request_mirror_policies: [{cluster: mirror}]
";
