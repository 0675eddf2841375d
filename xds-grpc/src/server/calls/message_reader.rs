//! Messages of a request body: a flag of one byte, a length of four, then the message
//! ([gRPC over HTTP/2]).
//!
//! [gRPC over HTTP/2]: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md

use core::{
    error::Error,
    fmt,
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use std::time::Instant;

use bytes::{Buf as _, Bytes, BytesMut};
use hyper::rt::Timer as _;
use tokio::select;

use crate::{
    clock::FAR,
    runtime::SharedRuntime,
    server::memory::{
        budgets::ConnectionBudgets,
        requests::HeldBytes,
        transport_stats::{TransportCounters, TransportEvent},
    },
    zoo::{self, Bug},
};

/// Bytes before each message.
const HEADER: usize = 5;

/// Minimum rate, in bytes per second, at which an incomplete message must arrive. The configured
/// time is added to the resulting time.
const MIN_RATE: u64 = 16 << 10;

/// Reason why there is no further message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadError {
    /// A limit is exceeded.
    Limit(String),
    /// The message is over the maximum size.
    TooLong { bytes: usize },
    /// The bytes are not a message.
    Malformed(&'static str),
    /// The stream was reset, or the connection was lost.
    Closed,
}

/// Reader of the messages of a request body.
pub(crate) struct MessageReader {
    body: Pin<Box<dyn Chunks + Send>>,
    /// Bytes of the last chunk that are not read yet.
    rest: Bytes,
    /// Header and bytes of an incomplete message.
    partial: BytesMut,
    held: HeldBytes,
    counters: TransportCounters,
    /// Time at which the incomplete message must be complete.
    deadline: Option<Instant>,
    max_bytes: usize,
    /// Time for a message to arrive, in addition to that at the minimum rate.
    patience: Duration,
}

impl MessageReader {
    pub(crate) fn new<B>(body: B, max_bytes: usize, budgets: &ConnectionBudgets) -> Self
    where
        B: http_body::Body<Data: Send> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        Self {
            body: Box::pin(body),
            rest: Bytes::new(),
            partial: BytesMut::new(),
            held: budgets.requests.request(),
            counters: budgets.counters.clone(),
            deadline: None,
            max_bytes,
            patience: budgets.patience,
        }
    }

    /// Returns the next message, or `None` at the end.
    pub(crate) async fn next(
        &mut self,
        runtime: &SharedRuntime,
    ) -> Result<Option<Bytes>, ReadError> {
        let next = self.read(runtime).await;
        if let Err(ReadError::Limit(_) | ReadError::TooLong { .. }) = next {
            self.counters.note(TransportEvent::RefusedRequest);
        }
        next
    }

    async fn read(&mut self, runtime: &SharedRuntime) -> Result<Option<Bytes>, ReadError> {
        loop {
            if let Some(message) = self.take_message(runtime)? {
                return Ok(Some(message));
            }
            let chunk = self.next_chunk(runtime).await?;
            match chunk {
                Some(Ok(chunk)) => self.rest = chunk,
                Some(Err(())) => return Err(ReadError::Closed),
                None if self.partial.is_empty() => return Ok(None),
                None => return Err(ReadError::Malformed("the call ended within a message")),
            }
        }
    }

    async fn next_chunk(
        &mut self,
        runtime: &SharedRuntime,
    ) -> Result<Option<Result<Bytes, ()>>, ReadError> {
        let Some(mut deadline) = self.deadline else {
            return Ok(poll_fn(|cx| self.body.as_mut().poll_chunk(cx)).await);
        };
        if zoo::is(Bug::DeadlineMissed) {
            deadline += Duration::from_millis(1);
        }
        select! {
            biased;
            chunk = poll_fn(|cx| self.body.as_mut().poll_chunk(cx)) => Ok(chunk),
            why = self.held.evicted() => Err(ReadError::Limit(why.to_string())),
            () = runtime.sleep_until(deadline) => {
                let why = format!(
                    "a message was not complete within {:?}, with {} of its bytes",
                    self.patience,
                    self.partial.len().saturating_sub(HEADER),
                );
                Err(ReadError::Limit(why))
            }
        }
    }

    /// Returns the next message if it has arrived completely.
    fn take_message(&mut self, runtime: &SharedRuntime) -> Result<Option<Bytes>, ReadError> {
        if self.partial.is_empty() {
            // A message within one chunk is not copied.
            if let Some(length) = self.length_in(&self.rest)?
                && self.rest.len() >= HEADER + length
            {
                self.rest.advance(HEADER);
                return Ok(Some(self.rest.split_to(length)));
            }
        }
        if self.rest.is_empty() {
            return Ok(None);
        }
        if self.partial.len() < HEADER {
            self.take_bytes(HEADER)?;
        }
        let Some(length) = self.length_in(&self.partial)? else {
            self.begin(runtime, 0);
            return Ok(None);
        };
        self.take_bytes(HEADER + length)?;
        if self.partial.len() < HEADER + length {
            self.begin(runtime, length);
            return Ok(None);
        }
        self.deadline = None;
        self.held.release();
        let mut message = core::mem::take(&mut self.partial).freeze();
        message.advance(HEADER);
        Ok(Some(message))
    }

    /// Moves bytes of the chunk to the incomplete message, up to a length.
    fn take_bytes(&mut self, length: usize) -> Result<(), ReadError> {
        let count = length.saturating_sub(self.partial.len()).min(self.rest.len());
        self.held.add(count).map_err(|why| ReadError::Limit(why.to_string()))?;
        self.partial.extend_from_slice(&self.rest.split_to(count));
        Ok(())
    }

    /// Sets the deadline of an incomplete message. While the header is incomplete, the length is 0 and
    /// the deadline is provisional.
    fn begin(&mut self, runtime: &SharedRuntime, length: usize) {
        let time = Duration::from_millis(length as u64 * 1_000 / MIN_RATE);
        let deadline = runtime.now() + self.patience.min(FAR) + time;
        let is_first = self.partial.len() <= HEADER || self.deadline.is_none();
        if is_first {
            self.deadline = Some(deadline);
        }
    }

    /// Reads the length of a message from its header, if that is complete.
    fn length_in(&self, bytes: &[u8]) -> Result<Option<usize>, ReadError> {
        let Some([flag, length @ ..]) = bytes.first_chunk::<HEADER>() else { return Ok(None) };
        match flag {
            0 => {}
            1 => {
                let why = "a message is compressed, which no header announced";
                return Err(ReadError::Malformed(why));
            }
            _ => {
                let why = "the compression flag of a message is neither 0 nor 1";
                return Err(ReadError::Malformed(why));
            }
        }
        let bytes = u32::from_be_bytes(*length) as usize;
        if bytes > self.max_bytes {
            return Err(ReadError::TooLong { bytes });
        }
        Ok(Some(bytes))
    }
}

impl fmt::Debug for MessageReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageReader").field("held", &self.held).finish_non_exhaustive()
    }
}

/// Body as a source of chunks. An error means that the stream was reset or the connection lost.
trait Chunks {
    fn poll_chunk(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ()>>>;
}

impl<B: http_body::Body> Chunks for B {
    fn poll_chunk(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, ()>>> {
        loop {
            match ready!(self.as_mut().poll_frame(cx)) {
                Some(Ok(frame)) => {
                    // Trailers of a client have no meaning.
                    let Ok(mut data) = frame.into_data() else { continue };
                    if data.has_remaining() {
                        let length = data.remaining();
                        return Poll::Ready(Some(Ok(data.copy_to_bytes(length))));
                    }
                }
                Some(Err(_)) => return Poll::Ready(Some(Err(()))),
                None => return Poll::Ready(None),
            }
        }
    }
}
