//! The discovery services as a tower service.
//!
//! | file | content |
//! |---|---|
//! | `routes.rs` | the methods as tonic routes |
//! | `load_reporting.rs` | the service of load reports |
//! | `rest_bodies.rs` | bodies of REST requests and responses |

pub(crate) mod load_reporting;
#[cfg(feature = "rest")]
pub(crate) mod rest_bodies;
pub(crate) mod routes;

use core::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use http::{HeaderMap, HeaderValue, header::CONTENT_TYPE};
use tonic::{Code, Status, body::Body, metadata::MetadataValue};
use xds_core::{server::StreamKind, service::method_at};

use crate::server::{
    access::peer::Peer,
    calls::message_reader::MessageReader,
    driver::{
        inbox::{Inbox, IncomingCall, Input},
        requests::RequestLimit,
    },
    memory::budgets::TransportBudgets,
};

/// All discovery services as one tower service: the aggregated service (ADS) and the service of
/// each type.
///
/// It dispatches by request path, so it works with any gRPC server; for tonic there are
/// [routes](crate::server::ManagementServer::routes). Clones are cheap and serve the same resources. The
/// gRPC server is responsible for keepalive; see [`Keepalive`](crate::Keepalive).
///
/// A `Fetch` call is answered as soon as there is a response with a newer version than the
/// request's. Until then it waits, for as long as the client does.
#[derive(Clone, Debug)]
pub struct DiscoveryService {
    inbox: Inbox,
    request_limit: RequestLimit,
    budgets: TransportBudgets,
}

impl DiscoveryService {
    pub(crate) fn new(
        inbox: Inbox,
        request_limit: RequestLimit,
        budgets: TransportBudgets,
    ) -> Self {
        Self { inbox, request_limit, budgets }
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
        let peer = Peer::of(&request);
        let (head, body) = request.into_parts();
        let metadata = head.headers;
        let budgets = self.budgets.of_call(&head.extensions);
        let requests = MessageReader::new(body, self.request_limit.bytes, &budgets);
        let inbox = self.inbox.clone();
        let request_limit = self.request_limit.clone();
        Box::pin(async move {
            let responses = budgets.responses;
            let call =
                Box::new(IncomingCall { via, requests, request_limit, responses, peer, metadata });
            let response = match inbox.call(|reply| Input::Accept { call, reply }).await {
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

/// Returns the status for a request with compressed messages, which are not supported.
fn unknown_encoding(headers: &HeaderMap) -> Option<Status> {
    const ENCODING: &str = "grpc-encoding";
    const ACCEPTED: &str = "grpc-accept-encoding";

    let encoding = headers.get(ENCODING).filter(|encoding| *encoding != "identity")?;
    let encoding = String::from_utf8_lossy(encoding.as_bytes());
    let mut status =
        Status::unimplemented(format!("messages compressed with {encoding:?} are not supported"));
    status.metadata_mut().insert(ACCEPTED, MetadataValue::from_static("identity"));
    Some(status)
}

/// Returns the discovery method at `path`, as the core's kind of stream.
fn via(path: &str) -> Result<StreamKind, Status> {
    let method =
        method_at(path).ok_or_else(|| Status::unimplemented(format!("no such method: {path}")))?;
    Ok(StreamKind::of(method))
}
