//! Server and client of a stream of raw frames over gRPC. The server sends given frames; the client
//! has no protocol logic.

#![allow(dead_code, reason = "every benchmark uses a part")]

use core::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};
use std::net::SocketAddr;

use bytes::Bytes;
use futures_core::Stream;
use prost::Message as _;
use tokio::{net::TcpListener, sync::mpsc, task::JoinHandle};
use tonic::{
    Request, Status, Streaming,
    body::Body,
    codec::{EncodeBody, SingleMessageCompressionOverride},
    transport::{Channel, Endpoint, Server, server::TcpIncoming},
};
use xds_core::proto::DiscoveryRequest;
use xds_tokio::RawCodec;

const AGGREGATED: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
pub(crate) const DELTA_AGGREGATED: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
/// Maximum length of a frame in bytes; longer than any frame here.
const MAX_FRAME: usize = 1 << 30;

pub(crate) struct FrameServer {
    pub(crate) address: SocketAddr,
    streams: mpsc::UnboundedReceiver<FrameStream>,
    task: JoinHandle<()>,
}

/// Stream of a client, on the server's side.
pub(crate) struct FrameStream {
    requests: mpsc::UnboundedReceiver<Bytes>,
    responses: mpsc::UnboundedSender<Bytes>,
}

impl FrameServer {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (sender, streams) = mpsc::unbounded_channel();
        let serve = Server::builder()
            .serve_with_incoming(Service { streams: sender }, TcpIncoming::from(listener));
        let task = tokio::spawn(async move { serve.await.expect("a server without an end") });
        Self { address, streams, task }
    }

    pub(crate) async fn stream(&mut self) -> FrameStream {
        self.streams.recv().await.expect("the server runs")
    }
}

impl Drop for FrameServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl FrameStream {
    pub(crate) async fn request(&mut self) -> DiscoveryRequest {
        DiscoveryRequest::decode(self.request_bytes().await).expect("a request")
    }

    pub(crate) async fn request_bytes(&mut self) -> Bytes {
        self.requests.recv().await.expect("an open stream")
    }

    pub(crate) fn send(&self, frame: Bytes) {
        self.responses.send(frame).expect("an open stream");
    }
}

#[derive(Clone)]
struct Service {
    streams: mpsc::UnboundedSender<FrameStream>,
}

impl tower_service::Service<http::Request<Body>> for Service {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = core::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: http::Request<Body>) -> Self::Future {
        let mut incoming =
            Streaming::new_request(RawCodec, call.into_body(), None, Some(MAX_FRAME));
        let (sender, requests) = mpsc::unbounded_channel();
        // Always reads, so that no client is blocked.
        tokio::spawn(async move {
            while let Ok(Some(request)) = incoming.message().await {
                if sender.send(request).is_err() {
                    return;
                }
            }
        });
        let (responses, outgoing) = mpsc::unbounded_channel();
        // An error means that the server has ended.
        let _ = self.streams.send(FrameStream { requests, responses });
        let no_override = SingleMessageCompressionOverride::default();
        let body = EncodeBody::new_server(RawCodec, Unfailing(outgoing), None, no_override, None);
        let mut response = http::Response::new(Body::new(body));
        let grpc = http::HeaderValue::from_static("application/grpc");
        response.headers_mut().insert(http::header::CONTENT_TYPE, grpc);
        core::future::ready(Ok(response))
    }
}

pub(crate) struct FrameClient {
    requests: mpsc::UnboundedSender<Bytes>,
    responses: Streaming<Bytes>,
}

impl FrameClient {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
        let channel = endpoint.connect().await.expect("the server runs");
        let (requests, queue) = mpsc::unbounded_channel();
        Self::stream(channel, AGGREGATED, requests, queue).await
    }

    /// Opens a stream on a shared connection, with its first request.
    pub(crate) async fn call(channel: Channel, method: &'static str, first: Bytes) -> Self {
        let (requests, queue) = mpsc::unbounded_channel();
        requests.send(first).expect("an open stream");
        Self::stream(channel, method, requests, queue).await
    }

    async fn stream(
        channel: Channel,
        method: &'static str,
        requests: mpsc::UnboundedSender<Bytes>,
        queue: mpsc::UnboundedReceiver<Bytes>,
    ) -> Self {
        let mut grpc = tonic::client::Grpc::new(channel).max_decoding_message_size(MAX_FRAME);
        grpc.ready().await.expect("the server runs");
        let path = http::uri::PathAndQuery::from_static(method);
        let call = grpc.streaming(Request::new(Queue(queue)), path, RawCodec).await;
        Self { requests, responses: call.expect("a sound call").into_inner() }
    }

    pub(crate) fn send(&self, request: &DiscoveryRequest) {
        self.send_bytes(request.encode_to_vec().into());
    }

    pub(crate) fn send_bytes(&self, request: Bytes) {
        self.requests.send(request).expect("an open stream");
    }

    pub(crate) async fn frame(&mut self) -> Bytes {
        self.responses.message().await.expect("a sound stream").expect("an open stream")
    }
}

struct Queue(mpsc::UnboundedReceiver<Bytes>);

impl Stream for Queue {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.0.poll_recv(cx)
    }
}

/// Queue of responses as a fallible stream, which a response body needs.
struct Unfailing(mpsc::UnboundedReceiver<Bytes>);

impl Stream for Unfailing {
    type Item = Result<Bytes, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|next| next.map(Ok))
    }
}
