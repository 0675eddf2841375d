//! Management server with a listener, and helpers for its resources.

use std::net::SocketAddr;

use tokio::{net::TcpListener, task::JoinHandle};
use xds_core::server::{ServerConfig, Transaction};
use xds_tokio::{ManagementServer, ServerHandle, ServerOptions};

use super::{give_way, resource, soon};

/// Server with one listener.
pub(crate) struct Running {
    pub(crate) server: ManagementServer,
    pub(crate) handle: ServerHandle,
    pub(crate) address: SocketAddr,
    pub(crate) serving: JoinHandle<std::io::Result<()>>,
}

pub(crate) async fn start() -> Running {
    start_with(ServerConfig::default(), ServerOptions::default()).await
}

pub(crate) async fn start_with(config: ServerConfig, options: ServerOptions) -> Running {
    let server = ManagementServer::start(config, options);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(server.serve(listener));
    Running { handle: server.handle(), server, address, serving }
}

/// Returns a transaction that sets resources: type, name, content.
pub(crate) fn set(resources: &[(&str, &str, &str)]) -> Transaction {
    let mut transaction = Transaction::new();
    for (type_url, name, content) in resources {
        transaction.set(*type_url, *name, resource(name, content));
    }
    transaction
}

/// Waits until this number of streams is open.
pub(crate) async fn streams(handle: &ServerHandle, count: usize) {
    soon(async {
        while handle.stats().await.unwrap().streams != count {
            give_way().await;
        }
    })
    .await;
}
