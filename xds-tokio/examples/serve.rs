//! A management server with one resource that changes every second, until Ctrl-C.
//!
//! `cargo run -p xds-tokio --example serve -- 127.0.0.1:18000`, then `--example watch` beside it.

use core::time::Duration;
use std::{env, error::Error};

use prost::Message as _;
use tokio::{net::TcpListener, select, signal, time::interval};
use xds_core::{
    proto::{Struct, Value, value::Kind},
    server::{ServerConfig, Transaction},
    types,
};
use xds_tokio::{ManagementServer, ServerOptions};

/// As much of `envoy.service.runtime.v3.Runtime` as is needed here.
#[derive(prost::Message)]
struct Runtime {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    layer: Option<Struct>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:18000".into());
    let listener = TcpListener::bind(&address).await?;
    println!("serving on {}", listener.local_addr()?);

    let server = ManagementServer::start(ServerConfig::default(), ServerOptions::default());
    let handle = server.handle();
    let mut serving = tokio::spawn(async move {
        server.serve_with_shutdown(listener, async { drop(signal::ctrl_c().await) }).await
    });
    let mut observations = handle.observations();
    let mut second = interval(Duration::from_secs(1));
    let mut seconds = 0.0;
    loop {
        select! {
            result = &mut serving => return Ok(result??),
            Some(observed) = observations.next() => println!("{observed:?}"),
            _ = second.tick() => {
                seconds += 1.0;
                let uptime = Value { kind: Some(Kind::NumberValue(seconds)) };
                let layer = Struct { fields: [("uptime".into(), uptime)].into() };
                let runtime = Runtime { name: "example".into(), layer: Some(layer) };
                let mut change = Transaction::new();
                change.set(types::RUNTIME, "example", runtime.encode_to_vec());
                if handle.apply(change).await.is_err() {
                    // It is shutting down.
                    return Ok(serving.await??);
                }
            }
        }
    }
}
