//! Runtime implementation for tokio.

use core::{net::SocketAddr, pin::Pin, time::Duration};
use std::{io, path::PathBuf, time::Instant};

use hyper::rt::{Sleep, Timer};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream, lookup_host};
use xds_grpc::{
    Keepalive,
    client::{Resolve, Resolving},
    runtime::{Accepted, BoxFuture, Io, Listen, Runtime, StdUnixListener},
    socket::{self, AddressFamilies},
};

/// Current tokio runtime. Applications rarely use this type, because [`client::connect`](crate::client::connect) and
/// [`ManagementServer`](crate::ManagementServer) use it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tokio;

impl Timer for Tokio {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        TokioTimer::new().sleep(duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        TokioTimer::new().sleep_until(deadline)
    }

    fn now(&self) -> Instant {
        TokioTimer::new().now()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, deadline: Instant) {
        TokioTimer::new().reset(sleep, deadline);
    }
}

impl Runtime for Tokio {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        tokio::spawn(task);
    }

    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        tokio::task::spawn_blocking(work);
    }

    fn connect(
        &self,
        address: SocketAddr,
        keepalive: Keepalive,
    ) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        Box::pin(async move {
            let socket = TcpStream::connect(address).await?;
            socket::set_up(SockRef::from(&socket), keepalive)?;
            Ok(Box::new(TokioIo::new(socket)) as _)
        })
    }

    #[cfg(unix)]
    fn connect_unix(&self, path: PathBuf) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        Box::pin(async {
            let socket = tokio::net::UnixStream::connect(path).await?;
            Ok(Box::new(TokioIo::new(socket)) as _)
        })
    }

    #[cfg(not(unix))]
    fn connect_unix(&self, _: PathBuf) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        Box::pin(core::future::ready(Err(io::ErrorKind::Unsupported.into())))
    }

    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        SystemResolver.resolve(host, port)
    }
}

impl Listen for Tokio {
    type Listener = TcpListener;
    #[cfg(unix)]
    type UnixListener = tokio::net::UnixListener;
    #[cfg(not(unix))]
    type UnixListener = StdUnixListener;

    fn bind(&self, address: SocketAddr, families: AddressFamilies) -> io::Result<TcpListener> {
        TcpListener::from_std(socket::listen(address, families)?)
    }

    fn local_address(&self, listener: &TcpListener) -> io::Result<SocketAddr> {
        listener.local_addr()
    }

    async fn accept(&self, listener: &TcpListener, keepalive: Keepalive) -> io::Result<Accepted> {
        let (socket, address) = listener.accept().await?;
        socket::set_up_accepted(SockRef::from(&socket), keepalive)?;
        let local = socket.local_addr().ok();
        Ok(Accepted { io: Box::new(TokioIo::new(socket)), peer: Some(address), local })
    }

    #[cfg(unix)]
    fn unix_listener(&self, listener: StdUnixListener) -> io::Result<tokio::net::UnixListener> {
        tokio::net::UnixListener::from_std(listener)
    }

    #[cfg(not(unix))]
    fn unix_listener(&self, listener: StdUnixListener) -> io::Result<StdUnixListener> {
        Ok(listener)
    }

    #[cfg(unix)]
    async fn accept_unix(&self, listener: &tokio::net::UnixListener) -> io::Result<Box<dyn Io>> {
        let (socket, _) = listener.accept().await?;
        Ok(Box::new(TokioIo::new(socket)))
    }

    #[cfg(not(unix))]
    async fn accept_unix(&self, listener: &StdUnixListener) -> io::Result<Box<dyn Io>> {
        match *listener {}
    }
}

/// Resolver of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        Box::pin(async move { Ok(lookup_host((host, port)).await?.collect()) })
    }
}
