//! Request body that can be sent again while only little of it has been sent.

use core::{
    mem,
    pin::Pin,
    task::{Context, Poll, Waker},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use h2::Reason;
use http::HeaderMap;
use http_body::{Body as _, Frame, SizeHint};
use tonic::{Status, body::Body};

/// Maximum number of bytes kept for sending again.
const MAX_KEPT_BYTES: usize = 256 * 1024;
/// Memory of a part in addition to its data, about.
const PART_BYTES: usize = 128;

/// Body of a request. Each [attempt](Self::attempt) sends it from the beginning and invalidates
/// earlier attempts.
#[derive(Clone, Debug)]
pub(crate) struct Replay(Arc<ReplayState>);

#[derive(Debug)]
struct ReplayState {
    source: Mutex<ReplaySource>,
    /// Cancellation by the end of the call. The application may end a call while its request body
    /// is polled, so this is not locked during a poll.
    cancellation: Mutex<Cancellation>,
}

#[derive(Debug, Default)]
struct Cancellation {
    is_cancelled: bool,
    /// Waker of the current attempt.
    waker: Option<Waker>,
}

#[derive(Debug)]
struct ReplaySource {
    rest: Body,
    /// Whether the current attempt is the last one.
    is_settled: bool,
    /// Parts that attempts have read. Those that the current attempt has sent are kept for another
    /// attempt.
    taken: Vec<Part>,
    /// Number of these parts that the current attempt has sent.
    sent: usize,
    /// Memory of all parts ever read.
    bytes: usize,
    /// Number of the current attempt.
    attempt: usize,
    /// Whether the current attempt has content and none of it was read.
    is_unread: bool,
}

#[derive(Clone, Debug)]
enum Part {
    Data(Bytes),
    Trailers(HeaderMap),
}

impl Replay {
    pub(crate) fn new(body: Body) -> Self {
        let source = ReplaySource {
            rest: body,
            is_settled: false,
            taken: Vec::new(),
            sent: 0,
            bytes: 0,
            attempt: 0,
            is_unread: false,
        };
        let (source, cancellation) = (Mutex::new(source), Mutex::default());
        Self(Arc::new(ReplayState { source, cancellation }))
    }

    /// Returns the whole body; `None` if its beginning is no longer kept.
    pub(crate) fn attempt(&self) -> Option<Body> {
        let number = self.supersede()?;
        // `Body::new` locks the source, so the lock is released here.
        Some(Body::new(Attempt { state: Arc::clone(&self.0), number }))
    }

    /// Ends the possibility of further attempts. The current attempt continues.
    pub(crate) fn settle(&self) {
        lock(&self.0.source).settle();
    }

    /// Ends the current attempt, if another one is possible. hyper then resets its stream with `CANCEL`.
    /// Returns the number of the next attempt.
    pub(crate) fn supersede(&self) -> Option<usize> {
        let number = {
            let mut source = lock(&self.0.source);
            if source.is_settled {
                return None;
            }
            source.attempt += 1;
            source.sent = 0;
            source.is_unread = !source.is_at_end();
            source.attempt
        };
        let waker = lock(&self.0.cancellation).waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
        Some(number)
    }

    /// Returns whether the current attempt has content of which nothing was read, so that nothing
    /// was sent.
    pub(crate) fn is_unread(&self) -> bool {
        lock(&self.0.source).is_unread
    }

    /// Ends the current attempt with an error, on which hyper resets the stream with `CANCEL`.
    pub(crate) fn cancel(&self) {
        let waker = {
            let mut cancellation = lock(&self.0.cancellation);
            cancellation.is_cancelled = true;
            cancellation.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Attempt {
    state: Arc<ReplayState>,
    number: usize,
}

impl Cancellation {
    /// Returns whether the call has ended. Otherwise its end will wake the task.
    fn poll(&mut self, cx: &Context<'_>) -> bool {
        if !self.is_cancelled && self.waker.as_ref().is_none_or(|it| !it.will_wake(cx.waker())) {
            self.waker = Some(cx.waker().clone());
        }
        self.is_cancelled
    }
}

impl ReplaySource {
    /// Keeps a part that the current attempt sends now.
    fn keep(&mut self, frame: &Frame<Bytes>) {
        if self.is_settled {
            return;
        }
        let part = match (frame.data_ref(), frame.trailers_ref()) {
            (Some(data), _) => Part::Data(data.clone()),
            (None, Some(trailers)) => Part::Trailers(trailers.clone()),
            (None, None) => return,
        };
        let len = frame.data_ref().map_or(0, Bytes::len).saturating_add(PART_BYTES);
        self.bytes = self.bytes.saturating_add(len);
        self.taken.push(part);
        self.sent = self.taken.len();
        if self.bytes > MAX_KEPT_BYTES {
            self.settle();
        }
    }

    /// Returns the next part that an earlier attempt has read.
    fn next_kept(&mut self) -> Option<Part> {
        let part = self.taken.get(self.sent)?.clone();
        self.sent += 1;
        self.discard_sent();
        Some(part)
    }

    fn settle(&mut self) {
        self.is_settled = true;
        self.discard_sent();
    }

    /// Discards the kept parts when the last attempt has sent them.
    fn discard_sent(&mut self) {
        if self.is_settled && self.sent == self.taken.len() {
            self.sent = 0;
            drop(mem::take(&mut self.taken));
        }
    }

    fn is_at_end(&self) -> bool {
        self.sent == self.taken.len() && self.rest.is_end_stream()
    }
}

/// Returns the error of a cancelled attempt. Its source is the reason with which hyper resets the
/// stream.
fn cancelled(why: &str) -> Status {
    let mut status = Status::cancelled(why);
    status.set_source(Arc::new(h2::Error::from(Reason::CANCEL)));
    status
}

impl http_body::Body for Attempt {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let mut source = lock(&self.state.source);
        if source.attempt != self.number {
            return Poll::Ready(Some(Err(cancelled("the call is retried"))));
        }
        if lock(&self.state.cancellation).poll(cx) {
            return Poll::Ready(Some(Err(cancelled("the call has ended"))));
        }
        source.is_unread = false;
        if let Some(part) = source.next_kept() {
            return Poll::Ready(Some(Ok(match part {
                Part::Data(data) => Frame::data(data),
                Part::Trailers(trailers) => Frame::trailers(trailers),
            })));
        }
        let frame = Pin::new(&mut source.rest).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &frame {
            source.keep(frame);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        let source = lock(&self.state.source);
        source.attempt == self.number && source.is_at_end()
    }

    fn size_hint(&self) -> SizeHint {
        let source = lock(&self.state.source);
        match source.taken.is_empty() && source.attempt == self.number {
            true => source.rest.size_hint(),
            false => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::{error::Error as _, future::poll_fn};

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
        let replay = Replay::new(Body::new(Pieces(4, MAX_KEPT_BYTES / 2 - PART_BYTES)));
        let mut first = replay.attempt().expect("a body");
        assert_eq!(read(&mut first, 2).await, [3, 2]);
        assert!(replay.attempt().is_some(), "as much as is kept");
        let mut second = replay.attempt().expect("a body");
        assert_eq!(read(&mut second, 9).await, [3, 2, 1, 0]);
        assert!(replay.attempt().is_none());
    }

    #[tokio::test]
    async fn response_during_a_replay_loses_no_kept_part() {
        let replay = Replay::new(Body::new(Pieces(6, 10)));
        let mut first = replay.attempt().expect("a body");
        assert_eq!(read(&mut first, 4).await, [5, 4, 3, 2]);
        let mut second = replay.attempt().expect("all of it");
        assert_eq!(read(&mut second, 1).await, [5]);
        replay.settle();
        assert!(replay.attempt().is_none(), "it is not sent again");
        assert!(!second.is_end_stream());
        assert_eq!(read(&mut second, 9).await, [4, 3, 2, 1, 0]);
        assert!(second.is_end_stream());
    }

    /// Body without a part so far.
    struct Quiet;

    impl http_body::Body for Quiet {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Poll::Pending
        }
    }

    #[tokio::test]
    async fn superseded_attempt_is_woken_and_resets_its_stream() {
        let replay = Replay::new(Body::new(Quiet));
        let mut first = replay.attempt().expect("a body");
        let waiting = tokio::spawn(async move {
            let ended = poll_fn(|cx| Pin::new(&mut first).poll_frame(cx)).await;
            ended.map(|frame| frame.map(drop))
        });
        tokio::task::yield_now().await;
        assert!(replay.supersede().is_some());
        let ended = tokio::time::timeout(core::time::Duration::from_secs(30), waiting).await;
        let status = ended.expect("woken").expect("no panic").expect("an end").unwrap_err();
        let reset = status.source().and_then(|it| it.downcast_ref::<h2::Error>());
        assert_eq!(reset.and_then(h2::Error::reason), Some(Reason::CANCEL));
        replay.settle();
        assert!(replay.supersede().is_none());
    }

    /// Body that ends its call when it is polled.
    struct Ending(Arc<Mutex<Option<Replay>>>);

    impl http_body::Body for Ending {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            lock(&self.0).take().expect("the first poll").cancel();
            Poll::Pending
        }
    }

    #[tokio::test]
    async fn request_body_that_ends_its_own_call_is_cancelled() {
        let shared = Arc::<Mutex<Option<Replay>>>::default();
        let replay = Replay::new(Body::new(Ending(Arc::clone(&shared))));
        let mut attempt = replay.attempt().expect("a body");
        *lock(&shared) = Some(replay);
        let ended = poll_fn(|cx| Pin::new(&mut attempt).poll_frame(cx)).await;
        let status = ended.expect("an error").expect_err("no frame");
        assert_eq!(status.code(), tonic::Code::Cancelled, "{status}");
    }
}
