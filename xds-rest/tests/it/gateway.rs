//! The gateway with a real server.

use core::{
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioTimer;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::watch,
    time::{Instant, timeout},
};
use tower_service::Service as _;
use xds_core::{
    server::{Readiness, ServerConfig, StatusCode as Code, Transaction},
    types,
};
use xds_format::{Format, Schema, encode_message};
use xds_rest::{Gateway, GatewayOptions, RefusedBody, ResponseBudget, ResponseMemory};
use xds_tokio::{
    DiscoveryService, ServerOptions,
    server::{Admitted, AuthorizationRequest, Denied},
};

use crate::support::{HOLD, cluster, listening, serving, serving_with, set, waiting};

const CLUSTERS: &str = "/v3/discovery:clusters";
/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(60);

async fn send(
    gateway: &Gateway<DiscoveryService>,
    request: Request<Full<Bytes>>,
) -> (StatusCode, Bytes) {
    let response = gateway.clone().call(request).await.expect("infallible");
    let status = response.status();
    (status, response.into_body().collect().await.expect("a whole body").to_bytes())
}

fn post(path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(body.into()));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = path.parse().expect("a path");
    let json = HeaderValue::from_static("application/json");
    request.headers_mut().insert(header::CONTENT_TYPE, json);
    request
}

async fn ask(gateway: &Gateway<DiscoveryService>, path: &str, body: Value) -> (StatusCode, Value) {
    let (status, body) = send(gateway, post(path, body.to_string())).await;
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

#[tokio::test]
async fn poll_is_answered_with_proto_json() {
    let (server, gateway) = serving();
    set(&server, "a", "1s").await;
    for body in [json!({"node": {"id": "n"}}), json!({"node": {"id": "n"}, "ofTomorrow": 1})] {
        let (status, answer) = ask(&gateway, CLUSTERS, body).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(answer["type_url"], types::CLUSTER);
        let expected = json!([{"@type": types::CLUSTER, "name": "a", "connect_timeout": "1s"}]);
        assert_eq!(answer["resources"], expected);
    }
    println!("covers: M180 M183 M191 M195 S0.199 S0.203 S4.020 S4.024");
}

/// The version 2 path serves the resources of the version 2 type. They are printed with the schema
/// of version 3, which has the previous names of messages.
#[tokio::test]
async fn v2_path_serves_resources_of_the_v2_type() {
    const OLDER: &str = "/v2/discovery:clusters";
    let (server, gateway) = serving();
    let older = types::v2_type_url(types::CLUSTER).expect("it was there");
    set(&server, "a", "1s").await;
    let mut change = Transaction::new();
    change.set(older, "b", cluster("b", "1s"));
    server.handle().apply(change).await.expect("a sound change");

    let none = json!({"node": {"id": "n"}, "resource_names": ["a"]});
    assert_eq!(ask(&gateway, CLUSTERS, none).await.0, StatusCode::OK);
    let (status, answer) = ask(&gateway, OLDER, json!({"node": {"id": "n"}})).await;
    assert_eq!((status, &answer["type_url"]), (StatusCode::OK, &json!(older)));
    let expected = json!([{"@type": older, "name": "b", "connect_timeout": "1s"}]);
    assert_eq!(answer["resources"], expected, "and nothing of version 3");
    println!("covers: S4.059");
}

#[tokio::test]
async fn poll_is_held_until_there_is_a_newer_version() {
    let (server, gateway) = serving();
    set(&server, "a", "1s").await;
    let (_, first) = ask(&gateway, CLUSTERS, json!({"node": {"id": "n"}})).await;
    let again = json!({"node": {"id": "n"}, "versionInfo": first["version_info"]});
    let (status, body) = ask(&gateway, CLUSTERS, again.clone()).await;
    assert_eq!((status, body), (StatusCode::NOT_MODIFIED, Value::Null));
    let (answer, ()) = tokio::join!(ask(&gateway, CLUSTERS, again), async {
        waiting(&server).await;
        set(&server, "a", "2s").await;
    });
    assert_eq!(
        (answer.0, &answer.1["resources"][0]["connect_timeout"]),
        (StatusCode::OK, &json!("2s"))
    );
    println!("covers: M185 M192 S0.205");
}

/// Envoy states the time after which it gives up a request.
#[tokio::test(start_paused = true)]
async fn hold_ends_before_the_timeout_that_the_client_states() {
    let server = serving().0;
    set(&server, "a", "1s").await;
    let options = GatewayOptions::default().with_hold(LONG);
    let gateway = Gateway::new(server.service(), Schema::envoy(), TokioTimer::new(), options);
    let node = json!({"id": "n"});
    let (_, first) = ask(&gateway, CLUSTERS, json!({"node": node.clone()})).await;
    let again = json!({"node": node, "version_info": first["version_info"]}).to_string();
    let held = async |stated: Option<&'static str>| {
        let mut poll = post(CLUSTERS, again.clone());
        if let Some(stated) = stated {
            let stated = HeaderValue::from_static(stated);
            poll.headers_mut().insert("x-envoy-expected-rq-timeout-ms", stated);
        }
        let begun = Instant::now();
        let (status, _) = send(&gateway, poll).await;
        assert_eq!(status, StatusCode::NOT_MODIFIED);
        begun.elapsed()
    };
    let nearly = |held: Duration, expected: Duration| {
        assert!(held.saturating_sub(Duration::from_millis(10)) <= expected, "{held:?}");
        assert!(held >= expected, "{held:?}");
    };
    nearly(held(Some("1000")).await, Duration::from_millis(750));
    // Without a timeout, or with one that is longer, the option decides.
    for stated in [None, Some("0"), Some("999999999999999999"), Some("soon"), Some("-1")] {
        nearly(held(stated).await, LONG);
    }
    println!("covers: M185");
}

#[tokio::test]
async fn hold_that_ends_before_readiness_is_unavailable_and_not_304() {
    let mut config = ServerConfig::default();
    config.readiness = Readiness::HoldRequests;
    let (server, gateway) = serving_with(config, ServerOptions::default());
    let probed = server.clone();
    let gateway = gateway.with_readiness(move || probed.is_serving());
    for body in [json!({"node": {"id": "n"}}), json!({"node": {"id": "n"}, "version_info": "7"})] {
        let (status, why) = send(&gateway, post(CLUSTERS, body.to_string())).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(why.starts_with(b"the server is not ready"), "{why:?}");
    }
    set(&server, "a", "1s").await;
    server.handle().set_ready().await.expect("it runs");
    let (status, first) = ask(&gateway, CLUSTERS, json!({"node": {"id": "n"}})).await;
    assert_eq!(status, StatusCode::OK);
    let again = json!({"node": {"id": "n"}, "version_info": first["version_info"]});
    assert_eq!(ask(&gateway, CLUSTERS, again).await.0, StatusCode::NOT_MODIFIED);
    // The server is ready, so a name that it does not have does not exist.
    let missing = json!({"node": {"id": "n"}, "resource_names": ["b"]});
    let (status, _) = ask(&gateway, CLUSTERS, missing).await;
    assert_ne!(status, StatusCode::SERVICE_UNAVAILABLE);
    println!("covers: M16 M185");
}

/// Returns a cluster with an extension of an unknown type.
fn cluster_with_unknown(name: &str) -> Bytes {
    let text = format!(
        "name: '{name}' transport_socket {{ name: 't' typed_config {{ type_url: 't/acme.Socket' value: 'a' }} }}"
    );
    let message = "envoy.config.cluster.v3.Cluster";
    let cluster = encode_message(Schema::envoy(), "", message, Format::Text, text.as_bytes());
    cluster.expect("a cluster").into()
}

#[tokio::test]
async fn unprintable_resource_is_an_error_for_a_client_that_may_hold_it() {
    let (server, gateway) = serving();
    set(&server, "a", "1s").await;
    set(&server, "b", "1s").await;
    let (_, first) = ask(&gateway, CLUSTERS, json!({"node": {"id": "n"}})).await;
    let mut change = Transaction::new();
    change.set(types::CLUSTER, "b", cluster_with_unknown("b"));
    server.handle().apply(change).await.expect("a sound change");

    let again = json!({"node": {"id": "n"}, "version_info": first["version_info"]});
    let (status, why) = send(&gateway, post(CLUSTERS, again.to_string())).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    let expected = format!(
        "1 of 2 resources of type {} cannot be printed: `b`: transport_socket.typed_config: an \
         `Any` cannot be written as JSON or YAML: the type `t/acme.Socket` is not in the \
         schema\n",
        types::CLUSTER
    );
    assert_eq!(String::from_utf8_lossy(&why), expected);
    assert_eq!(gateway.unprintable(), 1);

    // After the resource is repaired, the client gets the whole response.
    set(&server, "b", "2s").await;
    let (status, answer) = ask(&gateway, CLUSTERS, again).await;
    assert_eq!((status, names(&answer)), (StatusCode::OK, vec!["a", "b"]));
}

#[tokio::test]
async fn client_without_a_version_gets_the_response_without_unprintable_ones() {
    let (server, gateway) = serving();
    set(&server, "a", "1s").await;
    let mut change = Transaction::new();
    change.set(types::CLUSTER, "b", cluster_with_unknown("b"));
    server.handle().apply(change).await.expect("a sound change");

    let request = |version: &Value| json!({"node": {"id": "n"}, "version_info": version});
    let (status, first) = ask(&gateway, CLUSTERS, request(&"".into())).await;
    assert_eq!((status, names(&first)), (StatusCode::OK, vec!["a"]));
    assert_eq!(gateway.unprintable(), 1);
    // The version differs from that of the whole response, which the client would never request
    // otherwise.
    let version = &first["version_info"];
    assert!(version.as_str().expect("a version").contains("-without-"), "{version}");
    let (status, _) = ask(&gateway, CLUSTERS, request(version)).await;
    assert_eq!(status, StatusCode::NOT_MODIFIED);
    // After other changes the client gets them, without the same resource.
    set(&server, "c", "1s").await;
    let (status, second) = ask(&gateway, CLUSTERS, request(version)).await;
    assert_eq!((status, names(&second)), (StatusCode::OK, vec!["a", "c"]));
    // The client has this resource and must keep it.
    let mut change = Transaction::new();
    change.set(types::CLUSTER, "c", cluster_with_unknown("c"));
    server.handle().apply(change).await.expect("a sound change");
    let (status, _) = ask(&gateway, CLUSTERS, request(&second["version_info"])).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    for name in ["b", "c"] {
        set(&server, name, "1s").await;
    }
    let (status, whole) = ask(&gateway, CLUSTERS, request(&second["version_info"])).await;
    assert_eq!((status, names(&whole)), (StatusCode::OK, vec!["a", "b", "c"]));
}

/// The service does not know the version of an incomplete response, and would answer at once.
#[tokio::test]
async fn poll_with_the_version_of_an_incomplete_response_is_held() {
    let (server, gateway) = serving();
    let options = GatewayOptions::default().with_hold(LONG);
    let patient = Gateway::new(server.service(), Schema::envoy(), TokioTimer::new(), options);
    let mut change = Transaction::new();
    change.set(types::CLUSTER, "b", cluster_with_unknown("b"));
    server.handle().apply(change).await.expect("a sound change");
    set(&server, "a", "1s").await;
    let request = |version: &Value| json!({"node": {"id": "n"}, "version_info": version});
    let (_, first) = ask(&patient, CLUSTERS, request(&"".into())).await;

    let mut poll = pin!(ask(&patient, CLUSTERS, request(&first["version_info"])));
    let early = timeout(HOLD, &mut poll).await;
    assert!(early.is_err(), "the poll was not held: {early:?}");
    set(&server, "a", "2s").await;
    let answer = poll.await;
    let expected = (StatusCode::OK, &json!("2s"));
    assert_eq!((answer.0, &answer.1["resources"][0]["connect_timeout"]), expected);

    // Another gateway has not sent this version, so it prints the response to compare it. From then
    // on it holds such polls as well.
    let version = &answer.1["version_info"];
    assert_eq!(ask(&gateway, CLUSTERS, request(version)).await.0, StatusCode::NOT_MODIFIED);
    let early = timeout(HOLD / 2, ask(&gateway, CLUSTERS, request(version))).await;
    assert!(early.is_err(), "the poll was not held: {early:?}");
}

#[tokio::test]
async fn incomplete_responses_to_two_polls_are_printed_once() {
    let (server, gateway) = serving();
    let mut change = Transaction::new();
    change.set(types::CLUSTER, "b", cluster_with_unknown("b"));
    server.handle().apply(change).await.expect("a sound change");
    let body = json!({"node": {"id": "n"}}).to_string();
    let (_, one) = send(&gateway, post(CLUSTERS, body.clone())).await;
    let (_, other) = send(&gateway, post(CLUSTERS, body)).await;
    assert_eq!(one.as_ptr(), other.as_ptr(), "these are the same bytes, not equal ones");
    assert_eq!(gateway.unprintable(), 2);
}

#[tokio::test]
async fn longest_times_and_headers_of_a_transport_do_not_fail_a_poll() {
    let (server, _) = serving();
    let options =
        GatewayOptions::default().with_hold(Duration::MAX).with_body_timeout(Duration::MAX);
    let gateway = Gateway::new(server.service(), Schema::envoy(), TokioTimer::new(), options);
    set(&server, "a", "1s").await;
    let mut request = post(CLUSTERS, json!({"node": {"id": "n"}}).to_string());
    for name in ["grpc-encoding", "grpc-accept-encoding", "grpc-timeout"] {
        request.headers_mut().insert(name, HeaderValue::from_static("gzip"));
    }
    assert_eq!(send(&gateway, request).await.0, StatusCode::OK);
}

#[tokio::test]
async fn present_and_empty_any_is_an_empty_object() {
    let (server, gateway) = serving();
    let text = "name: 'a' transport_socket { name: 't' typed_config { } }";
    let message = "envoy.config.cluster.v3.Cluster";
    let cluster = encode_message(Schema::envoy(), "", message, Format::Text, text.as_bytes());
    let mut change = Transaction::new();
    change.set(types::CLUSTER, "a", cluster.expect("a cluster"));
    server.handle().apply(change).await.expect("a sound change");
    let (_, answer) = ask(&gateway, CLUSTERS, json!({"node": {"id": "n"}})).await;
    assert_eq!(
        answer["resources"][0]["transport_socket"],
        json!({"name": "t", "typed_config": {}})
    );
}

fn names(response: &Value) -> Vec<&str> {
    let resources = response["resources"].as_array().expect("a response");
    let mut names: Vec<_> = resources.iter().filter_map(|it| it["name"].as_str()).collect();
    names.sort_unstable();
    names
}

/// The application decides when a node has resources, and how long a request waits for them.
#[tokio::test(start_paused = true)]
async fn poll_waits_until_the_authorizer_knows_the_view() {
    let (appear, appears) = watch::channel(false);
    let when_it_is_there = move |client: AuthorizationRequest| {
        let mut appears = appears.clone();
        async move {
            match timeout(HOLD / 2, appears.wait_for(|&is_there| is_there)).await {
                Ok(Ok(_)) => Ok(Admitted::to(&*client.node_id)),
                _ => Err(Denied::new(Code::Unavailable, "nothing is known of this node yet")),
            }
        }
    };
    let options = ServerOptions::default().with_authorizer(when_it_is_there);
    let (server, gateway) = serving_with(ServerConfig::default(), options);
    let body = json!({"node": {"id": "n"}}).to_string();
    let (status, why) = send(&gateway, post(CLUSTERS, body.clone())).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(&*why, b"nothing is known of this node yet\n");
    let (answer, ()) = tokio::join!(send(&gateway, post(CLUSTERS, body)), async {
        waiting(&server).await;
        let mut change = Transaction::in_view("n");
        change.set(types::CLUSTER, "a", cluster("a", "1s"));
        server.handle().apply(change).await.expect("a sound change");
        appear.send(true).expect("somebody waits");
    });
    assert_eq!(answer.0, StatusCode::OK);
    assert!(answer.1.windows(2).any(|it| it == b"1s"), "{answer:?}");
    println!("covers: M184");
}

#[tokio::test]
async fn invalid_poll_is_rejected_with_a_reason() {
    let (_server, gateway) = serving();
    let node = json!({"node": {"id": "n"}}).to_string();
    let with = |change: fn(&mut Request<Full<Bytes>>)| {
        let mut request = post(CLUSTERS, node.clone());
        change(&mut request);
        request
    };
    for (request, status, reason) in [
        (post("/v3/discovery:everything", node.clone()), 404, "/v3/discovery:everything"),
        (post("/v3/discovery:virtual-hosts", node.clone()), 404, "virtual-hosts"),
        (with(|it| *it.method_mut() = Method::GET), 405, "POST"),
        (
            with(|it| {
                let grpc = HeaderValue::from_static("application/grpc");
                it.headers_mut().insert(header::CONTENT_TYPE, grpc);
            }),
            415,
            "application/json",
        ),
        (
            with(|it| {
                let gzip = HeaderValue::from_static("gzip");
                it.headers_mut().insert(header::CONTENT_ENCODING, gzip);
            }),
            415,
            "content encoding",
        ),
        (post(CLUSTERS, ""), 400, "request:1:1"),
        (post(CLUSTERS, "{\"node\": 7}"), 400, "node: expected an object"),
        (post(CLUSTERS, vec![b' '; (4 << 20) + 1]), 413, "4194304"),
        (
            post(CLUSTERS, json!({"type_url": types::LISTENER, "node": {"id": "n"}}).to_string()),
            400,
            types::LISTENER,
        ),
    ] {
        let (got, body) = send(&gateway, request).await;
        let text = String::from_utf8_lossy(&body);
        assert_eq!(got.as_u16(), status, "{text}");
        assert!(text.contains(reason), "{text:?} names no {reason:?}");
    }
    println!("covers: M181 M182 M194 M197 M198 S0.180 S0.204");
}

#[tokio::test]
async fn shutdown_answers_held_polls_with_unavailable() {
    let (server, gateway) = serving();
    let missing = json!({"node": {"id": "n"}, "resource_names": ["a"]});
    let (answer, ()) = tokio::join!(ask(&gateway, CLUSTERS, missing), async {
        waiting(&server).await;
        server.handle().shut_down().await;
    });
    assert_eq!(answer.0, StatusCode::SERVICE_UNAVAILABLE);
    println!("covers: M193");
}

/// Equal responses to different clients are printed once, because printing is expensive.
#[tokio::test]
async fn equal_responses_to_two_polls_are_printed_once() {
    let (server, gateway) = serving();
    set(&server, "a", "1s").await;
    let poll = async |node: &str| {
        let body = json!({"node": {"id": node}}).to_string();
        let (status, answer) = send(&gateway, post(CLUSTERS, body)).await;
        assert_eq!(status, StatusCode::OK);
        answer
    };
    let (one, other) = (poll("n").await, poll("m").await);
    assert_eq!(one, other);
    assert_eq!(one.as_ptr(), other.as_ptr(), "these are the same bytes, not equal ones");
    set(&server, "a", "2s").await;
    assert_ne!(poll("n").await, one);
    println!("covers: M195");
}

/// An incomplete request occupies resources only until the timeout.
#[tokio::test]
async fn incomplete_request_body_is_rejected_after_the_timeout() {
    let (server, _) = serving();
    let options = GatewayOptions::default().with_body_timeout(Duration::from_millis(50));
    let gateway = Gateway::new(server.service(), Schema::envoy(), TokioTimer::new(), options);
    let mut socket = TcpStream::connect(listening(gateway).await).await.expect("it listens");
    let half = "POST /v3/discovery:clusters HTTP/1.1\r\nhost: a\r\ncontent-length: 99\r\n\r\n{";
    socket.write_all(half.as_bytes()).await.expect("it reads");
    let mut answer = Vec::new();
    while !answer.ends_with(b"1 bytes were received\n") {
        let read = socket.read_buf(&mut answer).await.expect("an answer");
        assert_ne!(read, 0, "{}", String::from_utf8_lossy(&answer));
    }
    assert!(answer.starts_with(b"HTTP/1.1 408 "), "{}", String::from_utf8_lossy(&answer));
}

/// Memory that has room or not.
struct Memory(bool);

impl ResponseMemory for Memory {
    fn has_room(&self) -> bool {
        self.0
    }

    fn hold(&self, bytes: Bytes) -> Bytes {
        bytes
    }
}

/// A response is not printed if the transport has no memory for it.
#[tokio::test]
async fn response_without_room_is_unavailable() {
    let (server, gateway) = serving();
    set(&server, "a", "1s").await;
    for (has_room, status) in [(false, StatusCode::SERVICE_UNAVAILABLE), (true, StatusCode::OK)] {
        let mut request = post(CLUSTERS, json!({"node": {"id": "n"}}).to_string());
        request.extensions_mut().insert(ResponseBudget::new(Memory(has_room)));
        assert_eq!(send(&gateway, request).await.0, status);
    }
}

/// Body that the transport refuses to read.
struct Refused;

impl http_body::Body for Refused {
    type Data = Bytes;
    type Error = RefusedBody;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, RefusedBody>>> {
        let why = RefusedBody::new(StatusCode::SERVICE_UNAVAILABLE, "no memory");
        Poll::Ready(Some(Err(why)))
    }
}

#[tokio::test]
async fn refused_body_is_answered_with_its_status() {
    let (_server, mut gateway) = serving();
    let request = post(CLUSTERS, "").map(|_| Refused);
    let response = gateway.call(request).await.expect("infallible");
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    let body = response.into_body().collect().await.expect("a whole body").to_bytes();
    assert_eq!(body, "no memory\n");
}
