//! Clients and servers on smol.

use core::net::SocketAddr;
use std::io;

use ::smol::net::TcpListener;
use xds_grpc::{
    Keepalive,
    runtime::{BoxFuture, Io},
};

use crate::runtime::{AsyncIo, Executor, accepted};

/// Entry point to start clients on smol.
pub type Client = xds_grpc::Client<AsyncIo<Smol>>;

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

    async fn accept(
        listener: &TcpListener,
        keepalive: Keepalive,
    ) -> io::Result<(Box<dyn Io>, SocketAddr)> {
        let (socket, address) = listener.accept().await?;
        Ok((accepted(socket, keepalive)?, address))
    }
}
