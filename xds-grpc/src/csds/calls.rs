//! The unary and the streaming gRPC method of the service.

use core::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_core::Stream;
use prost::Message as _;
use tonic::{
    Request, Response, Status, Streaming,
    body::Body,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    server::{Grpc, StreamingService, UnaryService},
};
use xds_core::proto::{ClientStatusRequest, ClientStatusResponse};

use crate::{
    grpc::{FETCH_CLIENT_STATUS, STREAM_CLIENT_STATUS},
    runtime::BoxFuture,
};

/// Implementation of the service that answers one request.
pub(super) trait StatusHandler: Clone + Send + Sync + Unpin + 'static {
    fn handle(
        &self,
        request: ClientStatusRequest,
    ) -> impl Future<Output = Result<Response<ClientStatusResponse>, Status>> + Send;
}

/// Serves a call of one of the methods.
pub(super) fn serve<A, B>(
    handler: A,
    request: http::Request<B>,
) -> BoxFuture<'static, Result<http::Response<Body>, Infallible>>
where
    A: StatusHandler,
    B: http_body::Body<Data: Send> + Send + 'static,
    B::Error: Into<Box<dyn core::error::Error + Send + Sync>> + Send,
{
    let method = MethodAdapter(handler);
    let mut grpc = Grpc::new(StatusCodec).apply_max_message_size_config(Some(MAX_REQUEST), None);
    match request.uri().path() {
        FETCH_CLIENT_STATUS => Box::pin(async move { Ok(grpc.unary(method, request).await) }),
        STREAM_CLIENT_STATUS => Box::pin(async move { Ok(grpc.streaming(method, request).await) }),
        path => {
            let refusal = Status::unimplemented(format!("no such method: {path}"));
            Box::pin(core::future::ready(Ok(refusal.into_http())))
        }
    }
}

/// Maximum size of a request in bytes.
pub(super) const MAX_REQUEST: usize = 64 << 10;

/// tonic adapter for the methods.
struct MethodAdapter<A>(A);

impl<A: StatusHandler> UnaryService<ClientStatusRequest> for MethodAdapter<A> {
    type Response = ClientStatusResponse;
    type Future = BoxFuture<'static, Result<Response<ClientStatusResponse>, Status>>;

    fn call(&mut self, request: Request<ClientStatusRequest>) -> Self::Future {
        let handler = self.0.clone();
        Box::pin(async move { handler.handle(request.into_inner()).await })
    }
}

impl<A: StatusHandler> StreamingService<ClientStatusRequest> for MethodAdapter<A> {
    type Response = ClientStatusResponse;
    type ResponseStream = ResponseStream<A>;
    type Future = core::future::Ready<Result<Response<ResponseStream<A>>, Status>>;

    fn call(&mut self, requests: Request<Streaming<ClientStatusRequest>>) -> Self::Future {
        let (handler, requests) = (self.0.clone(), requests.into_inner());
        core::future::ready(Ok(Response::new(ResponseStream { handler, requests, next: None })))
    }
}

/// Response stream with one response per request. The next request is read only after the transport
/// has taken the response, so a caller that does not read blocks only itself.
struct ResponseStream<A> {
    handler: A,
    requests: Streaming<ClientStatusRequest>,
    next: Option<BoxFuture<'static, Result<ClientStatusResponse, Status>>>,
}

impl<A: StatusHandler> Stream for ResponseStream<A> {
    type Item = Result<ClientStatusResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(next) = &mut self.next {
                let answer = ready!(next.as_mut().poll(cx));
                self.next = None;
                return Poll::Ready(Some(answer));
            }
            match ready!(Pin::new(&mut self.requests).poll_next(cx)) {
                Some(Ok(request)) => {
                    let handler = self.handler.clone();
                    // The metadata of a stream precedes its first response.
                    self.next = Some(Box::pin(async move {
                        handler.handle(request).await.map(Response::into_inner)
                    }));
                }
                Some(Err(status)) => return Poll::Ready(Some(Err(status))),
                None => return Poll::Ready(None),
            }
        }
    }
}

/// Codec that encodes into the transport's buffer.
#[derive(Clone, Copy, Debug)]
struct StatusCodec;

impl Codec for StatusCodec {
    type Encode = ClientStatusResponse;
    type Decode = ClientStatusRequest;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for StatusCodec {
    type Item = ClientStatusResponse;
    type Error = Status;

    fn encode(&mut self, answer: Self::Item, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        // The buffer grows, so this fails only for messages that gRPC cannot carry.
        answer.encode(out).map_err(|why| Status::resource_exhausted(why.to_string()))
    }
}

impl Decoder for StatusCodec {
    type Item = ClientStatusRequest;
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Status> {
        ClientStatusRequest::decode(message)
            .map(Some)
            .map_err(|why| Status::invalid_argument(format!("not a ClientStatusRequest: {why}")))
    }
}
