//! Response side of a stream: a slot for one response, filled by the driver and emptied by the HTTP
//! body.
//!
//! A response is written in two pieces without copying the shared part: the gRPC prefix with the
//! response's own bytes, then the body that all clients share. The slot accepts a response only
//! when HTTP/2 asks for data. A response is therefore rendered when the client can receive it, and
//! a slow client delays only itself.
// IS25

use core::{
    pin::Pin,
    task::{Context, Poll, Waker},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{BufMut as _, Bytes, BytesMut};
use http::HeaderMap;
use tonic::Status;
use xds_core::{Frame, StreamId};

use super::inbox::{Inbox, Input};
use crate::zoo::{self, Bug};

/// Slot in which the driver puts a response, and finally a status, for the transport.
#[derive(Debug, Default)]
pub(crate) struct ResponseSlot {
    state: Mutex<SlotState>,
}

#[derive(Debug, Default)]
struct SlotState {
    /// Unwritten pieces of a response.
    response: Option<Pieces>,
    end: Option<Status>,
    delivery: Delivery,
    space: SlotSpace,
    waker: Option<Waker>,
}

/// Whether the client has received complete messages only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Delivery {
    #[default]
    Complete,
    Partial,
}

/// State of the slot as seen by driver and transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SlotSpace {
    /// The transport is writing.
    #[default]
    Busy,
    /// The transport is writing, and the driver wants to know when it is ready.
    Awaited,
    /// The transport is ready for a response.
    Free,
}

impl ResponseSlot {
    /// Returns whether the transport is ready for a response. If not, the driver is notified when
    /// it is.
    pub(crate) fn is_free(&self) -> bool {
        let mut state = self.lock();
        if state.space == SlotSpace::Busy {
            state.space = SlotSpace::Awaited;
        }
        state.space == SlotSpace::Free
    }

    /// Puts a response in the slot. Requires [`is_free`](Self::is_free).
    pub(crate) fn put(&self, response: &mut Frame) {
        let pieces = pieces(response);
        let mut state = self.lock();
        state.response = Some(pieces);
        state.space = SlotSpace::Busy;
        wake(state);
    }

    /// Ends the stream because of a fault of the client. An unwritten response is dropped, since
    /// the client may never read it. If a part of it was written already, the stream is reset.
    pub(crate) fn abort(&self, status: Status) {
        let mut state = self.lock();
        let unsent = state.response.take();
        if unsent.is_some_and(|[head, body]| head.is_empty() && !body.is_empty()) {
            state.delivery = Delivery::Partial;
        }
        state.end.get_or_insert(status);
        wake(state);
    }

    /// Ends the stream after the response in the slot.
    pub(crate) fn end(&self, status: Status) {
        let mut state = self.lock();
        state.end.get_or_insert(status);
        wake(state);
    }

    fn lock(&self) -> MutexGuard<'_, SlotState> {
        // No code that may panic runs under this lock, so a poisoned lock still has a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the transport after releasing the lock.
fn wake(mut state: MutexGuard<'_, SlotState>) {
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Body of the HTTP response. Dropping it notifies the driver that the stream is closed.
#[derive(Debug)]
pub(crate) struct ResponseBody {
    stream: StreamId,
    slot: Arc<ResponseSlot>,
    inbox: Inbox,
    is_ended: bool,
}

impl ResponseBody {
    pub(crate) fn new(stream: StreamId, slot: Arc<ResponseSlot>, inbox: Inbox) -> Self {
        Self { stream, slot, inbox, is_ended: false }
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Status>>> {
        let this = &mut *self;
        if this.is_ended {
            return Poll::Ready(None);
        }
        let mut state = this.slot.lock();
        // The remaining pieces stay in the slot, where `abort` can drop them.
        let mut pieces = state.response.iter_mut().flatten();
        if let Some(piece) = pieces.find(|piece| !piece.is_empty()) {
            return Poll::Ready(Some(Ok(http_body::Frame::data(core::mem::take(piece)))));
        }
        state.response = None;
        if let Some(status) = state.end.take() {
            this.is_ended = true;
            return Poll::Ready(Some(match state.delivery {
                Delivery::Complete => trailers(&status).map(http_body::Frame::trailers),
                Delivery::Partial => Err(status),
            }));
        }
        let is_known = state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        if !is_known && !zoo::is(Bug::ResponseWakerLost) {
            state.waker = Some(cx.waker().clone());
        }
        let was = core::mem::replace(&mut state.space, SlotSpace::Free);
        drop(state);
        if was == SlotSpace::Awaited && !zoo::is(Bug::SlotFreeNotReported) {
            this.inbox.send(Input::SlotFree(this.stream));
        }
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.is_ended
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.inbox.send(Input::Closed(self.stream));
    }
}

/// Pieces of a response: its own bytes, and the shared bytes.
type Pieces = [Bytes; 2];

/// Frames a message for gRPC without compression: a zero, the length, then the message.
fn pieces(message: &mut Frame) -> Pieces {
    const PREFIX: usize = 5;

    let mut first = BytesMut::with_capacity(PREFIX + message.head.len());
    first.put_u8(0);
    // The driver does not send longer messages.
    first.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    first.put_slice(&message.head);
    [first.freeze(), core::mem::take(&mut message.body)]
}

fn trailers(status: &Status) -> Result<HeaderMap, Status> {
    let mut trailers = HeaderMap::with_capacity(2);
    status.add_header(&mut trailers)?;
    Ok(trailers)
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;
    use xds_core::{
        Time,
        server::{Server, ServerConfig, StreamKind},
        service::Variant,
    };

    use super::*;

    #[test]
    fn response_frame_is_written_without_copying_its_body() {
        let body = Bytes::from_static(b"shared");
        let mut frame = Frame::default();
        frame.head = b"h".to_vec();
        frame.body = body.clone();
        let pieces = pieces(&mut frame);
        assert_eq!(pieces, [&b"\0\0\0\0\x07h"[..], b"shared"]);
        assert_eq!(pieces[1].as_ptr(), body.as_ptr());
    }

    #[test]
    fn empty_message_is_only_a_grpc_prefix() {
        assert_eq!(pieces(&mut Frame::default()), [&b"\0\0\0\0\0"[..], b""]);
    }

    /// Returns the next frame of the body, which must be ready.
    fn next(body: &mut ResponseBody) -> Option<Result<http_body::Frame<Bytes>, Status>> {
        let mut cx = Context::from_waker(Waker::noop());
        match Pin::new(body).poll_frame(&mut cx) {
            Poll::Ready(next) => next,
            Poll::Pending => panic!("there is something"),
        }
    }

    // IS23: an unsent response is dropped when a stream is cut, even if the client does not read.
    #[test]
    fn unsent_response_is_dropped_when_its_stream_is_cut() {
        let mut server = Server::new(ServerConfig::default(), 1, Time::ZERO);
        let via = StreamKind::Aggregated(Variant::StateOfTheWorld);
        let stream = server.accept(via, Time::ZERO).expect("a stream");
        for written in 0..3 {
            let (inbox, _outlet) = Inbox::new();
            let slot = Arc::new(ResponseSlot::default());
            let mut body = ResponseBody::new(stream, Arc::clone(&slot), inbox);
            let shared = Bytes::from(vec![7; 1_000]);
            let mut frame = Frame::default();
            frame.head = b"h".to_vec();
            frame.body = shared.clone();
            slot.put(&mut frame);
            assert!(!shared.is_unique());
            for _ in 0..written {
                assert!(next(&mut body).expect("it goes on").expect("it is well").is_data());
            }
            slot.abort(Status::deadline_exceeded("no answer"));
            assert!(shared.is_unique(), "{written}");
            match (next(&mut body), written) {
                (Some(Ok(frame)), 0 | 2) => {
                    assert_eq!(frame.into_trailers().expect("the end")["grpc-status"], "4");
                }
                (Some(Err(status)), 1) => assert_eq!(status.message(), "no answer"),
                (other, _) => panic!("{other:?}"),
            }
            assert!(next(&mut body).is_none());
        }
    }

    #[test]
    fn status_is_sent_in_the_trailers() {
        let trailers = trailers(&Status::unavailable("see you")).unwrap();
        assert_eq!(trailers["grpc-status"], "14");
        assert_eq!(trailers["grpc-message"], "see%20you");
    }
}
