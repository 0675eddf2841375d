//! A management server with a cluster that changes every second, over gRPC and
//! REST-JSON, until Ctrl-C.
//!
//! `cargo run -p xds-examples --bin control_plane -- 127.0.0.1:18000 127.0.0.1:18001`, then in
//! another terminal `--bin watch`, `--bin rest_poll` or `--bin relay`.

use core::time::Duration;
use std::{env, error::Error};

use prost::Message as _;
use tokio::{net::TcpListener, select, signal, time::interval};
use xds_core::{
    server::{ServerConfig, Transaction},
    types,
};
use xds_format::Schema;
use xds_rest::GatewayOptions;
use xds_tokio::{ManagementServer, ServerOptions};

/// The fields of `envoy.config.cluster.v3.Cluster` that this example needs.
#[derive(prost::Message)]
struct Cluster {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "28")]
    alt_stat_name: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let grpc = arguments.next().unwrap_or_else(|| "127.0.0.1:18000".into());
    let rest = arguments.next().unwrap_or_else(|| "127.0.0.1:18001".into());
    let (grpc, rest) = (TcpListener::bind(&grpc).await?, TcpListener::bind(&rest).await?);
    println!("serving gRPC on {}", grpc.local_addr()?);
    println!("serving REST on {}", rest.local_addr()?);

    let server = ManagementServer::start(ServerConfig::default(), ServerOptions::default());
    let handle = server.handle();
    server.spawn_serve_rest(rest, Schema::envoy(), GatewayOptions::default());
    let mut serving = tokio::spawn(async move {
        server.serve_with_shutdown(grpc, async { drop(signal::ctrl_c().await) }).await
    });

    let mut observations = handle.observations();
    let mut second = interval(Duration::from_secs(1));
    let mut seconds = 0;
    loop {
        select! {
            result = &mut serving => return Ok(result??),
            Some(observed) = observations.next() => println!("{observed:?}"),
            _ = second.tick() => {
                seconds += 1;
                let cluster = Cluster { name: "web".into(), alt_stat_name: format!("up {seconds} s") };
                let mut change = Transaction::new();
                change.set(types::CLUSTER, "web", cluster.encode_to_vec());
                if handle.apply(change).await.is_err() {
                    // The server is shutting down.
                    return Ok(serving.await??);
                }
            }
        }
    }
}
