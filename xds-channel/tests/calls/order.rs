//! Priorities and localities, over real connections.

use core::time::Duration;
use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tonic::Code;
use xds_channel::ChannelOptions;
use xds_core::types;
use xds_routing::proto::envoy::config::endpoint::v3::{ClusterLoadAssignment, LocalityLbEndpoints};

use crate::{
    support::*,
    world::{Backend, Change, World, check, eds, nobody, place, soon},
};

/// Sets the endpoints of cluster `c` in these localities.
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
async fn next_priority_serves_while_the_previous_one_is_lost() {
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
    // The first priority is available again.
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
async fn localities_are_weighted() {
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
    // A quarter, within four standard deviations. The heavy locality alternates between its
    // endpoints.
    assert!(one.abs_diff(200) <= 49, "{one}");
    assert!(two.abs_diff(three) <= 1, "{two} {three}");
}

/// Behaviour of an endpoint that accepts connections and does not support HTTP/2.
#[derive(Clone, Copy, Debug)]
enum Stranger {
    Closes,
    IsSilent,
    /// Answers with another protocol.
    AnswersOtherwise,
}

async fn stranger(how: Stranger) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((mut socket, _)) = listener.accept().await {
            match how {
                Stranger::Closes => {}
                Stranger::IsSilent => kept.push(socket),
                Stranger::AnswersOtherwise => {
                    let _ = socket.read(&mut [0; 1_024]).await;
                    let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
                    kept.push(socket);
                }
            }
        }
    });
    address
}

/// An endpoint is ready after its SETTINGS have arrived. An attempt that ends before has failed.
#[tokio::test]
async fn endpoint_without_http2_settings_counts_as_failed() {
    for how in [Stranger::Closes, Stranger::IsSilent, Stranger::AnswersOtherwise] {
        let world = World::new().await;
        let second = Backend::new().await;
        let first = stranger(how).await;
        let near = || place("near", 0, 1, &[first]);
        begin(&world, vec![near()]).await;
        // Longer than the test: the next priority is tried because this one fails, not because of
        // the failover delay.
        let mut options = ChannelOptions::new("node-1");
        options.times.failover = Duration::from_secs(600);
        options.connect_timeout = match how {
            Stranger::IsSilent => Duration::from_millis(200),
            Stranger::Closes | Stranger::AnswersOtherwise => Duration::from_secs(600),
        };
        let mut client = world.health_with(options);
        let status = check(&mut client, &[]).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "{how:?}: {status}");
        let message = status.message();
        assert!(message.starts_with("no endpoint of cluster `c`: conn"), "{how:?}: {message}");
        world.apply(at(vec![near(), place("far", 1, 1, &[second.address])]).0).await;
        soon(async { while check(&mut client, &[]).await.is_err() {} }).await;
        for _ in 0..10 {
            check(&mut client, &[]).await.expect("an answer");
        }
        assert_eq!(second.calls(), 11, "{how:?}");
    }
}
