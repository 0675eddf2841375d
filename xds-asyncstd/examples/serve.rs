//! Serves a cluster whose timeout grows every second, on async-std:
//! `cargo run -p xds-asyncstd --example serve -- 127.0.0.1:18000`

use std::{env, io, time::Duration};

use async_std::{
    net::TcpListener,
    task::{block_on, sleep, spawn},
};
use prost::Message;
use xds_asyncstd::{ServerOptions, async_std::ManagementServer};
use xds_core::{
    proto,
    server::{ServerConfig, Transaction},
    types::CLUSTER,
};

/// Part of `envoy.config.cluster.v3.Cluster` that this example needs.
#[derive(Clone, PartialEq, Message)]
struct Cluster {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "4")]
    connect_timeout: Option<proto::Duration>,
}

fn main() -> io::Result<()> {
    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:18000".to_owned());
    block_on(async {
        let listener = TcpListener::bind(address).await?;
        println!("serving on {}", listener.local_addr()?);
        let server = ManagementServer::start(ServerConfig::default(), ServerOptions::default());
        let handle = server.handle();
        spawn(async move {
            for seconds in 1.. {
                let mut change = Transaction::new();
                let connect_timeout = Some(proto::Duration { seconds, nanos: 0 });
                let cluster = Cluster { name: "example".into(), connect_timeout };
                change.set(CLUSTER, "example", cluster.encode_to_vec());
                if handle.apply(change).await.is_err() {
                    return;
                }
                sleep(Duration::from_secs(1)).await;
            }
        });
        server.serve(listener).await
    })
}
