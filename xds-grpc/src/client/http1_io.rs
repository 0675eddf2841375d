//! Detection of servers that answer an HTTP/1.1 request in another protocol.

use core::{
    pin::Pin,
    task::{Context, Poll, ready},
};
use std::io::{self, IoSlice};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http2::{Protection, is_tls};

/// I/O wrapper that fails with advice if the first bytes of the server are no HTTP/1 response.
#[derive(Debug)]
pub(crate) struct Http1Io<T> {
    io: T,
    /// Protection of the connection; `None` after the first bytes.
    protection: Option<Protection>,
}

impl<T> Http1Io<T> {
    pub(crate) fn new(io: T, protection: Protection) -> Self {
        Self { io, protection: Some(protection) }
    }
}

/// Returns the reason for which bytes do not begin an HTTP/1 response, if the protocol is known.
fn other_protocol(first: &[u8], protection: Protection) -> Option<&'static str> {
    match (first, protection) {
        (first, Protection::Plaintext) if is_tls(first) => Some(
            "the server does not speak HTTP on this port: it answered in TLS; connect with TLS \
             credentials",
        ),
        // The length and the type of a SETTINGS frame, the first one of an HTTP/2 server.
        ([0, _, _, 4, ..], _) => {
            Some("the server does not speak HTTP/1.1: it answered in HTTP/2; is it a gRPC port?")
        }
        _ => None,
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Http1Io<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        let read = buf.filled().get(before..).unwrap_or_default();
        let why = match self.protection.take_if(|_| !read.is_empty()) {
            Some(protection) => other_protocol(read, protection),
            None => None,
        };
        Poll::Ready(why.map_or(Ok(()), |why| Err(io::Error::new(io::ErrorKind::InvalidData, why))))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Http1Io<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_identify_tls_and_http2() {
        let of = |first: &[u8], protection| other_protocol(first, protection).unwrap_or_default();
        let alert = [0x15, 3, 3, 0, 2, 2, 40];
        assert!(of(&alert, Protection::Plaintext).contains("connect with TLS credentials"));
        assert_eq!(of(&alert, Protection::Tls), "");
        for protection in [Protection::Plaintext, Protection::Tls] {
            assert!(of(&[0, 0, 18, 4, 0, 0, 0, 0, 0], protection).contains("a gRPC port"));
            assert_eq!(of(b"HTTP/1.1 200 OK", protection), "");
            assert_eq!(of(b"", protection), "");
        }
    }
}
