//! Test cases for polling, with clients that use HTTP only.

use core::{net::SocketAddr, time::Duration};
use std::net::TcpStream;

use async_io::{Async, Timer};
use bytes::Bytes;
use futures_util::future::{join, poll_immediate};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio_util::compat::FuturesAsyncReadCompatExt as _;
use xds_core::{
    server::{ServerConfig, Transaction},
    types::CLUSTER,
};
use xds_format::{Format, Schema, encode_message};

use crate::{RestServerAdapter, RunningServer, wait::soon};

const CLUSTERS: &str = "/v3/discovery:clusters";
const JSON: &str = "application/json";
/// Longer than any case waits.
const LONG: Duration = Duration::from_secs(60);

fn set(server: &dyn RunningServer, name: &str, timeout: &str) {
    let text = json!({ "name": name, "connect_timeout": timeout }).to_string();
    let message = "envoy.config.cluster.v3.Cluster";
    let cluster = encode_message(Schema::envoy(), "", message, Format::Json, text.as_bytes());
    let mut change = Transaction::new();
    change.set(CLUSTER, name, cluster.expect("a cluster"));
    server.apply(change);
}

/// Sends one request on its own connection, and returns the status and the JSON body.
async fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    content_type: &str,
    body: impl Into<Bytes>,
) -> (u16, Value) {
    let socket = soon("a connection", Async::<TcpStream>::connect(address)).await;
    let io = TokioIo::new(socket.expect("somebody listens").compat());
    let (mut sender, connection) = soon("HTTP", http1::handshake(io)).await.expect("HTTP");
    // The connection ends when this is dropped.
    let _connection = smol::spawn(async move { drop(connection.await) });
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "kit.test")
        .header("content-type", content_type)
        .body(Full::new(body.into()))
        .expect("a request");
    let response = soon("an answer", sender.send_request(request)).await.expect("an answer");
    let status = response.status().as_u16();
    let body = soon("its body", response.into_body().collect()).await.expect("a whole body");
    (status, serde_json::from_slice(&body.to_bytes()).unwrap_or_default())
}

async fn poll(address: SocketAddr, version: &str) -> (u16, Value) {
    let body = json!({ "node": { "id": "raw" }, "version_info": version });
    send(address, "POST", CLUSTERS, JSON, body.to_string()).await
}

pub(super) async fn changes(adapter: &dyn RestServerAdapter) {
    let server = adapter.start_rest(ServerConfig::default(), LONG);
    set(&*server, "a", "1s");
    let (status, first) = poll(server.address(), "").await;
    assert_eq!((status, &first["type_url"]), (200, &json!(CLUSTER)));
    let expected = json!([{ "@type": CLUSTER, "name": "a", "connect_timeout": "1s" }]);
    assert_eq!(first["resources"], expected);
    let version = first["version_info"].as_str().expect("a version");
    let change = async {
        Timer::after(Duration::from_millis(50)).await;
        set(&*server, "a", "2s");
    };
    let ((status, second), ()) = join(poll(server.address(), version), change).await;
    assert_eq!((status, &second["resources"][0]["connect_timeout"]), (200, &json!("2s")));
    assert_ne!(second["version_info"], first["version_info"]);
    println!("covers: M180 M185");
}

pub(super) async fn unchanged(adapter: &dyn RestServerAdapter) {
    let server = adapter.start_rest(ServerConfig::default(), Duration::from_millis(50));
    set(&*server, "a", "1s");
    let (_, first) = poll(server.address(), "").await;
    let version = first["version_info"].as_str().expect("a version");
    assert_eq!(poll(server.address(), version).await, (304, Value::Null));
    // A version of another server gets a full response.
    assert_eq!(poll(server.address(), "of another server").await.0, 200);
    println!("covers: M185");
}

pub(super) async fn refusals(adapter: &dyn RestServerAdapter) {
    let server = adapter.start_rest(ServerConfig::default(), LONG);
    set(&*server, "a", "1s");
    let node = r#"{"node": {"id": "raw"}}"#;
    for (method, path, content_type, body, status) in [
        ("POST", "/v3/discovery:everything", JSON, node, 404),
        ("POST", "/v3/discovery:virtual-hosts", JSON, node, 404),
        ("GET", CLUSTERS, JSON, "", 405),
        ("POST", CLUSTERS, "application/grpc", node, 415),
        ("POST", CLUSTERS, JSON, "", 400),
        ("POST", CLUSTERS, JSON, "{oops", 400),
        ("POST", CLUSTERS, JSON, r#"{"node": 7}"#, 400),
    ] {
        let (got, _) = send(server.address(), method, path, content_type, body).await;
        assert_eq!(got, status, "{method} {path} {content_type} {body}");
    }
    // Requests of newer clients may contain unknown fields.
    let newer = r#"{"node": {"id": "raw"}, "of_tomorrow": 1}"#;
    assert_eq!(send(server.address(), "POST", CLUSTERS, JSON, newer).await.0, 200);
    println!("covers: M181 M182 M183 M194 M197");
}

pub(super) async fn gone(adapter: &dyn RestServerAdapter) {
    let server = adapter.start_rest(ServerConfig::default(), LONG);
    set(&*server, "a", "1s");
    let (_, first) = poll(server.address(), "").await;
    let version = first["version_info"].as_str().expect("a version");
    for _ in 0..20 {
        // Starts a request and gives it up.
        let mut held = Box::pin(poll(server.address(), version));
        assert!(poll_immediate(&mut held).await.is_none());
        Timer::after(Duration::from_millis(5)).await;
        assert!(poll_immediate(&mut held).await.is_none(), "there is nothing new");
    }
    set(&*server, "a", "2s");
    assert_eq!(poll(server.address(), version).await.0, 200);
    println!("covers: M192");
}

pub(super) async fn end(adapter: &dyn RestServerAdapter) {
    let server = adapter.start_rest(ServerConfig::default(), LONG);
    set(&*server, "a", "1s");
    let (address, (_, first)) = (server.address(), poll(server.address(), "").await);
    let version = first["version_info"].as_str().expect("a version");
    let ending = async {
        Timer::after(Duration::from_millis(200)).await;
        drop(server);
    };
    let ((status, _), ()) = join(poll(address, version), ending).await;
    assert!([304, 503].contains(&status), "{status}");
    println!("covers: M193");
}
