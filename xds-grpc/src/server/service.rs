//! The gRPC service: which method is served how, and which is not.

use core::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header::CONTENT_TYPE};
use tonic::{Code, Status, Streaming, body::Body, metadata::MetadataValue};
use xds_core::{server::Via, service::method_at};

use super::{
    inbox::{Call, Inbox, Input},
    peer::Peer,
};
use crate::grpc::RawCodec;

/// All discovery services as one tower service: the aggregated one, and the one of each type.
///
/// It answers by the path of a request, so it fits any server that speaks gRPC; for tonic's there are
/// [routes](super::ManagementServer::routes). Clones are cheap and serve the same resources. Keepalive
/// is then the listener's to set up; see [`Keepalive`](crate::Keepalive) for why it matters.
///
/// A `Fetch` call is answered as soon as there is something to send that is newer than the version that it
/// states; until then it waits, as long as the client does.
#[derive(Clone, Debug)]
pub struct DiscoveryService {
    inbox: Inbox,
    max_request_bytes: usize,
}

impl DiscoveryService {
    pub(crate) fn new(inbox: Inbox, max_request_bytes: usize) -> Self {
        Self { inbox, max_request_bytes }
    }
}

impl<B> tower_service::Service<http::Request<B>> for DiscoveryService
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
        let via = match via(request.uri().path()) {
            Ok(via) => via,
            Err(status) => return Box::pin(core::future::ready(Ok(status.into_http()))),
        };
        if let Some(status) = unknown_encoding(request.headers()) {
            return Box::pin(core::future::ready(Ok(status.into_http())));
        }
        let (peer, metadata) = (Peer::of(&request), request.headers().clone());
        let requests: Streaming<Bytes> = Streaming::new_request(
            RawCodec,
            request.into_body(),
            None,
            Some(self.max_request_bytes),
        );
        let inbox = self.inbox.clone();
        let max_request_bytes = self.max_request_bytes;
        Box::pin(async move {
            let call = Box::new(Call { via, requests, max_request_bytes, peer, metadata });
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

/// Messages are taken as they are: who compresses them is told so, by the status and the header that gRPC has for it.
fn unknown_encoding(headers: &HeaderMap) -> Option<Status> {
    const ENCODING: &str = "grpc-encoding";
    const ACCEPTED: &str = "grpc-accept-encoding";

    let encoding = headers.get(ENCODING).filter(|encoding| *encoding != "identity")?;
    let encoding = String::from_utf8_lossy(encoding.as_bytes());
    let mut status =
        Status::unimplemented(format!("messages compressed with {encoding:?} are not taken"));
    status.metadata_mut().insert(ACCEPTED, MetadataValue::from_static("identity"));
    Some(status)
}

/// How a client that calls the method at `path` wants to be served.
fn via(path: &str) -> Result<Via, Status> {
    let method =
        method_at(path).ok_or_else(|| Status::unimplemented(format!("no such method: {path}")))?;
    Ok(Via::of(method))
}
