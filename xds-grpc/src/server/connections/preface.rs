//! Detection of the protocol with which a client begins. HTTP/2 keepalive pings are sent only after
//! the client's HTTP/2 preface, so connections without one need a timeout.

use core::{
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll, ready},
};
use std::{
    io::{self, IoSlice},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use tokio::sync::Notify;

/// HTTP/2 client connection preface.
const PREFACE: &[u8; LENGTH] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const LENGTH: usize = 24;

/// I/O wrapper that inspects the first bytes of a connection.
#[derive(Debug)]
pub(crate) struct PrefaceIo<T> {
    io: T,
    /// Number of those bytes that have not arrived yet.
    missing: usize,
    first: [u8; LENGTH],
    detection: Detection,
}

/// Shared result of the inspection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Detection(Arc<DetectionState>);

#[derive(Debug, Default)]
struct DetectionState {
    /// A [`ClientProtocol`].
    protocol: AtomicU8,
    is_http2: Notify,
}

/// Protocol with which a client began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientProtocol {
    /// No data, or too little to decide.
    Unknown = 0,
    Http2,
    Tls,
    Http1,
    Other,
}

impl ClientProtocol {
    fn of(first: &[u8]) -> Self {
        match first {
            _ if first == PREFACE => Self::Http2,
            [0x16, 0x03, ..] => Self::Tls,
            _ if PREFACE.starts_with(first) => Self::Unknown,
            _ if is_http1(first) => Self::Http1,
            _ => Self::Other,
        }
    }

    /// Returns advice for the operator of the server.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Self::Unknown | Self::Http2 => "",
            Self::Tls => {
                "the client uses TLS, but this port does not: configure a certificate for the \
                 server, or let the client connect without TLS (plaintext)"
            }
            Self::Http1 => "the client uses HTTP/1, but gRPC needs HTTP/2",
            Self::Other => "the client does not speak HTTP/2",
        }
    }

    /// Returns advice for the operator of a server whose listener serves REST-JSON.
    #[cfg(feature = "rest")]
    pub(super) fn advice_of_rest(self) -> &'static str {
        match self {
            Self::Tls => self.advice(),
            Self::Http2 => {
                "the client uses HTTP/2, as gRPC does, but this port serves REST-JSON over HTTP/1: \
                 let the client connect to the gRPC port, or poll"
            }
            Self::Unknown | Self::Http1 | Self::Other => "",
        }
    }
}

/// Returns whether the bytes begin an HTTP/1 request: a method and a space.
fn is_http1(first: &[u8]) -> bool {
    let method = first.split(|byte| *byte == b' ').next().unwrap_or_default();
    (3..=7).contains(&method.len())
        && method.len() < first.len()
        && method.iter().all(u8::is_ascii_uppercase)
}

impl<T> PrefaceIo<T> {
    pub(crate) fn new(io: T) -> (Self, Detection) {
        let detection = Detection::default();
        (Self { io, missing: LENGTH, first: [0; LENGTH], detection: detection.clone() }, detection)
    }
}

impl Detection {
    pub(crate) fn protocol(&self) -> ClientProtocol {
        use ClientProtocol::{Http1, Http2, Other, Tls, Unknown};

        let stored = self.0.protocol.load(Ordering::Relaxed);
        let all = [Unknown, Http2, Tls, Http1, Other];
        all.into_iter().find(|it| *it as u8 == stored).unwrap_or(Unknown)
    }

    /// Waits for the client's HTTP/2 preface. At most one caller may wait.
    pub(crate) async fn http2_preface(&self) {
        self.0.is_http2.notified().await;
    }

    fn set(&self, protocol: ClientProtocol) {
        self.0.protocol.store(protocol as u8, Ordering::Relaxed);
        if protocol == ClientProtocol::Http2 {
            self.0.is_http2.notify_one();
        }
    }
}

impl<T: Read + Unpin> Read for PrefaceIo<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.missing == 0 {
            return Pin::new(&mut this.io).poll_read(cx, into);
        }
        let mut space = [MaybeUninit::uninit(); LENGTH];
        let room = this.missing.min(into.remaining());
        let mut first = ReadBuf::uninit(space.get_mut(..room).unwrap_or_default());
        ready!(Pin::new(&mut this.io).poll_read(cx, first.unfilled()))?;
        into.put_slice(first.filled());
        let at = LENGTH - this.missing;
        for (to, from) in this.first.iter_mut().skip(at).zip(first.filled()) {
            *to = *from;
        }
        this.missing -= first.filled().len();
        let read = this.first.get(..LENGTH - this.missing).unwrap_or_default();
        this.detection.set(ClientProtocol::of(read));
        Poll::Ready(Ok(()))
    }
}

impl<T: Write + Unpin> Write for PrefaceIo<T> {
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

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_protocol_is_detected_by_its_first_bytes() {
        for (first, expected) in [
            (&b""[..], ClientProtocol::Unknown),
            (b"PRI * HTTP", ClientProtocol::Unknown),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ClientProtocol::Http2),
            (b"\x16\x03\x01\x02\x00\x01", ClientProtocol::Tls),
            (b"GET / HTTP/1.1\r\nhost: a", ClientProtocol::Http1),
            (b"POST /v3/discovery:cluste", ClientProtocol::Http1),
            (b"PRI * HTTP/1.1\r\n\r\nSM\r\n\r\n", ClientProtocol::Http1),
            (b"SSH-2.0-client", ClientProtocol::Other),
            (b"\x00\x00\x00", ClientProtocol::Other),
        ] {
            assert_eq!(ClientProtocol::of(first), expected, "{first:?}");
        }
        let detection = Detection::default();
        for protocol in [
            ClientProtocol::Unknown,
            ClientProtocol::Http2,
            ClientProtocol::Tls,
            ClientProtocol::Http1,
        ] {
            detection.set(protocol);
            assert_eq!(detection.protocol(), protocol);
        }
    }
}
