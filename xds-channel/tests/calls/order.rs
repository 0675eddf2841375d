//! Which endpoints get calls first: priorities and places, over real connections.

use tonic::Code;
use xds_core::types;
use xds_routing::proto::envoy::config::endpoint::v3::{ClusterLoadAssignment, LocalityLbEndpoints};

use crate::{
    support::*,
    world::{Backend, Change, World, check, eds, nobody, place},
};

/// The endpoints of `c`, in these places.
fn at(places: Vec<LocalityLbEndpoints>) -> Change {
    let assignment = ClusterLoadAssignment {
        cluster_name: "c".into(),
        endpoints: places,
        ..ClusterLoadAssignment::default()
    };
    let bytes = prost::Message::encode_to_vec(&assignment);
    let mut change = Change::new();
    change.0.set(types::CLUSTER_LOAD_ASSIGNMENT, "c", bytes);
    change
}

async fn begin(world: &World, places: Vec<LocalityLbEndpoints>) {
    world.apply(Change::new().routes(vec![route(prefix(""), cluster("c"))]).0).await;
    world.apply(Change::new().cluster_as(eds("c")).0).await;
    world.apply(at(places).0).await;
}

#[tokio::test]
async fn the_next_priority_serves_while_the_one_before_is_lost() {
    let world = World::new().await;
    let [mut first, second] = [Backend::new().await, Backend::new().await];
    let places =
        || vec![place("near", 0, 1, &[first.address]), place("far", 1, 1, &[second.address])];
    begin(&world, places()).await;
    let mut client = world.health();
    for _ in 0..20 {
        check(&mut client, &[]).await.expect("an answer");
    }
    assert_eq!((first.calls(), second.calls()), (20, 0));
    let gone = nobody().await;
    let moved = vec![place("near", 0, 1, &[gone]), place("far", 1, 1, &[second.address])];
    world.apply(at(moved).0).await;
    while second.calls() == 0 {
        check(&mut client, &[]).await.expect("an answer");
    }
    let before = first.calls();
    for _ in 0..20 {
        check(&mut client, &[]).await.expect("an answer");
    }
    assert_eq!(first.calls(), before);
    // It is back, and the first again.
    world.apply(at(places()).0).await;
    while first.calls() == before {
        check(&mut client, &[]).await.expect("an answer");
    }
    let before = second.calls();
    for _ in 0..20 {
        check(&mut client, &[]).await.expect("an answer");
    }
    assert_eq!(second.calls(), before);
    first.stop();
}

#[tokio::test]
async fn places_have_their_share_by_weight() {
    let world = World::new().await;
    let [one, two, three] = [Backend::new().await, Backend::new().await, Backend::new().await];
    begin(&world, vec![]).await;
    let status = check(&mut world.health(), &[]).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    let light = place("light", 0, 1, &[one.address]);
    let heavy = place("heavy", 0, 3, &[two.address, three.address]);
    world.apply(at(vec![light, heavy]).0).await;
    let mut client = world.health();
    while one.calls() == 0 || two.calls() == 0 || three.calls() == 0 {
        let _ = check(&mut client, &[]).await;
    }
    let before = [one.calls(), two.calls(), three.calls()];
    for _ in 0..800 {
        check(&mut client, &[]).await.expect("an answer");
    }
    let [one, two, three] =
        [one.calls() - before[0], two.calls() - before[1], three.calls() - before[2]];
    assert_eq!(one + two + three, 800);
    // A quarter, within four standard deviations; the rest in turn.
    assert!(one.abs_diff(200) <= 49, "{one}");
    assert!(two.abs_diff(three) <= 1, "{two} {three}");
}
