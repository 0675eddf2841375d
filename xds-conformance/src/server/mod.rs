//! Test cases for server adapters.

mod rest;

use core::time::Duration;
use std::net::TcpStream;

use async_io::Async;
use bytes::Bytes;
use smol::io::{AsyncReadExt as _, AsyncWriteExt as _};
use xds_core::{
    server::{ServerConfig, Transaction},
    types::CLUSTER,
};

use crate::{
    Case, RestServerAdapter, RunningServer, ServerAdapter, ServerSettings, peer::resource,
    raw::RawClient, wait::soon,
};

macro_rules! cases {
    ($($case:path => $what:literal,)*) => {
        &[$(Case { name: $what, run: |adapter| smol::block_on($case(adapter)) },)*]
    };
}

/// Test cases for streams.
pub const GRPC: &[Case<dyn ServerAdapter>] = cases![
    changes => "resources are sent, and sent again when they change",
    slow_reader => "a client that does not read does not delay others",
    too_long => "a request above the size limit ends its stream",
    garbage => "a malformed request ends only its own stream",
    drain => "streams of a draining server end with a status",
    dead_client => "only a client that does not answer pings is disconnected",
];

/// Test cases for polling over REST-JSON.
pub const REST: &[Case<dyn RestServerAdapter>] = cases![
    rest::changes => "a poll is answered with the resources, and a held poll with their changes",
    rest::unchanged => "a poll without changes is held, and then answered as unchanged",
    rest::refusals => "an invalid request is refused with a specific status",
    rest::gone => "a client that disconnects while its poll is held does not delay others",
    rest::end => "a held poll is answered when the server ends",
];

fn start(adapter: &dyn ServerAdapter) -> Box<dyn RunningServer> {
    adapter.start(ServerConfig::default(), &ServerSettings::default())
}

fn set(server: &dyn RunningServer, name: &str, content: &str) {
    let mut change = Transaction::new();
    change.set(CLUSTER, name, resource(name, content));
    server.apply(change);
}

async fn changes(adapter: &dyn ServerAdapter) {
    let server = start(adapter);
    set(&*server, "a", "one");
    let mut client = RawClient::subscribe(server.address(), CLUSTER, &["a"]).await;
    let first = client.response().await;
    assert_eq!(first.resources[0].value, resource("a", "one"));
    client.ack(&first, &["a"]);
    set(&*server, "a", "two");
    let second = client.response().await;
    assert_eq!(second.resources[0].value, resource("a", "two"));
    assert_ne!(first.version_info, second.version_info);
}

async fn slow_reader(adapter: &dyn ServerAdapter) {
    // Exceeds any HTTP/2 window in this test.
    const LONG: usize = 32 << 20;

    let server = start(adapter);
    set(&*server, "a", &"x".repeat(LONG));
    let mut slow = RawClient::subscribe(server.address(), CLUSTER, &["a"]).await;
    for content in ["one", "two", "three"] {
        set(&*server, "b", content);
        let mut other = RawClient::subscribe(server.address(), CLUSTER, &["b"]).await;
        assert_eq!(other.response().await.resources[0].value, resource("b", content));
    }
    // The slow reader has lost nothing.
    assert!(slow.response().await.resources[0].value.len() > LONG);
    println!("covers: IS25");
}

async fn too_long(adapter: &dyn ServerAdapter) {
    let server = start(adapter);
    let name = "x".repeat(2 << 20);
    let client = RawClient::subscribe(server.address(), CLUSTER, &[&name]).await;
    assert_eq!(client.end().await.as_deref(), Some("8"));
}

async fn garbage(adapter: &dyn ServerAdapter) {
    let server = start(adapter);
    set(&*server, "a", "one");
    let mut other_client = RawClient::subscribe(server.address(), CLUSTER, &["a"]).await;
    let first = other_client.response().await;
    // Bytes that are not a valid node.
    let bad = xds_core::proto::Any { type_url: "\u{1}".into(), value: Bytes::from_static(b"\xff") };
    let client = RawClient::call(server.address(), &bad).await;
    assert_eq!(client.end().await.as_deref(), Some("3"));
    other_client.ack(&first, &["a"]);
    set(&*server, "a", "two");
    assert_eq!(other_client.response().await.resources[0].value, resource("a", "two"));
}

async fn drain(adapter: &dyn ServerAdapter) {
    let server = start(adapter);
    set(&*server, "a", "one");
    let mut client = RawClient::subscribe(server.address(), CLUSTER, &["a"]).await;
    let first = client.response().await;
    client.ack(&first, &["a"]);
    server.drain();
    assert_eq!(client.end().await.as_deref(), Some("14"));
}

async fn dead_client(adapter: &dyn ServerAdapter) {
    /// HTTP/2 preface with empty settings.
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    /// Header of a PING frame.
    const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0";

    let often = Duration::from_millis(200);
    let settings = ServerSettings { keepalive: Some((often, 10 * often)) };
    let server = adapter.start(ServerConfig::default(), &settings);
    set(&*server, "a", "one");
    let mut other_client = RawClient::subscribe(server.address(), CLUSTER, &["a"]).await;
    let first = other_client.response().await;
    other_client.ack(&first, &["a"]);
    let socket = soon("a connection", Async::<TcpStream>::connect(server.address())).await;
    let mut socket = socket.expect("somebody listens");
    socket.write_all(PREFACE).await.expect("somebody reads");
    let mut heard = Vec::new();
    // The connection may be reset instead of closed.
    let _ = soon("the end of the connection", socket.read_to_end(&mut heard)).await;
    assert!(heard.windows(PING.len()).any(|it| it == PING), "it was not even asked: {heard:?}");
    set(&*server, "a", "two");
    assert_eq!(other_client.response().await.resources[0].value, resource("a", "two"));
    println!("covers: B59");
}
