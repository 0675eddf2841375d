//! One accepted connection, plain or over TLS, which can be cut.

use core::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};
use std::{io, sync::Arc};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::watch,
};
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use super::peer::Peer;
use crate::io::Io;

/// One accepted connection.
pub(crate) struct Connection {
    bytes: Bytes,
    peer: Peer,
    cut: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// What carries the bytes.
enum Bytes {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection {
    /// A connection that ends when the sender of `cut` is gone.
    pub(super) fn plain(socket: TcpStream, cut: watch::Receiver<()>) -> Self {
        let peer = Peer::new(socket.peer_addr().ok());
        Self { bytes: Bytes::Plain(socket), peer, cut: cutting(cut) }
    }

    /// The same over TLS.
    pub(super) fn tls(socket: TlsStream<TcpStream>, cut: watch::Receiver<()>) -> Self {
        let (tcp, tls) = socket.get_ref();
        let chain = tls.peer_certificates().unwrap_or_default();
        let chain: Arc<[_]> = chain.iter().map(|it| it.clone().into_owned()).collect();
        let peer = Peer::new(tcp.peer_addr().ok()).with_certificates(chain);
        Self { bytes: Bytes::Tls(Box::new(socket)), peer, cut: cutting(cut) }
    }

    fn bytes(&mut self) -> Pin<&mut dyn Io> {
        match &mut self.bytes {
            Bytes::Plain(socket) => Pin::new(socket),
            Bytes::Tls(socket) => Pin::new(&mut **socket),
        }
    }
}

fn cutting(mut cut: watch::Receiver<()>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move { while cut.changed().await.is_ok() {} })
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
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
        self.bytes().poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.bytes().poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.bytes().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.bytes().poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.bytes().poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.bytes {
            Bytes::Plain(socket) => socket.is_write_vectored(),
            Bytes::Tls(socket) => socket.is_write_vectored(),
        }
    }
}
