//! Request body that can be sent again while only little of it has been sent.

use core::{
    pin::Pin,
    task::{Context, Poll},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use tonic::{Status, body::Body};

/// Maximum number of bytes kept for sending again.
const MAX_KEPT_BYTES: usize = 256 * 1024;

/// Body of a request. Each [attempt](Self::attempt) sends it from the beginning and invalidates
/// earlier attempts.
#[derive(Debug)]
pub(crate) struct Replay(Arc<Mutex<ReplaySource>>);

#[derive(Debug)]
struct ReplaySource {
    rest: Body,
    /// Parts that attempts have read; `None` after the limit was exceeded.
    taken: Option<Vec<Part>>,
    bytes: usize,
    attempt: usize,
}

#[derive(Clone, Debug)]
enum Part {
    Data(Bytes),
    Trailers(HeaderMap),
}

impl Replay {
    pub(crate) fn new(body: Body) -> Self {
        let taken = Some(Vec::new());
        Self(Arc::new(Mutex::new(ReplaySource { rest: body, taken, bytes: 0, attempt: 0 })))
    }

    /// Returns the whole body; `None` if its beginning is no longer kept.
    pub(crate) fn attempt(&self) -> Option<Body> {
        let number = {
            let mut source = lock(&self.0);
            source.taken.as_ref()?;
            source.attempt += 1;
            source.attempt
        };
        // `Body::new` locks the source, so the lock is released here.
        Some(Body::new(Attempt { source: Arc::clone(&self.0), number, sent: 0 }))
    }

    /// Discards the kept parts, after the last attempt.
    pub(crate) fn settle(&self) {
        lock(&self.0).taken = None;
    }
}

fn lock(source: &Mutex<ReplaySource>) -> MutexGuard<'_, ReplaySource> {
    source.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Attempt {
    source: Arc<Mutex<ReplaySource>>,
    number: usize,
    /// Number of kept parts sent by this attempt.
    sent: usize,
}

impl ReplaySource {
    fn keep(&mut self, frame: &Frame<Bytes>) -> usize {
        let Some(taken) = &mut self.taken else { return 0 };
        let part = match (frame.data_ref(), frame.trailers_ref()) {
            (Some(data), _) => Part::Data(data.clone()),
            (None, Some(trailers)) => Part::Trailers(trailers.clone()),
            (None, None) => return taken.len(),
        };
        self.bytes = self.bytes.saturating_add(frame.data_ref().map_or(0, Bytes::len));
        taken.push(part);
        let count = taken.len();
        if self.bytes > MAX_KEPT_BYTES {
            self.taken = None;
        }
        count
    }

    fn kept(&self, index: usize) -> Option<&Part> {
        self.taken.as_ref()?.get(index)
    }
}

impl http_body::Body for Attempt {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let source = Arc::clone(&self.source);
        let mut source = lock(&source);
        if source.attempt != self.number {
            return Poll::Ready(Some(Err(Status::cancelled("the call is retried"))));
        }
        if let Some(part) = source.kept(self.sent) {
            self.sent += 1;
            return Poll::Ready(Some(Ok(match part.clone() {
                Part::Data(data) => Frame::data(data),
                Part::Trailers(trailers) => Frame::trailers(trailers),
            })));
        }
        let frame = Pin::new(&mut source.rest).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &frame {
            self.sent = source.keep(frame);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        let source = lock(&self.source);
        source.kept(self.sent).is_none() && source.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let source = lock(&self.source);
        match self.sent == 0 && source.kept(0).is_none() {
            true => source.rest.size_hint(),
            false => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::future::poll_fn;

    use http_body::Body as _;

    use super::*;

    /// Body with a number of pieces of the same size.
    struct Pieces(usize, usize);

    impl http_body::Body for Pieces {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            let Some(left) = self.0.checked_sub(1) else { return Poll::Ready(None) };
            self.0 = left;
            let byte = u8::try_from(left).unwrap();
            Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![byte; self.1])))))
        }

        fn is_end_stream(&self) -> bool {
            self.0 == 0
        }
    }

    /// Reads pieces and returns their first bytes.
    async fn read(body: &mut Body, most: usize) -> Vec<u8> {
        let mut read = Vec::new();
        while read.len() < most
            && let Some(frame) = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await
        {
            read.push(frame.expect("a frame").into_data().expect("data")[0]);
        }
        read
    }

    #[tokio::test]
    async fn buffered_request_is_replayed_from_its_beginning() {
        let replay = Replay::new(Body::new(Pieces(4, 10)));
        let mut first = replay.attempt().expect("a body");
        assert_eq!(read(&mut first, 2).await, [3, 2]);
        let mut second = replay.attempt().expect("all of it");
        assert!(!second.is_end_stream());
        assert_eq!(read(&mut second, 9).await, [3, 2, 1, 0]);
        assert!(second.is_end_stream());
        let ended = poll_fn(|cx| Pin::new(&mut first).poll_frame(cx)).await;
        assert!(ended.is_some_and(|frame| frame.is_err()), "the first one is over");
        replay.settle();
        assert!(replay.attempt().is_none(), "nothing is kept any more");
    }

    #[tokio::test]
    async fn request_over_the_buffer_limit_is_not_replayed() {
        let replay = Replay::new(Body::new(Pieces(4, MAX_KEPT_BYTES / 2)));
        let mut first = replay.attempt().expect("a body");
        assert_eq!(read(&mut first, 2).await, [3, 2]);
        assert!(replay.attempt().is_some(), "as much as is kept");
        let mut second = replay.attempt().expect("a body");
        assert_eq!(read(&mut second, 9).await, [3, 2, 1, 0]);
        assert!(replay.attempt().is_none());
    }
}
