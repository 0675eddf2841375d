//! A management server with a REST gateway.

use core::time::Duration;
use std::net::SocketAddr;

use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::TcpListener;
use tower_service::Service as _;
use xds_core::{
    server::{ServerConfig, Transaction},
    types,
};
use xds_format::{Format, Schema, encode_message};
use xds_rest::{Gateway, GatewayOptions};
use xds_tokio::{DiscoveryService, ManagementServer, ServerOptions};

/// Hold time of the gateway, as short as the tests allow.
pub(crate) const HOLD: Duration = Duration::from_millis(300);

pub(crate) fn serving() -> (ManagementServer, Gateway<DiscoveryService>) {
    serving_with(ServerConfig::default(), ServerOptions::default())
}

pub(crate) fn serving_with(
    config: ServerConfig,
    options: ServerOptions,
) -> (ManagementServer, Gateway<DiscoveryService>) {
    let server = ManagementServer::start(config, options);
    let options = GatewayOptions::default().with_hold(HOLD);
    let gateway = Gateway::new(server.service(), Schema::envoy(), TokioTimer::new(), options);
    (server, gateway)
}

pub(crate) fn cluster(name: &str, timeout: &str) -> Vec<u8> {
    let text = json!({"name": name, "connect_timeout": timeout}).to_string();
    let message = "envoy.config.cluster.v3.Cluster";
    encode_message(Schema::envoy(), "", message, Format::Json, text.as_bytes()).expect("a cluster")
}

pub(crate) async fn set(server: &ManagementServer, name: &str, timeout: &str) {
    let mut change = Transaction::new();
    change.set(types::CLUSTER, name, cluster(name, timeout));
    server.handle().apply(change).await.expect("a sound change");
}

/// Waits until a request is held.
pub(crate) async fn waiting(server: &ManagementServer) {
    while server.handle().stats().await.expect("it runs").fetches == 0 {
        tokio::task::yield_now().await;
    }
}

/// Serves the gateway on a socket, and returns its address.
pub(crate) async fn listening(gateway: Gateway<DiscoveryService>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let gateway = gateway.clone();
            let service = hyper::service::service_fn(move |request| gateway.clone().call(request));
            let serving = hyper::server::conn::http1::Builder::new();
            tokio::spawn(serving.serve_connection(TokioIo::new(socket), service));
        }
    });
    address
}
