//! Polling.

use core::time::Duration;

use serde_json::json;
use xds_core::{
    client::{ManagementServer, PollPolicy},
    types::CLUSTER,
};

use super::config;
use crate::{
    ClientAdapter, ClientSettings,
    rest::RestPeer,
    wait::{no_value, value},
};

const DELAY: Duration = Duration::from_millis(20);

fn polled(peer: &RestPeer) -> ManagementServer {
    ManagementServer::new(format!("http://{}", peer.address)).with_polls(PollPolicy::new(DELAY))
}

fn cluster(version: &str, timeout: &str) -> serde_json::Value {
    json!({
        "version_info": version,
        "type_url": CLUSTER,
        "resources": [{ "@type": CLUSTER, "name": "a", "connect_timeout": timeout }],
    })
}

pub(super) async fn unchanged(adapter: &dyn ClientAdapter) {
    let mut peer = RestPeer::start();
    let client = adapter.connect(config(polled(&peer)), &ClientSettings::default());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let first = peer.request().await;
    assert_eq!(first.path, "/v3/discovery:clusters");
    assert_eq!(first.body["node"]["id"], "node-1");
    first.answer(200, &cluster("1", "1s"));
    assert_eq!(value(&mut watch).await.version.as_str(), "1");
    for _ in 0..3 {
        let again = peer.request().await;
        assert_eq!(again.body["version_info"], "1");
        again.answer(304, &json!(null));
    }
    peer.request().await.answer(200, &cluster("2", "2s"));
    assert_eq!(value(&mut watch).await.version.as_str(), "2");
    let stats = client.stats().await.expect("it runs");
    assert_eq!((stats.nacks, stats.server_failures), (0, 0));
    println!("covers: S0.200 RJ-03");
}

pub(super) async fn failing(adapter: &dyn ClientAdapter) {
    let mut peer = RestPeer::start();
    let client = adapter.connect(config(polled(&peer)), &ClientSettings::default());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    peer.request().await.answer(503, &json!(null));
    assert!(no_value(&mut watch).await.to_string().contains("503"));
    peer.request().await.answer(200, &cluster("1", "1s"));
    assert_eq!(value(&mut watch).await.version.as_str(), "1");
}
