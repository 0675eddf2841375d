//! Status and message of failed calls.

use core::time::Duration;

use tokio::time::sleep;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use xds_channel::WaitForReady;
use xds_core::{server::Transaction, types};
use xds_routing::proto::envoy::{
    config::{
        cluster::v3::{
            CircuitBreakers, Cluster,
            circuit_breakers::Thresholds,
            cluster::{ClusterDiscoveryType, CustomClusterType},
        },
        route::v3::Route,
    },
    extensions::clusters::aggregate::v3::ClusterConfig,
};

use crate::{
    support::*,
    world::{Backend, Change, World, check, eds, nobody, soon},
};

fn to(name: &str) -> Vec<Route> {
    vec![route(prefix(""), cluster(name))]
}

pub(crate) fn aggregate(name: &str, members: &[&str]) -> Cluster {
    let clusters = members.iter().map(|&member| member.into()).collect();
    Cluster {
        name: name.into(),
        cluster_discovery_type: Some(ClusterDiscoveryType::ClusterType(CustomClusterType {
            name: "envoy.clusters.aggregate".into(),
            typed_config: Some(packed(&ClusterConfig { clusters })),
        })),
        ..Cluster::default()
    }
}

/// Returns the message of a failed call, whose status is `UNAVAILABLE`.
async fn failure(world: &World) -> String {
    let status = check(&mut world.health(), &[]).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    status.message().to_owned()
}

#[tokio::test]
async fn missing_resource_fails_calls_as_unavailable_and_is_named() {
    let world = World::new().await;
    let missing = failure(&world).await;
    assert!(missing.contains("shop"), "{missing}");

    let table = routes("routes", vec![host(&["other"], to("c"))]);
    let listener = api_listener("shop", &manager(rds("routes")));
    let mut change = Transaction::new();
    change.set(types::LISTENER, "shop", prost::Message::encode_to_vec(&listener));
    change.set(types::ROUTE_CONFIGURATION, "routes", prost::Message::encode_to_vec(&table));
    world.apply(change).await;
    let mut client = world.health();
    let mut message = String::new();
    while !message.contains("no virtual host") {
        message = check(&mut client, &[]).await.unwrap_err().message().to_owned();
    }
    let note = "(resolution note: xDS node ID: node-1)";
    let expected = "no virtual host of route configuration `routes` matches `shop`";
    assert_eq!(message, format!("{expected} {note}"));

    world.apply(Change::new().routes(vec![route(path("/s/m"), cluster("c"))]).cluster("c").0).await;
    while !message.contains("no route") {
        message = failure(&world).await;
    }
    assert!(message.contains("matches path /grpc.health.v1.Health/Check"), "{message}");

    world.apply(Change::new().routes(to("nowhere")).0).await;
    while !message.contains("`nowhere` cannot be used") {
        message = failure(&world).await;
    }
    assert!(message.contains("node-1"), "{message}");
    // Aggregate cluster of a missing member.
    let all = aggregate("all", &["nowhere"]);
    world.apply(Change::new().routes(to("all")).cluster_as(all).0).await;
    while !message.contains("`all` cannot be used: no leaf cluster of the aggregate is available") {
        message = failure(&world).await;
    }
    assert!(message.ends_with(note), "{message}");
    println!("covers: S3.095 S3.096 S3.097 S3.098");
}

#[tokio::test]
async fn lost_endpoint_error_includes_the_xds_state() {
    let world = World::new().await;
    let at = nobody().await;
    world.apply(Change::new().routes(to("c")).at("c", &[at]).0).await;
    let mut client = world.health();
    let refused = check(&mut client, &[]).await.unwrap_err().message().to_owned();
    assert!(refused.starts_with("no endpoint of cluster `c`: connections to all"), "{refused}");
    assert!(refused.contains(&at.to_string()), "{refused}");
    assert!(refused.ends_with("(resolution note: xDS node ID: node-1)"), "{refused}");

    // The management server ends, which every failure mentions from then on.
    world.server.shut_down().await;
    world.serving.abort();
    let mut message = String::new();
    soon(async {
        while message.is_empty() || message.contains("node ID: node-1") {
            let status = check(&mut client, &[]).await.unwrap_err();
            assert_eq!(status.code(), Code::Unavailable, "{status}");
            message = status.message().to_owned();
        }
    })
    .await;
    assert!(message.starts_with("no endpoint of cluster `c`"), "{message}");
    println!("covers: S3.090 S3.091 S3.095 S3.097");
}

/// An unsupported policy fails calls; no other policy is used instead.
#[tokio::test]
async fn unsupported_lb_policy_fails_calls() {
    let world = World::new().await;
    let backend = Backend::new().await;
    let odd = Cluster { load_balancing_policy: unsupported_policy(), ..eds("c") };
    let change = Change::new().routes(to("c")).at("c", &[backend.address]).cluster_as(odd);
    world.apply(change.0).await;
    let refused = failure(&world).await;
    assert!(refused.contains("the LB policy of cluster"), "{refused}");
    let note = "(resolution note: xDS node ID: node-1)";
    assert!(refused.ends_with(note), "{refused}");
    // The only member of an aggregate cluster fails too.
    let part = Cluster { load_balancing_policy: unsupported_policy(), ..eds("part") };
    let change = Change::new().routes(to("all")).cluster_as(aggregate("all", &["part"]));
    world.apply(change.endpoints("part", &[backend.address]).cluster_as(part).0).await;
    let refused = soon(async {
        loop {
            let refused = failure(&world).await;
            if refused.contains("cluster `part`") {
                return refused;
            }
        }
    })
    .await;
    assert!(refused.contains("the LB policy of cluster"), "{refused}");
    assert!(refused.ends_with(note), "{refused}");
    assert_eq!(backend.calls(), 0);
}

/// gRFC A32: the limit of active calls applies to a cluster and its endpoints, across channels.
#[tokio::test]
async fn circuit_breaker_counts_calls_across_channels() {
    let world = World::new().await;
    let backend = Backend::new().await;
    let threshold = |priority: i32, most| Thresholds { priority, max_requests: number(most) };
    // The first threshold for the default priority counts.
    let limited = Cluster {
        circuit_breakers: Some(CircuitBreakers {
            thresholds: vec![threshold(1, 9), threshold(0, 2), threshold(0, 9)],
        }),
        ..eds("limited")
    };
    let change = Change::new().routes(to("limited")).cluster_as(limited);
    world.apply(change.endpoints("limited", &[backend.address]).0).await;
    let [mut first, mut second] = [world.health(), world.health()];
    let [one, two] = [
        soon(first.watch(HealthCheckRequest::default())).await.expect("a stream"),
        soon(second.watch(HealthCheckRequest::default())).await.expect("another"),
    ];
    for client in [&mut first, &mut second, &mut world.health()] {
        let refused = check(client, &[]).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable, "{refused}");
        assert!(
            refused.message().contains("the maximum number of active calls is reached"),
            "{refused}"
        );
    }
    drop(one);
    check(&mut second, &[]).await.expect("there is room for one");
    drop(two);
    assert_eq!(backend.calls(), 3, "what is refused is not sent");
    println!("covers: B27a");
}

/// A wait-for-ready call waits; other calls fail as soon as no endpoint is known to be available.
#[tokio::test]
async fn wait_for_ready_call_waits_and_others_fail() {
    let world = World::new().await;
    let backend = Backend::new().await;
    let mut client = world.health();
    let waits = |client: &tonic_health::pb::health_client::HealthClient<_>| {
        let mut client = client.clone();
        tokio::spawn(async move {
            let mut request = Request::new(HealthCheckRequest::default());
            request.extensions_mut().insert(WaitForReady);
            client.check(request).await.map(drop)
        })
    };
    // First the listener is missing, then an endpoint.
    let first = waits(&client);
    let status = check(&mut client, &[]).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    world.apply(Change::new().routes(to("c")).at("c", &[nobody().await]).0).await;
    let mut message = String::new();
    while !message.contains("no endpoint of cluster") {
        message = check(&mut client, &[]).await.unwrap_err().message().to_owned();
    }
    let second = waits(&client);
    sleep(Duration::from_millis(50)).await;
    assert!(!first.is_finished() && !second.is_finished());
    world.apply(Change::new().at("c", &[backend.address]).0).await;
    for waiting in [first, second] {
        soon(waiting).await.expect("no panic").expect("an answer");
    }
    println!("covers: X50");
}

#[tokio::test]
async fn stopped_endpoint_loses_no_unprocessed_call() {
    let world = World::new().await;
    let [mut first, second] = [Backend::new().await, Backend::new().await];
    world.apply(Change::new().routes(to("c")).at("c", &[first.address, second.address]).0).await;
    let mut client = world.health();
    while first.calls() == 0 || second.calls() == 0 {
        check(&mut client, &[]).await.expect("an answer");
    }
    first.stop();
    for _ in 0..200 {
        check(&mut client, &[]).await.expect("an answer");
    }
    assert!(second.calls() >= 200 - 2, "{}", second.calls());
}

/// A caller that retries immediately does not starve other tasks, even on a single thread.
#[tokio::test]
async fn immediate_retries_do_not_starve_other_tasks() {
    let world = World::new().await;
    let mut client = world.health();
    failure(&world).await;
    check(&mut client, &[]).await.expect_err("there is nothing");
    let other = tokio::spawn(async {});
    let mut calls = 0;
    while !other.is_finished() && calls < 10_000 {
        client.check(HealthCheckRequest::default()).await.expect_err("there is nothing");
        calls += 1;
    }
    assert!(other.is_finished(), "{calls} calls");
}
