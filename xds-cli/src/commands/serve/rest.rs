//! REST-JSON beside gRPC: the gateway on a listener of its own.

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::TcpListener,
    time::{Duration, sleep},
};
use tower_service::Service as _;
use tracing::debug;
use xds_format::Schema;
use xds_rest::{Gateway, GatewayOptions};
use xds_tokio::DiscoveryService;

/// Serves until it is dropped.
pub(super) async fn serve(listener: TcpListener, service: DiscoveryService, hold: Duration) {
    let options = GatewayOptions::default().with_hold(hold);
    let gateway = Gateway::new(service, Schema::envoy(), TokioTimer::new(), options);
    loop {
        let socket = match listener.accept().await {
            Ok((socket, _)) => socket,
            Err(why) => {
                debug!(%why, "cannot accept a connection");
                // Too many open files, most likely: there may be fewer soon.
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let gateway = gateway.clone();
        let answer = service_fn(move |request| gateway.clone().call(request));
        let mut connection = http1::Builder::new();
        // Whoever sends no whole request in time must not keep the connection.
        connection.timer(TokioTimer::new()).header_read_timeout(IDLE);
        let serving = connection.serve_connection(TokioIo::new(socket), answer);
        tokio::spawn(async move {
            if let Err(why) = serving.await {
                debug!(%why, "a connection ended early");
            }
        });
    }
}

/// How long a client may take to send the head of its next request: longer than most of them pause.
const IDLE: Duration = Duration::from_secs(300);
