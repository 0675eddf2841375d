//! Connections: accepted with keepalive, and cut when the server does not wait for them any longer.

use core::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use std::io;

use futures_core::Stream;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::{Sleep, sleep},
};
use tonic::transport::server::{Connected, TcpConnectInfo, TcpIncoming};
use tracing::warn;

use crate::keepalive::Keepalive;

/// The connections of a listener.
pub(crate) struct Incoming {
    listener: TcpIncoming,
    /// Dropping the sender cuts them all.
    cut: watch::Receiver<()>,
    /// A pause after a failure, as when there are no file descriptors left.
    pause: Option<Pin<Box<Sleep>>>,
}

const PAUSE: Duration = Duration::from_millis(100);

impl Incoming {
    /// The connections of `listener`, and what cuts them when it is dropped.
    pub(crate) fn new(listener: TcpListener, keepalive: Keepalive) -> (Self, watch::Sender<()>) {
        let (knife, cut) = watch::channel(());
        let listener = TcpIncoming::from(listener)
            .with_nodelay(Some(true))
            .with_keepalive(Some(keepalive.interval));
        (Self { listener, cut, pause: None }, knife)
    }
}

impl Stream for Incoming {
    type Item = io::Result<Connection>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            match ready!(Pin::new(&mut self.listener).poll_next(cx)) {
                Some(Ok(stream)) => {
                    let mut cut = self.cut.clone();
                    let cut = Box::pin(async move { while cut.changed().await.is_ok() {} });
                    return Poll::Ready(Some(Ok(Connection { stream, cut })));
                }
                Some(Err(error)) => {
                    warn!(%error, "cannot accept a connection");
                    self.pause = Some(Box::pin(sleep(PAUSE)));
                }
                None => return Poll::Ready(None),
            }
        }
    }
}

/// One accepted connection.
pub(crate) struct Connection {
    stream: TcpStream,
    cut: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // HTTP/2 always has a read pending, so this is where the cut is noticed.
        if self.cut.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
