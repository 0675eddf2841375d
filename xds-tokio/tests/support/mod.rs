//! A management server whose every move a test makes, and short words for clients and resources.

// Each test binary uses its own part of this.
#![allow(dead_code)]

pub(crate) mod log;
mod raw;
pub(crate) mod server;
pub(crate) mod tls;

use core::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use std::{convert::Infallible, net::SocketAddr};

use bytes::Bytes;
use futures_core::Stream;
use prost::Message as _;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpSocket},
    sync::mpsc,
    task::JoinHandle,
    time::timeout,
};
use tonic::{
    Request, Status, Streaming,
    body::Body,
    codec::{EncodeBody, SingleMessageCompressionOverride},
    transport::{
        Channel, Endpoint,
        server::{Connected, TcpIncoming},
    },
};
use xds_core::{
    client::{
        BackoffPolicy, Change, ClientConfig, Context as TypeContext, InvalidWatch,
        ManagementServer, Node, Notice, OpaqueType, Profile, Rejection, Resource, ResourceType,
        Value, WatchError,
    },
    proto::{
        Any, DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
    },
    types,
};
use xds_tokio::{Watch, WatchAll};

use self::raw::Raw;

pub(crate) const CLUSTER: &str = types::CLUSTER;
pub(crate) const ENDPOINTS: &str = types::CLUSTER_LOAD_ASSIGNMENT;
pub(crate) const SECRET: &str = types::SECRET;

/// Longer than anything here takes, on the slowest machine; only a failing test waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Fails the test rather than hang it.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("this should have happened by now")
}

// Clients.

/// A client of the server at `address` that comes back within milliseconds.
pub(crate) fn config(address: SocketAddr) -> ClientConfig {
    let mut profile = Profile::grpc();
    profile.backoff = BackoffPolicy::grpc();
    profile.backoff.initial = Duration::from_millis(20);
    profile.backoff.max = Duration::from_millis(100);
    ClientConfig::new(Node::new("node-1"), ManagementServer::new(address.to_string()))
        .with_profile(profile)
        .with_type(NoBadOnes(OpaqueType::new(CLUSTER)))
        .with_type(OpaqueType::new(ENDPOINTS))
        .with_type(OpaqueType::new(SECRET))
}

/// A type whose resources are bad if they contain the word.
#[derive(Debug)]
struct NoBadOnes(OpaqueType);

impl ResourceType for NoBadOnes {
    fn type_url(&self) -> &xds_core::TypeUrl {
        self.0.type_url()
    }

    fn validate(&self, bytes: &Bytes, _: &TypeContext<'_>) -> Result<Option<Value>, Rejection> {
        if bytes.windows(3).any(|word| word == b"bad") {
            return Err(Rejection::new("it is bad"));
        }
        Ok(None)
    }
}

/// An encoded resource: its name in the first field, `content` in the second.
pub(crate) fn resource(name: &str, content: &str) -> Bytes {
    xds_core::proto::ResourceName { name: name.into(), ..Default::default() }
        .encode_to_vec()
        .into_iter()
        .chain(
            xds_core::proto::Status { message: content.into(), ..Default::default() }
                .encode_to_vec(),
        )
        .collect::<Vec<u8>>()
        .into()
}

pub(crate) async fn next(watch: &mut Watch) -> Notice {
    soon(watch.next()).await.expect("the client lives").expect("the watch is sound")
}

pub(crate) async fn value(watch: &mut Watch) -> Resource {
    match next(watch).await {
        Notice::Changed(Ok(resource)) => resource,
        other => panic!("no value but {other:?}"),
    }
}

pub(crate) async fn no_value(watch: &mut Watch) -> WatchError {
    match next(watch).await {
        Notice::Changed(Err(error)) => error,
        other => panic!("no error but {other:?}"),
    }
}

pub(crate) async fn next_change(watch: &mut WatchAll) -> Change {
    let change: Option<Result<Change, InvalidWatch>> = soon(watch.next()).await;
    change.expect("the client lives").expect("the watch is sound")
}

/// An address that refuses connections, and is nobody else's as long as this lives.
pub(crate) struct Deaf(TcpSocket);

impl Deaf {
    pub(crate) fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        Self(socket)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    /// From now on connections are taken.
    pub(crate) fn listen(self) -> TcpListener {
        self.0.listen(16).unwrap()
    }
}

// A server.

/// What the server does before it sends response headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Headers {
    AtOnce,
    /// Waits for a request, as some servers do (SB-19).
    AfterFirstRequest,
}

pub(crate) struct FakeServer {
    pub(crate) address: SocketAddr,
    streams: mpsc::UnboundedReceiver<FakeStream>,
    task: JoinHandle<()>,
}

/// One stream of a client.
pub(crate) struct FakeStream {
    /// What the call carries.
    pub(crate) headers: http::HeaderMap,
    /// What it is addressed to, with the scheme.
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

    /// A server of connections that are made elsewhere.
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

    /// A request as it arrived, of whichever variant.
    pub(crate) async fn message(&mut self) -> Bytes {
        soon(self.requests.recv()).await.flatten().expect("the stream is open")
    }

    /// A request that is there already.
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
            let mut incoming = Streaming::new_request(Raw, call.into_body(), None, Some(1 << 30));
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
                Raw,
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

// A client without any protocol of its own.

/// One stream to a server.
pub(crate) struct RawClient {
    requests: Option<mpsc::UnboundedSender<Result<Bytes, Status>>>,
    responses: Streaming<Bytes>,
}

impl RawClient {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        Self::call(address, AGGREGATED).await.unwrap()
    }

    pub(crate) async fn call(address: SocketAddr, path: &'static str) -> Result<Self, Status> {
        Self::call_on(connect(address).await, path).await
    }

    pub(crate) async fn call_on(channel: Channel, path: &'static str) -> Result<Self, Status> {
        let (requests, queue) = mpsc::unbounded_channel();
        Self::call_with(channel, path, Some(requests), Request::new(queue)).await
    }

    /// A call that carries this.
    pub(crate) async fn call_as(
        address: SocketAddr,
        path: &'static str,
        authorization: &'static str,
    ) -> Result<Self, Status> {
        let (requests, queue) = mpsc::unbounded_channel();
        let mut queue = Request::new(queue);
        queue.metadata_mut().insert("authorization", authorization.parse().unwrap());
        Self::call_with(connect(address).await, path, Some(requests), queue).await
    }

    /// A call whose messages are said to be encoded like that.
    pub(crate) async fn call_encoded(
        address: SocketAddr,
        path: &'static str,
        encoding: &'static str,
    ) -> Result<Self, Status> {
        let (requests, queue) = mpsc::unbounded_channel();
        let mut queue = Request::new(queue);
        queue.metadata_mut().insert("grpc-encoding", encoding.parse().unwrap());
        Self::call_with(connect(address).await, path, Some(requests), queue).await
    }

    /// A call with one request and no more, which is what a unary call is.
    pub(crate) async fn ask(
        address: SocketAddr,
        path: &'static str,
        request: impl Into<Bytes>,
    ) -> Result<Self, Status> {
        let (requests, queue) = mpsc::unbounded_channel();
        requests.send(Ok(request.into())).unwrap();
        drop(requests);
        Self::call_with(connect(address).await, path, None, Request::new(queue)).await
    }

    async fn call_with(
        channel: Channel,
        path: &'static str,
        requests: Option<mpsc::UnboundedSender<Result<Bytes, Status>>>,
        queue: Request<mpsc::UnboundedReceiver<Result<Bytes, Status>>>,
    ) -> Result<Self, Status> {
        let mut grpc = tonic::client::Grpc::new(channel).max_decoding_message_size(1 << 30);
        soon(grpc.ready()).await.unwrap();
        let queue = queue.map(|queue| Unfailing(Receiver(queue)));
        let path = http::uri::PathAndQuery::from_static(path);
        let responses = soon(grpc.streaming(queue, path, Raw)).await?.into_inner();
        Ok(Self { requests, responses })
    }

    pub(crate) fn send(&self, message: impl Into<Bytes>) {
        self.requests.as_ref().unwrap().send(Ok(message.into())).unwrap();
    }

    /// Subscribes: the first request of a type, with the node.
    pub(crate) fn subscribe(&self, type_url: &str, names: &[&str]) {
        self.subscribe_as("raw", type_url, names);
    }

    /// The same with a node of its own.
    pub(crate) fn subscribe_as(&self, node: &str, type_url: &str, names: &[&str]) {
        let request = DiscoveryRequest {
            node: Some(xds_core::proto::Node { id: node.into(), ..Default::default() }),
            type_url: type_url.into(),
            resource_names: names.iter().map(|&name| name.into()).collect(),
            ..Default::default()
        };
        self.send(request.encode_to_vec());
    }

    /// The same in the incremental variant.
    pub(crate) fn subscribe_delta(&self, type_url: &str, names: &[&str]) {
        let request = DeltaDiscoveryRequest {
            node: Some(xds_core::proto::Node { id: "raw".into(), ..Default::default() }),
            type_url: type_url.into(),
            resource_names_subscribe: names.iter().map(|&name| name.into()).collect(),
            ..Default::default()
        };
        self.send(request.encode_to_vec());
    }

    /// Accepts a response, or rejects it with a message.
    pub(crate) fn answer(&self, response: &DiscoveryResponse, names: &[&str], error: Option<&str>) {
        let request = DiscoveryRequest {
            version_info: response.version_info.clone(),
            type_url: response.type_url.clone(),
            response_nonce: response.nonce.clone(),
            resource_names: names.iter().map(|&name| name.into()).collect(),
            error_detail: error.map(|message| xds_core::proto::Status {
                code: 3,
                message: message.into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        self.send(request.encode_to_vec());
    }

    /// Says that no more requests come.
    pub(crate) fn half_close(&mut self) {
        self.requests = None;
    }

    pub(crate) async fn message(&mut self) -> Bytes {
        soon(self.responses.message()).await.unwrap().expect("the stream is open")
    }

    /// The next message, or the status that the stream ends with instead.
    pub(crate) async fn message_or_end(&mut self) -> Result<Bytes, Status> {
        Ok(soon(self.responses.message()).await?.expect("the stream is open, or has failed"))
    }

    pub(crate) async fn response(&mut self) -> DiscoveryResponse {
        DiscoveryResponse::decode(self.message().await).unwrap()
    }

    pub(crate) async fn delta_response(&mut self) -> DeltaDiscoveryResponse {
        DeltaDiscoveryResponse::decode(self.message().await).unwrap()
    }

    /// Accepts an incremental response.
    pub(crate) fn ack_delta(&self, response: &DeltaDiscoveryResponse) {
        let request = DeltaDiscoveryRequest {
            type_url: response.type_url.clone(),
            response_nonce: response.nonce.clone(),
            ..Default::default()
        };
        self.send(request.encode_to_vec());
    }

    /// The status the stream ends with.
    pub(crate) async fn end(&mut self) -> Status {
        loop {
            match soon(self.responses.message()).await {
                Ok(Some(_)) => {}
                Ok(None) => return Status::ok(""),
                Err(status) => return status,
            }
        }
    }
}

pub(crate) const AGGREGATED: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";

pub(crate) const DELTA_AGGREGATED: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";

pub(crate) async fn connect(address: SocketAddr) -> Channel {
    soon(Endpoint::from_shared(format!("http://{address}")).unwrap().connect()).await.unwrap()
}

/// The names of a response's resources.
pub(crate) fn names(response: &DiscoveryResponse) -> Vec<String> {
    let any_type = OpaqueType::new(CLUSTER);
    let name = |any: &Any| any_type.name(&any.value).unwrap().to_owned();
    response.resources.iter().map(name).collect()
}

struct Unfailing(Receiver);

impl Stream for Unfailing {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        Pin::new(&mut self.0).poll_next(cx).map(|next| next.and_then(Result::ok))
    }
}

struct Receiver(mpsc::UnboundedReceiver<Result<Bytes, Status>>);

impl Stream for Receiver {
    type Item = Result<Bytes, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx)
    }
}

/// Lets every other task of a current-thread runtime have a turn.
pub(crate) async fn give_way() {
    for _ in 0..100 {
        let mut yielded = false;
        poll_fn(|cx| {
            if core::mem::replace(&mut yielded, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}
