//! Retries of failed calls (gRFC A44), and policies that choose an endpoint.

use core::{
    convert::Infallible,
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll},
    time::Duration,
};
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use http::{HeaderMap, Request, Response};
use prost::Message as _;
use tokio::net::TcpListener;
use tonic::{
    Code, Status,
    body::Body,
    server::NamedService,
    transport::{Server, server::TcpIncoming},
};
use tonic_health::{
    pb::{HealthCheckRequest, health_server::HealthServer},
    server::HealthService,
};
use tower_service::Service;
use xds_core::{proto, types};
use xds_routing::proto::envoy::{
    config::{
        cluster::v3::{CircuitBreakers, Cluster, circuit_breakers::Thresholds},
        endpoint::v3::cluster_load_assignment::{Policy, policy::DropOverload},
        route::v3::{RetryPolicy, Route, RouteAction, retry_policy::RetryBackOff},
    },
    r#type::v3::{FractionalPercent, fractional_percent::DenominatorType},
};

use crate::{
    connections::Door,
    support::*,
    world::{Change, World, assignment, check, eds, soon},
};

/// Answer to a call.
#[derive(Clone, Copy)]
pub(crate) enum Reply {
    Fine,
    Fails(Code),
    /// Fails with `UNAVAILABLE` and this value of `grpc-retry-pushback-ms`.
    PushesBack(&'static str),
    /// The response begins, and ends without a message.
    Begins(Code),
    /// Error of a proxy.
    Http(u16),
    Hangs,
}

/// Health service that answers its calls in turn, and later ones with success.
#[derive(Clone)]
pub(crate) struct Scripted {
    inner: HealthServer<HealthService>,
    replies: Arc<[Reply]>,
    calls: Arc<AtomicUsize>,
    /// Headers of the last call.
    headers: Arc<Mutex<HeaderMap>>,
}

impl Scripted {
    pub(crate) async fn serve(replies: &[Reply]) -> (Self, SocketAddr) {
        let inner = HealthServer::new(HealthService::from_health_reporter(Default::default()));
        let (calls, headers) = (Arc::default(), Arc::default());
        let scripted = Self { inner, replies: replies.into(), calls, headers };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server::builder().add_service(scripted.clone());
        tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
        (scripted, address)
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl NamedService for Scripted {
    const NAME: &'static str = "grpc.health.v1.Health";
}

impl Service<Request<Body>> for Scripted {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let turn = self.calls.fetch_add(1, Ordering::SeqCst);
        *self.headers.lock().unwrap() = request.headers().clone();
        let reply = self.replies.get(turn).copied().unwrap_or(Reply::Fine);
        let mut inner = self.inner.clone();
        Box::pin(async move {
            let status = |code| Status::new(code, "as scripted");
            Ok(match reply {
                Reply::Fine => return inner.call(request).await,
                Reply::Fails(code) => status(code).into_http(),
                Reply::PushesBack(delay) => {
                    let mut response = status(Code::Unavailable).into_http();
                    response.headers_mut().insert("grpc-retry-pushback-ms", delay.parse().unwrap());
                    response
                }
                Reply::Http(status) => {
                    let head = Response::builder().status(status);
                    head.body(Body::empty()).unwrap()
                }
                Reply::Hangs => core::future::pending().await,
                Reply::Begins(code) => {
                    let (mut head, _) = status(code).into_http::<Body>().into_parts();
                    let trailers = head.headers.split_off_status();
                    Response::from_parts(head, Body::new(Trailers(Some(trailers))))
                }
            })
        })
    }
}

trait SplitOffStatus {
    /// Removes and returns the headers that state the status.
    fn split_off_status(&mut self) -> Self;
}

impl SplitOffStatus for HeaderMap {
    fn split_off_status(&mut self) -> Self {
        let mut status = Self::new();
        for name in ["grpc-status", "grpc-message"] {
            if let Some(value) = self.remove(name) {
                status.insert(name, value);
            }
        }
        status
    }
}

/// Body without data.
struct Trailers(Option<HeaderMap>);

impl http_body::Body for Trailers {
    type Data = bytes::Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<bytes::Bytes>, Status>>> {
        Poll::Ready(self.0.take().map(|trailers| Ok(http_body::Frame::trailers(trailers))))
    }
}

/// Returns a route to the cluster `c` with a retry policy. The backoff is in milliseconds.
pub(crate) fn retried(retry_on: &str, num_retries: u32, backoff: i32) -> Vec<Route> {
    let (seconds, nanos) = (i64::from(backoff / 1_000), backoff % 1_000 * 1_000_000);
    let backoff = proto::Duration { seconds, nanos };
    let policy = RetryPolicy {
        retry_on: retry_on.into(),
        num_retries: number(num_retries),
        retry_back_off: Some(RetryBackOff {
            base_interval: Some(backoff),
            max_interval: Some(backoff),
        }),
    };
    let action = RouteAction { retry_policy: Some(policy), ..action(cluster("c")) };
    vec![route_to(prefix(""), action)]
}

/// Makes one call over a route to a scripted server. Returns its status, and the server.
async fn call(routes: Vec<Route>, replies: &[Reply]) -> (Result<(), Status>, Scripted) {
    let world = World::new().await;
    let (scripted, address) = Scripted::serve(replies).await;
    world.apply(Change::new().routes(routes).at("c", &[address]).0).await;
    (check(&mut world.health(), &[]).await, scripted)
}

#[tokio::test]
async fn call_is_retried_after_the_statuses_of_the_policy() {
    let failing = [Reply::Fails(Code::Unavailable), Reply::Fails(Code::Internal)];
    let (called, scripted) = call(retried("unavailable,internal", 3, 1), &failing).await;
    called.unwrap();
    assert_eq!(scripted.calls(), 3);
    assert_eq!(scripted.headers.lock().unwrap()["grpc-previous-rpc-attempts"], "2");

    let (called, scripted) = call(retried("internal", 3, 1), &failing).await;
    assert_eq!((called.unwrap_err().code(), scripted.calls()), (Code::Unavailable, 1));
    let (called, scripted) = call(retried("unavailable", 3, 1), &failing).await;
    assert_eq!((called.unwrap_err().code(), scripted.calls()), (Code::Internal, 2));
    let plain = vec![route(prefix(""), cluster("c"))];
    let (called, scripted) = call(plain, &failing).await;
    assert_eq!((called.unwrap_err().code(), scripted.calls()), (Code::Unavailable, 1));
    assert!(!scripted.headers.lock().unwrap().contains_key("grpc-previous-rpc-attempts"));
    println!("covers: B33b");
}

#[tokio::test]
async fn number_of_attempts_is_limited() {
    let failing = [Reply::Fails(Code::Unavailable); 9];
    for (retries, attempts) in [(1, 2), (2, 3), (8, 5)] {
        let (called, scripted) = call(retried("unavailable", retries, 1), &failing).await;
        let status = called.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::Unavailable, "as scripted"));
        assert_eq!(scripted.calls(), attempts, "{retries} retries");
    }
    println!("covers: B33b");
}

#[tokio::test]
async fn response_that_has_begun_is_not_retried() {
    let routes = retried("unavailable", 3, 1);
    let (called, scripted) = call(routes, &[Reply::Begins(Code::Unavailable)]).await;
    assert_eq!((called.unwrap_err().code(), scripted.calls()), (Code::Unavailable, 1));
}

/// The backoff of the policy is a minute, which no test waits for.
#[tokio::test]
async fn server_can_state_the_delay_or_prevent_a_retry() {
    let routes = || retried("unavailable", 3, 60_000);
    let (called, scripted) = call(routes(), &[Reply::PushesBack("10")]).await;
    called.unwrap();
    assert_eq!(scripted.calls(), 2);
    for stop in ["-1", "soon"] {
        let (called, scripted) = call(routes(), &[Reply::PushesBack(stop)]).await;
        assert_eq!(
            (called.unwrap_err().code(), scripted.calls()),
            (Code::Unavailable, 1),
            "{stop}"
        );
    }
}

#[tokio::test]
async fn deadline_of_the_call_ends_a_backoff() {
    let world = World::new().await;
    let (scripted, address) = Scripted::serve(&[Reply::Fails(Code::Unavailable); 9]).await;
    let routes = retried("unavailable", 3, 60_000);
    world.apply(Change::new().routes(routes).at("c", &[address]).0).await;
    let called = soon(async {
        loop {
            let called = check(&mut world.health(), &[("grpc-timeout", "500m")]).await;
            if scripted.calls() > 0 {
                return called;
            }
        }
    })
    .await;
    assert_eq!(called.unwrap_err().code(), Code::DeadlineExceeded);
}

#[tokio::test]
async fn call_is_retried_after_a_lost_connection() {
    let world = World::new().await;
    let (scripted, address) = Scripted::serve(&[Reply::Hangs]).await;
    let door = Door::to(address).await;
    let routes = retried("unavailable", 1, 1);
    world.apply(Change::new().routes(routes).at("c", &[door.address]).0).await;
    let mut client = world.health();
    let calling = tokio::spawn(async move { check(&mut client, &[]).await });
    soon(async {
        while scripted.calls() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await
        }
    })
    .await;
    door.slam();
    soon(calling).await.unwrap().unwrap();
    assert_eq!(scripted.calls(), 2);
}

#[tokio::test]
async fn error_of_a_proxy_is_retried_by_its_grpc_status() {
    let routes = || retried("unavailable", 3, 1);
    let (called, scripted) = call(routes(), &[Reply::Http(503), Reply::Http(502)]).await;
    called.unwrap();
    assert_eq!(scripted.calls(), 3);
    let (called, scripted) = call(routes(), &[Reply::Http(404)]).await;
    assert_eq!((called.unwrap_err().code(), scripted.calls()), (Code::Unimplemented, 1));
}

/// A retry would take a minute.
#[tokio::test]
async fn call_above_the_limit_of_active_calls_is_not_retried() {
    let world = World::new().await;
    let (scripted, address) = Scripted::serve(&[]).await;
    let threshold = Thresholds { max_requests: number(0), ..Thresholds::default() };
    let limited = Cluster {
        circuit_breakers: Some(CircuitBreakers { thresholds: vec![threshold] }),
        ..eds("c")
    };
    let change = Change::new().routes(retried("unavailable", 3, 60_000)).cluster_as(limited);
    world.apply(change.endpoints("c", &[address]).0).await;
    let status = check(&mut world.health(), &[]).await.unwrap_err();
    assert!(status.message().contains("maximum number of active calls"), "{status}");
    assert_eq!(scripted.calls(), 0);
}

/// A retry would take a minute.
#[tokio::test]
async fn dropped_call_is_not_retried() {
    let world = World::new().await;
    let (scripted, address) = Scripted::serve(&[]).await;
    let mut change = Change::new().routes(retried("unavailable", 3, 60_000)).at("c", &[address]);
    let overload = DropOverload {
        category: "all".into(),
        drop_percentage: Some(FractionalPercent {
            numerator: 100,
            denominator: DenominatorType::Hundred as i32,
        }),
    };
    let policy = Policy { drop_overloads: vec![overload] };
    let dropping = xds_routing::proto::envoy::config::endpoint::v3::ClusterLoadAssignment {
        policy: Some(policy),
        ..assignment("c", &[address])
    };
    change.0.set(types::CLUSTER_LOAD_ASSIGNMENT, "c", dropping.encode_to_vec());
    world.apply(change.0).await;
    let status = soon(world.health().check(HealthCheckRequest::default())).await.unwrap_err();
    assert!(status.message().contains("call dropped: all"), "{status}");
    assert_eq!(scripted.calls(), 0);
}
