//! Raw HTTP/2 clients of a server.

use bytes::Bytes;
use h2::{RecvStream, SendStream, client::ResponseFuture};
use http::{HeaderMap, Request};
use xds_core::server::ServerConfig;
use xds_grpc::{ManagementServer, ServerOptions};
use xds_sim::stack::{Host, Stage};

/// Port of servers.
pub(crate) const PORT: u16 = 18_000;

const PATH: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";

pub(crate) fn serve(stage: &Stage, options: ServerOptions) -> ManagementServer<Host> {
    serve_with(stage, ServerConfig::default(), options)
}

pub(crate) fn serve_with(
    stage: &Stage,
    config: ServerConfig,
    options: ServerOptions,
) -> ManagementServer<Host> {
    let host = stage.server_host("server");
    let server = ManagementServer::start_on(host.clone(), config, options.with_seed(1));
    let listener = host.listen(([0, 0, 0, 0], PORT).into()).expect("a free port");
    let serving = server.serve(listener);
    host.start(async move { serving.await.expect("it serves") });
    server
}

/// A call whose requests are written as bytes.
pub(crate) struct RawCall {
    requests: SendStream<Bytes>,
    response: ResponseFuture,
}

/// Opens calls on a connection of their own.
pub(crate) async fn open(host: &Host, count: usize) -> Vec<RawCall> {
    open_with_window(host, count, 65_535).await
}

/// Opens calls on a connection of their own. The server may send `window` bytes of each response.
pub(crate) async fn open_with_window(host: &Host, count: usize, window: u32) -> Vec<RawCall> {
    open_calls(host, PATH, count, window).await
}

/// Opens calls of a method on a connection of their own.
pub(crate) async fn open_path(host: &Host, path: &str, count: usize) -> Vec<RawCall> {
    open_calls(host, path, count, 65_535).await
}

async fn open_calls(host: &Host, path: &str, count: usize, window: u32) -> Vec<RawCall> {
    let socket = host.dial((server_address(), PORT).into()).await.expect("it listens");
    let mut builder = h2::client::Builder::new();
    let handshake = builder.initial_window_size(window).handshake(socket);
    let (mut client, connection) = handshake.await.expect("HTTP/2");
    host.start(async move { drop(connection.await) });
    let mut calls = Vec::new();
    for _ in 0..count {
        client = client.ready().await.expect("open");
        let request = Request::post(format!("http://server{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .expect("a request");
        let (response, requests) = client.send_request(request, false).expect("open");
        calls.push(RawCall { requests, response });
    }
    calls
}

/// Address of the first host of a stage.
fn server_address() -> core::net::IpAddr {
    [10, 0, 0, 1].into()
}

impl RawCall {
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.requests.send_data(Bytes::copy_from_slice(bytes), false).expect("open");
    }

    /// Sends the header of a message of `claimed` bytes, and `sent` of them.
    pub(crate) fn begin(&mut self, claimed: u32, sent: usize) {
        self.send(&[&[0], &claimed.to_be_bytes()[..], &vec![0; sent]].concat());
    }

    /// Waits for the status of the call, and returns it with its message.
    pub(crate) async fn status(self) -> (String, String) {
        let response = self.response.await.expect("a response");
        let text = |headers: &HeaderMap, name: &str| {
            let value = headers.get(name);
            value.map(|value| value.to_str().expect("ASCII").replace("%20", " "))
        };
        let headers = response.headers().clone();
        if let Some(status) = text(&headers, "grpc-status") {
            return (status, text(&headers, "grpc-message").unwrap_or_default());
        }
        let mut body = response.into_body();
        // The trailers come after the messages.
        while let Some(chunk) = body.data().await {
            let length = chunk.expect("no reset").len();
            body.flow_control().release_capacity(length).expect("open");
        }
        let trailers = body.trailers().await.expect("no reset").expect("trailers");
        let status = text(&trailers, "grpc-status").expect("a status");
        (status, text(&trailers, "grpc-message").unwrap_or_default())
    }

    /// Sends a complete message.
    pub(crate) fn message(&mut self, message: &[u8]) {
        self.begin(u32::try_from(message.len()).expect("short"), 0);
        self.send(message);
    }

    /// Ends the requests of the call.
    pub(crate) fn half_close(&mut self) {
        self.requests.send_data(Bytes::new(), true).expect("open");
    }

    /// Returns the body of the response.
    pub(crate) async fn body(&mut self) -> RecvStream {
        (&mut self.response).await.expect("a response").into_body()
    }

    /// Waits for the error with which the response ends.
    pub(crate) async fn failure(mut self) -> h2::Error {
        let mut body = match (&mut self.response).await {
            Ok(response) => response.into_body(),
            Err(why) => return why,
        };
        loop {
            match body.data().await {
                Some(Ok(_)) => {}
                Some(Err(why)) => return why,
                None => panic!("the response ended without an error"),
            }
        }
    }

    /// Waits until the server resets the call.
    pub(crate) async fn reset(&mut self) {
        let _ = core::future::poll_fn(|cx| self.requests.poll_reset(cx)).await;
    }
}
