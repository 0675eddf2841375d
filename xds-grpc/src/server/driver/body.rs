//! Response side of a stream: a slot for one response, filled by the driver and emptied by the HTTP
//! body.
//!
//! A response is written without copying the part that clients share: first the gRPC prefix with
//! the response's own bytes, then the shared body. The slot accepts a response only when HTTP/2
//! asks for data, which it does after it has sent the previous response. At most one response of a
//! stream therefore waits for the client, and a slow client delays only itself. hyper 1.12 asks for
//! data before it knows whether the client's window allows any, so even for a client that never
//! opens a window, one response is rendered. HTTP/2 takes a long response in pieces, so its
//! progress is visible ([`memory::responses`](crate::server::memory::responses)).
// IS25

use core::{
    pin::Pin,
    task::{Context, Poll, Waker},
};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::{BufMut as _, Bytes, BytesMut};
use http::HeaderMap;
use tonic::Status;
use xds_core::{Frame, StreamId};

use super::inbox::{Inbox, Input};
use crate::{
    guard::locked,
    server::memory::responses::{ConnectionResponses, HeldResponse},
    zoo::{self, Bug},
};

/// Slot in which the driver puts a response, and finally a status, for the transport.
#[derive(Debug, Default)]
pub(crate) struct ResponseSlot {
    state: Mutex<SlotState>,
}

#[derive(Debug, Default)]
struct SlotState {
    /// Unwritten bytes of a response.
    response: Option<Unwritten>,
    end: Option<Status>,
    delivery: Delivery,
    space: SlotSpace,
    waker: Option<Waker>,
}

/// Response of which the transport has taken nothing, or a part.
#[derive(Debug)]
struct Unwritten {
    /// The response's own bytes, and the shared bytes.
    parts: [HeldResponse; 2],
    delivery: Delivery,
}

/// Whether only complete messages were sent to the client.
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
    pub(crate) fn put(&self, response: &mut Frame, memory: &ConnectionResponses) {
        let parts = parts(response).map(|part| memory.hold(part));
        let mut state = self.lock();
        state.response = Some(Unwritten { parts, delivery: Delivery::Complete });
        state.space = SlotSpace::Busy;
        wake(state);
    }

    /// Ends the stream because of a fault of the client. An unwritten response is dropped, since
    /// the client may never read it. If a part of it was written already, the stream is reset.
    pub(crate) fn abort(&self, status: Status) {
        let mut state = self.lock();
        let unsent = state.response.take();
        if unsent.as_ref().is_some_and(Unwritten::is_incomplete) {
            state.delivery = Delivery::Partial;
        }
        // The transport takes no further response.
        state.space = SlotSpace::Busy;
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
        locked(&self.state)
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
    pub(crate) stream: StreamId,
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
        // The remaining bytes stay in the slot, where `abort` can drop them.
        if let Some(piece) = state.response.as_mut().and_then(Unwritten::next_piece) {
            return Poll::Ready(Some(Ok(http_body::Frame::data(piece))));
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

/// Maximum number of bytes that the transport takes at once: those of a DATA frame.
pub(crate) const PIECE: usize = 16 << 10;

impl Unwritten {
    fn next_piece(&mut self) -> Option<Bytes> {
        let part = self.parts.iter_mut().find(|part| !part.is_empty())?;
        self.delivery = Delivery::Partial;
        Some(part.take(PIECE))
    }

    /// Whether the transport has taken only a part of the response.
    fn is_incomplete(&self) -> bool {
        self.delivery == Delivery::Partial && self.parts.iter().any(|part| !part.is_empty())
    }
}

/// Frames a message for gRPC without compression: a zero, the length, then the message. Returns its
/// own bytes and the shared bytes.
fn parts(message: &mut Frame) -> [Bytes; 2] {
    const PREFIX: usize = 5;

    let mut first = BytesMut::with_capacity(PREFIX + message.head.len());
    first.put_u8(0);
    // The driver does not send longer messages.
    first.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    first.put_slice(&message.head);
    if zoo::is(Bug::ResponseBufferedWhole) {
        first.put_slice(&core::mem::take(&mut message.body));
    }
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
    use crate::server::memory::responses::ResponseMemory;
    use crate::{
        clock::Clock,
        runtime::{SharedRuntime, tests::Still},
    };

    #[test]
    fn response_frame_is_written_without_copying_its_body() {
        let body = Bytes::from_static(b"shared");
        let mut frame = Frame::default();
        frame.head = b"h".to_vec();
        frame.body = body.clone();
        let parts = parts(&mut frame);
        assert_eq!(parts, [&b"\0\0\0\0\x07h"[..], b"shared"]);
        assert_eq!(parts[1].as_ptr(), body.as_ptr());
    }

    #[test]
    fn empty_message_is_only_a_grpc_prefix() {
        assert_eq!(parts(&mut Frame::default()), [&b"\0\0\0\0\0"[..], b""]);
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
        let clock = Clock::start(SharedRuntime::new(Still));
        let memory = ResponseMemory::new(1 << 20, 1 << 20, clock, || ()).connection();
        let mut server = Server::new(ServerConfig::default(), 1, Time::ZERO);
        let via = StreamKind::Aggregated(Variant::StateOfTheWorld);
        let stream = server.accept(via, Time::ZERO).expect("a stream");
        for written in 0..3 {
            let (inbox, _outlet) = Inbox::new();
            let slot = Arc::new(ResponseSlot::default());
            let mut body = ResponseBody::new(stream, Arc::clone(&slot), inbox);
            let shared = Bytes::from(vec![7; PIECE]);
            let mut frame = Frame::default();
            frame.head = b"h".to_vec();
            frame.body = shared.clone();
            slot.put(&mut frame, &memory);
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
