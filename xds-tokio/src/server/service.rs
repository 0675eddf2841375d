//! The gRPC service: which method is served how, and which is not.

use core::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, header::CONTENT_TYPE};
use tonic::{
    Code, Status, Streaming, body::Body, server::NamedService, transport::server::TcpConnectInfo,
};
use xds_core::service::Variant;

use super::inbox::{Call, Inbox, Input};
use crate::grpc::{ADS_SERVICE, DELTA_AGGREGATED_RESOURCES, RawCodec, STREAM_AGGREGATED_RESOURCES};

/// The aggregated discovery service as a tower service, to be added to a gRPC server of one's own:
/// with tonic, by `Server::builder().add_service(management_server.service())`.
///
/// Clones are cheap and serve the same resources. Keepalive is then the listener's to set up; see
/// [`Keepalive`](crate::Keepalive) for why it matters.
#[derive(Clone, Debug)]
pub struct AdsService {
    inbox: Inbox,
    max_request_bytes: usize,
}

impl AdsService {
    pub(crate) fn new(inbox: Inbox, max_request_bytes: usize) -> Self {
        Self { inbox, max_request_bytes }
    }
}

impl NamedService for AdsService {
    const NAME: &'static str = ADS_SERVICE;
}

impl<B> tower_service::Service<http::Request<B>> for AdsService
where
    B: http_body::Body<Data: Send> + Send + 'static,
    B::Error: Into<Box<dyn core::error::Error + Send + Sync>>,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let variant = match request.uri().path() {
            STREAM_AGGREGATED_RESOURCES => Variant::StateOfTheWorld,
            DELTA_AGGREGATED_RESOURCES => {
                return refuse(Status::unimplemented(
                    "the incremental variant is not served yet: call StreamAggregatedResources",
                ));
            }
            path => return refuse(Status::unimplemented(format!("no such method: {path}"))),
        };
        let peer =
            request.extensions().get::<TcpConnectInfo>().and_then(TcpConnectInfo::remote_addr);
        let requests: Streaming<Bytes> = Streaming::new_request(
            RawCodec,
            request.into_body(),
            None,
            Some(self.max_request_bytes),
        );
        let inbox = self.inbox.clone();
        let max_request_bytes = self.max_request_bytes;
        Box::pin(async move {
            let call = Box::new(Call { variant, requests, max_request_bytes, peer });
            let response = match inbox.ask(|answer| Input::Accept { call, answer }).await {
                Some(Ok(body)) => {
                    let mut response = http::Response::new(Body::new(body));
                    let grpc = HeaderValue::from_static("application/grpc");
                    response.headers_mut().insert(CONTENT_TYPE, grpc);
                    response
                }
                Some(Err(refusal)) => {
                    let code = Code::from_i32(refusal.code().as_i32());
                    Status::new(code, refusal.to_string()).into_http()
                }
                None => Status::unavailable("the server is shutting down").into_http(),
            };
            Ok(response)
        })
    }
}

fn refuse(
    status: Status,
) -> Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>> {
    Box::pin(core::future::ready(Ok(status.into_http())))
}
