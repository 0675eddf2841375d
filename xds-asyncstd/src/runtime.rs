//! Runtime of async-io's sockets and timers with an executor's tasks.

use core::{
    fmt::Debug,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use std::{
    io,
    net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs as _},
    path::PathBuf,
    time::Instant,
};

use async_io::{Async, Timer};
use blocking::unblock;
use futures_io::{AsyncRead, AsyncWrite};
use hyper::rt::Sleep;
use hyper_util::rt::TokioIo;
use socket2::SockRef;
use tokio_util::compat::FuturesAsyncReadCompatExt as _;
use xds_grpc::{
    Keepalive,
    client::{Resolve, Resolving},
    runtime::{Accepted, BoxFuture, Io, Listen, Runtime, StdUnixListener},
    socket::{self, AddressFamilies},
};

/// Executor of tasks, with its TCP listener.
pub trait Executor: Clone + Debug + Default + Send + Sync + 'static {
    /// TCP listener.
    type Listener: Debug + Send + Sync + 'static;

    /// Spawns a task. A panic in it must not affect other tasks.
    fn spawn(task: BoxFuture<'static, ()>);

    /// Registers a TCP listener with the runtime.
    ///
    /// # Errors
    ///
    /// Returns errors of the operating system.
    fn tcp_listener(listener: TcpListener) -> io::Result<Self::Listener>;

    /// Returns the local address of a listener.
    ///
    /// # Errors
    ///
    /// Returns errors of the operating system.
    fn local_address(listener: &Self::Listener) -> io::Result<SocketAddr>;

    /// Waits for a connection and [sets its socket options](xds_grpc::socket::set_up_accepted). Cancel
    /// safe.
    fn accept(
        listener: &Self::Listener,
        keepalive: Keepalive,
    ) -> impl Future<Output = io::Result<Accepted>> + Send;
}

/// Sets the socket options of an accepted connection and wraps it.
pub(crate) fn accepted<S>(socket: S, keepalive: Keepalive) -> io::Result<Box<dyn Io>>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    for<'s> SockRef<'s>: From<&'s S>,
{
    socket::set_up_accepted(SockRef::from(&socket), keepalive)?;
    Ok(boxed(socket))
}

/// Wraps a socket of any kind.
fn boxed<S>(socket: S) -> Box<dyn Io>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    for<'s> SockRef<'s>: From<&'s S>,
{
    Box::new(TokioIo::new(Socket(socket).compat()))
}

/// Socket whose close ends its sending direction. Closing an [`Async`] only flushes it.
struct Socket<S>(S);

impl<S: AsyncRead + Unpin> AsyncRead for Socket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Socket<S>
where
    for<'s> SockRef<'s>: From<&'s S>,
{
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.0).poll_flush(cx))?;
        Poll::Ready(match SockRef::from(&self.0).shutdown(Shutdown::Write) {
            // The peer has ended the connection.
            Err(why) if why.kind() == io::ErrorKind::NotConnected => Ok(()),
            result => result,
        })
    }
}

/// Runtime that consists of async-io and an executor.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsyncIo<E>(E);

impl<E: Executor> hyper::rt::Timer for AsyncIo<E> {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(Until(Timer::after(duration)))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Until(Timer::at(deadline)))
    }
}

/// Timer as a future without output.
struct Until(Timer);

impl Future for Until {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx).map(drop)
    }
}

impl Sleep for Until {}

impl<E: Executor> Runtime for AsyncIo<E> {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        E::spawn(task);
    }

    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        unblock(work).detach();
    }

    fn connect(
        &self,
        address: SocketAddr,
        keepalive: Keepalive,
    ) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        Box::pin(async move {
            let socket = Async::<TcpStream>::connect(address).await?;
            socket::set_up(SockRef::from(&socket), keepalive)?;
            Ok(boxed(socket))
        })
    }

    #[cfg(unix)]
    fn connect_unix(&self, path: PathBuf) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        Box::pin(async {
            let socket = Async::<std::os::unix::net::UnixStream>::connect(path).await?;
            Ok(boxed(socket))
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

impl<E: Executor> Listen for AsyncIo<E> {
    type Listener = E::Listener;
    #[cfg(unix)]
    type UnixListener = Async<StdUnixListener>;
    #[cfg(not(unix))]
    type UnixListener = StdUnixListener;

    fn bind(&self, address: SocketAddr, families: AddressFamilies) -> io::Result<E::Listener> {
        E::tcp_listener(socket::listen(address, families)?)
    }

    fn local_address(&self, listener: &E::Listener) -> io::Result<SocketAddr> {
        E::local_address(listener)
    }

    async fn accept(&self, listener: &E::Listener, keepalive: Keepalive) -> io::Result<Accepted> {
        E::accept(listener, keepalive).await
    }

    #[cfg(unix)]
    fn unix_listener(&self, listener: StdUnixListener) -> io::Result<Async<StdUnixListener>> {
        Async::new(listener)
    }

    #[cfg(not(unix))]
    fn unix_listener(&self, listener: StdUnixListener) -> io::Result<StdUnixListener> {
        Ok(listener)
    }

    #[cfg(unix)]
    async fn accept_unix(&self, listener: &Async<StdUnixListener>) -> io::Result<Box<dyn Io>> {
        let (socket, _) = listener.accept().await?;
        Ok(boxed(socket))
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
        let host = host.to_owned();
        Box::pin(unblock(move || Ok((host.as_str(), port).to_socket_addrs()?.collect())))
    }
}
