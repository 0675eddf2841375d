//! A REST-JSON server whose responses a test case controls.

use core::{convert::Infallible, net::SocketAddr};
use std::net::TcpListener;

use async_io::Async;
use bytes::Bytes;
use futures_channel::{
    mpsc::{self, UnboundedReceiver},
    oneshot,
};
use futures_util::StreamExt as _;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use smol::Task;
use tokio_util::compat::FuturesAsyncReadCompatExt as _;

use crate::wait::soon;

pub(crate) struct RestPeer {
    pub(crate) address: SocketAddr,
    requests: UnboundedReceiver<ReceivedRequest>,
    _accepting: Task<()>,
}

/// Request that waits for its response.
pub(crate) struct ReceivedRequest {
    pub(crate) path: String,
    pub(crate) body: Value,
    answer: oneshot::Sender<Response<Full<Bytes>>>,
}

impl ReceivedRequest {
    /// Responds with a status and, unless it is null, a body.
    pub(crate) fn answer(self, status: u16, body: &Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.answer_with(status, "application/json", body);
    }

    /// Responds with any status, content type and body.
    pub(crate) fn answer_with(self, status: u16, content_type: &str, body: impl Into<Bytes>) {
        let response = Response::builder()
            .status(status)
            .header("content-type", content_type)
            .body(Full::new(body.into()));
        // An error means that the client has gone.
        let _ = self.answer.send(response.expect("an answer"));
    }
}

impl ReceivedRequest {
    /// Waits until the client has given up the request.
    pub(crate) async fn given_up(mut self) {
        soon("the end of the request", self.answer.cancellation()).await;
    }
}

impl RestPeer {
    pub(crate) fn start() -> Self {
        let listener = Async::<TcpListener>::bind(([127, 0, 0, 1], 0)).expect("loopback");
        let address = listener.get_ref().local_addr().expect("it is bound");
        let (sender, requests) = mpsc::unbounded();
        let accepting = smol::spawn(async move {
            // Connections end with the listener.
            let mut connections = Vec::new();
            while let Ok((socket, _)) = listener.accept().await {
                let sender = sender.clone();
                let answer = service_fn(move |request: Request<Incoming>| {
                    let sender = sender.clone();
                    async move {
                        let path = request.uri().path().to_owned();
                        let body = request.into_body().collect().await;
                        let body =
                            body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
                        let body = serde_json::from_slice(&body).unwrap_or_default();
                        let (answer, answered) = oneshot::channel();
                        let _ = sender.unbounded_send(ReceivedRequest { path, body, answer });
                        let gone = |_| Response::new(Full::default());
                        Ok::<_, Infallible>(answered.await.unwrap_or_else(gone))
                    }
                });
                let io = TokioIo::new(socket.compat());
                connections.push(smol::spawn(async move {
                    // The connection fails when the client goes.
                    let _ = http1::Builder::new().serve_connection(io, answer).await;
                }));
            }
        });
        Self { address, requests, _accepting: accepting }
    }

    pub(crate) async fn request(&mut self) -> ReceivedRequest {
        soon("a request", self.requests.next()).await.expect("the peer runs")
    }
}
