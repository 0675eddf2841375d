//! What the frames on a connection tell a client before its HTTP/2 stack does: that the server speaks HTTP/2, and
//! that a call has ended.
//!
//! The first frame of an HTTP/2 server is SETTINGS ([RFC 9113, section 3.4]); until it has arrived, a connection is
//! not open. Anything else says what is at the other end: an HTTP/1 server, or one that wants TLS.
//!
//! The end of a call matters to a client that does not read at the moment. HTTP/2 stacks report the end of a
//! response behind its data, so whoever leaves data unread does not hear of it. The headers of the frames tell at
//! once, and nothing has to be read ahead.
//!
//! [RFC 9113, section 3.4]: https://www.rfc-editor.org/rfc/rfc9113.html#section-3.4

use core::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};
use std::{
    io::{self, IoSlice},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_channel::oneshot;
use futures_util::task::AtomicWaker;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::credentials::{Peer, explain_tls_failure};

/// Length in bytes of the header of a frame.
const HEADER: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;

/// The flag of DATA and HEADERS that says that nothing follows.
const END_STREAM: u8 = 1;
/// The flag of SETTINGS that confirms those of the other side.
const ACK: u8 = 1;

/// What protects a connection, for the advice in [`NotHttp2`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Nothing: the bytes are HTTP/2's own.
    Plaintext,
    /// TLS, whose handshake is over.
    Tls,
}

/// Why a connection did not become one of HTTP/2.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotHttp2 {
    /// An HTTP/1 response, with its first line.
    #[error(
        "the server does not speak HTTP/2: it answered in HTTP/1 ({line:?}); is it an HTTP/1 port{}?",
        match .protection {
            Protection::Plaintext => ", or a TLS port",
            Protection::Tls => "",
        }
    )]
    Http1 {
        /// What the response begins with.
        line: String,
        /// What the connection is protected by.
        protection: Protection,
    },
    /// A record of TLS, as a TLS server sends to whoever does not speak TLS.
    #[error(
        "the server does not speak HTTP/2 here: it answered in TLS, so it is a TLS port; connect with TLS \
         credentials"
    )]
    Tls,
    /// Bytes that are no SETTINGS frame.
    #[error(
        "the server does not speak HTTP/2: no SETTINGS frame came first, but the bytes {}; is it the port of a \
         gRPC server{}?",
        Hex(.first),
        match .protection {
            Protection::Plaintext => ", or a TLS port",
            Protection::Tls => "",
        }
    )]
    Other {
        /// The first bytes, nine at most.
        first: Vec<u8>,
        /// What the connection is protected by.
        protection: Protection,
    },
    /// The server closed the connection without a word.
    #[error(
        "the server closed the connection before it sent HTTP/2 SETTINGS{}",
        match .0 {
            Protection::Plaintext => "; is it a TLS port?",
            Protection::Tls => "",
        }
    )]
    Closed(Protection),
    /// The server did not answer a keepalive ping either.
    #[error(
        "the server sent neither HTTP/2 SETTINGS nor an answer to a keepalive ping; is it the port of a gRPC server?"
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

/// Watches for the SETTINGS of the server at the other end of `io`, which is to be given to an HTTP/2 stack.
pub fn expect_settings<T>(io: T, protection: Protection) -> (Http2Io<T>, Opening) {
    let (tell, told) = oneshot::channel();
    let begin = Begin { tell, protection };
    let frames = Frames { state: State::Header([0; HEADER], 0), settings: Settings::Missing };
    (Http2Io { io, frames, begin: Some(begin), end: None }, Opening(told))
}

/// Watches for the SETTINGS of a server, and for the end of the single call that the connection is to carry.
pub(crate) fn expect_one_call<T>(io: T, protection: Protection) -> (Http2Io<T>, Opening, CallEnd) {
    let (mut io, opening) = expect_settings(io, protection);
    let end = CallEnd::default();
    io.end = Some(EndGuard(end.clone()));
    (io, opening, end)
}

/// Waits for the SETTINGS of a server. Cancel safe.
#[derive(Debug)]
pub struct Opening(oneshot::Receiver<Result<(), NotHttp2>>);

impl Opening {
    /// Why there are none, once the HTTP/2 stack has given the connection up; `None` if that is not known.
    pub fn failure(&mut self) -> Option<NotHttp2> {
        self.0.try_recv().ok()??.err()
    }
}

impl Future for Opening {
    /// `Err(None)` means that the HTTP/2 stack gave the connection up for a reason of its own.
    type Output = Result<(), Option<NotHttp2>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(Pin::new(&mut self.0).poll(cx)) {
            Ok(opened) => opened.map_err(Some),
            Err(_) => Err(None),
        })
    }
}

/// Whether a call has ended, however it did: by a frame, or with its connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallEnd(Arc<EndState>);

#[derive(Debug, Default)]
struct EndState {
    has_ended: AtomicBool,
    waker: AtomicWaker,
}

impl CallEnd {
    /// Waits for the end, for one task.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        self.0.waker.register(cx.waker());
        match self.0.has_ended.load(Ordering::Acquire) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    fn set(&self) {
        self.0.has_ended.store(true, Ordering::Release);
        self.0.waker.wake();
    }
}

/// Ends a call when it is dropped, with that which the call cannot go on without.
#[derive(Debug)]
pub(crate) struct EndGuard(pub(crate) CallEnd);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// A connection that tells what its frames are.
#[derive(Debug)]
pub struct Http2Io<T> {
    io: T,
    frames: Frames,
    /// `None` once that was told.
    begin: Option<Begin>,
    /// `None` if nobody wants to know.
    end: Option<EndGuard>,
}

#[derive(Debug)]
struct Begin {
    tell: oneshot::Sender<Result<(), NotHttp2>>,
    protection: Protection,
}

/// The frames of a connection, as far as they have been read.
#[derive(Debug)]
struct Frames {
    state: State,
    settings: Settings,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// So many bytes of a header.
    Header([u8; HEADER], usize),
    /// So many bytes of a payload are left.
    Payload(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settings {
    Missing,
    /// Their header was read.
    Begun,
    Read,
}

/// The first bytes are those of no SETTINGS frame.
struct NoSettings(Vec<u8>);

impl Frames {
    /// Goes on by what was read. True if it contains the end of a stream.
    fn read(&mut self, mut bytes: &[u8]) -> Result<bool, NoSettings> {
        let mut has_end = false;
        while !bytes.is_empty() {
            match &mut self.state {
                State::Header(header, filled) => {
                    let taken = bytes.len().min(HEADER.saturating_sub(*filled));
                    let (own, rest) = bytes.split_at(taken);
                    for (to, from) in header.iter_mut().skip(*filled).zip(own) {
                        *to = *from;
                    }
                    *filled += taken;
                    bytes = rest;
                    let (header, filled) = (*header, *filled);
                    self.check_first(header, filled)?;
                    if filled == HEADER {
                        has_end |= self.begin_frame(header);
                    }
                }
                State::Payload(left) => {
                    let taken = bytes.len().min(*left);
                    *left -= taken;
                    bytes = bytes.get(taken..).unwrap_or_default();
                    if *left == 0 {
                        self.end_frame();
                    }
                }
            }
        }
        Ok(has_end)
    }

    /// SETTINGS come first, with at most 16384 bytes, so that their first byte is zero.
    fn check_first(&self, header: [u8; HEADER], filled: usize) -> Result<(), NoSettings> {
        if self.settings != Settings::Missing {
            return Ok(());
        }
        let read = header.get(..filled).unwrap_or_default();
        let is_wrong = match header {
            // Receivers ignore flags that are not defined for a frame and the reserved bit (RFC 9113, section 4.1).
            [_, _, _, kind, flags, reserved, stream @ ..] if filled == HEADER => {
                kind != SETTINGS || flags & ACK != 0 || reserved & 0x7f != 0 || stream != [0; 3]
            }
            _ => is_tls(read),
        };
        if is_wrong { Err(NoSettings(read.to_vec())) } else { Ok(()) }
    }

    fn begin_frame(&mut self, header: [u8; HEADER]) -> bool {
        let [a, b, c, kind, flags, ..] = header;
        let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        self.state = State::Payload(length);
        if self.settings == Settings::Missing {
            self.settings = Settings::Begun;
        }
        if length == 0 {
            self.end_frame();
        }
        match kind {
            DATA | HEADERS => flags & END_STREAM != 0,
            RST_STREAM => true,
            _ => false,
        }
    }

    fn end_frame(&mut self) {
        self.state = State::Header([0; HEADER], 0);
        if self.settings == Settings::Begun {
            self.settings = Settings::Read;
        }
    }

    /// What was read of a header.
    fn rest(&self) -> &[u8] {
        match &self.state {
            State::Header(header, filled) => header.get(..*filled).unwrap_or_default(),
            State::Payload(_) => &[],
        }
    }
}

/// Whether that is a record of TLS: its type, and a version of SSL 3 or TLS.
fn is_tls(first: &[u8]) -> bool {
    matches!(first, [0x14..=0x17, 0x03, ..])
}

impl NotHttp2 {
    fn broken(error: &io::Error, protection: Protection) -> Self {
        Self::Broken(match protection {
            Protection::Plaintext => format!("{error}; is it a TLS port?"),
            Protection::Tls => explain_tls_failure(error, Peer::Server),
        })
    }

    /// What it is that begins with these bytes.
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
    /// Takes note of what was read; nothing is the end.
    fn note(&mut self, read: &[u8]) -> io::Result<()> {
        let Some(begin) = &self.begin else {
            if let Some(end) = &self.end
                && let Ok(true) = self.frames.read(read)
            {
                end.0.set();
            }
            return Ok(());
        };
        let first = match read {
            [] => self.frames.rest().to_vec(),
            _ => match self.frames.read(read) {
                Ok(has_end) => {
                    if let (true, Some(end)) = (has_end, &self.end) {
                        end.0.set();
                    }
                    return Ok(());
                }
                Err(NoSettings(first)) => first,
            },
        };
        // The line of an HTTP/1 response, as far as it came in one piece.
        let all = if read.starts_with(&first) { read } else { &first };
        let why = NotHttp2::new(&first, all, begin.protection);
        if let Some(begin) = self.begin.take() {
            let _ = begin.tell.send(Err(why.clone()));
        }
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
        // An HTTP/2 stack that reads on accepts what it has read.
        if this.frames.settings == Settings::Read
            && let Some(begin) = this.begin.take()
        {
            let _ = begin.tell.send(Ok(()));
        }
        if this.begin.is_none() && this.end.is_none() {
            return Pin::new(&mut this.io).poll_read(cx, buf);
        }
        let before = buf.filled().len();
        if buf.remaining() == 0 {
            return Pin::new(&mut this.io).poll_read(cx, buf);
        }
        if let Err(error) = ready!(Pin::new(&mut this.io).poll_read(cx, buf)) {
            if let Some(begin) = this.begin.take() {
                let _ = begin.tell.send(Err(NotHttp2::broken(&error, begin.protection)));
            }
            return Poll::Ready(Err(error));
        }
        Poll::Ready(this.note(buf.filled().get(before..).unwrap_or_default()))
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
