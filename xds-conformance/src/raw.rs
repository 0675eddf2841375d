//! A client without protocol logic.

use core::net::SocketAddr;
use std::net::TcpStream;

use async_io::Async;
use bytes::Bytes;
use futures_channel::mpsc::{self, UnboundedReceiver, UnboundedSender};
use futures_util::StreamExt as _;
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::{body::Incoming, client::conn::http2};
use hyper_util::rt::TokioIo;
use prost::Message;
use smol::Task;
use tokio_util::compat::FuturesAsyncReadCompatExt as _;
use xds_core::proto::{DiscoveryRequest, DiscoveryResponse, Node};

use crate::{
    peer::{Tasks, framed},
    wait::soon,
};

pub(crate) const AGGREGATED: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";

/// Whether further requests follow the first one.
enum FurtherRequests {
    Later,
    Never,
}

/// Makes a unary call and returns the response.
pub(crate) async fn fetch<M: Message + Default>(
    address: SocketAddr,
    path: &str,
    request: &impl Message,
) -> M {
    RawClient::call_at(address, path, request, FurtherRequests::Never).await.message().await
}

/// Makes a unary call and returns its status.
pub(crate) async fn status_of(
    address: SocketAddr,
    path: &str,
    request: &impl Message,
) -> Option<String> {
    RawClient::call_at(address, path, request, FurtherRequests::Never).await.end().await
}

type Body = StreamBody<UnboundedReceiver<Result<Frame<Bytes>, core::convert::Infallible>>>;

/// Stream to a server on its own connection.
pub(crate) struct RawClient {
    requests: UnboundedSender<Result<Frame<Bytes>, core::convert::Infallible>>,
    /// Response body; `None` once it is being read.
    unread: Option<Incoming>,
    responses: Option<UnboundedReceiver<Bytes>>,
    reading: Option<Task<Option<String>>>,
    /// Status in the headers of a response without a body.
    refused: Option<String>,
    _connection: Task<()>,
}

impl RawClient {
    /// Subscribes to names of a type.
    ///
    /// Responses are not read until [`response`](Self::response) is called, so flow control blocks
    /// the server.
    pub(crate) async fn subscribe(address: SocketAddr, type_url: &str, names: &[&str]) -> Self {
        let node = Some(Node { id: "raw".into(), ..Node::default() });
        Self::call(
            address,
            &DiscoveryRequest {
                node,
                type_url: type_url.into(),
                resource_names: names.iter().map(|&name| name.into()).collect(),
                ..Default::default()
            },
        )
        .await
    }

    pub(crate) async fn call(address: SocketAddr, first: &impl Message) -> Self {
        Self::call_at(address, AGGREGATED, first, FurtherRequests::Later).await
    }

    async fn call_at(
        address: SocketAddr,
        path: &str,
        first: &impl Message,
        more: FurtherRequests,
    ) -> Self {
        let socket = soon("a connection", Async::<TcpStream>::connect(address)).await;
        let io = TokioIo::new(socket.expect("somebody listens").compat());
        let handshake = http2::Builder::new(Tasks).handshake::<_, Body>(io);
        let (mut sender, connection) = soon("HTTP/2", handshake).await.expect("HTTP/2");
        let connection = smol::spawn(async move { drop(connection.await) });
        let (requests, queue) = mpsc::unbounded();
        requests.unbounded_send(Ok(Frame::data(framed(first)))).expect("nobody has gone");
        if let FurtherRequests::Never = more {
            requests.close_channel();
        }
        let request = Request::post(format!("http://{address}{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(StreamBody::new(queue))
            .expect("a request");
        let response = soon("headers", sender.send_request(request)).await.expect("an answer");
        let refused = response.headers().get("grpc-status");
        let refused = refused.and_then(|status| Some(status.to_str().ok()?.to_owned()));
        Self {
            refused,
            requests,
            unread: Some(response.into_body()),
            responses: None,
            reading: None,
            _connection: connection,
        }
    }

    pub(crate) fn send(&self, message: &impl Message) {
        let _ = self.requests.unbounded_send(Ok(Frame::data(framed(message))));
    }

    pub(crate) async fn response(&mut self) -> DiscoveryResponse {
        self.message().await
    }

    async fn message<M: Message + Default>(&mut self) -> M {
        self.read();
        let responses = self.responses.as_mut().expect("it is being read");
        let message = soon("a response", responses.next()).await.expect("the stream is open");
        M::decode(message).expect("a response")
    }

    /// Waits for the end of the stream and returns the status from the trailers, or from the
    /// headers of a response without a body.
    pub(crate) async fn end(mut self) -> Option<String> {
        if self.refused.is_some() {
            return self.refused;
        }
        self.read();
        soon("the end of the stream", self.reading.take().expect("it is being read")).await
    }

    pub(crate) fn ack(&self, response: &DiscoveryResponse, names: &[&str]) {
        self.send(&DiscoveryRequest {
            version_info: response.version_info.clone(),
            type_url: response.type_url.clone(),
            response_nonce: response.nonce.clone(),
            resource_names: names.iter().map(|&name| name.into()).collect(),
            ..Default::default()
        });
    }

    fn read(&mut self) {
        let Some(mut body) = self.unread.take() else { return };
        let (sender, responses) = mpsc::unbounded();
        self.responses = Some(responses);
        self.reading = Some(smol::spawn(async move {
            let mut messages = crate::peer::Messages::default();
            while let Some(Ok(frame)) = body.frame().await {
                match frame.into_data() {
                    Ok(data) => messages.take(data, |message| {
                        let _ = sender.unbounded_send(message);
                    }),
                    Err(frame) => {
                        let trailers = frame.into_trailers().ok()?;
                        return Some(trailers.get("grpc-status")?.to_str().ok()?.to_owned());
                    }
                }
            }
            None
        }));
    }
}
