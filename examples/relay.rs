//! A relay: a client that copies resources into a server, until Ctrl-C. Clients of the relay keep
//! working while the upstream server is away, and the upstream server has one client however many
//! the relay has.
//!
//! Start `--bin control_plane`, then
//! `cargo run -p xds-examples --bin relay -- 127.0.0.1:18000 127.0.0.1:18010`, then
//! `--bin watch -- 127.0.0.1:18010`.

use std::{env, error::Error};

use tokio::{net::TcpListener, select, signal};
use xds_core::{
    client::{Change, ClientConfig, Node, OpaqueType, ServerAddress as Upstream},
    server::{ServerConfig, Transaction},
    types,
};
use xds_tokio::{ClientOptions, ManagementServer, ServerOptions, client};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let upstream = arguments.next().unwrap_or_else(|| "127.0.0.1:18000".into());
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:18010".into());
    let listener = TcpListener::bind(&address).await?;
    println!("serving gRPC on {}", listener.local_addr()?);

    let server = ManagementServer::start(ServerConfig::default(), ServerOptions::default());
    let downstream = server.handle();
    let mut serving = tokio::spawn(async move {
        server.serve_with_shutdown(listener, async { drop(signal::ctrl_c().await) }).await
    });

    let config = ClientConfig::new(Node::new("relay"), Upstream::new(upstream))
        .with_type(OpaqueType::new(types::CLUSTER));
    let client = client::connect(config, ClientOptions::default());
    let mut clusters = client.watch_all_untyped(types::CLUSTER);
    loop {
        let change = select! {
            result = &mut serving => return Ok(result??),
            Some(change) = clusters.next() => change?,
        };
        let mut transaction = Transaction::new();
        match change {
            Change::Resource { name, result: Ok(resource) } => {
                println!("relaying {name} version {}", resource.version);
                transaction.set(types::CLUSTER, name.as_str(), resource.bytes);
            }
            Change::Resource { name, result: Err(error) } => {
                println!("relaying the removal of {name}: {error}");
                transaction.remove(types::CLUSTER, name.as_str());
            }
            // Upstream error: clients keep their resources, and so does this store.
            Change::Ambient { error: Some(error), .. } | Change::CollectionAmbient(Some(error)) => {
                println!("still in use, but has an error: {error}");
                continue;
            }
            _ => continue,
        }
        downstream.apply(transaction).await?;
    }
}
