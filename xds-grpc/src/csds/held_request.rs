//! Bodies of requests whose incomplete messages count for the budgets of a server.

use core::{
    error::Error,
    pin::Pin,
    task::{Context, Poll, ready},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http_body::{Body, Frame, SizeHint};
use tonic::Status;

use crate::{
    runtime::BoxFuture,
    server::{HeldBytes, MemoryExceeded},
};

/// Memory of a call's incomplete request, if it counts. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldRequest(Option<Arc<Mutex<HeldBytes>>>);

impl HeldRequest {
    pub(super) fn new(held: HeldBytes) -> Self {
        Self(Some(Arc::new(Mutex::new(held))))
    }

    /// Wraps the body of the call, so that its bytes count.
    pub(super) fn body<B>(self, body: B) -> HeldBody<B> {
        let evicted = self.lock().map(|held| Box::pin(held.evicted()) as _);
        HeldBody { body: Box::pin(body), held: self, evicted }
    }

    /// Releases the bytes of a complete request. Bytes of the next one that arrived with it, which are
    /// at most a frame, do not count.
    pub(super) fn release(&self) {
        if let Some(mut held) = self.lock() {
            held.release();
        }
    }

    fn add(&self, bytes: usize) -> Result<(), Status> {
        self.lock().map_or(Ok(()), |mut held| held.add(bytes).map_err(refused))
    }

    fn lock(&self) -> Option<MutexGuard<'_, HeldBytes>> {
        // No code that may panic runs under this lock, so a poisoned lock still has a valid state.
        self.0.as_ref().map(|held| held.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn refused(why: MemoryExceeded) -> Status {
    Status::resource_exhausted(why.to_string())
}

/// Body of a call, whose bytes count until a request is complete.
pub(super) struct HeldBody<B> {
    body: Pin<Box<B>>,
    held: HeldRequest,
    /// Resolves when the connection has to give up the request.
    evicted: Option<BoxFuture<'static, MemoryExceeded>>,
}

impl<B> Body for HeldBody<B>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Data = B::Data;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, Self::Error>>> {
        let this = &mut *self;
        if let Some(evicted) = &mut this.evicted
            && let Poll::Ready(why) = evicted.as_mut().poll(cx)
        {
            return Poll::Ready(Some(Err(refused(why).into())));
        }
        let frame = ready!(this.body.as_mut().poll_frame(cx));
        Poll::Ready(frame.map(|frame| {
            let frame = frame.map_err(Into::into)?;
            this.held.add(frame.data_ref().map_or(0, bytes::Buf::remaining))?;
            Ok(frame)
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
