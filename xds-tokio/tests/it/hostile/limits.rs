//! Clients that exceed their limits.

use prost::Message as _;
use tonic::Code;
use xds_core::{
    proto::DiscoveryRequest,
    server::{NodeChanged, Rate, Readiness, ServerConfig, ServerLimits, UnknownType},
};
use xds_tokio::ServerOptions;

use crate::{
    hostile::cases::whole,
    support::{
        AGGREGATED, CLUSTER, ENDPOINTS, RawClient,
        server::{Running, set, start_with},
    },
};

#[tokio::test]
async fn client_over_its_limits_is_rejected_or_slowed_down() {
    let mut limits = ServerLimits::default();
    limits.streams_per_node = 2;
    limits.requests = Some(Rate { per_second: 1_000, burst: 50 });
    let config = ServerConfig::default().with_limits(limits);
    let running = start_with(config, ServerOptions::default()).await;
    running.handle.apply(set(&[(CLUSTER, "c", "1"), (ENDPOINTS, "e", "1")])).await.unwrap();
    let mut hasty = RawClient::open(running.address).await;
    // Its requests are read no faster than the rate limit allows, and all of them are processed.
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

async fn with(alter: impl FnOnce(&mut ServerConfig)) -> Running {
    let mut config = ServerConfig::default();
    alter(&mut config);
    start_with(config, ServerOptions::default()).await
}

async fn with_limits(alter: impl FnOnce(&mut ServerLimits)) -> Running {
    let mut limits = ServerLimits::default();
    alter(&mut limits);
    start_with(ServerConfig::default().with_limits(limits), ServerOptions::default()).await
}

/// Asserts the code and text of a status.
#[track_caller]
fn assert_status(status: &tonic::Status, code: Code, text: &str) {
    assert_eq!(status.code(), code, "{status}");
    assert!(status.message().contains(text), "{status}");
}

/// Returns the status of a stream that is refused, or ends after these messages.
async fn end_of(running: &Running, messages: &[DiscoveryRequest]) -> tonic::Status {
    let mut client = match RawClient::call(running.address, AGGREGATED).await {
        Ok(client) => client,
        Err(status) => return status,
    };
    messages.iter().for_each(|message| client.send(message.encode_to_vec()));
    client.end().await
}

fn request(alter: impl FnOnce(&mut DiscoveryRequest)) -> DiscoveryRequest {
    DiscoveryRequest::decode(whole(alter)).unwrap()
}

#[tokio::test]
async fn stream_over_a_limit_is_rejected_with_the_limit() {
    let running = with_limits(|it| it.streams = 2).await;
    let kept = [RawClient::open(running.address).await, RawClient::open(running.address).await];
    kept.iter().for_each(|client| client.subscribe(CLUSTER, &["c"]));
    let status = end_of(&running, &[request(|_| {})]).await;
    assert_status(&status, Code::ResourceExhausted, "more than 2 streams");

    let running = with_limits(|it| {
        it.new_streams = Some(Rate { per_second: 1, burst: 1 });
    })
    .await;
    let _first = RawClient::open(running.address).await;
    let status = end_of(&running, &[request(|_| {})]).await;
    assert_status(&status, Code::ResourceExhausted, "new streams per second");

    let running = with(|it| it.readiness = Readiness::NotReady).await;
    assert_status(&end_of(&running, &[request(|_| {})]).await, Code::Unavailable, "not ready");
    println!("covers: IS24 M16 M17 M242");
}

#[tokio::test]
async fn forbidden_node_change_or_unknown_type_closes_the_stream() {
    let running = with(|it| it.node_changed = NodeChanged::Close).await;
    let other = request(|it| it.node.as_mut().unwrap().id = "another".into());
    let status = end_of(&running, &[request(|_| {}), other]).await;
    assert_status(&status, Code::InvalidArgument, "differs from the node of the first");

    let running = with(|it| it.unknown_type = UnknownType::Close).await;
    let unknown = request(|it| it.type_url = "no/such.Type".into());
    let status = end_of(&running, &[unknown]).await;
    assert_status(&status, Code::InvalidArgument, "unknown type no/such.Type");
    println!("covers: IS19 IS21 M3 M8");
}
