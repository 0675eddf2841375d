//! Budgets for names, at their edges, with raw HTTP/2 clients.

use core::time::Duration;

use prost::Message as _;
use tokio::time::{sleep, timeout};
use xds_core::{
    proto::{DiscoveryRequest, Node},
    server::{ServerConfig, ServerLimits},
    types,
};
use xds_grpc::ServerOptions;
use xds_sim::stack::Stage;

use crate::raw::{RawCall, open, serve_with};

/// Subscribes to clusters.
fn subscribe(call: &mut RawCall, names: &[&str]) {
    let request = DiscoveryRequest {
        node: Some(Node { id: "greedy".into(), ..Node::default() }),
        type_url: types::CLUSTER.into(),
        resource_names: names.iter().map(|name| (*name).into()).collect(),
        ..DiscoveryRequest::default()
    };
    call.message(&request.encode_to_vec());
}

/// Options whose errors say how to raise the limits of names.
fn with_advice() -> ServerOptions {
    ServerOptions::default().with_name_limit_advice("raise the first", "raise the second")
}

#[test]
fn calls_of_a_connection_share_its_budget_of_names() {
    let report = Stage::run(1, async |stage| {
        let mut limits = ServerLimits::default();
        limits.names_per_connection = 3;
        let config = ServerConfig::default().with_limits(limits);
        let _server = serve_with(stage, config, with_advice());
        let near = stage.host("client");
        let mut calls = open(&near, 2).await;
        let mut other = open(&near, 1).await;
        subscribe(&mut calls[0], &["a", "b"]);
        sleep(Duration::from_secs(1)).await;
        subscribe(&mut calls[1], &["a", "c"]);
        subscribe(&mut other[0], &["a", "b", "c"]);
        let (status, why) = calls.pop().expect("two calls").status().await;
        assert_eq!(status, "8", "{why}");
        let expected = "more than 3 resource names on one connection; raise the first";
        assert_eq!(why, expected);
        for call in [calls.pop(), other.pop()].into_iter().flatten() {
            assert!(timeout(Duration::from_secs(5), call.status()).await.is_err(), "it may go on");
        }
    });
    assert_eq!(report.trace.violation, None);
}

#[test]
fn connection_with_most_names_gives_way_when_there_are_too_many() {
    let report = Stage::run(1, async |stage| {
        let mut limits = ServerLimits::default();
        limits.names = 4;
        let config = ServerConfig::default().with_limits(limits);
        let _server = serve_with(stage, config, with_advice());
        let near = stage.host("client");
        let (mut heavy, mut light) = (open(&near, 2).await, open(&near, 1).await);
        subscribe(&mut heavy[0], &["a", "b"]);
        subscribe(&mut heavy[1], &["a"]);
        sleep(Duration::from_secs(1)).await;
        subscribe(&mut light[0], &["a", "b"]);
        for call in heavy {
            let (status, why) = call.status().await;
            assert_eq!(status, "8", "{why}");
            assert!(why.ends_with("most of them on this one; raise the second"), "{why}");
        }
        let light = light.pop().expect("a call");
        assert!(timeout(Duration::from_secs(5), light.status()).await.is_err(), "it may go on");
    });
    assert_eq!(report.trace.violation, None);
}
