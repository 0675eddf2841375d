//! Inspection of a client connection's incoming HTTP/2 frames, below the HTTP/2 stack.
//!
//! The first frame of an HTTP/2 server is SETTINGS ([RFC 9113, section 3.4]); a connection counts
//! as open only after it has arrived. Any other first bytes identify the peer, for example an
//! HTTP/1 server or a TLS port.
//!
//! The end of a call matters even while the client does not read. HTTP/2 stacks report the end of a
//! response after its data, so a client with unread data does not learn of the end. The frame
//! headers reveal it immediately, without reading ahead.
//!
//! [RFC 9113, section 3.4]: https://www.rfc-editor.org/rfc/rfc9113.html#section-3.4

mod frames;

use core::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};
use std::{
    io::{self, IoSlice},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_channel::oneshot;
use futures_util::{FutureExt as _, task::AtomicWaker};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub(crate) use self::frames::is_tls;
use self::frames::{Frames, NoSettings, Settings};
use crate::tls_advice::{PeerRole, explain_tls_failure};

/// Protection of a connection. Used for the advice in [`NotHttp2`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// No TLS.
    Plaintext,
    /// TLS, after the handshake.
    Tls,
}

/// Reason why a connection is not an HTTP/2 connection.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotHttp2 {
    /// The server sent an HTTP/1 response.
    #[error(
        "the server does not speak HTTP/2: it answered in HTTP/1 ({line:?}); is it an HTTP/1 port{}?",
        match .protection {
            Protection::Plaintext => ", or a TLS port",
            Protection::Tls => "",
        }
    )]
    Http1 {
        /// First line of the response, at most 64 bytes.
        line: String,
        /// Protection of the connection.
        protection: Protection,
    },
    /// The server sent a TLS record on a connection without TLS.
    #[error(
        "the server does not speak HTTP/2 on this port: it answered in TLS; connect with TLS \
         credentials"
    )]
    Tls,
    /// The first bytes are not a SETTINGS frame.
    #[error(
        "the server does not speak HTTP/2: expected a SETTINGS frame, received the bytes {}; is it \
         the port of a gRPC server{}?",
        Hex(.first),
        match .protection {
            Protection::Plaintext => ", or a TLS port",
            Protection::Tls => "",
        }
    )]
    Other {
        /// First bytes, at most nine.
        first: Vec<u8>,
        /// Protection of the connection.
        protection: Protection,
    },
    /// The server closed the connection without sending anything.
    #[error(
        "the server closed the connection before it sent HTTP/2 SETTINGS{}",
        match .0 {
            Protection::Plaintext => CLOSED_HINT,
            Protection::Tls => "",
        }
    )]
    Closed(Protection),
    /// The server sent no SETTINGS and did not answer a keepalive ping.
    #[error(
        "the server sent neither HTTP/2 SETTINGS nor a keepalive response; is it the port of a gRPC \
         server?"
    )]
    Silent,
    /// The connection broke, perhaps because the server rejected the client's certificate.
    #[error("the connection broke before the server sent HTTP/2 SETTINGS: {0}")]
    Broken(String),
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = self.0.iter();
        bytes.next().map_or(Ok(()), |first| write!(f, "{first:02x}"))?;
        bytes.try_for_each(|byte| write!(f, " {byte:02x}"))
    }
}

/// Wraps `io` so that the arrival of the server's SETTINGS is reported. Pass the returned I/O to an
/// HTTP/2 stack.
pub fn expect_settings<T>(io: T, protection: Protection) -> (Http2Io<T>, Opening) {
    let (sender, receiver) = oneshot::channel();
    let settings_report = SettingsReport { sender, protection };
    let settings_report = Some(settings_report);
    let io = Http2Io { io, frames: Frames::new(), settings_report, end: None, go_away: None };
    (io, Opening(receiver))
}

/// Wraps `io` so that the server's SETTINGS and the end of the connection's only call are reported.
pub(crate) fn expect_one_call<T>(io: T, protection: Protection) -> (Http2Io<T>, Opening, CallEnd) {
    let (mut io, opening) = expect_settings(io, protection);
    let end = CallEnd::default();
    io.end = Some(EndGuard(end.clone()));
    (io, opening, end)
}

/// Future that resolves when the server's SETTINGS have arrived. Cancel safe.
#[derive(Debug)]
pub struct Opening(oneshot::Receiver<Result<(), NotHttp2>>);

impl Opening {
    /// Returns the reason why no SETTINGS arrived, if it is known. Call it after the HTTP/2 stack
    /// closed the connection.
    pub fn failure(&mut self) -> Option<NotHttp2> {
        self.0.try_recv().ok()??.err()
    }
}

impl Future for Opening {
    /// Result of the wait. `Err(None)` means that the HTTP/2 stack closed the connection for its
    /// own reason.
    type Output = Result<(), Option<NotHttp2>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(Pin::new(&mut self.0).poll(cx)) {
            Ok(opened) => opened.map_err(Some),
            Err(_) => Err(None),
        })
    }
}

/// Shared state: whether the call has ended, by a frame or with its connection, and why the
/// connection has ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallEnd(Arc<EndState>);

#[derive(Debug, Default)]
struct EndState {
    has_ended: AtomicBool,
    /// Set when the connection has ended: the reason, or `None` if there was no failure.
    closed: OnceLock<Option<String>>,
    waker: AtomicWaker,
}

impl CallEnd {
    /// Waits for the end of the call. Only one task can wait.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        self.0.waker.register(cx.waker());
        match self.0.has_ended.load(Ordering::Acquire) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Waits for the end of the connection, and returns the failure that ended it. Only the task that
    /// waits for the end of the call can wait.
    pub(crate) fn poll_closed(&self, cx: &Context<'_>) -> Poll<Option<&str>> {
        self.0.waker.register(cx.waker());
        match self.0.closed.get() {
            Some(why) => Poll::Ready(why.as_deref()),
            None => Poll::Pending,
        }
    }

    fn set(&self) {
        self.0.has_ended.store(true, Ordering::Release);
        self.0.waker.wake();
    }
}

/// Marks a connection as ended when dropped. Owned by the task that drives it.
#[derive(Debug)]
pub(crate) struct ClosedGuard {
    pub(crate) end: CallEnd,
    /// Failure that has ended the connection.
    pub(crate) failure: Option<String>,
}

impl Drop for ClosedGuard {
    fn drop(&mut self) {
        // There is one guard of a connection.
        let _ = self.end.0.closed.set(self.failure.take());
        self.end.0.waker.wake();
    }
}

/// Marks a call as ended when dropped. Owned by a part that the call cannot outlive.
#[derive(Debug)]
pub(crate) struct EndGuard(pub(crate) CallEnd);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// I/O wrapper that inspects the frames it reads. Created by [`expect_settings`].
#[derive(Debug)]
pub struct Http2Io<T> {
    io: T,
    frames: Frames,
    /// Reports the SETTINGS; `None` after it has reported.
    settings_report: Option<SettingsReport>,
    /// Reports the end of the call; `None` if it is not needed.
    end: Option<EndGuard>,
    /// Reports GOAWAY; `None` if it is not needed, or after it has reported.
    go_away: Option<oneshot::Sender<()>>,
}

#[derive(Debug)]
struct SettingsReport {
    sender: oneshot::Sender<Result<(), NotHttp2>>,
    protection: Protection,
}

/// Usual causes of a connection that the server closes at once.
const CLOSED_HINT: &str = "; is it a TLS port, or does the server refuse further connections?";

impl NotHttp2 {
    fn broken(error: &io::Error, protection: Protection) -> Self {
        Self::Broken(match protection {
            Protection::Plaintext => format!("{error}{CLOSED_HINT}"),
            Protection::Tls => explain_tls_failure(error, PeerRole::Server),
        })
    }

    /// Identifies the peer by the first bytes that it sent.
    fn new(first: &[u8], all: &[u8], protection: Protection) -> Self {
        match first {
            [] => Self::Closed(protection),
            _ if is_tls(first) && protection == Protection::Plaintext => Self::Tls,
            _ if first.starts_with(b"HTTP/") => {
                let line = all.split(|byte| matches!(byte, b'\r' | b'\n')).next();
                let line = line.unwrap_or_default();
                let line = String::from_utf8_lossy(line.get(..64).unwrap_or(line)).into_owned();
                Self::Http1 { line, protection }
            }
            _ => Self::Other { first: first.to_vec(), protection },
        }
    }
}

impl<T> Http2Io<T> {
    /// Returns a future that resolves when the server has sent GOAWAY, or at the end of the
    /// connection. HTTP/2 stacks report a GOAWAY only to the next request, or after the last stream.
    pub fn go_away(&mut self) -> impl Future<Output = ()> + Send + Unpin + use<T> {
        let (sender, receiver) = oneshot::channel();
        self.go_away = Some(sender);
        receiver.map(drop)
    }

    /// Parses bytes that were read.
    fn parse(&mut self, read: &[u8]) -> Result<(), NoSettings> {
        let has_end = self.frames.read(read)?;
        if let (true, Some(end)) = (has_end, &self.end) {
            end.0.set();
        }
        if self.frames.has_go_away
            && let Some(go_away) = self.go_away.take()
        {
            let _ = go_away.send(());
        }
        Ok(())
    }

    /// Processes the bytes that were read. No bytes means end of file.
    fn inspect(&mut self, read: &[u8]) -> io::Result<()> {
        let first = match read {
            [] if self.settings_report.is_none() => return Ok(()),
            [] => self.frames.rest().to_vec(),
            _ => match self.parse(read) {
                Ok(()) => return Ok(()),
                Err(NoSettings(first)) => first,
            },
        };
        let Some(settings_report) = self.settings_report.take() else { return Ok(()) };
        // The first line of an HTTP/1 response, if it arrived in one piece.
        let all = if read.starts_with(&first) { read } else { &first };
        let why = NotHttp2::new(&first, all, settings_report.protection);
        let _ = settings_report.sender.send(Err(why.clone()));
        match read {
            [] => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, why)),
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Http2Io<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        // The HTTP/2 stack reads again, so it accepted the SETTINGS that it read before.
        if this.frames.settings == Settings::Read
            && let Some(settings_report) = this.settings_report.take()
        {
            let _ = settings_report.sender.send(Ok(()));
        }
        if this.settings_report.is_none() && this.end.is_none() && this.go_away.is_none() {
            return Pin::new(&mut this.io).poll_read(cx, buf);
        }
        let before = buf.filled().len();
        if buf.remaining() == 0 {
            return Pin::new(&mut this.io).poll_read(cx, buf);
        }
        if let Err(error) = ready!(Pin::new(&mut this.io).poll_read(cx, buf)) {
            if let Some(settings_report) = this.settings_report.take() {
                let _ = settings_report
                    .sender
                    .send(Err(NotHttp2::broken(&error, settings_report.protection)));
            }
            return Poll::Ready(Err(error));
        }
        Poll::Ready(this.inspect(buf.filled().get(before..).unwrap_or_default()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Http2Io<T> {
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
mod tests;
