//! Test cases for polling.

use core::{pin::pin, time::Duration};

use futures_util::future::{Either, select};
use serde_json::json;
use xds_core::{
    client::{PollPolicy, ServerAddress},
    types::CLUSTER,
};

use super::config;
use crate::{
    ClientAdapter, ClientSettings,
    rest::RestPeer,
    wait::{all_is_well, first_value, no_value, soon, trouble, value},
};

const DELAY: Duration = Duration::from_millis(20);

fn polled(peer: &RestPeer) -> ServerAddress {
    ServerAddress::new(format!("http://{}", peer.address)).with_polling(PollPolicy::new(DELAY))
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

/// Content type of the test responses.
const JSON: &str = "application/json";

pub(super) async fn statuses(adapter: &dyn ClientAdapter) {
    let mut peer = RestPeer::start();
    let client = adapter.connect(config(polled(&peer)), &ClientSettings::default());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    peer.request().await.answer(200, &cluster("1", "1s"));
    assert_eq!(value(&mut watch).await.version.as_str(), "1");
    for (status, content_type, body, told) in [
        (301, JSON, "", "HTTP status 301"),
        (302, JSON, "", "HTTP status 302"),
        (400, "text/plain", "what?", "HTTP status 400 Bad Request: what?"),
        (401, JSON, "", "HTTP status 401"),
        (403, JSON, "", "HTTP status 403"),
        (404, JSON, "", "HTTP status 404"),
        (429, JSON, "", "HTTP status 429"),
        (500, JSON, "", "HTTP status 500"),
        (503, JSON, "", "HTTP status 503"),
        (200, "text/html", "<html>", "response:1:1"),
        (200, JSON, "", "response:1:1"),
        (200, JSON, "{\"resources\": [", "response:1:"),
    ] {
        // The first error after a response may only close the connection, which is not reported.
        for _ in 0..2 {
            peer.request().await.answer_with(status, content_type, body);
        }
        let why = trouble(&mut watch).await.to_string();
        assert!(why.contains(told), "{status}: {why}");
        assert!(why.contains(&peer.address.to_string()), "it does not say who: {why}");
        let held = client.status().await.expect("it runs");
        assert_eq!(held[0].version.as_str(), "1", "the last good state stays");
        // Later polls are based on the last valid version.
        let again = peer.request().await;
        assert_eq!(again.body["version_info"], "1", "{status}");
        again.answer(200, &cluster("1", "1s"));
        all_is_well(&mut watch).await;
    }
    let stats = client.stats().await.expect("it runs");
    assert_eq!(stats.unchanged, 0, "none of these says that there is nothing new");
    assert_eq!(stats.nacks, 0, "and none is a response");
    println!("covers: RJ-04 RJ-06");
}

pub(super) async fn too_long(adapter: &dyn ClientAdapter) {
    let mut peer = RestPeer::start();
    let mut config = config(polled(&peer));
    config.limits.response_bytes = 10_000;
    let client = adapter.connect(config, &ClientSettings::default());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut long = cluster("1", "1s");
    long["resources"][0]["alt_stat_name"] = "x".repeat(20_000).into();
    peer.request().await.answer(200, &long);
    let why = no_value(&mut watch).await.to_string();
    assert!(why.contains("longer than 10000 bytes"), "{why}");
    peer.request().await.answer(200, &cluster("2", "1s"));
    assert_eq!(first_value(&mut watch).await.version.as_str(), "2");
}

pub(super) async fn silent(adapter: &dyn ClientAdapter) {
    const LONGEST: Duration = Duration::from_millis(500);

    let mut peer = RestPeer::start();
    let policy = PollPolicy::new(DELAY).with_request_timeout(LONGEST);
    let config = config(polled(&peer).with_polling(policy));
    let client = adapter.connect(config, &ClientSettings::default());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let held = peer.request().await;
    let why = no_value(&mut watch).await.to_string();
    assert!(why.contains("no response within 500ms"), "{why}");
    held.given_up().await;
    // On a slow machine another response may be late too, so all requests are answered.
    let answering = async {
        loop {
            peer.request().await.answer(200, &cluster("1", "1s"));
        }
    };
    let (first, answering) = (pin!(first_value(&mut watch)), pin!(answering));
    let Either::Left((value, _)) = select(first, answering).await;
    assert_eq!(value.version.as_str(), "1");
    println!("covers: RJ-05");
}

pub(super) async fn shut_down(adapter: &dyn ClientAdapter) {
    let mut peer = RestPeer::start();
    let client = adapter.connect(config(polled(&peer)), &ClientSettings::default());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut all = client.watch_all_untyped(CLUSTER);
    let held = peer.request().await;
    client.shut_down();
    assert!(soon("the end of the watch", watch.next()).await.is_none());
    assert!(soon("the end of the other", all.next()).await.is_none());
    soon("the end of the client", client.ended()).await;
    held.given_up().await;
    println!("covers: RJ-09");
}

pub(super) async fn late_answer(adapter: &dyn ClientAdapter) {
    let mut peer = RestPeer::start();
    let client = adapter.connect(config(polled(&peer)), &ClientSettings::default());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let held = peer.request().await;
    client.shut_down();
    soon("the end of the client", client.ended()).await;
    held.answer(200, &cluster("1", "1s"));
    assert!(soon("the end of the watch", watch.next()).await.is_none());
}
