//! LB policies that choose an endpoint of a locality.

use core::time::Duration;

use prost::Message as _;
use xds_core::{
    client::{ServerFeature, ServerFeatures},
    proto::{self, BoolValue},
    types,
};
use xds_routing::proto::envoy::{
    config::{
        cluster::v3::{Cluster, OutlierDetection, cluster::LbPolicy},
        endpoint::v3::lb_endpoint::HostIdentifier,
        route::v3::{
            Route, RouteAction,
            route_action::{HashPolicy, HostRewriteSpecifier, hash_policy},
        },
    },
    extensions::load_balancing_policies::pick_first::v3::PickFirst,
};

use crate::{
    support::*,
    world::{Backend, Change, World, assignment, check, eds, nobody, soon},
};

fn routes() -> Vec<Route> {
    vec![route(prefix(""), cluster("c"))]
}

fn pick_first() -> Cluster {
    Cluster { load_balancing_policy: policies(&PickFirst::default()), ..eds("c") }
}

/// gRFC A62: the first address that answers gets all calls, until its connection is lost.
#[tokio::test]
async fn first_address_that_answers_gets_all_calls() {
    let world = World::new().await;
    let (mut first, second) = (Backend::new().await, Backend::new().await);
    let addresses = [nobody().await, first.address, second.address];
    let change = Change::new().routes(routes()).cluster_as(pick_first());
    world.apply(change.endpoints("c", &addresses).0).await;
    let mut client = world.health();
    for _ in 0..10 {
        check(&mut client, &[]).await.unwrap();
    }
    assert_eq!((first.calls(), second.calls()), (10, 0));
    first.stop();
    soon(async {
        while second.calls() == 0 {
            let _ = check(&mut client, &[]).await;
        }
    })
    .await;
    let before = (first.calls(), second.calls());
    for _ in 0..10 {
        check(&mut client, &[]).await.unwrap();
    }
    assert_eq!((first.calls(), second.calls()), (before.0, before.1 + 10));
    println!("covers: B33g");
}

/// gRFC A42: calls with equal values of the hashed header go to one endpoint. Calls without it are
/// spread.
#[tokio::test]
async fn calls_with_one_value_of_the_hashed_header_go_to_one_endpoint() {
    let world = World::new().await;
    let backends = [Backend::new().await, Backend::new().await, Backend::new().await];
    let header = hash_policy::Header { header_name: "User".into(), regex_rewrite: None };
    let specifier = Some(hash_policy::PolicySpecifier::Header(header));
    let hash_policy = vec![HashPolicy { policy_specifier: specifier, terminal: false }];
    let routes = vec![route_to(prefix(""), RouteAction { hash_policy, ..action(cluster("c")) })];
    let ring = Cluster { lb_policy: LbPolicy::RingHash as i32, ..eds("c") };
    let addresses = backends.each_ref().map(|backend| backend.address);
    let change = Change::new().routes(routes).cluster_as(ring);
    world.apply(change.endpoints("c", &addresses).0).await;
    let mut client = world.health();
    let counts = || backends.each_ref().map(Backend::calls);
    let mut used = [false; 3];
    for user in ["ann", "bob", "cat", "dan", "eve", "fay", "gus", "hal", "ivy", "jim"] {
        let before = counts();
        for _ in 0..5 {
            check(&mut client, &[("user", user)]).await.unwrap();
        }
        let made: Vec<_> = counts().iter().zip(before).map(|(now, before)| now - before).collect();
        let place = made.iter().position(|made| *made == 5);
        used[place.unwrap_or_else(|| panic!("{user}: {made:?}"))] = true;
    }
    assert!(used.iter().filter(|it| **it).count() > 1, "{used:?}");
    let before = counts();
    for _ in 0..100 {
        check(&mut client, &[]).await.unwrap();
    }
    assert!(counts().iter().zip(before).all(|(now, before)| *now > before), "{:?}", counts());
    println!("covers: B33a");
}

/// gRFC A50: an endpoint whose calls fail gets no more, while those of others go on.
#[tokio::test]
async fn endpoint_whose_calls_fail_is_ejected() {
    let world = World::new().await;
    let (fine, mut broken) = (Backend::new().await, Backend::new().await);
    broken.reporter.clear_service_status("").await;
    let outliers = OutlierDetection {
        interval: Some(proto::Duration { seconds: 0, nanos: 50_000_000 }),
        base_ejection_time: Some(proto::Duration { seconds: 600, nanos: 0 }),
        max_ejection_percent: number(50),
        enforcing_success_rate: number(0),
        enforcing_failure_percentage: number(100),
        failure_percentage_minimum_hosts: number(2),
        failure_percentage_request_volume: number(1),
        ..OutlierDetection::default()
    };
    let ejecting = Cluster { outlier_detection: Some(outliers), ..eds("c") };
    let change = Change::new().routes(routes()).cluster_as(ejecting);
    world.apply(change.endpoints("c", &[fine.address, broken.address]).0).await;
    let mut client = world.health();
    soon(async {
        while broken.calls() == 0 {
            let _ = check(&mut client, &[]).await;
        }
        // It gets every second call until it is ejected.
        let (mut last, mut without) = (broken.calls(), 0);
        while without < 50 {
            let _ = check(&mut client, &[]).await;
            without = if broken.calls() == last { without + 1 } else { 0 };
            last = broken.calls();
        }
    })
    .await;
    check(&mut client, &[]).await.unwrap();
    println!("covers: B33d");
}

/// gRFC A81: with a trusted server, calls ask for the host name of their endpoint.
#[tokio::test]
async fn authority_is_the_host_name_of_the_endpoint() {
    for is_trusted in [true, false] {
        let features = match is_trusted {
            true => ServerFeatures::NONE.with(ServerFeature::TrustedXdsServer),
            false => ServerFeatures::NONE,
        };
        let world = World::with_features(features).await;
        let (plain, named) = (Backend::new().await, Backend::new().await);
        let rewrite = HostRewriteSpecifier::AutoHostRewrite(BoolValue { value: true });
        let action = RouteAction { host_rewrite_specifier: Some(rewrite), ..action(cluster("c")) };
        let mut assignment = assignment("c", &[plain.address, named.address]);
        let second = &mut assignment.endpoints[0].lb_endpoints[1];
        if let Some(HostIdentifier::Endpoint(endpoint)) = &mut second.host_identifier {
            endpoint.hostname = "backend-2.internal".into();
        }
        let mut change = Change::new().routes(vec![route_to(prefix(""), action)]).cluster("c");
        change.0.set(types::CLUSTER_LOAD_ASSIGNMENT, "c", assignment.encode_to_vec());
        world.apply(change.0).await;
        let mut client = world.health();
        soon(async {
            while plain.calls() == 0 || named.calls() == 0 {
                check(&mut client, &[]).await.unwrap();
            }
        })
        .await;
        let authority = |backend: &Backend| backend.counted.authority.lock().unwrap().clone();
        assert_eq!(authority(&plain).as_deref(), Some("shop"));
        let expected = if is_trusted { "backend-2.internal" } else { "shop" };
        assert_eq!(authority(&named).as_deref(), Some(expected));
    }
    println!("covers: B46");
}

/// gRFC A48: an endpoint that does not answer gets few calls. Round robin would send it half of them.
#[tokio::test]
async fn endpoint_with_unanswered_calls_gets_fewer() {
    let world = World::new().await;
    let (stuck, fine) = (Backend::slow(Duration::from_secs(600)).await, Backend::new().await);
    let least = Cluster { lb_policy: LbPolicy::LeastRequest as i32, ..eds("c") };
    let change = Change::new().routes(routes()).cluster_as(least);
    world.apply(change.endpoints("c", &[stuck.address, fine.address]).0).await;
    let client = world.health();
    let mut waiting = Vec::new();
    // Of two random choices, both are the endpoint that is stuck in one of four cases.
    while fine.calls() < 60 {
        let (mut client, before) = (client.clone(), fine.calls() + stuck.calls());
        waiting.push(tokio::spawn(async move { check(&mut client, &[]).await }));
        soon(async {
            while fine.calls() + stuck.calls() == before {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }
    assert!(stuck.calls() < 45, "{} calls", stuck.calls());
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    println!("covers: B33c");
}
