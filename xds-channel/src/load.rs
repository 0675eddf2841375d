//! Streams of load reports of endpoints ([gRFC A51]).
//!
//! [gRFC A51]: https://github.com/grpc/proposal/blob/master/A51-custom-backend-metrics.md

use core::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, Uri, uri::PathAndQuery};
use hyper::{body::Incoming, client::conn::http2::SendRequest, rt::Timer as _};
use tonic::{Code, Status, body::Body, client::Grpc};
use tower_service::Service;
use xds_grpc::{
    RawCodec,
    runtime::{SharedRuntime, Task},
};
use xds_routing::balancer::LoadReport;

use crate::endpoint::EndpointConnection;

/// Pause after a stream that ended without a report. It doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(120);

/// Starts a stream of load reports, and another one when it ends. An endpoint without the service is
/// asked once.
pub(crate) fn watch_load(
    runtime: &SharedRuntime,
    connection: &EndpointConnection,
    host: &Arc<str>,
    interval: Duration,
    report: impl Fn(LoadReport) + Send + Sync + 'static,
) -> Task {
    let origin = format!("{}://{host}", connection.scheme);
    let (requests, address) = (connection.requests.clone(), Arc::clone(&connection.address));
    let timer = runtime.clone();
    runtime.start(async move {
        let Ok(origin) = Uri::try_from(origin) else { return };
        let mut grpc = Grpc::with_origin(Requests(requests), origin);
        let mut pause = FIRST_PAUSE;
        loop {
            let ended = read_reports(&mut grpc, interval, |load| {
                pause = FIRST_PAUSE;
                report(load);
            });
            if let Err(status) = ended.await {
                tracing::debug!(%address, %status, "no load reports of an endpoint");
                if status.code() == Code::Unimplemented {
                    return;
                }
            }
            timer.sleep(pause).await;
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        }
    })
}

/// Reads the reports of one stream, until it ends.
async fn read_reports(
    grpc: &mut Grpc<Requests>,
    interval: Duration,
    mut report: impl FnMut(LoadReport),
) -> Result<(), Status> {
    grpc.ready().await.map_err(|why| Status::unavailable(why.to_string()))?;
    let request = tonic::Request::new(Bytes::from(LoadReport::request(interval)));
    let path = PathAndQuery::from_static(LoadReport::METHOD);
    let mut reports = grpc.server_streaming(request, path, RawCodec).await?.into_inner();
    while let Some(bytes) = reports.message().await? {
        let load = LoadReport::from_bytes(&bytes);
        report(load.ok_or_else(|| Status::internal("malformed load report"))?);
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
