//! Start and end of a server, as reported by the health service.

use core::time::Duration;

use crate::support::{
    AGGREGATED, CLUSTER, RawClient,
    server::{Running, set, start, start_with, streams},
    soon,
};
use prost::Message as _;
use tokio::net::TcpListener;
use tonic::{Code, transport::server::TcpIncoming};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus,
};

use xds_core::server::{DrainPlan, Readiness, ServerConfig};
use xds_tokio::{ManagementServer, ServerOptions};

const CHECK: &str = "/grpc.health.v1.Health/Check";
const WATCH: &str = "/grpc.health.v1.Health/Watch";
const ADS: &str = "envoy.service.discovery.v3.AggregatedDiscoveryService";

async fn ask(running: &Running, path: &'static str, service: &str) -> RawClient {
    let request = HealthCheckRequest { service: service.into() }.encode_to_vec();
    RawClient::ask(running.address, path, request).await.unwrap()
}

async fn status(client: &mut RawClient) -> ServingStatus {
    HealthCheckResponse::decode(client.message().await).unwrap().status()
}

#[tokio::test]
async fn health_is_serving_until_shutdown() {
    let running = start().await;
    for service in ["", ADS, "envoy.service.secret.v3.SecretDiscoveryService"] {
        let mut answer = ask(&running, CHECK, service).await;
        assert_eq!(status(&mut answer).await, ServingStatus::Serving, "{service}");
    }
    let request = HealthCheckRequest { service: "some.Other".into() }.encode_to_vec();
    let Err(why) = RawClient::ask(running.address, CHECK, request).await else {
        panic!("nobody knows it")
    };
    assert_eq!(why.code(), Code::NotFound, "{why}");

    let request = HealthCheckRequest { service: "x".repeat(1 << 10) }.encode_to_vec();
    let Err(why) = RawClient::ask(running.address, CHECK, request).await else {
        panic!("it is too long")
    };
    assert_eq!(why.code(), Code::ResourceExhausted, "{why}");

    let mut watch = ask(&running, WATCH, ADS).await;
    assert_eq!(status(&mut watch).await, ServingStatus::Serving);
    soon(running.handle.shut_down()).await;
    assert_eq!(status(&mut watch).await, ServingStatus::NotServing);
    watch.end().await;
    drop(watch);
    // The listener is closed.
    soon(running.serving).await.unwrap().unwrap();
}

/// A call without a request, or with one that does not end, would otherwise last as long as its
/// connection.
#[tokio::test]
async fn health_check_has_to_arrive_in_time() {
    let options = ServerOptions::default().with_request_timeout(Duration::from_millis(50));
    let running = start_with(ServerConfig::default(), options).await;
    for path in [CHECK, WATCH] {
        let Err(why) = RawClient::call(running.address, path).await else {
            panic!("{path}: no request was sent")
        };
        assert_eq!(why.code(), Code::ResourceExhausted, "{path}: {why}");
    }
    let mut watch = ask(&running, WATCH, "").await;
    assert_eq!(status(&mut watch).await, ServingStatus::Serving);
    // A watch lasts longer than its request may take.
    tokio::time::sleep(Duration::from_millis(100)).await;
    soon(running.handle.shut_down()).await;
    assert_eq!(status(&mut watch).await, ServingStatus::NotServing);
}

/// The health service in another gRPC server also reports the end of the server, even if its driver
/// is dropped.
#[tokio::test]
async fn health_is_not_serving_after_the_driver_is_dropped() {
    let (server, driver) =
        ManagementServer::driver(ServerConfig::default(), ServerOptions::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let own = tonic::transport::Server::builder().add_service(server.health());
    tokio::spawn(own.serve_with_incoming(TcpIncoming::from(listener)));
    let driving = tokio::spawn(driver);
    let ask = |path| {
        let request = HealthCheckRequest { service: ADS.into() }.encode_to_vec();
        RawClient::ask(address, path, request)
    };
    let mut watch = ask(WATCH).await.unwrap();
    // The driver may not have run yet.
    while status(&mut watch).await != ServingStatus::Serving {}
    driving.abort();
    assert!(soon(driving).await.unwrap_err().is_cancelled());
    assert_eq!(status(&mut watch).await, ServingStatus::NotServing);
    let answer = ask(CHECK).await;
    let says = match answer {
        Ok(mut answer) => status(&mut answer).await,
        Err(why) if why.code() == Code::NotFound => ServingStatus::ServiceUnknown,
        Err(why) => panic!("{why}"),
    };
    assert_ne!(says, ServingStatus::Serving);
}

async fn refusal(running: &Running) -> (Code, String) {
    let Err(why) = RawClient::call(running.address, AGGREGATED).await else {
        panic!("it takes clients")
    };
    (why.code(), why.message().to_owned())
}

#[tokio::test]
async fn server_rejects_clients_until_it_is_ready() {
    let mut config = ServerConfig::default();
    config.readiness = Readiness::NotReady;
    let running = start_with(config, ServerOptions::default()).await;
    assert_eq!(refusal(&running).await, (Code::Unavailable, "the server is not ready yet".into()));
    let mut watch = ask(&running, WATCH, "").await;
    assert_eq!(status(&mut watch).await, ServingStatus::NotServing);

    running.handle.apply(set(&[(CLUSTER, "a", "1")])).await.unwrap();
    running.handle.set_ready().await.unwrap();
    assert_eq!(status(&mut watch).await, ServingStatus::Serving);
    let mut client = RawClient::open(running.address).await;
    client.subscribe(CLUSTER, &[]);
    assert_eq!(client.response().await.resources.len(), 1);
    println!("covers: M16");
}

#[tokio::test]
async fn draining_server_waits_for_pending_acks() {
    let running = start().await;
    running.handle.apply(set(&[(CLUSTER, "a", "1")])).await.unwrap();
    let mut idle = RawClient::open(running.address).await;
    idle.subscribe(CLUSTER, &["a"]);
    let answered = idle.response().await;
    idle.answer(&answered, &["a"], None);
    let mut busy = RawClient::open(running.address).await;
    busy.subscribe(CLUSTER, &[]);
    let response = busy.response().await;
    streams(&running.handle, 2).await;
    soon(async {
        while running.handle.status().await.unwrap().iter().map(|row| row.acks).sum::<u64>() == 0 {}
    })
    .await;

    let plan = DrainPlan::new(Duration::from_secs(60));
    let handle = running.handle.clone();
    let draining = tokio::spawn(async move { handle.drain(plan).await });
    assert_eq!(idle.end().await.code(), Code::Unavailable);
    assert_eq!(refusal(&running).await.0, Code::Unavailable);
    let mut answer = ask(&running, CHECK, "").await;
    assert_eq!(status(&mut answer).await, ServingStatus::NotServing);
    assert!(!draining.is_finished());
    busy.answer(&response, &[], None);
    assert_eq!(busy.end().await.code(), Code::Unavailable);
    soon(draining).await.unwrap();
    drop((idle, busy, answer));
    soon(running.serving).await.unwrap().unwrap();
    println!("covers: M14 IS33");
}
