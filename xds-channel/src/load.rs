//! Streams of load reports of endpoints ([gRFC A51]).
//!
//! [gRFC A51]: https://github.com/grpc/proposal/blob/master/A51-custom-backend-metrics.md

use core::{
    error::Error,
    fmt::Display,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use std::{sync::atomic::Ordering, time::Instant};

use bytes::Bytes;
use http::{
    Request, Response, Uri,
    uri::{Authority, PathAndQuery},
};
use hyper::{body::Incoming, client::conn::http2::SendRequest, rt::Timer as _};
use tonic::{
    Code, Status,
    body::Body,
    client::{Grpc, GrpcService},
};
use tower_service::Service;
use xds_grpc::{
    RawCodec,
    runtime::{SharedRuntime, Task, yield_now},
};
use xds_routing::{Random, balancer::LoadReport, cluster::UtilizationMetric};

use crate::endpoint::EndpointConnection;

/// Pause after a stream that ended without a report. It grows by 60% each time, up to
/// [`LONGEST_PAUSE`], and has a jitter of 20%.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(120);

/// Settings of the streams of load reports. Streams are replaced when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoadRules {
    pub(crate) interval: Duration,
    /// Metrics for the utilization.
    pub(crate) metrics: Vec<UtilizationMetric>,
}

/// Parameters of the streams of load reports on a connection.
pub(crate) struct LoadWatch {
    pub(crate) runtime: SharedRuntime,
    pub(crate) connection: EndpointConnection,
    pub(crate) authority: Authority,
    pub(crate) rules: LoadRules,
    pub(crate) random: Random,
}

impl LoadWatch {
    /// Starts a stream of load reports, and another one when it ends. An endpoint without the service
    /// is asked once on a connection.
    pub(crate) fn start(self, report: impl Fn(LoadReport) + Send + Sync + 'static) -> Task {
        self.runtime.clone().start(self.run(report))
    }

    async fn run(self, report: impl Fn(LoadReport) + Send + Sync) {
        let Self { runtime, connection, authority, rules, random } = self;
        let EndpointConnection { requests, scheme, address, lacks_load_reports } = connection;
        let origin = Uri::builder().scheme(scheme).authority(authority).path_and_query("/").build();
        let Ok(origin) = origin else { return };
        let mut grpc = Grpc::with_origin(Requests(requests), origin);
        let mut backoff = Backoff { pause: FIRST_PAUSE, random };
        loop {
            let (began, mut has_reported) = (runtime.now(), false);
            let ended = read_reports(&mut grpc, &rules, |load| {
                has_reported = true;
                report(load);
            });
            match ended.await {
                Err(status) if status.code() == Code::Unimplemented => {
                    lacks_load_reports.store(true, Ordering::Relaxed);
                    tracing::error!(%address, %status, "an endpoint has no service for load reports");
                    return;
                }
                Err(status) => tracing::debug!(%address, %status, "no load reports of an endpoint"),
                Ok(()) => {}
            }
            runtime.sleep_until(backoff.next_attempt(began, runtime.now(), has_reported)).await;
        }
    }
}

/// Backoff between the streams of a connection.
struct Backoff {
    pause: Duration,
    random: Random,
}

impl Backoff {
    /// Returns the time of the next attempt: at once after a stream with a report, unless it was
    /// shorter than the first pause.
    fn next_attempt(&mut self, began: Instant, ended: Instant, has_reported: bool) -> Instant {
        let from = if has_reported { began } else { ended };
        if has_reported {
            self.pause = FIRST_PAUSE;
        }
        let pause = self.random.jittered(self.pause);
        self.pause = self.pause.saturating_add(self.pause / 5 * 3).min(LONGEST_PAUSE);
        from.checked_add(pause).unwrap_or(from)
    }
}

/// Reads the reports of one stream, until it ends.
async fn read_reports<S>(
    grpc: &mut Grpc<S>,
    rules: &LoadRules,
    mut report: impl FnMut(LoadReport),
) -> Result<(), Status>
where
    S: GrpcService<Body, Error: Display>,
    S::ResponseBody: http_body::Body<Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    grpc.ready().await.map_err(|why| Status::unavailable(why.to_string()))?;
    let request = tonic::Request::new(Bytes::from(LoadReport::request(rules.interval)));
    let path = PathAndQuery::from_static(LoadReport::METHOD);
    let mut reports = grpc.server_streaming(request, path, RawCodec).await?.into_inner();
    while let Some(bytes) = reports.message().await? {
        let load = LoadReport::from_bytes(&bytes, &rules.metrics);
        report(load.ok_or_else(|| Status::internal("malformed load report"))?);
        // An endpoint may send without pause. The stream can be ended only between polls.
        yield_now().await;
    }
    Ok(())
}

/// Connection as a service.
struct Requests(SendRequest<Body>);

impl Service<Request<Body>> for Requests {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Incoming>, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

#[cfg(test)]
mod tests {
    use core::{cell::Cell, convert::Infallible, future::Ready};

    use http_body::Frame;

    use super::*;

    #[test]
    fn pauses_grow_until_a_stream_has_a_report() {
        let mut backoff = Backoff { pause: FIRST_PAUSE, random: Random::new(7) };
        let began = Instant::now();
        let ended = began + Duration::from_secs(500);
        let mut pauses = Vec::new();
        for expected in [1_000, 1_600, 2_560, 4_096] {
            let pause = backoff.next_attempt(began, ended, false) - ended;
            let bounds = expected * 4 / 5..=expected * 6 / 5;
            assert!(bounds.contains(&(pause.as_millis() as u64)), "{pause:?}");
            pauses.push(pause);
        }
        assert_ne!(pauses[0], FIRST_PAUSE, "without jitter");
        for _ in 0..20 {
            backoff.next_attempt(began, ended, false);
        }
        assert!(backoff.next_attempt(began, ended, false) - ended <= LONGEST_PAUSE * 6 / 5);
        assert!(backoff.next_attempt(began, ended, true) <= ended, "at once");
        let pause = backoff.next_attempt(began, began, true) - began;
        assert!(pause >= FIRST_PAUSE * 4 / 5 && pause <= FIRST_PAUSE * 6 / 5, "{pause:?}");
    }

    /// Endpoint with this number of reports that are available at once.
    struct Flood(usize);

    impl Service<Request<Body>> for Flood {
        type Response = Response<Self>;
        type Error = Infallible;
        type Future = Ready<Result<Response<Self>, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<Body>) -> Self::Future {
            core::future::ready(Ok(Response::new(Self(self.0))))
        }
    }

    impl http_body::Body for Flood {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let Some(left) = self.0.checked_sub(1) else { return Poll::Ready(None) };
            self.0 = left;
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[0; 5])))))
        }
    }

    #[tokio::test]
    async fn reports_without_pause_leave_time_to_other_tasks() {
        let count = Cell::new(0_u32);
        let mut grpc = Grpc::new(Flood(1_000));
        let rules = LoadRules { interval: FIRST_PAUSE, metrics: Vec::new() };
        let reading = read_reports(&mut grpc, &rules, |_| count.set(count.get() + 1));
        tokio::select! {
            biased;
            _ = reading => {}
            () = core::future::ready(()) => {}
        }
        assert!(count.get() < 10, "{} reports in one poll", count.get());
    }
}
