//! LB policies that choose an endpoint of a locality.

use core::time::Duration;

use prost::Message as _;
use xds_core::proto::Any;
use xds_routing::proto::envoy::{
    config::{
        cluster::v3::{
            Cluster, LoadBalancingPolicy, cluster::LbPolicy, load_balancing_policy::Policy,
        },
        core::v3::TypedExtensionConfig,
        route::v3::Route,
    },
    extensions::load_balancing_policies::pick_first::v3::PickFirst,
};

use crate::{
    support::*,
    world::{Backend, Change, World, check, eds, nobody, soon},
};

fn routes() -> Vec<Route> {
    vec![route(prefix(""), cluster("c"))]
}

fn pick_first() -> Cluster {
    let typed_config = Any {
        type_url:
            "type.googleapis.com/envoy.extensions.load_balancing_policies.pick_first.v3.PickFirst"
                .into(),
        value: PickFirst::default().encode_to_vec().into(),
    };
    let config = TypedExtensionConfig { name: "first".into(), typed_config: Some(typed_config) };
    let policy = Policy { typed_extension_config: Some(config) };
    Cluster {
        load_balancing_policy: Some(LoadBalancingPolicy { policies: vec![policy] }),
        ..eds("c")
    }
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
