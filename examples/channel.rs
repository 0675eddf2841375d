//! A gRPC channel configured by xDS: a service, a management server with its address, and a client.
//!
//! `cargo run -p xds-examples --bin channel`. The client is tonic's client of the health service;
//! only its channel is from this workspace.

use std::error::Error;

use tokio::net::TcpListener;
use tonic::transport::{Server, server::TcpIncoming};
use tonic_health::{
    ServingStatus,
    pb::{HealthCheckRequest, health_client::HealthClient},
};
use xds_bootstrap::Bootstrap;
use xds_channel::XdsChannels;
use xds_core::server::{ServerConfig, Transaction};
use xds_format::{Format, Schema, parse};
use xds_tokio::{ManagementServer, ServerOptions};

/// Resources from the name of a channel to an endpoint, whose port is filled in later.
const RESOURCES: &str = r#"
resources:
- "@type": type.googleapis.com/envoy.config.listener.v3.Listener
  name: shop.example.com
  api_listener:
    api_listener:
      "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      rds: { route_config_name: shop, config_source: { ads: {} } }
      http_filters:
      - name: router
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
- "@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
  name: shop
  virtual_hosts:
  - name: shop
    domains: [shop.example.com]
    routes:
    - match: { prefix: /grpc.health.v1.Health/ }
      route: { cluster: health, max_stream_duration: { max_stream_duration: 5s } }
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: health
  type: EDS
  eds_cluster_config: { eds_config: { ads: {} } }
- "@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
  cluster_name: health
  endpoints:
  - locality: { zone: here }
    load_balancing_weight: 1
    lb_endpoints:
    - endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: PORT } } }
"#;

const BOOTSTRAP: &str = r#"{
    "xds_servers": [{ "server_uri": "ADDRESS", "channel_creds": [{ "type": "insecure" }] }],
    "node": { "id": "example" }
}"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // The service.
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let (reporter, service) = tonic_health::server::health_reporter();
    reporter.set_service_status("shop.Cart", ServingStatus::Serving).await;
    let serving = Server::builder().add_service(service);
    tokio::spawn(serving.serve_with_incoming(TcpIncoming::from(listener)));

    // The management server, which knows the address of the service.
    let management = ManagementServer::start(ServerConfig::default(), ServerOptions::default());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    tokio::spawn(management.serve(listener));
    let text = RESOURCES.replace("PORT", &port.to_string());
    let document = parse(Schema::envoy(), "resources", Format::Yaml, text.as_bytes())?;
    let mut change = Transaction::new();
    for resource in document.resources {
        change.set(resource.type_url.as_str(), resource.name.as_str(), resource.bytes);
    }
    management.handle().apply(change).await?;

    // The client knows a name and the management server. Applications read this from the bootstrap
    // file that the environment names (`Bootstrap::from_env`).
    let bootstrap = Bootstrap::from_json(&BOOTSTRAP.replace("ADDRESS", &address))?;
    let channel = XdsChannels::connect(&bootstrap)?.channel("xds:///shop.example.com")?;
    let request = HealthCheckRequest { service: "shop.Cart".into() };
    let answer = HealthClient::new(channel).check(request).await?;
    println!("shop.Cart is {}", answer.into_inner().status().as_str_name());
    Ok(())
}
