//! Cancelled calls, and channels dropped during calls.

use core::{future::poll_fn, pin::Pin, time::Duration};

use http_body::Body as _;
use tokio::time::sleep;
use tonic::{Code, body::Body};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tower_service::Service as _;
use xds_channel::ChannelOptions;
use xds_core::types;
use xds_routing::proto::envoy::config::{
    cluster::v3::{CircuitBreakers, Cluster, circuit_breakers::Thresholds},
    route::v3::Route,
};

use crate::{
    connections::Door,
    support::*,
    world::{Backend, Change, World, check, eds, soon},
};

fn to(name: &str) -> Vec<Route> {
    vec![route(prefix(""), cluster(name))]
}

/// Returns whether the client subscribes to a cluster.
async fn is_cluster_subscribed(world: &World, name: &str) -> bool {
    let status = world.client.status().await.expect("a client");
    status.iter().any(|it| it.type_url.as_str() == types::CLUSTER && it.name == name)
}

/// A cancelled call no longer counts as active and no longer keeps its cluster.
#[tokio::test]
async fn cancelled_call_releases_its_cluster_and_active_count() {
    let world = World::new().await;
    let slow = Backend::slow(Duration::from_secs(60)).await;
    let quick = Backend::new().await;
    let door = Door::to(slow.address).await;
    let one = Thresholds { max_requests: number(1), ..Thresholds::default() };
    let narrow = Cluster {
        circuit_breakers: Some(CircuitBreakers { thresholds: vec![one] }),
        ..eds("given-up")
    };
    let change = Change::new().routes(to("given-up")).endpoints("given-up", &[door.address]);
    world.apply(change.cluster_as(narrow).0).await;
    let client = world.health();
    let call = |client: &HealthClient<_>| {
        let mut client = client.clone();
        tokio::spawn(async move { client.check(HealthCheckRequest::default()).await.map(drop) })
    };
    let first = call(&client);
    while slow.calls() == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    let refused = check(&mut client.clone(), &[]).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    first.abort();
    // Another call is admitted.
    let mut second = call(&client);
    soon(async {
        let seen = slow.calls();
        while slow.calls() == seen {
            if second.is_finished() {
                second = call(&client);
            }
            sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    // The second call keeps its cluster while routes refer to another, until it is cancelled too.
    world.apply(Change::new().routes(to("quick")).at("quick", &[quick.address]).0).await;
    while quick.calls() == 0 {
        let _ = check(&mut client.clone(), &[]).await;
    }
    assert!(is_cluster_subscribed(&world, "given-up").await);
    second.abort();
    soon(async {
        while is_cluster_subscribed(&world, "given-up").await {
            sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    door.has(0).await;
    println!("covers: B26");
}

/// A channel ends with its last call. Then nothing is subscribed or connected any more.
#[tokio::test]
async fn channel_ends_with_its_last_call() {
    let world = World::new().await;
    let backend = Backend::slow(Duration::from_millis(300)).await;
    let door = Door::to(backend.address).await;
    world.apply(Change::new().routes(to("c")).at("c", &[door.address]).0).await;
    let call = {
        let mut client = world.health();
        tokio::spawn(async move { client.check(HealthCheckRequest::default()).await.map(drop) })
    };
    soon(call).await.expect("no panic").expect("an answer, though the channel was dropped");

    // A stream continues after the channel is dropped.
    let mut client = world.health();
    let mut watch = client.watch(HealthCheckRequest::default()).await.expect("a stream");
    drop(client);
    let watch = watch.get_mut();
    assert_eq!(soon(watch.message()).await.unwrap().expect("a status").status, 1);
    let not_serving = tonic_health::ServingStatus::NotServing;
    backend.reporter.set_service_status("", not_serving).await;
    assert_eq!(soon(watch.message()).await.unwrap().expect("a status").status, 2);
}

/// After the last stream nothing is subscribed or connected.
#[tokio::test]
async fn ended_channel_leaves_no_subscription_or_connection() {
    let world = World::new().await;
    let backend = Backend::new().await;
    let door = Door::to(backend.address).await;
    world.apply(Change::new().routes(to("c")).at("c", &[door.address]).0).await;
    let mut client = world.health();
    let mut watch = client.watch(HealthCheckRequest::default()).await.expect("a stream");
    assert_eq!(soon(watch.get_mut().message()).await.unwrap().expect("a status").status, 1);
    drop(client);
    drop(watch);
    door.has(0).await;
    soon(async {
        while !world.client.status().await.expect("a client").is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

/// A response that was read to its end no longer counts as an active call and no longer keeps its
/// cluster.
#[tokio::test]
async fn call_ends_when_its_response_is_read() {
    let world = World::new().await;
    let backend = Backend::new().await;
    let one = Thresholds { max_requests: number(1), ..Thresholds::default() };
    let narrow = Cluster {
        circuit_breakers: Some(CircuitBreakers { thresholds: vec![one] }),
        ..eds("read")
    };
    let change = Change::new().routes(to("read")).endpoints("read", &[backend.address]);
    world.apply(change.cluster_as(narrow).0).await;
    let mut channel = world.channel_with(ChannelOptions::new("node-1"));
    let request = http::Request::post("/grpc.health.v1.Health/Check")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(String::from("\0\0\0\0\0")))
        .unwrap();
    let mut answer = soon(channel.call(request)).await.expect("an answer").into_body();
    let mut frames = 0;
    while let Some(frame) = soon(poll_fn(|cx| Pin::new(&mut answer).poll_frame(cx))).await {
        frames += 1;
        // The trailers are the end of the response.
        if frame.expect("a frame").is_trailers() {
            break;
        }
    }
    assert!(frames > 1, "a message and how it ended");
    check(&mut HealthClient::new(channel.clone()), &[]).await.expect("there is room");
    world.apply(Change::new().routes(to("other")).at("other", &[backend.address]).0).await;
    soon(async {
        while is_cluster_subscribed(&world, "read").await {
            sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    drop(answer);
    println!("covers: B26 B27a");
}
