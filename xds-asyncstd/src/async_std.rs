//! Clients and servers on async-std.

use core::net::SocketAddr;
use std::io;

use ::async_std::net::TcpListener;
use xds_grpc::{
    Keepalive,
    runtime::{BoxFuture, Io},
};

use crate::runtime::{AsyncIo, Executor, accepted};

/// Entry point to start clients on async-std.
pub type Client = xds_grpc::Client<AsyncIo<AsyncStd>>;

/// Clients of a proxy with nested config sources.
pub type Sources = xds_grpc::client::Sources<AsyncIo<AsyncStd>>;

/// Management server over gRPC.
pub type ManagementServer = xds_grpc::ManagementServer<AsyncIo<AsyncStd>>;

/// Client status discovery service for the clients of this process.
pub type CsdsService = xds_grpc::csds::CsdsService<AsyncIo<AsyncStd>>;

/// Executor of async-std.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsyncStd;

impl Executor for AsyncStd {
    type Listener = TcpListener;

    fn spawn(task: BoxFuture<'static, ()>) {
        ::async_std::task::spawn(task);
    }

    fn tcp_listener(listener: std::net::TcpListener) -> io::Result<TcpListener> {
        // The conversion sets this too, but panics if that fails.
        listener.set_nonblocking(true)?;
        Ok(listener.into())
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
