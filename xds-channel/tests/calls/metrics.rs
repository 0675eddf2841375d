//! Metrics of calls (gRFC A66, gRFC A78, gRFC A89).

use core::time::Duration;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use http_body::Body as _;
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tower_service::Service as _;
use xds_channel::{ChannelInstrument, ChannelMetrics, ChannelOptions, XdsChannel};
use xds_routing::proto::envoy::config::route::v3::{RetryPolicy, Route, route::Action};

use crate::{
    support::*,
    world::{Backend, Change, World, check, soon},
};

/// Measurements: the name of the instrument, the values of its labels, and the values.
type Series = BTreeMap<(&'static str, Vec<(&'static str, String)>), Vec<f64>>;

#[derive(Clone, Default)]
struct Recorded(Arc<Mutex<Series>>);

impl Recorded {
    fn add(&self, what: ChannelInstrument, labels: &[(&'static str, &str)], value: f64) {
        let labels = labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.0.lock().unwrap().entry((what.name(), labels)).or_default().push(value);
    }

    /// Returns the values of an instrument by status; the status of counters is empty.
    fn of(&self, name: &str) -> BTreeMap<String, Vec<f64>> {
        let mut found = BTreeMap::<String, Vec<f64>>::new();
        for ((_, labels), values) in self.0.lock().unwrap().iter().filter(|(key, _)| key.0 == name)
        {
            let status = labels.iter().find(|(name, _)| *name == "grpc.status");
            let status = status.map(|(_, status)| status.clone()).unwrap_or_default();
            found.entry(status).or_default().extend(values);
        }
        found
    }

    /// Returns the number of values of an instrument by status.
    fn counts(&self, name: &str) -> Vec<(String, usize)> {
        self.of(name).into_iter().map(|(status, values)| (status, values.len())).collect()
    }
}

impl ChannelMetrics for Recorded {
    fn count(&self, what: ChannelInstrument, labels: &[(&'static str, &str)], number: u64) {
        self.add(what, labels, number as f64);
    }

    fn record(&self, what: ChannelInstrument, labels: &[(&'static str, &str)], value: f64) {
        assert!(what.buckets().is_some(), "{what:?} is a histogram");
        self.add(what, labels, value);
    }
}

const STARTED: &str = "grpc.client.attempt.started";
const ATTEMPT: &str = "grpc.client.attempt.duration";
const SENT: &str = "grpc.client.attempt.sent_total_compressed_message_size";
const RECEIVED: &str = "grpc.client.attempt.rcvd_total_compressed_message_size";
const CALL: &str = "grpc.client.call.duration";

fn metered(world: &World, recorded: &Recorded) -> XdsChannel {
    world.channel_with(ChannelOptions::new("node-1").with_metrics(recorded.clone()))
}

fn to_c() -> Change {
    Change::new().routes(vec![route(prefix(""), cluster("c"))])
}

#[tokio::test]
async fn calls_and_attempts_are_measured_with_their_labels() {
    let world = World::new().await;
    let backend = Backend::new().await;
    world.apply(to_c().at("c", &[backend.address]).0).await;
    let recorded = Recorded::default();
    let mut client = HealthClient::new(metered(&world, &recorded));
    for _ in 0..3 {
        check(&mut client, &[]).await.expect("an answer");
    }
    let unknown = HealthCheckRequest { service: "unknown".into() };
    let status = soon(client.check(unknown)).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);

    let outcomes = [("NOT_FOUND".to_owned(), 1), ("OK".to_owned(), 3)];
    assert_eq!(recorded.counts(STARTED), [(String::new(), 4)]);
    for name in [ATTEMPT, SENT, RECEIVED, CALL] {
        assert_eq!(recorded.counts(name), outcomes, "{name}");
    }
    // The empty request, the name of nine bytes with its tag and length, and the status in the response.
    assert_eq!(recorded.of(SENT)["OK"], [0.0; 3]);
    assert_eq!(recorded.of(SENT)["NOT_FOUND"], [9.0]);
    assert_eq!(recorded.of(RECEIVED)["OK"], [2.0; 3]);
    assert_eq!(recorded.of(RECEIVED)["NOT_FOUND"], [0.0]);
    assert!(recorded.of(CALL)["OK"].iter().all(|seconds| *seconds > 0.0));

    let series = recorded.0.lock().unwrap();
    let (_, labels) = series.keys().find(|(name, _)| *name == ATTEMPT).expect("an attempt");
    let expected = [
        ("grpc.method", "grpc.health.v1.Health/Check"),
        ("grpc.target", "xds:///shop"),
        ("grpc.status", "NOT_FOUND"),
        ("grpc.lb.locality", "{region=\"\", zone=\"here\", sub_zone=\"\"}"),
        ("grpc.lb.backend_service", "c"),
    ];
    assert_eq!(*labels, expected.map(|(name, value)| (name, value.to_owned())));
    println!("covers: B45");
}

#[tokio::test]
async fn each_attempt_of_a_retried_call_is_measured() {
    let world = World::new().await;
    let backend = Backend::new().await;
    let mut retried: Route = route(prefix(""), cluster("c"));
    if let Some(Action::Route(action)) = &mut retried.action {
        let on = "cancelled,deadline-exceeded,internal,resource-exhausted,unavailable";
        let retries = number(2);
        let policy =
            RetryPolicy { retry_on: on.into(), num_retries: retries, ..RetryPolicy::default() };
        action.retry_policy = Some(policy);
    }
    world.apply(Change::new().routes(vec![retried]).at("c", &[backend.address]).0).await;
    let recorded = Recorded::default();
    let mut client = HealthClient::new(metered(&world, &recorded));
    check(&mut client, &[]).await.expect("an answer");
    // The backend is gone: each attempt fails, also before it was sent.
    let mut backend = backend;
    backend.stop();
    soon(async { while check(&mut client, &[]).await.is_ok() {} }).await;
    let attempts: usize = recorded.counts(ATTEMPT).iter().map(|(_, count)| count).sum();
    let calls: usize = recorded.counts(CALL).iter().map(|(_, count)| count).sum();
    assert!(attempts >= calls + 2, "{attempts} attempts of {calls} calls");
    assert_eq!(recorded.counts(STARTED), [(String::new(), attempts)]);
    let failed = recorded.counts(CALL).into_iter().find(|(status, _)| status == "UNAVAILABLE");
    assert_eq!(failed, Some(("UNAVAILABLE".to_owned(), 1)));
}

#[tokio::test]
async fn calls_without_a_response_end_with_the_reason() {
    let world = World::new().await;
    let backend = Backend::slow(Duration::from_secs(60)).await;
    world.apply(to_c().at("c", &[backend.address]).0).await;
    let recorded = Recorded::default();
    let channel = metered(&world, &recorded);
    let mut client = HealthClient::new(channel.clone());
    let mut request = tonic::Request::new(HealthCheckRequest::default());
    request.set_timeout(Duration::from_millis(200));
    let status = soon(client.check(request)).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    let late = [("DEADLINE_EXCEEDED".to_owned(), 1)];
    assert_eq!((recorded.counts(ATTEMPT), recorded.counts(CALL)), (late.to_vec(), late.to_vec()));
    // The application gives up.
    let abandoned = tokio::time::timeout(
        Duration::from_millis(200),
        client.check(HealthCheckRequest::default()),
    );
    assert!(abandoned.await.is_err());
    let both = [("CANCELLED".to_owned(), 1), ("DEADLINE_EXCEEDED".to_owned(), 1)];
    assert_eq!((recorded.counts(ATTEMPT), recorded.counts(CALL)), (both.to_vec(), both.to_vec()));
}

#[tokio::test]
async fn call_that_reaches_no_endpoint_is_measured_with_its_cluster() {
    let world = World::new().await;
    world.apply(to_c().at("c", &[crate::world::nobody().await]).0).await;
    let recorded = Recorded::default();
    let mut client = HealthClient::new(metered(&world, &recorded));
    let status = check(&mut client, &[]).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert_eq!(recorded.counts(CALL), [("UNAVAILABLE".to_owned(), 1)]);
    let series = recorded.0.lock().unwrap();
    let (_, labels) = series.keys().find(|(name, _)| *name == ATTEMPT).expect("an attempt");
    let of = |name| labels.iter().find(|(known, _)| *known == name).map(|(_, value)| &**value);
    assert_eq!((of("grpc.lb.locality"), of("grpc.lb.backend_service")), (Some(""), Some("c")));
}

/// Without an attempt: the routes do not have the call.
#[tokio::test]
async fn call_without_route_has_no_attempt() {
    let world = World::new().await;
    let backend = Backend::new().await;
    let change = Change::new().routes(vec![route(prefix("/other/"), cluster("c"))]);
    world.apply(change.at("c", &[backend.address]).0).await;
    let recorded = Recorded::default();
    let mut client = HealthClient::new(metered(&world, &recorded));
    check(&mut client, &[]).await.unwrap_err();
    assert_eq!(recorded.counts(CALL), [("UNAVAILABLE".to_owned(), 1)]);
    assert_eq!(recorded.counts(STARTED), []);
}

/// A response that is dropped before its end.
#[tokio::test]
async fn dropped_response_is_cancelled() {
    let world = World::new().await;
    let backend = Backend::new().await;
    world.apply(to_c().at("c", &[backend.address]).0).await;
    let recorded = Recorded::default();
    let mut channel = metered(&world, &recorded);
    let watch = http::Request::builder()
        .method("POST")
        .uri("/grpc.health.v1.Health/Watch")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(tonic::body::Body::new(http_body_util::Full::new(vec![0_u8; 5].into())));
    let response = soon(channel.call(watch.expect("a request"))).await.expect("a response");
    let mut body = response.into_body();
    let first = soon(std::future::poll_fn(|cx| std::pin::Pin::new(&mut body).poll_frame(cx))).await;
    assert!(first.is_some_and(|frame| frame.is_ok()), "the first message");
    assert_eq!(recorded.counts(CALL), []);
    drop(body);
    for name in [ATTEMPT, CALL] {
        assert_eq!(recorded.counts(name), [("CANCELLED".to_owned(), 1)], "{name}");
    }
    assert_eq!(recorded.of(RECEIVED)["CANCELLED"], [2.0]);
}
