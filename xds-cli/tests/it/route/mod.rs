//! `xds route explain`.

mod expectations;
mod explanation;
mod sources;

use std::path::Path;

use serde_json::Value as Json;

use crate::support::{Ended, TempDir, run};

/// Resources of a proxy (listener `ingress`) and of a gRPC client (listener `greeter`).
const RESOURCES: &str = r#"
- "@type": type.googleapis.com/envoy.config.listener.v3.Listener
  name: ingress
  address: { socket_address: { address: 127.0.0.1, port_value: 8080 } }
  filter_chains:
  - filters:
    - name: http
      typed_config: &manager
        "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
        stat_prefix: x
        rds: { route_config_name: shop, config_source: { ads: {} } }
        http_filters:
        - name: envoy.filters.http.router
          typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
- "@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
  name: shop
  virtual_hosts:
  - name: secure
    domains: ["secure.example.com"]
    require_tls: ALL
    routes: [{ match: { prefix: / }, route: { cluster: blue } }]
  - name: shop
    domains: ["shop.example.com", "*.shop.example.com"]
    routes:
    - match: { path: /health }
      direct_response: { status: 204 }
    - match: { prefix: /old }
      redirect: { path_redirect: /new, host_redirect: new.example.com, https_redirect: true, response_code: FOUND }
    - name: canary
      match: { prefix: /cart, headers: [{ name: x-canary, string_match: { exact: "yes" } }] }
      route: { cluster: blue, prefix_rewrite: /v2/cart, host_rewrite_literal: blue.internal, timeout: 3s }
    - match: { prefix: /cart, query_parameters: [{ name: debug }] }
      route: { cluster: gren }
    - match: { prefix: /split, runtime_fraction: { default_value: { numerator: 20 }, runtime_key: split } }
      route: { cluster: blue }
    - match: { prefix: /split }
      route:
        weighted_clusters: { clusters: [{ name: blue, weight: 1 }, { name: green, weight: 3 }] }
        retry_policy: { retry_on: "5xx", num_retries: 2 }
    - match: { prefix: /pkg. }
      route: { cluster: blue }
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: blue
  connect_timeout: 1s
  type: EDS
  eds_cluster_config: { eds_config: { ads: {} } }
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: green
  connect_timeout: 1s
  type: STATIC
  load_assignment:
    cluster_name: green
    endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: { address: "::1", port_value: 9001 } } } }] }]
- "@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
  cluster_name: blue
  endpoints:
  - locality: { region: eu, zone: a }
    priority: 1
    load_balancing_weight: 2
    lb_endpoints: [{ health_status: HEALTHY, endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: 9000 } } } }]
"#;

/// Listener of a gRPC client with routes inside.
const GREETER: &str = r#"
"@type": type.googleapis.com/envoy.config.listener.v3.Listener
name: greeter
api_listener:
  api_listener:
    "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
    http_filters:
    - name: router
      typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
    route_config:
      name: inside
      virtual_hosts:
      - name: all
        domains: ["*"]
        routes:
        - match: { prefix: "", query_parameters: [{ name: q }] }
          route: { cluster: green }
        - match: { path: /pkg.Greeter/Hello, headers: [{ name: ":method", exact_match: POST }] }
          route: { cluster: green }
        - match: { prefix: /pkg.Greeter/ }
          route: { cluster: blue, max_stream_duration: { max_stream_duration: 2s } }
        - match: { prefix: /pkg.Old/ }
          redirect: {}
"#;

fn resources() -> TempDir {
    let directory = TempDir::new();
    // The anchor in the text is for readers of the test only.
    directory.save("shop.yaml", &RESOURCES.replace(" &manager", ""));
    directory
}

fn explain(directory: &Path, args: &[&str]) -> Ended {
    let directory = directory.to_str().unwrap();
    run(&[&["route", "explain", directory, "--color", "never"], args].concat())
}

fn explain_json(directory: &Path, args: &[&str]) -> (Option<i32>, Json) {
    let ended = explain(directory, &[args, &["-o", "json"]].concat());
    let json = serde_json::from_str(&ended.stdout);
    (ended.code, json.unwrap_or_else(|why| panic!("{why}: {} {}", ended.stdout, ended.stderr)))
}

const SHOP: [&str; 2] = ["--host", "shop.example.com"];

fn shop(path: &str) -> Vec<&str> {
    [&SHOP[..], &["--path", path]].concat()
}

fn states(json: &Json) -> Vec<(&str, &str)> {
    let routes = json.at("/routes").as_array().unwrap().iter();
    routes.map(|it| (as_text(it.at("/state")), as_text(it.at("/reason")))).collect()
}

fn as_text(json: &Json) -> &str {
    json.as_str().unwrap_or_default()
}

trait Fields {
    fn at(&self, pointer: &str) -> &Self;
}

impl Fields for Json {
    fn at(&self, pointer: &str) -> &Self {
        self.pointer(pointer).unwrap_or(&Self::Null)
    }
}
