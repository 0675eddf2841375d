//! Test cases for streams.

use core::time::Duration;
use std::net::TcpListener;

use xds_core::{
    client::{FlowControl, Streams},
    proto::{Any, DeltaDiscoveryRequest, DeltaDiscoveryResponse, Resource},
    service::Variant,
    types::CLUSTER,
};

use super::{at, config};
use crate::{
    ClientAdapter, ClientSettings,
    peer::{Headers, Peer, resource},
    wait::{first_value, no_value, soon, value},
};

const AGGREGATED: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
const DELTA_AGGREGATED: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
const CLUSTERS: &str = "/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters";

pub(super) async fn full_state(adapter: &dyn ClientAdapter) {
    let mut peer = Peer::start(Headers::AfterFirstRequest);
    let client = adapter.connect(config(at(peer.address)), &ClientSettings::default());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut call = peer.call().await;
    assert_eq!(call.path, AGGREGATED);
    let first = call.sotw().await;
    assert_eq!(first.resource_names, ["a"]);
    assert_eq!(first.node.expect("the first request names the node").id, "node-1");
    call.respond(CLUSTER, "1", "n1", &[("a", "one")]);
    assert_eq!(value(&mut watch).await.bytes, resource("a", "one"));
    let ack = call.sotw().await;
    assert_eq!((&*ack.version_info, &*ack.response_nonce), ("1", "n1"));
    assert!(ack.error_detail.is_none());
    println!("covers: SB-19");
}

pub(super) async fn changes(adapter: &dyn ClientAdapter) {
    let mut peer = Peer::start(Headers::AfterFirstRequest);
    let server = at(peer.address).with_variant(Variant::Incremental);
    let client = adapter.connect(config(server), &ClientSettings::default());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut call = peer.call().await;
    assert_eq!(call.path, DELTA_AGGREGATED);
    let first: DeltaDiscoveryRequest = call.request().await;
    assert_eq!(first.resource_names_subscribe, ["a"]);
    let any = Any { type_url: CLUSTER.into(), value: resource("a", "one") };
    call.send(&DeltaDiscoveryResponse {
        system_version_info: "s".into(),
        resources: vec![Resource {
            name: "a".into(),
            version: "1".into(),
            resource: Some(any),
            ..Default::default()
        }],
        type_url: CLUSTER.into(),
        nonce: "n1".into(),
        ..Default::default()
    });
    assert_eq!(value(&mut watch).await.bytes, resource("a", "one"));
    let ack: DeltaDiscoveryRequest = call.request().await;
    assert_eq!((&*ack.response_nonce, ack.error_detail), ("n1", None));
}

pub(super) async fn stream_of_a_type(adapter: &dyn ClientAdapter) {
    let mut peer = Peer::start(Headers::AtOnce);
    let server = at(peer.address).with_streams(Streams::PerType);
    let client = adapter.connect(config(server), &ClientSettings::default());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut call = peer.call().await;
    assert_eq!(call.path, CLUSTERS);
    call.sotw().await;
    call.respond(CLUSTER, "1", "n1", &[("a", "one")]);
    value(&mut watch).await;
}

pub(super) async fn rejection(adapter: &dyn ClientAdapter) {
    let mut peer = Peer::start(Headers::AtOnce);
    let client = adapter.connect(config(at(peer.address)), &ClientSettings::default());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut call = peer.call().await;
    call.sotw().await;
    call.respond(CLUSTER, "1", "n1", &[("a", "bad")]);
    assert!(no_value(&mut watch).await.to_string().contains("it is bad"));
    let nack = call.sotw().await;
    assert_eq!((&*nack.version_info, &*nack.response_nonce), ("", "n1"));
    assert!(nack.error_detail.expect("the reason").message.contains("it is bad"));
    call.respond(CLUSTER, "2", "n2", &[("a", "good")]);
    assert_eq!(value(&mut watch).await.version.as_str(), "2");
    assert!(call.sotw().await.error_detail.is_none());
}

pub(super) async fn coming_back(adapter: &dyn ClientAdapter) {
    let mut peer = Peer::start(Headers::AtOnce);
    let client = adapter.connect(config(at(peer.address)), &ClientSettings::default());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut call = peer.call().await;
    call.sotw().await;
    call.respond(CLUSTER, "1", "n1", &[("a", "one")]);
    value(&mut watch).await;
    call.sotw().await;
    call.end("14");
    let mut call = peer.call().await;
    let again = call.sotw().await;
    assert_eq!((&*again.version_info, &*again.response_nonce), ("1", ""));
    call.respond(CLUSTER, "2", "n1", &[("a", "two")]);
    assert_eq!(value(&mut watch).await.version.as_str(), "2");
}

pub(super) async fn late_frames(adapter: &dyn ClientAdapter) {
    let mut peer = Peer::start(Headers::AtOnce);
    let client = adapter.connect(config(at(peer.address)), &ClientSettings::default());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut call = peer.call().await;
    call.sotw().await;
    // The client ends the stream because of a response that does not decode. The next response has
    // already been sent.
    call.send_bytes(&[0xff; 9]);
    call.respond(CLUSTER, "2", "n2", &[("a", "two")]);
    call.ended().await;
    call.respond(CLUSTER, "3", "n3", &[("a", "three")]);
    call.closed().await;
    let mut call = peer.call().await;
    call.sotw().await;
    call.respond(CLUSTER, "4", "n1", &[("a", "four")]);
    assert_eq!(first_value(&mut watch).await.version.as_str(), "4");
}

pub(super) async fn too_long(adapter: &dyn ClientAdapter) {
    let mut peer = Peer::start(Headers::AtOnce);
    let mut config = config(at(peer.address));
    config.limits.response_bytes = 10_000;
    let client = adapter.connect(config, &ClientSettings::default());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut call = peer.call().await;
    call.sotw().await;
    call.respond(CLUSTER, "1", "n1", &[("a", &"x".repeat(20_000))]);
    call.closed().await;
    let mut call = peer.call().await;
    call.sotw().await;
    call.respond(CLUSTER, "2", "n1", &[("a", "short")]);
    assert_eq!(first_value(&mut watch).await.version.as_str(), "2");
}

pub(super) async fn unpolled(adapter: &dyn ClientAdapter) {
    let mut peer = Peer::start(Headers::AtOnce);
    let client = adapter.connect(config(at(peer.address)), &ClientSettings::default());
    let _unpolled = client.watch_untyped(CLUSTER, "a");
    let mut call = peer.call().await;
    call.sotw().await;
    call.respond(CLUSTER, "1", "n1", &[("a", "one")]);
    assert_eq!(call.sotw().await.version_info, "1");
    let mut polled = client.watch_untyped(CLUSTER, "b");
    assert_eq!(call.sotw().await.resource_names, ["a", "b"]);
    call.respond(CLUSTER, "2", "n2", &[("a", "one"), ("b", "two")]);
    assert_eq!(value(&mut polled).await.version.as_str(), "2");
}

pub(super) async fn unread_end(adapter: &dyn ClientAdapter) {
    let mut peer = Peer::start(Headers::AtOnce);
    let mut config = config(at(peer.address));
    config.profile.flow_control = FlowControl::On;
    let client = adapter.connect(config, &ClientSettings::default());
    let _unpolled = client.watch_untyped(CLUSTER, "a");
    let mut call = peer.call().await;
    call.sotw().await;
    call.respond(CLUSTER, "1", "n1", &[("a", "one")]);
    assert_eq!(call.sotw().await.version_info, "1");
    // A response that is not read, followed by the end of the response stream. The request stream
    // stays open.
    call.respond(CLUSTER, "2", "n2", &[("a", "two")]);
    call.end("14");
    let again = peer.call().await.sotw().await;
    assert_eq!((&*again.version_info, &*again.response_nonce), ("1", ""));
}

pub(super) async fn silent(adapter: &dyn ClientAdapter) {
    let silent = TcpListener::bind(("127.0.0.1", 0)).expect("loopback");
    let mut second = Peer::start(Headers::AtOnce);
    let address = silent.local_addr().expect("it is bound");
    let config = config(at(address)).with_server(at(second.address));
    let settings = ClientSettings {
        connect_timeout: Some(Duration::from_millis(300)),
        ..ClientSettings::default()
    };
    let client = adapter.connect(config, &settings);
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut call = second.call().await;
    call.sotw().await;
    call.respond(CLUSTER, "1", "n1", &[("a", "one")]);
    assert_eq!(first_value(&mut watch).await.version.as_str(), "1");
}

pub(super) async fn half_open(adapter: &dyn ClientAdapter) {
    let mut peer = Peer::start(Headers::AtOnce);
    let settings = ClientSettings {
        keepalive: Some((Duration::from_millis(100), Duration::from_millis(100))),
        ..ClientSettings::default()
    };
    let client = adapter.connect(config(at(peer.address)), &settings);
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut call = peer.call().await;
    call.sotw().await;
    call.respond(CLUSTER, "1", "n1", &[("a", "one")]);
    value(&mut watch).await;
    call.sotw().await;
    peer.stop_io();
    let mut call = peer.call().await;
    assert_eq!(call.sotw().await.response_nonce, "");
    println!("covers: B59");
}

pub(super) async fn shut_down(adapter: &dyn ClientAdapter) {
    let mut peer = Peer::start(Headers::AtOnce);
    let client = adapter.connect(config(at(peer.address)), &ClientSettings::default());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut all = client.watch_all_untyped(CLUSTER);
    let mut call = peer.call().await;
    call.sotw().await;
    client.shut_down();
    assert!(soon("the end of the watch", watch.next()).await.is_none());
    assert!(soon("the end of the other", all.next()).await.is_none());
    soon("the end of the client", client.ended()).await;
    call.closed().await;
}
