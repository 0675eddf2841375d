//! Request bodies for the gRPC services that tonic implements: client status and health.
//!
//! tonic limits the size of a message only. Here, a message that has not arrived completely counts
//! for the memory of its connection, and has to arrive in time, as in discovery requests.

use core::{
    error::Error,
    pin::Pin,
    task::{Context, Poll, ready},
};
use std::time::Instant;

use bytes::{BufMut as _, Bytes, BytesMut};
use http_body::{Body, Frame};
use hyper::rt::Timer as _;
use tonic::Status;

use super::message_reader::{MessageReader, ReadError};
use crate::{
    clock::FAR,
    runtime::{BoxFuture, SharedRuntime},
    server::memory::budgets::TransportBudgets,
};

/// Number of requests that a method takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestCount {
    One,
    /// Any number. Only the first one has to arrive soon after the call has begun.
    Many,
}

/// Body of a call, which passes on complete messages only.
pub(crate) struct TimedRequests {
    count: RequestCount,
    /// Time at which the next message, or the end of the body, must be there.
    deadline: Option<Instant>,
    runtime: SharedRuntime,
    /// Reads the next message; `None` at the end.
    next: Option<BoxFuture<'static, (MessageReader, NextMessage)>>,
}

type NextMessage = Result<Option<Bytes>, Status>;

/// Limits the time and the memory of a call's requests.
pub(crate) fn time_requests<B>(
    request: http::Request<B>,
    count: RequestCount,
    max_bytes: usize,
    budgets: &TransportBudgets,
    runtime: &SharedRuntime,
) -> http::Request<TimedRequests>
where
    B: Body<Data: Send> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let budgets = budgets.of_call(request.extensions());
    let deadline = Some(runtime.now() + budgets.patience.min(FAR));
    let mut requests = TimedRequests { count, deadline, runtime: runtime.clone(), next: None };
    request.map(|body| {
        requests.read(MessageReader::new(body, max_bytes, &budgets));
        requests
    })
}

impl TimedRequests {
    fn read(&mut self, mut reader: MessageReader) {
        let (runtime, deadline) = (self.runtime.clone(), self.deadline);
        self.next = Some(Box::pin(async move {
            let message = reader.next(&runtime);
            let message = match deadline {
                Some(deadline) => runtime.timeout_at(deadline, message).await,
                None => Some(message.await),
            };
            let late = || Err(ReadError::Limit("the request did not arrive in time".into()));
            let message = message.unwrap_or_else(late).map_err(status);
            (reader, message)
        }));
    }
}

impl Body for TimedRequests {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Some(next) = &mut self.next else { return Poll::Ready(None) };
        let (reader, message) = ready!(next.as_mut().poll(cx));
        self.next = None;
        let Some(message) = message.transpose() else { return Poll::Ready(None) };
        let message = message?;
        if self.count == RequestCount::Many {
            self.deadline = None;
        }
        self.read(reader);
        Poll::Ready(Some(Ok(Frame::data(with_prefix(&message)))))
    }
}

/// Returns a message as it arrived: uncompressed, after its length.
fn with_prefix(message: &Bytes) -> Bytes {
    let mut bytes = BytesMut::with_capacity(5 + message.len());
    bytes.put_u8(0);
    // Accepted messages are shorter than 4 GiB, as their lengths had 32 bits.
    bytes.put_u32(message.len() as u32);
    bytes.put_slice(message);
    bytes.freeze()
}

fn status(why: ReadError) -> Status {
    match why {
        ReadError::Limit(why) => Status::resource_exhausted(why),
        ReadError::TooLong { bytes } => {
            Status::resource_exhausted(format!("a request of {bytes} bytes is too long"))
        }
        ReadError::Malformed(why) => Status::invalid_argument(why),
        ReadError::Closed => Status::cancelled("the call was reset"),
    }
}
