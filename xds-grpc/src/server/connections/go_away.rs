//! Closing of an HTTP/2 connection with GOAWAY and `ENHANCE_YOUR_CALM`, which hyper does not send:
//! on request, or because of too many SETTINGS frames or ping responses.

use core::{
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use std::{
    io::{self, IoSlice},
    sync::{Arc, OnceLock},
};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use xds_core::Time;

use super::frame_position::FramePosition;
use crate::clock::Clock;

const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
/// ACK flag of SETTINGS and PING frames.
const ACK: u8 = 1;
const ENHANCE_YOUR_CALM: u32 = 11;

/// I/O wrapper below an HTTP/2 stack, which can close the connection with GOAWAY.
#[derive(Debug)]
pub(crate) struct GoAwayIo<T> {
    io: T,
    read: FramePosition,
    written: FramePosition,
    settings: FrameCount,
    ping_answers: FrameCount,
    ending: Ending,
}

/// Number of frames of a kind in the current interval.
#[derive(Debug)]
struct FrameCount {
    clock: Clock,
    since: Time,
    frames: u32,
}

/// Maximum number of SETTINGS frames, and of ping responses, in an interval. Ordinary clients send
/// a few SETTINGS frames during a connection, and one response to each ping. Each SETTINGS frame
/// can take time proportional to the number of open streams, and the HTTP/2 stack logs each ping
/// response without a ping.
const MAX_FRAMES: u32 = 100;
const INTERVAL: Duration = Duration::from_secs(1);

/// Length of the client's connection preface, which is not a frame.
const PREFACE: usize = 24;

/// Maximum number of bytes that are read at once.
const CHUNK: usize = 16 << 10;

/// Shared request to close a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ending(Arc<OnceLock<String>>);

impl Ending {
    /// Requests the end. When the HTTP/2 stack next uses the connection, GOAWAY is sent, if the
    /// connection accepts data, and the stack receives an error.
    pub(crate) fn order(&self, reason: String) {
        let _ = self.0.set(reason);
    }

    /// Returns the reason if the connection was ended.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

impl FrameCount {
    fn new(clock: Clock) -> Self {
        Self { since: clock.now(), clock, frames: 0 }
    }

    /// Counts a frame. Returns whether the limit is exceeded.
    fn add(&mut self) -> bool {
        let now = self.clock.now();
        if now.since(self.since) >= INTERVAL {
            (self.since, self.frames) = (now, 0);
        }
        self.frames += 1;
        self.frames > MAX_FRAMES
    }
}

/// Returns a GOAWAY frame that ends all calls. Most HTTP/2 stacks report its error code only for
/// streams above the last stream id in the frame. The frame therefore has the id 0. A client may
/// repeat its calls then, although some have been processed. Discovery calls can be repeated, and
/// other servers send the frame only to clients that flood them.
fn go_away(reason: &str) -> Vec<u8> {
    const LAST_STREAM: u32 = 0;

    let length = u32::try_from(8 + reason.len()).unwrap_or_default().to_be_bytes();
    let mut frame = length.get(1..).unwrap_or_default().to_vec();
    frame.extend_from_slice(&[GOAWAY, 0, 0, 0, 0, 0]);
    frame.extend_from_slice(&LAST_STREAM.to_be_bytes());
    frame.extend_from_slice(&ENHANCE_YOUR_CALM.to_be_bytes());
    frame.extend_from_slice(reason.as_bytes());
    frame
}

impl<T: Write + Unpin> GoAwayIo<T> {
    pub(crate) fn new(io: T, clock: Clock) -> (Self, Ending) {
        let ending = Ending::default();
        let io = Self {
            io,
            read: FramePosition::before(PREFACE),
            written: FramePosition::default(),
            settings: FrameCount::new(clock.clone()),
            ping_answers: FrameCount::new(clock),
            ending: ending.clone(),
        };
        (io, ending)
    }

    /// Closes the connection if that was requested.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let Some(reason) = self.ending.reason() else { return Ok(()) };
        if self.written.is_between_frames() {
            let frame = go_away(reason);
            // Sent at most once, and only if the connection accepts data now: the client may not
            // read.
            if let Poll::Ready(Ok(_)) = Pin::new(&mut self.io).poll_write(cx, &frame) {
                let _ = Pin::new(&mut self.io).poll_flush(cx);
            }
            self.written = FramePosition::before(usize::MAX);
        }
        Err(io::Error::new(io::ErrorKind::ConnectionAborted, reason))
    }
}

impl<T: Read + Write + Unpin> Read for GoAwayIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(cx)?;
        let mut space = [MaybeUninit::uninit(); CHUNK];
        let room = CHUNK.min(into.remaining());
        let mut chunk = ReadBuf::uninit(space.get_mut(..room).unwrap_or_default());
        let this = &mut *self;
        ready!(Pin::new(&mut this.io).poll_read(cx, chunk.unfilled()))?;
        let mut flood = None;
        this.read.advance(chunk.filled(), |kind, flags| match (kind, flags & ACK != 0) {
            (SETTINGS, false) if this.settings.add() => flood = Some("SETTINGS frames"),
            (PING, true) if this.ping_answers.add() => flood = Some("answers to pings"),
            _ => {}
        });
        if let Some(frames) = flood {
            this.ending.order(format!("more than {MAX_FRAMES} {frames} in a second"));
            this.check(cx)?;
        }
        into.put_slice(chunk.filled());
        Poll::Ready(Ok(()))
    }
}

impl<T: Write + Unpin> Write for GoAwayIo<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        let written = Pin::new(&mut self.io).poll_write(cx, bytes);
        if let Poll::Ready(Ok(count)) = written {
            self.written.advance(bytes.get(..count).unwrap_or_default(), |_, _| ());
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
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
        self.check(cx)?;
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, slices);
        if let Poll::Ready(Ok(mut count)) = written {
            for slice in slices {
                let part = slice.get(..count.min(slice.len())).unwrap_or_default();
                self.written.advance(part, |_, _| ());
                count -= part.len();
            }
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{SharedRuntime, tests::Still};

    #[test]
    fn go_away_frame_has_the_code_and_the_reason() {
        let frame = go_away("why");
        assert_eq!(frame[..9], [0, 0, 11, GOAWAY, 0, 0, 0, 0, 0]);
        assert_eq!(frame[9..17], [0, 0, 0, 0, 0, 0, 0, 11]);
        assert_eq!(frame[17..], *b"why");
    }

    /// Connection that has the bytes and takes all that is written.
    struct Peer {
        sends: Vec<u8>,
        received: Vec<u8>,
    }

    impl Read for Peer {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            mut into: ReadBufCursor<'_>,
        ) -> Poll<io::Result<()>> {
            let count = into.remaining().min(self.sends.len());
            into.put_slice(&self.sends.drain(..count).collect::<Vec<_>>());
            Poll::Ready(Ok(()))
        }
    }

    impl Write for Peer {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.received.extend_from_slice(bytes);
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Reads what the client sends. Returns the first failure and what the client received.
    fn read_all(sends: Vec<u8>, written: &[u8]) -> (Option<io::Error>, Vec<u8>) {
        let clock = Clock::start(SharedRuntime::new(Still));
        let (mut io, _ending) = GoAwayIo::new(Peer { sends, received: Vec::new() }, clock);
        let mut cx = Context::from_waker(core::task::Waker::noop());
        let _ = Pin::new(&mut io).poll_write(&mut cx, written);
        let failure = loop {
            let mut space = [MaybeUninit::uninit(); 8 << 10];
            let mut into = ReadBuf::uninit(&mut space);
            match Pin::new(&mut io).poll_read(&mut cx, into.unfilled()) {
                Poll::Ready(Err(why)) => break Some(why),
                Poll::Ready(Ok(())) if into.filled().is_empty() => break None,
                _ => {}
            }
        };
        (failure, io.io.received)
    }

    /// The HTTP/2 stack logs each answer to a ping that it has not sent.
    #[test]
    fn too_many_answers_to_pings_end_the_connection() {
        let sends = |flags, count| {
            let ping = [&[0, 0, 8, PING, flags, 0, 0, 0, 0][..], &[7; 8]].concat();
            [&[0; PREFACE][..], &ping.repeat(count)].concat()
        };
        for (flags, count) in [(ACK, 100), (0, 1_000)] {
            let (failure, received) = read_all(sends(flags, count), b"");
            assert!(failure.is_none() && received.is_empty());
        }
        let (failure, received) = read_all(sends(ACK, 101), b"");
        let why = "more than 100 answers to pings in a second";
        assert_eq!(failure.map(|it| it.to_string()).as_deref(), Some(why));
        assert_eq!(received, go_away(why));
    }

    #[test]
    fn too_many_settings_frames_end_the_connection() {
        let sends = |count| {
            let settings = [0, 0, 6, SETTINGS, 0, 0, 0, 0, 0, 0, 4, 0, 0, 1, 0];
            [&[0; PREFACE][..], &settings.repeat(count)].concat()
        };
        let (failure, received) = read_all(sends(100), b"");
        assert!(failure.is_none() && received.is_empty());
        let (failure, received) = read_all(sends(101), b"");
        let why = "more than 100 SETTINGS frames in a second";
        assert_eq!(failure.map(|it| it.to_string()).as_deref(), Some(why));
        assert_eq!(received, go_away(why));
        // GOAWAY within another frame would not be understood.
        let half_frame = [0, 0, 9, 0, 0, 0, 0, 0, 1, 7];
        let (failure, received) = read_all(sends(101), &half_frame);
        assert!(failure.is_some());
        assert_eq!(received, half_frame);
    }
}
