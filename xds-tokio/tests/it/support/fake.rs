//! Scripted management server.

use core::{
    pin::Pin,
    task::{Context, Poll},
};
use std::{convert::Infallible, net::SocketAddr};

use bytes::Bytes;
use futures_core::Stream;
use prost::Message as _;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::mpsc,
    task::JoinHandle,
};
use tonic::{
    Status, Streaming,
    body::Body,
    codec::{EncodeBody, SingleMessageCompressionOverride},
    transport::server::{Connected, TcpIncoming},
};
use xds_core::proto::{Any, DiscoveryRequest, DiscoveryResponse};
use xds_tokio::RawCodec;

use super::{raw::Receiver, resource, soon};

/// Time at which the server sends response headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Headers {
    AtOnce,
    /// After the first request, as some servers do.
    // SB-19
    AfterFirstRequest,
}

pub(crate) struct FakeServer {
    pub(crate) address: SocketAddr,
    streams: mpsc::UnboundedReceiver<FakeStream>,
    task: JoinHandle<()>,
}

/// One stream of a client.
pub(crate) struct FakeStream {
    /// Headers of the call.
    pub(crate) headers: http::HeaderMap,
    /// URI of the call, with the scheme.
    pub(crate) uri: http::Uri,
    requests: mpsc::UnboundedReceiver<Option<Bytes>>,
    responses: mpsc::UnboundedSender<Result<Bytes, Status>>,
}

impl FakeServer {
    pub(crate) async fn start() -> Self {
        Self::start_with(Headers::AtOnce).await
    }

    pub(crate) async fn start_with(headers: Headers) -> Self {
        Self::start_on(TcpListener::bind("127.0.0.1:0").await.unwrap(), headers)
    }

    pub(crate) fn start_on(listener: TcpListener, headers: Headers) -> Self {
        let address = listener.local_addr().unwrap();
        Self::start_with_incoming(address, TcpIncoming::from(listener), headers)
    }

    /// Starts a server on connections from a stream.
    pub(crate) fn start_with_incoming<IO>(
        address: SocketAddr,
        incoming: impl Stream<Item = std::io::Result<IO>> + Send + 'static,
        headers: Headers,
    ) -> Self
    where
        IO: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
    {
        let (sender, streams) = mpsc::unbounded_channel();
        let service = FakeAds { streams: sender, headers };
        let task = tokio::spawn(async move {
            tonic::transport::Server::builder()
                .serve_with_incoming(service, incoming)
                .await
                .unwrap();
        });
        Self { address, streams, task }
    }

    pub(crate) async fn stream(&mut self) -> FakeStream {
        soon(self.streams.recv()).await.expect("the server runs")
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl FakeStream {
    pub(crate) async fn request(&mut self) -> DiscoveryRequest {
        DiscoveryRequest::decode(self.message().await).unwrap()
    }

    /// Returns the next encoded request of either variant.
    pub(crate) async fn message(&mut self) -> Bytes {
        soon(self.requests.recv()).await.flatten().expect("the stream is open")
    }

    /// Returns a request that has already arrived.
    pub(crate) fn request_now(&mut self) -> Option<DiscoveryRequest> {
        let request = self.requests.try_recv().ok()??;
        Some(DiscoveryRequest::decode(request).unwrap())
    }

    /// Waits until the client ends the stream.
    pub(crate) async fn end(&mut self) {
        while soon(self.requests.recv()).await.flatten().is_some() {}
    }

    pub(crate) fn respond(
        &self,
        type_url: &str,
        version: &str,
        nonce: &str,
        resources: &[(&str, &str)],
    ) {
        let resources = resources.iter().map(|(name, content)| Any {
            type_url: type_url.into(),
            value: resource(name, content),
        });
        let response = DiscoveryResponse {
            version_info: version.into(),
            resources: resources.collect(),
            type_url: type_url.into(),
            nonce: nonce.into(),
            ..Default::default()
        };
        self.send(response.encode_to_vec().into());
    }

    pub(crate) fn send(&self, message: Bytes) {
        self.responses.send(Ok(message)).unwrap();
    }

    pub(crate) fn close(self, status: Status) {
        let _ = self.responses.send(Err(status));
    }
}

#[derive(Clone)]
struct FakeAds {
    streams: mpsc::UnboundedSender<FakeStream>,
    headers: Headers,
}

impl tower_service::Service<http::Request<Body>> for FakeAds {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: http::Request<Body>) -> Self::Future {
        let Self { streams, headers } = self.clone();
        Box::pin(async move {
            assert!(call.uri().path().starts_with("/envoy.service."), "{}", call.uri());
            let (call_headers, uri) = (call.headers().clone(), call.uri().clone());
            let mut incoming =
                Streaming::new_request(RawCodec, call.into_body(), None, Some(1 << 30));
            let (request_sender, requests) = mpsc::unbounded_channel();
            let (responses, outgoing) = mpsc::unbounded_channel();
            if headers == Headers::AfterFirstRequest
                && let Ok(Some(first)) = incoming.message().await
            {
                let _ = request_sender.send(Some(first));
            }
            let _ = streams.send(FakeStream { headers: call_headers, uri, requests, responses });
            tokio::spawn(async move {
                while let Ok(Some(request)) = incoming.message().await {
                    if request_sender.send(Some(request)).is_err() {
                        return;
                    }
                }
                let _ = request_sender.send(None);
            });
            let body = EncodeBody::new_server(
                RawCodec,
                Receiver(outgoing),
                None,
                SingleMessageCompressionOverride::default(),
                None,
            );
            let response = http::Response::builder()
                .header("content-type", "application/grpc")
                .body(Body::new(body))
                .unwrap();
            Ok(response)
        })
    }
}
