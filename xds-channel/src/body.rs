//! Response body of a call.

use core::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};
use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use hyper::{
    body::Incoming,
    rt::{Sleep, Timer as _},
};
use tonic::{Code, Status};
use xds_core::error_causes::with_causes;
use xds_grpc::runtime::SharedRuntime;
use xds_routing::{
    SocketAddress,
    balancer::{CallOutcome, CallPermit, LoadReport},
};

use crate::{
    load_reports::CallLoad,
    metadata::load_report,
    metrics::Meters,
    replay::Replay,
    routing::ClusterRef,
    status::{self, Waiting},
};

/// Response body of a call. Until the body ends or is dropped, the call counts as active and keeps
/// its cluster and connection. Dropping it early cancels the request.
#[derive(Debug)]
pub struct CallBody {
    body: DeadlineBody<Incoming>,
    /// `None` after the end.
    active: Option<ActiveCall>,
}

/// State of a call whose response has not ended.
#[derive(Debug)]
pub(crate) struct ActiveCall {
    pub(crate) permit: CallPermit,
    /// For load reports to the management server.
    pub(crate) load: Option<CallLoad>,
    pub(crate) meters: Meters,
    pub(crate) cluster_ref: Arc<ClusterRef>,
    pub(crate) request: Replay,
    /// Address of the endpoint.
    pub(crate) address: Arc<SocketAddress>,
}

impl ActiveCall {
    /// Notes the outcome of the call and the load of the endpoint, if these headers or trailers contain
    /// them.
    pub(crate) fn note_end(&mut self, headers: &HeaderMap) {
        if let Some(code) = status::code_in(headers) {
            self.meters.set_status(code);
        }
        if status::is_ok(headers) {
            self.permit.set_outcome(CallOutcome::Success);
            self.load.iter_mut().for_each(CallLoad::succeed);
        }
        let reported = self.load.as_ref().filter(|load| load.needs_metrics());
        let metrics = self.permit.load_metrics();
        if metrics.is_none() && reported.is_none() {
            return;
        }
        let Some(report) = load_report(headers) else { return };
        if let Some(metrics) = metrics {
            let load = LoadReport::new(&report, metrics);
            self.permit.report_load(&load, self.cluster_ref.clock.now());
        }
        if let Some(reported) = reported {
            reported.add_metrics(&report);
        }
    }

    /// Returns the status if the server does not end the call itself. Without an error, the deadline is
    /// exceeded.
    // S3.090
    pub(crate) fn failure(&mut self, end: Option<hyper::Error>) -> Status {
        let (address, note) = (&self.address, self.cluster_ref.note());
        let status = match end {
            Some(error) => {
                let why = format_args!("{address}: {}", with_causes(&error));
                Status::new(status::code_of(&error), status::with_note(why, note))
            }
            None => status::deadline_exceeded(Waiting::sent(address, note)),
        };
        self.meters.set_status(status.code());
        status
    }
}

impl CallBody {
    pub(crate) fn new(body: Incoming, deadline: Option<Deadline>, active: ActiveCall) -> Self {
        let body = DeadlineBody::new(body, deadline);
        Self { active: (!body.body.is_end_stream()).then_some(active), body }
    }

    /// Ends the call before the end of its response.
    fn cancel(&mut self) {
        if let Some(active) = self.active.take() {
            active.request.cancel();
        }
    }
}

impl Drop for CallBody {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl Body for CallBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        let Some(active) = &mut this.active else { return Poll::Ready(None) };
        let polled = ready!(this.body.poll_frame(cx));
        if let Some(Ok(frame)) = &polled
            && let Some(trailers) = frame.trailers_ref()
        {
            active.note_end(trailers);
        }
        if let Some(Ok(frame)) = &polled
            && let Some(data) = frame.data_ref()
        {
            active.meters.received(data);
        }
        // The server may end the call at the deadline before the timer here fires.
        let is_late = || this.body.deadline.as_ref().is_some_and(Deadline::is_past);
        let polled = polled.map(|frame| match frame {
            Ok(frame) if frame.trailers_ref().is_some_and(status::is_cancelled) && is_late() => {
                Err(active.failure(None))
            }
            Ok(frame) => Ok(frame),
            Err(end) => {
                let end = end.filter(|end| status::code_of(end) != Code::Cancelled || !is_late());
                Err(active.failure(end))
            }
        });
        match &polled {
            Some(Err(_)) => self.cancel(),
            Some(Ok(frame)) if !frame.is_trailers() && !self.body.body.is_end_stream() => {}
            Some(Ok(_)) | None => self.active = None,
        }
        Poll::Ready(polled)
    }

    fn is_end_stream(&self) -> bool {
        self.body.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.body.size_hint()
    }
}

/// Deadline of a call, with a timer.
pub(crate) struct Deadline {
    at: Instant,
    runtime: SharedRuntime,
    timer: Pin<Box<dyn Sleep>>,
}

impl Deadline {
    pub(crate) fn new(at: Instant, runtime: SharedRuntime) -> Self {
        Self { at, timer: runtime.sleep_until(at), runtime }
    }

    /// Returns whether the deadline has passed. The timer may fire later.
    pub(crate) fn is_past(&self) -> bool {
        self.at <= self.runtime.now()
    }
}

/// Body with a deadline.
struct DeadlineBody<B> {
    body: B,
    deadline: Option<Deadline>,
}

impl<B: fmt::Debug> fmt::Debug for DeadlineBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadlineBody").field("body", &self.body).finish_non_exhaustive()
    }
}

impl<B: Body + Unpin> DeadlineBody<B> {
    const fn new(body: B, deadline: Option<Deadline>) -> Self {
        Self { body, deadline }
    }

    /// Returns the next frame. The error `None` means that the deadline has passed, even if a frame
    /// is available.
    #[allow(clippy::type_complexity, reason = "the return type of `Body::poll_frame`")]
    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, Option<B::Error>>>> {
        let is_late =
            self.deadline.as_mut().is_some_and(|it| it.timer.as_mut().poll(cx).is_ready());
        if is_late && !self.body.is_end_stream() {
            return Poll::Ready(Some(Err(None)));
        }
        Pin::new(&mut self.body).poll_frame(cx).map_err(Some)
    }
}

#[cfg(test)]
mod tests {
    use core::{convert::Infallible, future::poll_fn, time::Duration};

    use tokio::time::advance;
    use xds_tokio::Tokio;

    use super::*;

    /// Body without an end.
    struct Endless;

    impl Body for Endless {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"more")))))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn response_body_ends_at_the_deadline() {
        let limit = Duration::from_secs(3);
        let runtime = SharedRuntime::new(Tokio);
        let deadline = Deadline::new(runtime.now() + limit, runtime);
        let mut body = DeadlineBody::new(Endless, Some(deadline));
        for _ in 0..3 {
            let frame = poll_fn(|cx| body.poll_frame(cx)).await;
            assert!(matches!(frame, Some(Ok(_))), "there is time left");
            advance(Duration::from_secs(1)).await;
        }
        advance(Duration::from_secs(1)).await;
        let frame = poll_fn(|cx| body.poll_frame(cx)).await;
        assert!(matches!(frame, Some(Err(None))), "its time is up");
    }
}
