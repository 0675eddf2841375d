//! Clients that do what no client should, on real connections. Whatever one of them does, the server
//! stays up, others are served all along, and the offender's stream ends with a status that says why.

mod support;

use core::{future::poll_fn, time::Duration};
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use prost::Message as _;
use support::{
    AGGREGATED, CLUSTER, DELTA_AGGREGATED, ENDPOINTS, RawClient, SECRET, connect, give_way, names,
    server::{Running, set, start_with, streams},
    soon,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tonic::Code;
use tower_service::Service as _;
use xds_core::{
    proto::{DeltaDiscoveryRequest, DiscoveryRequest, Node, Status},
    server::{AnswerOverdue, Interest, Rate, ServerConfig, ServerLimits, SyncState},
    types,
};
use xds_tokio::{ServerHandle, ServerOptions};

const STREAM_CLUSTERS: &str = "/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters";
const NAMES: usize = 120_000;
const TYPES: usize = 16;

async fn start() -> Running {
    let mut limits = ServerLimits::default();
    limits.names_per_stream = NAMES;
    limits.types_per_stream = TYPES;
    let config = ServerConfig::default().with_limits(limits);
    let options = ServerOptions::default().with_max_request_bytes(4 << 20);
    let running = start_with(config, options).await;
    running.handle.apply(set(&[(CLUSTER, "c", "1"), (ENDPOINTS, "e", "1")])).await.unwrap();
    running
}

/// Two clients that keep to the protocol, one in each variant.
struct Witnesses {
    handle: ServerHandle,
    whole: RawClient,
    changes: RawClient,
    rounds: usize,
}

impl Witnesses {
    async fn of(running: &Running) -> Self {
        let handle = running.handle.clone();
        let whole = RawClient::open(running.address).await;
        whole.subscribe(SECRET, &["witness"]);
        let changes = RawClient::call(running.address, DELTA_AGGREGATED).await.unwrap();
        changes.subscribe_delta(types::RUNTIME, &["witness"]);
        let mut witnesses = Self { handle, whole, changes, rounds: 0 };
        let missing = witnesses.changes.delta_response().await;
        witnesses.changes.ack_delta(&missing);
        witnesses
    }

    /// A change reaches both.
    async fn are_served(&mut self, after: &str) {
        self.rounds += 1;
        let content = self.rounds.to_string();
        let change = set(&[(SECRET, "witness", &content), (types::RUNTIME, "witness", &content)]);
        self.handle.apply(change).await.unwrap();
        let response = self.whole.response().await;
        assert!(response.resources[0].value.ends_with(content.as_bytes()), "{after}");
        self.whole.answer(&response, &["witness"], None);
        let response = self.changes.delta_response().await;
        let resource = response.resources[0].resource.as_ref().unwrap();
        assert!(resource.value.ends_with(content.as_bytes()), "{after}");
        self.changes.ack_delta(&response);
    }
}

/// What becomes of the offender.
enum End {
    /// Its stream ends with this code, and a message that has this in it.
    Status(Code, &'static str),
    /// No harm was done: the stream goes on and what it asks for next is answered.
    Served,
}

use End::{Served, Status as Ends};

fn node(id: &str) -> Option<Node> {
    Some(Node { id: id.into(), ..Node::default() })
}

/// A first request for clusters, altered.
fn whole(alter: impl FnOnce(&mut DiscoveryRequest)) -> Bytes {
    let mut request =
        DiscoveryRequest { node: node("bad"), type_url: CLUSTER.into(), ..Default::default() };
    alter(&mut request);
    request.encode_to_vec().into()
}

/// The same in the incremental variant.
fn delta(alter: impl FnOnce(&mut DeltaDiscoveryRequest)) -> Bytes {
    let mut request =
        DeltaDiscoveryRequest { node: node("bad"), type_url: CLUSTER.into(), ..Default::default() };
    alter(&mut request);
    request.encode_to_vec().into()
}

fn rejection(bytes: usize) -> Option<Status> {
    Some(Status { code: 3, message: "no ".repeat(bytes / 3), ..Status::default() })
}

fn many(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("n{n}")).collect()
}

/// Who says what on which method, and what comes of it.
fn cases() -> Vec<(&'static str, &'static str, Vec<Bytes>, End)> {
    let sound = whole(|_| {});
    let cut = sound.slice(..sound.len() - 3);
    let long = "x".repeat(1 << 20);
    let mut no_text = sound.to_vec();
    no_text.extend_from_slice(b"\x1a\x02\xff\xfe");
    let mut odd_number = sound.to_vec();
    odd_number.extend_from_slice(b"\x18\x01");
    let types = (0..=TYPES).map(|n| whole(|it| it.type_url = format!("t/{n}")));
    vec![
        (
            "garbage",
            AGGREGATED,
            vec![Bytes::from_static(&[0xff; 99])],
            Ends(Code::InvalidArgument, "malformed"),
        ),
        (
            "garbage",
            DELTA_AGGREGATED,
            vec![Bytes::from_static(&[0xff; 99])],
            Ends(Code::InvalidArgument, "malformed"),
        ),
        ("an empty message", AGGREGATED, vec![Bytes::new()], Ends(Code::InvalidArgument, "node")),
        ("a message cut short", AGGREGATED, vec![cut], Ends(Code::InvalidArgument, "truncated")),
        (
            "a name that is not UTF-8",
            AGGREGATED,
            vec![no_text.into()],
            Ends(Code::InvalidArgument, "UTF-8"),
        ),
        (
            "a number for a name",
            AGGREGATED,
            vec![odd_number.into()],
            Ends(Code::InvalidArgument, "wrong encoding"),
        ),
        (
            "no node",
            AGGREGATED,
            vec![whole(|it| it.node = None)],
            Ends(Code::InvalidArgument, "node id"),
        ),
        (
            "a node without id",
            DELTA_AGGREGATED,
            vec![delta(|it| it.node = node(""))],
            Ends(Code::InvalidArgument, "node id"),
        ),
        (
            "no type",
            AGGREGATED,
            vec![whole(|it| it.type_url.clear())],
            Ends(Code::InvalidArgument, "type URL"),
        ),
        (
            "another type than the stream's",
            STREAM_CLUSTERS,
            vec![whole(|it| it.type_url = ENDPOINTS.into())],
            Ends(Code::InvalidArgument, "on a stream of"),
        ),
        (
            "a type that nobody knows",
            AGGREGATED,
            vec![whole(|it| it.type_url = "no/such.Type".into())],
            Served,
        ),
        (
            "a type that nobody knows",
            DELTA_AGGREGATED,
            vec![delta(|it| it.type_url = "no/such.Type".into())],
            Served,
        ),
        (
            "a type URL without any form",
            AGGREGATED,
            vec![whole(|it| it.type_url = "\u{0}\u{7f}/../%".into())],
            Served,
        ),
        (
            "a type URL of a MiB",
            AGGREGATED,
            vec![whole(|it| it.type_url = long.clone())],
            Ends(Code::ResourceExhausted, "limit of 2048"),
        ),
        (
            "a name of a MiB",
            AGGREGATED,
            vec![whole(|it| it.resource_names = vec![long.clone()])],
            Ends(Code::ResourceExhausted, "limit of 2048"),
        ),
        (
            "a name of a MiB",
            DELTA_AGGREGATED,
            vec![delta(|it| it.resource_names_subscribe = vec![long.clone()])],
            Ends(Code::ResourceExhausted, "limit of 2048"),
        ),
        (
            "to drop a name of a MiB",
            DELTA_AGGREGATED,
            vec![delta(|it| it.resource_names_unsubscribe = vec![long.clone()])],
            Ends(Code::ResourceExhausted, "limit of 2048"),
        ),
        (
            "a version of a MiB",
            AGGREGATED,
            vec![whole(|it| it.version_info = long.clone())],
            Served,
        ),
        (
            "a node of more than a MiB",
            AGGREGATED,
            vec![whole(|it| it.node.as_mut().unwrap().cluster = format!("{long}x"))],
            Ends(Code::ResourceExhausted, "node of"),
        ),
        (
            "empty names",
            AGGREGATED,
            vec![whole(|it| it.resource_names = vec![String::new(); 3])],
            Served,
        ),
        (
            "empty names",
            DELTA_AGGREGATED,
            vec![delta(|it| it.resource_names_subscribe = vec![String::new(); 3])],
            Served,
        ),
        (
            "a name many times",
            AGGREGATED,
            vec![whole(|it| it.resource_names = vec!["c".into(); 1_000])],
            Served,
        ),
        (
            "names of no form",
            AGGREGATED,
            vec![whole(|it| {
                it.resource_names =
                    vec!["xdstp://a/b?x=%zz&=".into(), "xdstp:///".into(), "\u{0}".into()]
            })],
            Served,
        ),
        (
            "a hundred thousand names",
            AGGREGATED,
            vec![whole(|it| it.resource_names = many(100_000))],
            Served,
        ),
        (
            "a hundred thousand names",
            DELTA_AGGREGATED,
            vec![delta(|it| it.resource_names_subscribe = many(100_000))],
            Served,
        ),
        (
            "more names than are held",
            AGGREGATED,
            vec![whole(|it| it.resource_names = many(NAMES + 1))],
            Ends(Code::ResourceExhausted, "resource names"),
        ),
        (
            "more names than are held",
            DELTA_AGGREGATED,
            vec![delta(|it| it.resource_names_subscribe = many(NAMES + 1))],
            Ends(Code::ResourceExhausted, "resource names"),
        ),
        (
            "more versions than are held",
            DELTA_AGGREGATED,
            vec![delta(|it| {
                it.initial_resource_versions =
                    many(NAMES + 1).into_iter().map(|name| (name, String::new())).collect()
            })],
            Ends(Code::ResourceExhausted, "resource names"),
        ),
        (
            "more types than are held",
            AGGREGATED,
            types.collect(),
            Ends(Code::ResourceExhausted, "resource types"),
        ),
        (
            "a message over the limit",
            AGGREGATED,
            vec![whole(|it| it.version_info = long.repeat(5))],
            Ends(Code::ResourceExhausted, "limit is: 4194304 bytes"),
        ),
        (
            "a nonce of its own",
            AGGREGATED,
            vec![whole(|it| it.response_nonce = "17".into())],
            Served,
        ),
        (
            "a nonce of a MiB",
            AGGREGATED,
            vec![sound.clone(), whole(|it| it.response_nonce = long.clone())],
            Served,
        ),
        (
            "a nonce of the future",
            AGGREGATED,
            vec![sound.clone(), whole(|it| it.response_nonce = "99999".into())],
            Served,
        ),
        (
            "a nonce of the future",
            DELTA_AGGREGATED,
            vec![delta(|_| {}), delta(|it| it.response_nonce = "99999".into())],
            Served,
        ),
        (
            "the same ACK again and again",
            AGGREGATED,
            core::iter::once(sound.clone())
                .chain((0..50).map(|_| whole(|it| it.response_nonce = "1".into())))
                .collect(),
            Served,
        ),
        (
            "a rejection before there is anything",
            AGGREGATED,
            vec![whole(|it| it.error_detail = rejection(30))],
            Served,
        ),
        (
            "rejections of a MiB",
            AGGREGATED,
            core::iter::once(sound.clone())
                .chain((0..20).map(|_| {
                    whole(|it| {
                        it.response_nonce = "1".into();
                        it.error_detail = rejection(1 << 20);
                    })
                }))
                .collect(),
            Served,
        ),
        (
            "rejections of a MiB",
            DELTA_AGGREGATED,
            core::iter::once(delta(|_| {}))
                .chain((0..20).map(|_| {
                    delta(|it| {
                        it.response_nonce = "1".into();
                        it.error_detail = rejection(1 << 20);
                    })
                }))
                .collect(),
            Served,
        ),
        (
            "another node in every request",
            AGGREGATED,
            (0..50).map(|n| whole(|it| it.node = node(&n.to_string()))).collect(),
            Served,
        ),
        (
            "names come and gone",
            AGGREGATED,
            (0..2_000)
                .map(|n| {
                    whole(|it| {
                        if n % 2 == 0 {
                            it.resource_names = vec![format!("n{n}")]
                        }
                    })
                })
                .collect(),
            Served,
        ),
        (
            "names come and gone",
            DELTA_AGGREGATED,
            (0..2_000)
                .map(|n| {
                    delta(|it| {
                        let name = vec![format!("n{}", n / 2)];
                        if n % 2 == 0 {
                            it.resource_names_subscribe = name
                        } else {
                            it.resource_names_unsubscribe = name
                        }
                    })
                })
                .collect(),
            Served,
        ),
        (
            "incremental requests among others",
            AGGREGATED,
            vec![sound.clone(), delta(|it| it.resource_names_subscribe = vec!["c".into()])],
            Ends(Code::InvalidArgument, "type URL"),
        ),
        ("whole lists among increments", DELTA_AGGREGATED, vec![delta(|_| {}), sound], Served),
        (
            "versions in the midst of a stream",
            DELTA_AGGREGATED,
            vec![
                delta(|_| {}),
                delta(|it| {
                    it.initial_resource_versions =
                        many(100).into_iter().map(|name| (name, "v".into())).collect()
                }),
            ],
            Served,
        ),
        (
            "to drop what was never asked for",
            DELTA_AGGREGATED,
            vec![delta(|it| it.resource_names_unsubscribe = many(1_000))],
            Served,
        ),
    ]
}

#[tokio::test]
async fn whatever_a_client_says_only_its_own_stream_ends() {
    let running = start().await;
    let mut witnesses = Witnesses::of(&running).await;
    let before = running.handle.stats().await.unwrap();
    for (what, path, messages, end) in cases() {
        let context = format!("{what} on {path}");
        println!("{context}");
        let mut client = RawClient::call(running.address, path).await.unwrap();
        messages.into_iter().for_each(|message| client.send(message));
        match end {
            Ends(code, text) => {
                let status = client.end().await;
                assert_eq!(status.code(), code, "{context}: {status}");
                assert!(status.message().contains(text), "{context}: {status}");
            }
            Served if path == DELTA_AGGREGATED => {
                client.subscribe_delta(ENDPOINTS, &["e"]);
                while client.delta_response().await.type_url != ENDPOINTS {}
            }
            Served => {
                client.subscribe(ENDPOINTS, &["e"]);
                while client.response().await.type_url != ENDPOINTS {}
            }
        }
        witnesses.are_served(&context).await;
        drop(client);
    }
    // Nothing is left of any of them.
    streams(&running.handle, 2).await;
    let after = running.handle.stats().await.unwrap();
    assert_eq!(
        (after.subscriptions, after.names, after.types),
        (before.subscriptions, before.names, before.types),
        "the witnesses' resources, and nobody's else"
    );
    println!("covers: M3 M4 M5 M7 M8 M61 M241 M242 IS2 IS19 IS21 IS22 IS23 S0.070");
}

/// Sends a body as it is, and reads the status.
async fn raw_body(address: SocketAddr, body: impl Into<Bytes>) -> (i32, String) {
    let mut channel = connect(address).await;
    soon(poll_fn(|cx| channel.poll_ready(cx))).await.unwrap();
    let request = http::Request::post(format!("http://{address}{AGGREGATED}"))
        .header("content-type", "application/grpc")
        .body(tonic::body::Body::new(Full::new(body.into())))
        .unwrap();
    let response = soon(channel.call(request)).await.unwrap();
    let headers = response.headers().clone();
    let trailers = soon(response.into_body().collect()).await.unwrap().trailers().cloned();
    let said = trailers.unwrap_or(headers);
    let text = |name: &str| said.get(name).map(|it| it.to_str().unwrap().to_owned());
    (text("grpc-status").unwrap().parse().unwrap(), text("grpc-message").unwrap_or_default())
}

#[tokio::test]
async fn frames_that_are_none_end_their_stream_alone() {
    let running = start().await;
    let mut witnesses = Witnesses::of(&running).await;
    for (what, body, code, text) in [
        (
            "a frame that ends too early",
            &b"\0\0\0\0\x63only this"[..],
            Code::InvalidArgument,
            "undeliverable",
        ),
        ("a prefix cut short", b"\0\0\0", Code::InvalidArgument, "undeliverable"),
        ("compressed without a word", b"\x01\0\0\0\x01x", Code::InvalidArgument, "compress"),
        ("a flag that is none", b"\x07\0\0\0\x01x", Code::InvalidArgument, "flag"),
        ("four gigabytes announced", b"\0\xff\xff\xff\xff", Code::ResourceExhausted, "limit"),
    ] {
        let (status, message) = raw_body(running.address, body).await;
        assert_eq!(Code::from_i32(status), code, "{what}: {message}");
        assert!(message.contains(text), "{what}: {message}");
        witnesses.are_served(what).await;
    }
    for what in [
        &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a handshake of TLS, or nearly",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff and what is no frame",
    ] {
        let mut socket = TcpStream::connect(running.address).await.unwrap();
        socket.write_all(what).await.unwrap();
        let mut said = Vec::new();
        // Whether it ends with a goodbye or a reset is the same to us.
        let _ = soon(socket.read_to_end(&mut said)).await;
        witnesses.are_served("bytes that are not HTTP/2").await;
    }
    // Half open, and silent.
    let silent = TcpStream::connect(running.address).await.unwrap();
    let mut half = TcpStream::connect(running.address).await.unwrap();
    half.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n").await.unwrap();
    witnesses.are_served("connections that say nothing").await;
    drop((silent, half));
    streams(&running.handle, 2).await;
}

#[tokio::test]
async fn a_client_that_does_not_read_or_answer_holds_up_itself_alone() {
    let running = start().await;
    let mut witnesses = Witnesses::of(&running).await;
    let mut deaf = RawClient::open(running.address).await;
    deaf.subscribe(ENDPOINTS, &["big"]);
    let mut mute = RawClient::open(running.address).await;
    mute.subscribe(CLUSTER, &["c"]);
    let first = mute.response().await;
    for round in 0..6 {
        let content = round.to_string();
        let big = content.repeat(3 << 20);
        let change = set(&[(ENDPOINTS, "big", &big), (CLUSTER, "c", &content)]);
        running.handle.apply(change).await.unwrap();
        // What it asks for meanwhile is taken, and does not pile up.
        (0..100).for_each(|_| deaf.subscribe(ENDPOINTS, &["big"]));
        witnesses.are_served("a client that does not read").await;
    }
    let rows = running.handle.status().await.unwrap();
    let of = |type_url: &str| rows.iter().find(|row| row.type_url.as_str() == type_url).unwrap();
    assert_eq!((of(CLUSTER).state, of(CLUSTER).responses), (SyncState::Sent, 1));
    assert_eq!((of(ENDPOINTS).interest, of(ENDPOINTS).responses), (Interest::Names(1), 1));
    // Both are sent the newest state once they come back to their senses.
    mute.answer(&first, &["c"], None);
    assert!(mute.response().await.resources[0].value.ends_with(b"5"));
    let first = deaf.response().await;
    deaf.answer(&first, &["big"], None);
    let newest = deaf.response().await;
    assert_eq!(newest.resources[0].value.last(), Some(&b'5'));
    assert_eq!(names(&newest), ["big"]);
    println!("covers: M114 M230 IS16 IS25");
}

#[tokio::test]
async fn streams_that_come_and_go_leave_nothing() {
    let running = start().await;
    let mut witnesses = Witnesses::of(&running).await;
    for _ in 0..4 {
        let channel = connect(running.address).await;
        for n in 0..50 {
            // A server may well have enough of resets before that.
            let path = [AGGREGATED, DELTA_AGGREGATED][n % 2];
            let Ok(client) = RawClient::call_on(channel.clone(), path).await else { break };
            match path {
                AGGREGATED => client.subscribe(CLUSTER, &["c"]),
                _ => client.subscribe_delta(CLUSTER, &["c"]),
            }
            if n % 3 == 0 {
                give_way().await;
            }
        }
        witnesses.are_served("streams that come and go").await;
    }
    streams(&running.handle, 2).await;
    assert_eq!(running.handle.stats().await.unwrap().subscriptions, 2);
    println!("covers: M13 IS23");
}

#[tokio::test]
async fn a_client_that_never_answers_is_told_why_it_has_to_go() {
    let mut config = ServerConfig::default();
    let overdue = AnswerOverdue::Close(Duration::from_millis(20));
    config = config.with_every_type(|it| it.answer_overdue = overdue);
    let running = start_with(config, ServerOptions::default()).await;
    running.handle.apply(set(&[(CLUSTER, "c", "1")])).await.unwrap();
    let mut mute = RawClient::open(running.address).await;
    mute.subscribe(CLUSTER, &["c"]);
    mute.response().await;
    let status = mute.end().await;
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    assert!(status.message().contains("no answer"), "{status}");
    println!("covers: M65");
}

#[tokio::test]
async fn what_is_too_much_for_one_client_is_refused_or_slowed_down() {
    let mut limits = ServerLimits::default();
    limits.streams_per_node = 2;
    limits.requests = Some(Rate { per_second: 1_000, burst: 50 });
    let config = ServerConfig::default().with_limits(limits);
    let running = start_with(config, ServerOptions::default()).await;
    running.handle.apply(set(&[(CLUSTER, "c", "1"), (ENDPOINTS, "e", "1")])).await.unwrap();
    let mut hasty = RawClient::open(running.address).await;
    // It is read no faster than it may speak; what it says is taken all the same.
    (0..200).for_each(|n| hasty.subscribe(CLUSTER, &[["c", "d"][n % 2]]));
    hasty.subscribe(ENDPOINTS, &["e"]);
    while hasty.response().await.type_url != ENDPOINTS {}

    let second = RawClient::open(running.address).await;
    second.subscribe(ENDPOINTS, &["e"]);
    let mut third = RawClient::open(running.address).await;
    third.subscribe(ENDPOINTS, &["e"]);
    let status = third.end().await;
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert!(status.message().contains("streams of one node"), "{status}");
    println!("covers: IS24 M242");
}
