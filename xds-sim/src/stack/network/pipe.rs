//! One direction of a connection.

use core::{
    task::{Context, Poll, Waker},
    time::Duration,
};
use std::{collections::VecDeque, io};

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::time::Instant;

use super::conditions::Conditions;

/// Bytes on their way from a writer to a reader.
#[derive(Debug)]
pub(super) struct ByteStream {
    conditions: Conditions,
    /// Bytes in the send buffer.
    unsent: BytesMut,
    /// Bytes that have left.
    segments: VecDeque<Segment>,
    /// Number of bytes in the segments.
    in_flight: usize,
    /// Time at which the last segment arrives.
    last_arrival: Option<Instant>,
    end: End,
    /// Time since which bytes are lost without a sign.
    cut: Option<Instant>,
    /// Whether bytes do not arrive for now.
    is_frozen: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

#[derive(Debug)]
struct Segment {
    arrives: Instant,
    bytes: Bytes,
}

/// Whether and how a direction has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Open,
    /// The writer closed it: the reader gets the bytes that are on the way, then the end.
    Closed,
    /// The connection was reset.
    Reset,
}

/// Result of an attempt to read.
#[derive(Debug)]
pub(super) enum ReadOutcome {
    /// Bytes, or the end if empty.
    Bytes(Bytes),
    /// The next bytes arrive at this time.
    Later(Instant),
    /// The waker was registered.
    Waiting,
}

impl ByteStream {
    pub(super) fn new(conditions: Conditions) -> Self {
        Self {
            conditions,
            unsent: BytesMut::new(),
            segments: VecDeque::new(),
            in_flight: 0,
            last_arrival: None,
            end: End::Open,
            cut: None,
            is_frozen: false,
            reader: None,
            writer: None,
        }
    }

    /// Reads at most `limit` bytes.
    pub(super) fn read(&mut self, limit: usize, cx: &Context<'_>) -> io::Result<ReadOutcome> {
        if self.end == End::Reset {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if self.is_frozen {
            self.reader = Some(cx.waker().clone());
            return Ok(ReadOutcome::Waiting);
        }
        let now = Instant::now();
        let limit = limit.min(self.conditions.chunk.max(1));
        match self.segments.front_mut() {
            Some(segment) if segment.arrives <= now => {
                let count = limit.min(segment.bytes.len());
                let bytes = segment.bytes.split_to(count);
                if !segment.bytes.has_remaining() {
                    self.segments.pop_front();
                }
                self.in_flight -= count;
                // The sender learns of the room after the latency.
                self.transmit(self.conditions.latency);
                Ok(ReadOutcome::Bytes(bytes))
            }
            Some(segment) => {
                self.reader = Some(cx.waker().clone());
                Ok(ReadOutcome::Later(segment.arrives))
            }
            None if self.end == End::Closed && self.unsent.is_empty() => {
                Ok(ReadOutcome::Bytes(Bytes::new()))
            }
            None => {
                self.reader = Some(cx.waker().clone());
                Ok(ReadOutcome::Waiting)
            }
        }
    }

    /// Writes at least one byte of `bytes`, which is not empty, and returns the bytes taken.
    pub(super) fn poll_write<'b>(
        &mut self,
        bytes: &'b [u8],
        cx: &Context<'_>,
    ) -> Poll<io::Result<&'b [u8]>> {
        match self.end {
            End::Open => {}
            End::Closed => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            End::Reset => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
        }
        let space = self.conditions.send_buffer.max(1).saturating_sub(self.unsent.len());
        if space == 0 {
            self.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let count = bytes.len().min(space).min(self.conditions.chunk.max(1));
        let (taken, _) = bytes.split_at(count);
        self.unsent.extend_from_slice(taken);
        // Lost bytes stay in the send buffer, because they are never acknowledged.
        if self.cut.is_none() {
            self.transmit(Duration::ZERO);
        }
        Poll::Ready(Ok(taken))
    }

    /// Adds bytes that the writer did not write, such as a GOAWAY of a proxy.
    pub(super) fn inject(&mut self, bytes: &[u8]) {
        if self.end == End::Open && self.cut.is_none() {
            self.unsent.extend_from_slice(bytes);
            self.transmit(Duration::ZERO);
        }
    }

    /// Sends as much as the window allows, `delay` later.
    fn transmit(&mut self, delay: Duration) {
        let room = self.conditions.window.max(1).saturating_sub(self.in_flight);
        let count = room.min(self.unsent.len());
        if count == 0 {
            return;
        }
        self.in_flight += count;
        let bytes = self.unsent.split_to(count).freeze();
        self.push(bytes, delay);
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }

    fn push(&mut self, bytes: Bytes, delay: Duration) {
        let Conditions { latency, first_byte_delay, bandwidth, .. } = self.conditions;
        let mut arrives = Instant::now() + delay + latency;
        match self.last_arrival {
            Some(last) => arrives = arrives.max(last),
            None => arrives += first_byte_delay,
        }
        if let Some(rate) = bandwidth {
            let nanos = (bytes.len() as u64).saturating_mul(1_000_000_000) / rate.max(1);
            arrives += Duration::from_nanos(nanos);
        }
        self.last_arrival = Some(arrives);
        self.segments.push_back(Segment { arrives, bytes });
        self.wake_reader();
    }

    /// Ends the direction. The first end counts, except that a reset replaces everything.
    pub(super) fn end(&mut self, end: End) {
        if self.cut.is_some() {
            // The other side does not get to know.
            return;
        }
        if self.end == End::Open || end == End::Reset {
            self.end = end;
        }
        if end == End::Reset {
            self.unsent.clear();
            self.segments.clear();
        }
        self.wake_reader();
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }

    /// Loses all bytes from now on, also those on the way.
    pub(super) fn cut(&mut self) {
        self.cut.get_or_insert_with(Instant::now);
        self.segments.clear();
        // The reader begins to wait for the end of its patience.
        self.wake_reader();
    }

    /// Stops or resumes the arrival of bytes.
    pub(super) fn set_frozen(&mut self, is_frozen: bool) {
        self.is_frozen = is_frozen;
        self.wake_reader();
    }

    /// Whether what is written does not arrive.
    pub(super) const fn is_lossy(&self) -> bool {
        self.cut.is_some() || matches!(self.end, End::Reset)
    }

    /// Time since which bytes are lost without a sign.
    pub(super) const fn cut_since(&self) -> Option<Instant> {
        self.cut
    }

    pub(super) fn set_conditions(&mut self, conditions: Conditions) {
        self.conditions = conditions;
        if self.cut.is_none() {
            self.transmit(Duration::ZERO);
        }
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }

    /// Whether no bytes are on the way.
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.unsent.is_empty()
    }

    fn wake_reader(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}
