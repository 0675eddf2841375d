//! Clients and servers on smol.

use core::net::SocketAddr;
use std::io;

use ::smol::net::TcpListener;
use xds_core::client::ClientConfig;
use xds_grpc::{
    ClientOptions, Keepalive,
    runtime::{Accepted, BoxFuture},
};
use xds_handle::ClientHandle;

use crate::runtime::{AsyncIo, Executor, accepted};

/// Starts a client on smol. It connects when the first resource is watched. It ends when it is shut
/// down, or when the last handle and the last watch are dropped.
#[must_use = "the client ends when its last handle is dropped"]
pub fn connect(config: ClientConfig, options: ClientOptions) -> ClientHandle {
    xds_grpc::client::connect(AsyncIo::<Smol>::default(), config, options)
}

/// Creates a client and the future that drives it, to be spawned by the caller. Dropping the future
/// ends the client.
pub fn driver(
    config: ClientConfig,
    options: ClientOptions,
) -> (ClientHandle, impl Future<Output = ()> + Send + 'static) {
    xds_grpc::client::driver(AsyncIo::<Smol>::default(), config, options)
}

/// Clients of a proxy with nested config sources.
pub type Sources = xds_grpc::client::Sources<AsyncIo<Smol>>;

/// Management server over gRPC.
pub type ManagementServer = xds_grpc::ManagementServer<AsyncIo<Smol>>;

/// Client status discovery service for the clients of this process.
pub type CsdsService = xds_grpc::csds::CsdsService<AsyncIo<Smol>>;

/// Executor of smol.
#[derive(Clone, Copy, Debug, Default)]
pub struct Smol;

impl Executor for Smol {
    type Listener = TcpListener;

    fn spawn(task: BoxFuture<'static, ()>) {
        ::smol::spawn(task).detach();
    }

    fn tcp_listener(listener: std::net::TcpListener) -> io::Result<TcpListener> {
        listener.try_into()
    }

    fn local_address(listener: &TcpListener) -> io::Result<SocketAddr> {
        listener.local_addr()
    }

    async fn accept(listener: &TcpListener, keepalive: Keepalive) -> io::Result<Accepted> {
        let (socket, address) = listener.accept().await?;
        let local = socket.local_addr().ok();
        Ok(Accepted { io: accepted(socket, keepalive)?, peer: Some(address), local })
    }
}
