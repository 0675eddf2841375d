//! Service of load reports.

use core::{
    convert::Infallible,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use http::HeaderMap;
use tokio::select;
use tonic::{
    Code, Request, Response, Status, Streaming,
    body::Body,
    server::{Grpc, NamedService, StreamingService},
};
use xds_core::load_reports::{LoadReportStream, LoadStreamEvent, METHOD, ReportingClient, SERVICE};

use crate::{
    codec::RawCodec,
    guard::caught_future,
    runtime::{BoxFuture, SharedRuntime, yield_now},
    server::{
        access::{
            authorize::{AuthorizationRequest, SharedAuthorizer},
            peer::Peer,
        },
        calls::timed_requests::{RequestCount, time_requests},
        driver::inbox::Inbox,
        load_reports::{LoadCollector, OpenStream},
        memory::budgets::TransportBudgets,
    },
};

/// Service `envoy.service.load_stats.v3.LoadReportingService` of a management server, as a tower
/// service.
///
/// Clients are admitted by the [authorizer](crate::server::ServerOptions::with_authorizer) of the
/// server. The limits for the [size](crate::server::ServerOptions::max_request_bytes) and the
/// [time](crate::server::ServerOptions::with_request_timeout) of requests apply, and the budgets of
/// incomplete requests.
#[derive(Clone, Debug)]
pub struct LoadReportingService {
    pub(crate) collector: LoadCollector,
    pub(crate) authorizer: Option<SharedAuthorizer>,
    pub(crate) max_request_bytes: usize,
    pub(crate) budgets: TransportBudgets,
    pub(crate) runtime: SharedRuntime,
    pub(crate) inbox: Inbox,
}

impl NamedService for LoadReportingService {
    const NAME: &'static str = SERVICE;
}

impl<B> tower_service::Service<http::Request<B>> for LoadReportingService
where
    B: http_body::Body<Data: Send> + Send + 'static,
    B::Error: Into<Box<dyn core::error::Error + Send + Sync>>,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let path = request.uri().path();
        if path != METHOD {
            let status = Status::unimplemented(format!("no such method: {path}"));
            return Box::pin(core::future::ready(Ok(status.into_http())));
        }
        let call = LoadReportCall {
            peer: Peer::of(&request),
            metadata: request.headers().clone(),
            service: self.clone(),
        };
        let Self { max_request_bytes, budgets, runtime, .. } = self;
        let (count, limit) = (RequestCount::Many, *max_request_bytes);
        let request = time_requests(request, count, limit, budgets, runtime);
        let mut grpc = Grpc::new(RawCodec).apply_max_message_size_config(Some(limit), None);
        Box::pin(async move { Ok(grpc.streaming(call, request).await) })
    }
}

/// Call of the method.
struct LoadReportCall {
    peer: Peer,
    metadata: HeaderMap,
    service: LoadReportingService,
}

impl StreamingService<Bytes> for LoadReportCall {
    type Response = Bytes;
    type ResponseStream = BoxStream<'static, Result<Bytes, Status>>;
    type Future = BoxFuture<'static, Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        let state = CallState {
            requests: Some(request.into_inner()),
            stream: LoadReportStream::new(self.service.collector.request.clone()),
            service: self.service.clone(),
            peer: self.peer.clone(),
            metadata: core::mem::take(&mut self.metadata),
            counted: None,
        };
        let responses = stream::unfold(state, CallState::next).boxed();
        Box::pin(core::future::ready(Ok(Response::new(responses))))
    }
}

/// State of a call.
struct CallState {
    /// `None` after an error.
    requests: Option<Streaming<Bytes>>,
    stream: LoadReportStream,
    service: LoadReportingService,
    peer: Peer,
    metadata: HeaderMap,
    /// Set when the client is admitted.
    counted: Option<OpenStream>,
}

impl CallState {
    /// Returns the next response, after an error the status, and then `None`.
    async fn next(mut self) -> Option<(Result<Bytes, Status>, Self)> {
        let mut requests = self.requests.take()?;
        match self.read(&mut requests).await {
            Ok(Some(response)) => {
                self.requests = Some(requests);
                Some((Ok(response), self))
            }
            Ok(None) => None,
            Err(status) => Some((Err(status), self)),
        }
    }

    /// Reads requests until there is a response. Returns `None` when the client has ended the call.
    async fn read(&mut self, requests: &mut Streaming<Bytes>) -> Result<Option<Bytes>, Status> {
        loop {
            let request = select! {
                biased;
                () = self.service.inbox.ended() => {
                    return Err(Status::unavailable("the server is shutting down"));
                }
                request = requests.message() => request?,
            };
            let Some(request) = request else { return Ok(None) };
            let event = self
                .stream
                .handle_request(&request)
                .map_err(|why| Status::new(Code::from_i32(why.code().as_i32()), why.to_string()))?;
            let Some(client) = self.stream.client().cloned() else { continue };
            match event {
                LoadStreamEvent::Opened(response) => {
                    self.admit(client).await?;
                    self.counted = Some(self.service.collector.open_stream());
                    return Ok(Some(Bytes::from(response)));
                }
                LoadStreamEvent::Report(clusters) => {
                    self.service.collector.add(&client, &clusters);
                    // A client may send without pause.
                    yield_now().await;
                }
            }
        }
    }

    /// Asks the authorizer of the server about the client.
    async fn admit(&mut self, client: ReportingClient) -> Result<(), Status> {
        let Some(authorizer) = &self.service.authorizer else { return Ok(()) };
        let request = AuthorizationRequest {
            stream: None,
            node_id: client.node_id,
            encoded_node: client.encoded_node,
            peer: self.peer.clone(),
            metadata: core::mem::take(&mut self.metadata),
        };
        match caught_future(|| authorizer.0.authorize(request)).await {
            Some(Ok(_)) => Ok(()),
            Some(Err(denied)) => {
                Err(Status::new(Code::from_i32(denied.code.as_i32()), &*denied.message))
            }
            None => Err(Status::internal("the authorizer failed")),
        }
    }
}
