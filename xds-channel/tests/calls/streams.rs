//! HTTP/2 streams of calls: their limit on a connection, and their end.

use core::{
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use std::{io, net::SocketAddr, path::PathBuf, sync::Arc, time::Instant};

use bytes::Bytes;
use h2::{
    Reason, RecvStream,
    server::{self, SendResponse},
};
use http::{HeaderMap, HeaderName, Request, Response};
use http_body::{Body as _, Frame};
use hyper::rt::{Sleep, Timer};
use tokio::{
    net::{TcpListener, TcpStream},
    select, spawn,
    sync::{Notify, mpsc},
    time::sleep,
};
use tonic::{Code, Status, body::Body};
use tower_service::Service as _;
use xds_channel::{CallBody, ChannelOptions, XdsChannel};
use xds_grpc::{
    Keepalive,
    client::Resolving,
    runtime::{BoxFuture, Io, Runtime},
};
use xds_tokio::Tokio;

use crate::{
    support::*,
    world::{Change, World, soon},
};

type Received = (Request<RecvStream>, SendResponse<Bytes>);

/// Endpoint that limits the streams on a connection, and passes its requests to the test.
struct Endpoint {
    address: SocketAddr,
    /// Requests, with the number of their connection.
    requests: mpsc::UnboundedReceiver<(usize, Received)>,
    drain: Arc<Notify>,
}

impl Endpoint {
    /// Creates an endpoint that allows one stream on a connection.
    async fn new() -> Self {
        Self::with_streams(1).await
    }

    async fn with_streams(limit: u32) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, requests) = mpsc::unbounded_channel();
        let drain = Arc::<Notify>::default();
        let drained = Arc::clone(&drain);
        spawn(async move {
            let mut number = 0;
            while let Ok((socket, _)) = listener.accept().await {
                number += 1;
                spawn(serve(socket, number, limit, sender.clone(), Arc::clone(&drained)));
            }
        });
        Self { address, requests, drain }
    }

    async fn request(&mut self) -> (usize, Received) {
        soon(self.requests.recv()).await.expect("the endpoint is running")
    }
}

/// Serves a connection. A drain ends it gracefully.
async fn serve(
    socket: TcpStream,
    number: usize,
    limit: u32,
    requests: mpsc::UnboundedSender<(usize, Received)>,
    drain: Arc<Notify>,
) {
    let mut builder = server::Builder::new();
    let handshake = builder.max_concurrent_streams(limit).handshake(socket);
    let mut connection: server::Connection<_, Bytes> = handshake.await.expect("a connection");
    loop {
        select! {
            accepted = connection.accept() => match accepted {
                Some(Ok(request)) => {
                    let _ = requests.send((number, request));
                }
                _ => return,
            },
            () = drain.notified() => connection.graceful_shutdown(),
        }
    }
}

/// Request body whose messages come from the test.
struct Messages(mpsc::UnboundedReceiver<Bytes>);

impl http_body::Body for Messages {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.0.poll_recv(cx).map(|message| message.map(|message| Ok(Frame::data(message))))
    }
}

/// Starts a call.
fn call(
    channel: &XdsChannel,
    body: Body,
    timeout: Option<&str>,
) -> impl Future<Output = Result<Response<CallBody>, Status>> + Send + 'static {
    let mut request = Request::post("/s/m").body(body).unwrap();
    if let Some(timeout) = timeout {
        request.headers_mut().insert("grpc-timeout", timeout.parse().unwrap());
    }
    channel.clone().call(request)
}

/// Answers a call with its status.
fn answer(mut respond: SendResponse<Bytes>) {
    let response = Response::builder().header("grpc-status", "0").body(()).unwrap();
    respond.send_response(response, true).expect("the call is active");
}

async fn channel_to(endpoint: &Endpoint) -> (World, XdsChannel) {
    channel_with(endpoint, ChannelOptions::new("node-1")).await
}

async fn channel_with(endpoint: &Endpoint, options: ChannelOptions) -> (World, XdsChannel) {
    let world = World::new().await;
    let routes = vec![route(prefix(""), cluster("c"))];
    world.apply(Change::new().routes(routes).at("c", &[endpoint.address]).0).await;
    let channel = world.channel_with(options);
    (world, channel)
}

/// A call that waits for a free stream is sent on another connection if the endpoint drains its
/// connection.
#[tokio::test]
async fn call_waiting_for_a_stream_survives_a_drain() {
    let mut endpoint = Endpoint::new().await;
    let (_world, channel) = channel_to(&endpoint).await;
    let body = || Body::new(String::from("\0\0\0\0\0"));
    let first = spawn(call(&channel, body(), None));
    let (connection, (_request, respond)) = endpoint.request().await;
    assert_eq!(connection, 1);
    let second = spawn(call(&channel, body(), None));
    // Until hyper has the request.
    sleep(Duration::from_millis(100)).await;
    endpoint.drain.notify_waiters();
    let (connection, (mut request, respond_second)) = select! {
        received = endpoint.request() => received,
        ended = second => panic!("{:?}", ended.expect("no panic").map(drop)),
    };
    assert_eq!(connection, 2, "the first one takes no more requests");
    let message = soon(request.body_mut().data()).await.expect("a message").expect("no reset");
    assert_eq!(message, "\0\0\0\0\0");
    answer(respond_second);
    answer(respond);
    soon(first).await.expect("no panic").expect("an answer");
}

/// Starts a call with a message, and begins its response.
async fn begin(
    endpoint: &mut Endpoint,
    channel: &XdsChannel,
    timeout: Option<&str>,
) -> (Response<CallBody>, mpsc::UnboundedSender<Bytes>, RecvStream, h2::SendStream<Bytes>) {
    let (messages, receiver) = mpsc::unbounded_channel();
    messages.send(Bytes::from_static(b"\0\0\0\0\0")).unwrap();
    let called = spawn(call(channel, Body::new(Messages(receiver)), timeout));
    let (_, (request, mut respond)) = endpoint.request().await;
    let mut request = request.into_body();
    let message = soon(request.data()).await.expect("a message").expect("no reset");
    assert_eq!(message, "\0\0\0\0\0");
    let response = respond.send_response(Response::new(()), false).expect("the call is active");
    let called = soon(called).await.expect("no panic").expect("a response");
    (called, messages, request, response)
}

async fn next_frame(response: &mut Response<CallBody>) -> Option<Result<Frame<Bytes>, Status>> {
    soon(poll_fn(|cx| Pin::new(response.body_mut()).poll_frame(cx))).await
}

/// Waits for the end of the request, and returns the reason of its reset.
async fn reset(request: &mut RecvStream) -> Option<Reason> {
    soon(request.data()).await?.expect_err("no more messages").reason()
}

#[tokio::test]
async fn deadline_after_the_response_headers_resets_the_stream() {
    let mut endpoint = Endpoint::new().await;
    let (_world, channel) = channel_to(&endpoint).await;
    let (mut response, _messages, mut request, _sending) =
        begin(&mut endpoint, &channel, Some("500m")).await;
    let status = next_frame(&mut response).await.expect("a status").expect_err("no message");
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    assert_eq!(reset(&mut request).await, Some(Reason::CANCEL));
}

/// Runtime whose timers fire a second late.
#[derive(Debug)]
struct LateTimers;

impl Timer for LateTimers {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        Tokio.sleep(duration + Duration::from_secs(1))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Tokio.sleep_until(deadline + Duration::from_secs(1))
    }
}

impl Runtime for LateTimers {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        Tokio.spawn(task);
    }

    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        Tokio.spawn_blocking(work);
    }

    fn connect(
        &self,
        address: SocketAddr,
        keepalive: Keepalive,
    ) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        Tokio.connect(address, keepalive)
    }

    fn connect_unix(&self, path: PathBuf) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        Tokio.connect_unix(path)
    }

    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        Tokio.resolve(host, port)
    }
}

/// Way in which a server ends a call.
#[derive(Clone, Copy, Debug)]
enum End {
    Trailers,
    OnlyTrailers,
    Reset,
}

/// Makes a call that the server cancels after a time. Returns its status code.
async fn cancelled_after(
    endpoint: &mut Endpoint,
    channel: &XdsChannel,
    timeout: &str,
    wait: Duration,
    end: End,
) -> Code {
    let status =
        || HeaderMap::from_iter([(HeaderName::from_static("grpc-status"), "1".parse().unwrap())]);
    let code_of = |headers: &HeaderMap| Code::from_bytes(headers["grpc-status"].as_bytes());
    let called = spawn(call(channel, Body::empty(), Some(timeout)));
    let (_, (_request, mut respond)) = endpoint.request().await;
    if let End::Trailers = end {
        let mut sending = respond.send_response(Response::new(()), false).unwrap();
        let mut response = soon(called).await.unwrap().expect("a response");
        sleep(wait).await;
        sending.send_trailers(status()).expect("the call is active");
        let frame = next_frame(&mut response).await.expect("an end");
        return frame
            .map_or_else(|status| status.code(), |frame| code_of(frame.trailers_ref().unwrap()));
    }
    sleep(wait).await;
    if let End::OnlyTrailers = end {
        let mut response = Response::new(());
        *response.headers_mut() = status();
        respond.send_response(response, true).expect("the call is active");
    } else {
        respond.send_reset(Reason::CANCEL);
    }
    let ended = soon(called).await.unwrap();
    ended.map_or_else(|status| status.code(), |response| code_of(response.headers()))
}

/// Servers cancel a call at its deadline too. The client reports DEADLINE_EXCEEDED even if that
/// arrives before its own timer fires.
#[tokio::test]
async fn call_cancelled_by_the_server_at_its_deadline_reports_deadline_exceeded() {
    let mut endpoint = Endpoint::new().await;
    let options = ChannelOptions::new("node-1").with_runtime(LateTimers);
    let (_world, channel) = channel_with(&endpoint, options).await;
    let limit = Duration::from_millis(300);
    for end in [End::Trailers, End::OnlyTrailers, End::Reset] {
        let early = cancelled_after(&mut endpoint, &channel, "60S", Duration::ZERO, end).await;
        assert_eq!(early, Code::Cancelled, "{end:?}");
        let late = cancelled_after(&mut endpoint, &channel, "300m", limit, end).await;
        assert_eq!(late, Code::DeadlineExceeded, "{end:?}");
    }
}

#[tokio::test]
async fn dropped_response_resets_the_stream() {
    let mut endpoint = Endpoint::new().await;
    let (_world, channel) = channel_to(&endpoint).await;
    let (response, _messages, mut request, _sending) = begin(&mut endpoint, &channel, None).await;
    drop(response);
    assert_eq!(reset(&mut request).await, Some(Reason::CANCEL));
}

/// The end of a response does not cancel a request that is still being sent.
#[tokio::test]
async fn request_continues_after_a_complete_response() {
    let mut endpoint = Endpoint::new().await;
    let (_world, channel) = channel_to(&endpoint).await;
    let (mut response, messages, mut request, mut sending) =
        begin(&mut endpoint, &channel, None).await;
    sending.send_trailers(HeaderMap::new()).expect("the call is active");
    let trailers = next_frame(&mut response).await.expect("trailers").expect("no error");
    assert!(trailers.is_trailers());
    drop(response);
    messages.send(Bytes::from_static(b"more")).unwrap();
    let message = soon(request.data()).await.expect("a message").expect("no reset");
    assert_eq!(message, "more");
}

/// A response that the application does not read fills the window of its stream. Other calls of the
/// connection continue.
#[tokio::test]
async fn unread_response_does_not_block_other_calls() {
    let mut endpoint = Endpoint::with_streams(2).await;
    let (_world, channel) = channel_to(&endpoint).await;
    let (_unread, _messages, _request, mut sending) = begin(&mut endpoint, &channel, None).await;
    sending.send_data(Bytes::from(vec![0; 32 << 20]), false).expect("the call is active");
    // The server sends until the window is used up.
    sleep(Duration::from_millis(300)).await;
    let (mut response, _messages, _request, mut sending) =
        begin(&mut endpoint, &channel, None).await;
    sending.send_data(Bytes::from_static(b"answer"), true).expect("the call is active");
    let frame = next_frame(&mut response).await.expect("a message").expect("no error");
    assert_eq!(frame.into_data().expect("data"), "answer");
}

/// A burst of small messages that the application reads late does not end the connection.
#[tokio::test]
async fn burst_of_small_messages_is_kept_for_a_late_reader() {
    const MESSAGES: usize = 10_000;
    let mut endpoint = Endpoint::new().await;
    let (_world, channel) = channel_to(&endpoint).await;
    let (mut response, _messages, _request, mut sending) =
        begin(&mut endpoint, &channel, None).await;
    for _ in 0..MESSAGES {
        sending.send_data(Bytes::from_static(b"\0\0\0\0\0"), false).expect("the call is active");
    }
    sending.send_trailers(HeaderMap::new()).expect("the call is active");
    sleep(Duration::from_millis(300)).await;
    let mut received = 0;
    while let Some(frame) = next_frame(&mut response).await {
        received += frame.expect("no error").data_ref().map_or(0, Bytes::len);
    }
    assert_eq!(received, MESSAGES * 5);
}
