//! Client that sends and receives raw messages.

use core::{
    pin::Pin,
    task::{Context, Poll},
};
use std::net::SocketAddr;

use bytes::Bytes;
use futures_core::Stream;
use prost::Message as _;
use tokio::sync::mpsc;
use tonic::{
    Request, Status, Streaming,
    transport::{Channel, Endpoint},
};
use xds_core::proto::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use xds_tokio::RawCodec;

use super::{raw::Receiver, soon};

pub(crate) const AGGREGATED: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";

pub(crate) const DELTA_AGGREGATED: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";

pub(crate) async fn connect(address: SocketAddr) -> Channel {
    soon(Endpoint::from_shared(format!("http://{address}")).unwrap().connect()).await.unwrap()
}

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

    /// Makes a call with an `authorization` header.
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

    /// Makes a call with a `grpc-encoding` header.
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

    /// Makes a call with one request and half-closes, like a unary call.
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
        let responses = soon(grpc.streaming(queue, path, RawCodec)).await?.into_inner();
        Ok(Self { requests, responses })
    }

    pub(crate) fn send(&self, message: impl Into<Bytes>) {
        self.requests.as_ref().unwrap().send(Ok(message.into())).unwrap();
    }

    /// Sends the first request of a type, with the node.
    pub(crate) fn subscribe(&self, type_url: &str, names: &[&str]) {
        self.subscribe_as("raw", type_url, names);
    }

    /// Sends the first request of a type, with this node id.
    pub(crate) fn subscribe_as(&self, node: &str, type_url: &str, names: &[&str]) {
        let request = DiscoveryRequest {
            node: Some(xds_core::proto::Node { id: node.into(), ..Default::default() }),
            type_url: type_url.into(),
            resource_names: names.iter().map(|&name| name.into()).collect(),
            ..Default::default()
        };
        self.send(request.encode_to_vec());
    }

    /// Sends the first incremental request of a type.
    pub(crate) fn subscribe_delta(&self, type_url: &str, names: &[&str]) {
        let request = DeltaDiscoveryRequest {
            node: Some(xds_core::proto::Node { id: "raw".into(), ..Default::default() }),
            type_url: type_url.into(),
            resource_names_subscribe: names.iter().map(|&name| name.into()).collect(),
            ..Default::default()
        };
        self.send(request.encode_to_vec());
    }

    /// Sends an ACK, or a NACK with a message.
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

    /// Half-closes the stream.
    pub(crate) fn half_close(&mut self) {
        self.requests = None;
    }

    pub(crate) async fn message(&mut self) -> Bytes {
        soon(self.responses.message()).await.unwrap().expect("the stream is open")
    }

    /// Returns the next message, or the status with which the stream ends.
    pub(crate) async fn message_or_end(&mut self) -> Result<Bytes, Status> {
        Ok(soon(self.responses.message()).await?.expect("the stream is open, or has failed"))
    }

    pub(crate) async fn response(&mut self) -> DiscoveryResponse {
        DiscoveryResponse::decode(self.message().await).unwrap()
    }

    pub(crate) async fn delta_response(&mut self) -> DeltaDiscoveryResponse {
        DeltaDiscoveryResponse::decode(self.message().await).unwrap()
    }

    /// Sends an ACK of an incremental response.
    pub(crate) fn ack_delta(&self, response: &DeltaDiscoveryResponse) {
        let request = DeltaDiscoveryRequest {
            type_url: response.type_url.clone(),
            response_nonce: response.nonce.clone(),
            ..Default::default()
        };
        self.send(request.encode_to_vec());
    }

    /// Returns the status with which the stream ends.
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

struct Unfailing(Receiver);

impl Stream for Unfailing {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        Pin::new(&mut self.0).poll_next(cx).map(|next| next.and_then(Result::ok))
    }
}
