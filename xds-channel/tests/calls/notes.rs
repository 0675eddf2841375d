//! Messages of failed calls contain the known errors between client and management server (gRFC
//! A88).

use core::time::Duration;

use prost::Message as _;
use tokio::net::TcpListener;
use tonic::{Code, Request, Status};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use xds_channel::{WaitForReady, XdsChannel};
use xds_core::{
    client::{DataErrorPolicy, Profile},
    server::StatusCode,
    types,
};
use xds_routing::proto::envoy::config::{
    endpoint::v3::ClusterLoadAssignment,
    route::v3::{
        NonForwardingAction, Route, header_matcher::HeaderMatchSpecifier as Header, route::Action,
    },
};

use crate::{
    connections::Door,
    failures::aggregate,
    support::*,
    world::{Backend, Change, World, check, nobody, soon},
};

/// Resolution note if no error is known.
const BARE: &str = "(resolution note: xDS node ID: node-1)";

fn to(name: &str) -> Vec<Route> {
    vec![route(prefix(""), cluster(name))]
}

/// Calls until the message contains `why`. All failures before are `UNAVAILABLE` too.
async fn fails_with(client: &mut HealthClient<XdsChannel>, why: &str) -> String {
    let failing = async {
        loop {
            if let Err(status) = check(client, &[]).await {
                assert_eq!(status.code(), Code::Unavailable, "{status}");
                if status.message().contains(why) {
                    return status.message().to_owned();
                }
            }
        }
    };
    soon(failing).await
}

#[tokio::test]
async fn missing_or_unusable_route_is_noted() {
    let world = World::new().await;
    let mut client = world.health();
    let message = fails_with(&mut client, "lds shop: does not exist").await;
    assert!(message.contains("node-1"), "{message}");
    world.apply(Change::new().routes(vec![route(path("/s/m"), cluster("c"))]).cluster("c").0).await;
    let message = fails_with(&mut client, "no route of virtual host").await;
    assert!(message.ends_with(BARE), "{message}");
    let nowhere = Route {
        action: Some(Action::NonForwardingAction(NonForwardingAction {})),
        ..route(prefix(""), cluster("c"))
    };
    world.apply(Change::new().routes(vec![nowhere]).0).await;
    let message = fails_with(&mut client, "does not forward to a cluster").await;
    assert!(message.ends_with(BARE), "{message}");
    println!("covers: S3.090 S3.095 S3.098");
}

#[tokio::test]
async fn cluster_without_endpoints_is_noted() {
    let world = World::new().await;
    let mut client = world.health();
    // The endpoints are missing, then empty, then unreachable.
    world.apply(Change::new().routes(to("c")).cluster("c").0).await;
    let message = fails_with(&mut client, "eds c: does not exist").await;
    assert!(message.starts_with("no endpoint of cluster `c`: there are no endpoints"), "{message}");
    assert!(message.contains("node-1"), "{message}");
    let none = ClusterLoadAssignment { cluster_name: "c".into(), ..Default::default() };
    let mut change = Change::new();
    change.0.set(types::CLUSTER_LOAD_ASSIGNMENT, "c", none.encode_to_vec());
    world.apply(change.0).await;
    let message = fails_with(&mut client, "EDS resource `c` has no localities").await;
    assert!(message.starts_with("no endpoint of cluster `c`: there are no endpoints"), "{message}");
    world.apply(Change::new().endpoints("c", &[nobody().await]).0).await;
    let message = fails_with(&mut client, "connections to all endpoints failed").await;
    assert!(message.ends_with(BARE), "{message}");
    println!("covers: S3.090 S3.091 S3.095 S3.096 S3.098");
}

// B26: a deleted cluster makes calls UNAVAILABLE, not NOT_FOUND.
#[tokio::test]
async fn deleted_cluster_makes_calls_unavailable() {
    let mut profile = Profile::grpc();
    profile.data_errors = DataErrorPolicy::DropCached;
    let world = World::with_profile(profile).await;
    let backend = Backend::new().await;
    let mut client = world.health();
    world.apply(Change::new().routes(to("c")).at("c", &[backend.address]).0).await;
    check(&mut client, &[]).await.expect("an answer");
    world.apply(Change::new().without("c").0).await;
    let message = fails_with(&mut client, "`c` cannot be used").await;
    assert!(message.starts_with("cluster `c` cannot be used: cds c: does not exist"), "{message}");
    assert!(message.ends_with(BARE), "{message}");
    // The last member of an aggregate cluster.
    let change = Change::new().routes(to("all")).cluster_as(aggregate("all", &["c"]));
    world.apply(change.at("c", &[backend.address]).0).await;
    soon(async { while check(&mut client, &[]).await.is_err() {} }).await;
    world.apply(Change::new().without("c").0).await;
    let message = fails_with(&mut client, "no leaf cluster of the aggregate is available").await;
    assert!(message.ends_with(BARE), "{message}");
    println!("covers: S3.090 S3.091 S3.095 S3.096 S3.097 S3.098 B26");
}

/// Ambient errors of the listener, the routes, and the call's cluster and endpoints appear in the
/// note.
#[tokio::test]
async fn ambient_errors_of_used_resources_are_noted() {
    let world = World::new().await;
    let lost = nobody().await;
    let mut client = world.health();
    #[allow(deprecated, reason = "servers still send the field")]
    let other = with_header(prefix(""), "to", Header::ExactMatch("other".into()));
    let list = vec![route(other, cluster("other")), route(prefix(""), cluster("all"))];
    let change = Change::new().routes(list).cluster_as(aggregate("all", &["c"]));
    world.apply(change.at("c", &[lost]).at("other", &[lost]).0).await;
    fails_with(&mut client, "connections to all endpoints failed").await;
    let mut change = Change::new();
    for (url, name, code) in [
        (types::LISTENER, "shop", StatusCode::PermissionDenied),
        (types::ROUTE_CONFIGURATION, "routes", StatusCode::InvalidArgument),
        (types::CLUSTER, "c", StatusCode::NotFound),
        (types::CLUSTER_LOAD_ASSIGNMENT, "c", StatusCode::Internal),
        (types::CLUSTER, "other", StatusCode::Unavailable),
    ] {
        change.0.set_error(url, name, code, format!("no {name}"));
    }
    world.apply(change.0).await;
    let said = ["lds shop: ", "rds routes: ", "cds c: ", "eds c: "];
    let message = soon(async {
        loop {
            let message = fails_with(&mut client, "resolution note").await;
            if said.iter().all(|said| message.contains(said)) {
                return message;
            }
        }
    })
    .await;
    assert!(message.starts_with("no endpoint of cluster `c`: connections to all"), "{message}");
    let (_, note) = message.split_once("(resolution note: ").expect("a note");
    let told: Vec<_> = note.split("; ").map(|error| error.split(": ").next().unwrap()).collect();
    assert_eq!(told, ["lds shop", "rds routes", "cds c", "eds c"], "{note}");

    // Errors of other clusters do not appear.
    let status = check(&mut client, &[("to", "other")]).await.unwrap_err();
    let (_, note) = status.message().split_once("(resolution note: ").expect("a note");
    let told: Vec<_> = note.split("; ").map(|error| error.split(": ").next().unwrap()).collect();
    assert_eq!(told, ["lds shop", "rds routes", "cds other"], "{note}");
    println!("covers: S3.090 S3.091 S3.092 S3.093 S3.096 S3.097 S3.098");
}

/// The deadline passes while a call waits for a cluster, and while an endpoint processes it.
#[tokio::test]
async fn deadline_exceeded_states_what_the_call_waited_for() {
    let world = World::new().await;
    let channel = world.health();
    let late = |patience: Option<WaitForReady>| {
        let mut client = channel.clone();
        let mut request = Request::new(HealthCheckRequest::default());
        request.set_timeout(Duration::from_millis(300));
        if let Some(patience) = patience {
            request.extensions_mut().insert(patience);
        }
        async move { soon(client.check(request)).await.unwrap_err() }
    };
    world.apply(Change::new().routes(to("nowhere")).0).await;
    fails_with(&mut channel.clone(), "cluster `nowhere`").await;
    let status = late(Some(WaitForReady)).await;
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    let why = "deadline exceeded: cluster `nowhere` cannot be used";
    assert!(status.message().starts_with(why), "{status}");
    assert!(status.message().ends_with(BARE), "{status}");

    let slow = Backend::slow(Duration::from_secs(60)).await;
    world.apply(Change::new().routes(to("c")).at("c", &[slow.address]).0).await;
    let status = soon(async {
        loop {
            let status: Status = late(None).await;
            if slow.calls() > 0 {
                return status;
            }
        }
    })
    .await;
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    let why = format!("deadline exceeded while waiting for a response of {} {BARE}", slow.address);
    assert_eq!(status.message(), why);
    println!("covers: S3.090 S3.091 S3.095");
}

/// The deadline passes before any resource arrives, and while an endpoint does not answer.
#[tokio::test]
async fn deadline_exceeded_states_a_missing_configuration_or_connection() {
    let world = World::new().await;
    let mut client = world.health();
    let limit = [("grpc-timeout", "100m")];
    let status = check(&mut client, &limit).await.unwrap_err();
    let why = format!("deadline exceeded while waiting for the xDS configuration {BARE}");
    assert_eq!(status.message(), why);

    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let change = Change::new().routes(to("c")).at("c", &[silent.local_addr().unwrap()]);
    world.apply(change.0).await;
    let why = format!("deadline exceeded while waiting for a connection to an endpoint {BARE}");
    soon(async { while check(&mut client, &limit).await.unwrap_err().message() != why {} }).await;
}

/// The connection ends within a response; then the xDS client ends.
#[tokio::test]
async fn lost_connection_or_ended_client_is_noted() {
    let world = World::new().await;
    let backend = Backend::new().await;
    let door = Door::to(backend.address).await;
    world.apply(Change::new().routes(to("c")).at("c", &[door.address]).0).await;
    let mut client = world.health();
    let mut watch = soon(client.watch(HealthCheckRequest::default())).await.expect("a stream");
    soon(watch.get_mut().message()).await.unwrap().expect("a status");
    door.slam();
    let status = soon(watch.get_mut().message()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert!(status.message().ends_with(BARE), "{status}");

    world.client.shut_down();
    fails_with(&mut client, "has ended (resolution note: xDS node ID: node-1)").await;
    println!("covers: S3.090 S3.091 S3.095 S3.098");
}
