//! The poller with the gateway and with other servers.

use core::{convert::Infallible, task::Poll, time::Duration};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};
use http_body_util::Full;
use hyper_util::rt::{TokioIo, TokioTimer};
use prost::Message as _;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use xds_core::{
    StatusCode,
    client::ChannelError,
    proto::{self, DiscoveryRequest, DiscoveryResponse},
};
use xds_format::Schema;
use xds_rest::{Io, PollResult, Poller, PollerOptions};

use crate::support::{cluster, listening, serving, set};

const CLUSTERS: &str = "/v3/discovery:clusters";

fn polling(address: std::net::SocketAddr, timeout: Duration) -> Poller {
    Poller::new(options(address).with_request_timeout(timeout))
}

fn options(address: std::net::SocketAddr) -> PollerOptions {
    let dial = Arc::new(move || -> std::pin::Pin<Box<dyn Future<Output = _> + Send>> {
        Box::pin(async move {
            let socket = TcpStream::connect(address).await.map_err(|why| why.to_string())?;
            Ok(Box::new(TokioIo::new(socket)) as Box<dyn Io>)
        })
    });
    let host = HeaderValue::from_static("cp.test");
    let timer = Arc::new(TokioTimer::new());
    PollerOptions::new(dial, timer, host, CLUSTERS, Schema::envoy())
}

async fn answer(poller: &mut Poller) -> PollResult {
    core::future::poll_fn(|cx| poller.poll(cx)).await
}

fn request(version: &str) -> Vec<u8> {
    let node = Some(proto::Node { id: "n".into(), ..Default::default() });
    let version_info = version.into();
    DiscoveryRequest { node, version_info, ..Default::default() }.encode_to_vec()
}

#[tokio::test]
async fn poller_receives_the_response_of_a_gateway() {
    let (server, gateway) = serving();
    set(&server, "a", "1s").await;
    let mut poller = polling(listening(gateway).await, Duration::from_secs(10));
    poller.start(&request(""));
    let PollResult::Response(response) = answer(&mut poller).await else {
        panic!("there is something")
    };
    let response = DiscoveryResponse::decode(response).expect("a response");
    assert_eq!(&*response.resources[0].value, &*cluster("a", "1s"));
    poller.start(&request(&response.version_info));
    assert_eq!(answer(&mut poller).await, PollResult::Unchanged);
    // A new request during a held one replaces it.
    poller.start(&request(&response.version_info));
    poller.start(&request("of another server"));
    assert!(matches!(answer(&mut poller).await, PollResult::Response(_)));
    server.handle().shut_down().await;
    poller.start(&request(""));
    let PollResult::Failed(why) = answer(&mut poller).await else { panic!("there is no server") };
    assert!(why.to_string().contains("503"), "{why}");
    println!("covers: S0.201 RJ-02 RJ-03 RJ-04 RJ-09");
}

/// Starts a server that answers every request with the given body.
async fn answering(answer: &'static [u8]) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let service = hyper::service::service_fn(move |_| async move {
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(answer))))
            });
            let serving = hyper::server::conn::http1::Builder::new();
            tokio::spawn(serving.serve_connection(TokioIo::new(socket), service));
        }
    });
    address
}

#[tokio::test]
async fn invalid_or_late_poll_responses_are_distinguished() {
    let mut garbled = polling(answering(b"{oops").await, Duration::from_secs(10));
    garbled.start(&request(""));
    let PollResult::Unusable(why) = answer(&mut garbled).await else { panic!("that is no JSON") };
    assert!(why.starts_with("response:1:2"), "{why}");

    let silent = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = silent.local_addr().expect("it is bound");
    let mut late = polling(address, Duration::from_millis(50));
    late.start(&request(""));
    let PollResult::Failed(why) = answer(&mut late).await else { panic!("nobody answers") };
    assert!(why.to_string().contains("no response within 50ms"), "{why}");

    drop(silent);
    let mut alone = polling(address, Duration::from_secs(10));
    alone.start(&request(""));
    let PollResult::Failed(why) = answer(&mut alone).await else { panic!("nobody listens") };
    assert!(why.to_string().starts_with("cannot connect"), "{why}");
    println!("covers: RJ-05 RJ-06 RJ-10");
}

#[tokio::test]
async fn response_of_another_type_is_unusable() {
    const LISTENERS: &[u8] =
        br#"{"type_url": "type.googleapis.com/envoy.config.listener.v3.Listener"}"#;
    let mut poller = polling(answering(LISTENERS).await, Duration::from_secs(10));
    poller.start(&request(""));
    let PollResult::Unusable(why) = answer(&mut poller).await else { panic!("it has listeners") };
    let clusters = "type.googleapis.com/envoy.config.cluster.v3.Cluster was requested";
    assert!(why.contains("envoy.config.listener.v3.Listener") && why.ends_with(clusters), "{why}");

    // The type may be missing, or that of the other version of the API.
    const OLDER: &[u8] = br#"{"type_url": "type.googleapis.com/envoy.api.v2.Cluster"}"#;
    for same in [b"{}", OLDER] {
        let mut poller = polling(answering(same).await, Duration::from_secs(10));
        poller.start(&request(""));
        let answered = answer(&mut poller).await;
        assert!(matches!(answered, PollResult::Response(_)), "{answered:?}");
    }
}

/// Reads one request from a socket, and returns its head and body.
async fn raw_request(socket: &mut TcpStream) -> (String, Value) {
    let mut bytes = Vec::new();
    loop {
        let read = socket.read_buf(&mut bytes).await.expect("a request");
        assert_ne!(read, 0, "the request breaks off: {bytes:?}");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        if let Ok(body) = serde_json::from_str(body) {
            return (head.to_ascii_lowercase(), body);
        }
    }
}

const NOTHING: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";

/// Checks the request on the wire. Additional headers are computed for each request.
#[tokio::test]
async fn poll_is_a_json_post_with_fresh_authorization_headers() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let mut options = options(listener.local_addr().expect("it is bound"));
    options.headers.insert("x-team", HeaderValue::from_static("edge"));
    let count = Arc::new(AtomicUsize::new(0));
    options.authorize = Some(Arc::new(move || {
        let count = count.fetch_add(1, Ordering::Relaxed) + 1;
        Box::pin(async move {
            let token = HeaderValue::from_str(&format!("Bearer {count}")).expect("a header");
            Ok(HeaderMap::from_iter([(header::AUTHORIZATION, token)]))
        })
    }));
    let mut poller = Poller::new(options);
    poller.start(&request(""));
    let peer = async {
        let (mut socket, _) = listener.accept().await.expect("somebody asks");
        let first = raw_request(&mut socket).await;
        socket.write_all(NOTHING).await.expect("somebody reads");
        (socket, first)
    };
    let ((mut socket, (head, body)), first) = tokio::join!(peer, answer(&mut poller));
    assert!(matches!(first, PollResult::Response(_)), "{first:?}");
    let mut lines = head.lines();
    assert_eq!(lines.next(), Some("post /v3/discovery:clusters http/1.1"));
    let headers: Vec<_> = lines.collect();
    for expected in [
        "host: cp.test",
        "content-type: application/json",
        "accept: application/json",
        "x-team: edge",
        "authorization: bearer 1",
    ] {
        let count = headers.iter().filter(|it| **it == expected).count();
        assert_eq!(count, 1, "{expected} in {headers:?}");
    }
    assert_eq!(body, json!({"node": {"id": "n"}}));

    poller.start(&request("7"));
    let ((head, body), _) = tokio::join!(
        async {
            let next = raw_request(&mut socket).await;
            socket.write_all(NOTHING).await.expect("somebody reads");
            next
        },
        answer(&mut poller)
    );
    assert!(head.contains("\r\nauthorization: bearer 2"), "{head}");
    assert_eq!(body["version_info"], "7");
    println!("covers: RJ-01");
}

#[tokio::test]
async fn failed_authorization_prevents_the_poll() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let why =
        ChannelError::Status { code: StatusCode::Unauthenticated, message: "no token".into() };
    let told = why.clone();
    let options = options(listener.local_addr().expect("it is bound"))
        .with_authorize(Arc::new(move || Box::pin(core::future::ready(Err(told.clone())))));
    let mut poller = Poller::new(options);
    poller.start(&request(""));
    assert_eq!(answer(&mut poller).await, PollResult::Failed(why));
}

/// Any other status is an error, neither a response nor "unchanged".
#[tokio::test]
async fn every_other_http_status_is_a_failure() {
    for (status, code) in [
        ("301 Moved Permanently", 2),
        ("302 Found", 2),
        ("204 No Content", 2),
        ("400 Bad Request", 13),
        ("401 Unauthorized", 16),
        ("403 Forbidden", 7),
        ("404 Not Found", 12),
        ("429 Too Many Requests", 14),
        ("500 Internal Server Error", 2),
        ("503 Service Unavailable", 14),
    ] {
        let said = if status.starts_with("204") { "" } else { "out of order" };
        let head = format!("HTTP/1.1 {status}\r\nlocation: /elsewhere\r\n");
        let whole = format!("{head}content-length: {}\r\n\r\n{said}", said.len());
        let mut poller = Poller::new(options(saying(whole).await));
        poller.start(&request(""));
        let PollResult::Failed(why) = answer(&mut poller).await else {
            panic!("{status} is no answer")
        };
        let mut message = format!("HTTP status {status}");
        if !said.is_empty() {
            message += ": out of order";
        }
        let code = StatusCode::from_i32(code);
        assert_eq!(why, ChannelError::Status { code, message: message.into() });
    }
    for (content_type, body) in
        [("text/html", "<html>"), ("application/json", ""), ("application/json", "[1, 2")]
    {
        let length = body.len();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\n");
        let whole = format!("{head}content-length: {length}\r\n\r\n{body}");
        let mut poller = Poller::new(options(saying(whole).await));
        poller.start(&request(""));
        let answered = answer(&mut poller).await;
        let PollResult::Unusable(why) = answered else { panic!("{body:?}: {answered:?}") };
        assert!(why.starts_with("response:1:") && why.contains(content_type), "{why}");
    }
    // JSON is accepted with any content type. Go's servers use a text type by default.
    let whole = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\n{}";
    let mut poller = Poller::new(options(saying(whole.into()).await));
    poller.start(&request(""));
    assert!(matches!(answer(&mut poller).await, PollResult::Response(_)));
    println!("covers: RJ-04 RJ-06");
}

/// Starts a server that sends the given bytes after each request.
async fn saying(answer: String) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            raw_request(&mut socket).await;
            let _ = socket.write_all(answer.as_bytes()).await;
        }
    });
    address
}

/// The server closes each connection after its response, so each request needs a new connection.
#[tokio::test]
async fn connection_closed_by_the_server_is_replaced() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("it is bound");
    let closing = tokio::spawn(async move {
        let mut asked = 0;
        while asked < 3 {
            let (mut socket, _) = listener.accept().await.expect("somebody asks");
            let mut request = vec![0; 4_096];
            let _ = socket.read(&mut request).await.expect("a request");
            let answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
            socket.write_all(answer).await.expect("somebody reads");
            asked += 1;
        }
    });
    let mut poller = polling(address, Duration::from_secs(10));
    for _ in 0..3 {
        poller.start(&request(""));
        assert_eq!(answer(&mut poller).await, PollResult::Response(Bytes::new()));
        // The idle connection is driven between two requests too.
        for _ in 0..10 {
            let idle = core::future::poll_fn(|cx| Poll::Ready(poller.poll(cx))).await;
            assert!(idle.is_pending(), "nothing was asked");
            tokio::task::yield_now().await;
        }
    }
    closing.await.expect("three were answered");
}
