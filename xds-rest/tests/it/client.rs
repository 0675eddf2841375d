//! A polling client with the driver of xds-tokio, from watchers to a server behind the gateway.

use core::time::Duration;

use crate::support::{cluster, listening, serving, set};
use tokio::{io::AsyncReadExt as _, time::timeout};
use xds_core::{
    client::{ClientConfig, Node, Notice, OpaqueType, PollPolicy, Resource, ServerAddress},
    server::Transaction,
    service::{ApiVersion, Variant},
    types,
};
use xds_tokio::{ClientHandle, ClientOptions, Watch, client};

fn client(uri: &str, change: impl FnOnce(ServerAddress) -> ServerAddress) -> ClientHandle {
    let policy = PollPolicy::new(Duration::from_millis(20));
    let server = change(ServerAddress::new(uri).with_polling(policy));
    let config = ClientConfig::new(Node::new("n"), server)
        .with_type(OpaqueType::new(types::CLUSTER))
        .with_type(OpaqueType::new(types::VIRTUAL_HOST));
    client::connect(config, ClientOptions::default())
}

async fn next(watch: &mut Watch) -> Notice {
    let notice = timeout(Duration::from_secs(10), watch.next()).await.expect("soon");
    let notice = notice.expect("the client is there").expect("a sound watch");
    watch.handled();
    notice
}

async fn value(watch: &mut Watch) -> Resource {
    match next(watch).await {
        Notice::Changed(Ok(resource)) => resource,
        other => panic!("{other:?} is no value"),
    }
}

#[tokio::test]
async fn polling_watcher_receives_resources_and_changes() {
    let (server, gateway) = serving();
    set(&server, "a", "1s").await;
    let address = listening(gateway).await;
    let client = client(&format!("http://{address}"), |server| server);
    let mut a = client.watch_untyped(types::CLUSTER, "a");
    assert_eq!(&*value(&mut a).await.bytes, &*cluster("a", "1s"));
    set(&server, "a", "2s").await;
    assert_eq!(&*value(&mut a).await.bytes, &*cluster("a", "2s"));
    // Requested while another request is held.
    let mut b = client.watch_untyped(types::CLUSTER, "b");
    set(&server, "b", "3s").await;
    assert_eq!(&*value(&mut b).await.bytes, &*cluster("b", "3s"));
    let stats = client.stats().await.expect("it runs");
    assert_eq!((stats.nacks, stats.server_failures), (0, 0));
    println!("covers: S0.001 S0.002 S0.003 S0.199 S0.200 IS31");
}

/// A client that requests version 2 gets responses in version 2, and its watchers get version 3.
#[tokio::test]
async fn client_polls_version_2_and_watchers_get_version_3() {
    let (server, gateway) = serving();
    set(&server, "a", "9s").await;
    let older = types::v2_type_url(types::CLUSTER).expect("it was there");
    let give = async |timeout: &str| {
        let mut change = Transaction::new();
        change.set(older, "a", cluster("a", timeout));
        server.handle().apply(change).await.expect("a sound change");
    };
    give("1s").await;
    let uri = format!("http://{}", listening(gateway).await);
    let client = client(&uri, |server| server.with_api(ApiVersion::V2));
    let mut a = client.watch_untyped(types::CLUSTER, "a");
    for timeout in ["1s", "2s"] {
        give(timeout).await;
        assert_eq!(&*value(&mut a).await.bytes, &*cluster("a", timeout));
    }
    let stats = client.stats().await.expect("it runs");
    assert_eq!((stats.nacks, stats.v2_resources), (0, 2));
    println!("covers: S0.004 S0.005 S0.203 S4.059");
}

/// The first poll has all watched names, and neither a version nor a nonce.
#[tokio::test]
async fn first_poll_has_all_names_and_no_version_or_nonce() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("it is bound");
    let client = client(&format!("http://{address}"), |server| server);
    let _watches = ["b", "c", "a"].map(|name| client.watch_untyped(types::CLUSTER, name));
    let (mut socket, _) = listener.accept().await.expect("it polls");
    let mut asked = Vec::new();
    let (head, body) = loop {
        assert_ne!(socket.read_buf(&mut asked).await.expect("a request"), 0);
        let text = String::from_utf8_lossy(&asked).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        if let Ok(body) = serde_json::from_str::<serde_json::Value>(body) {
            break (head.to_ascii_lowercase(), body);
        }
    };
    assert!(head.starts_with("post /v3/discovery:clusters http/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("\r\nhost: {address}")), "{head}");
    assert!(head.contains("\r\ncontent-type: application/json"), "{head}");
    // The order does not matter to a server. It is the order of the watches.
    assert_eq!(body["resource_names"], serde_json::json!(["b", "c", "a"]));
    assert_eq!((&body["node"]["id"], &body["type_url"]), (&"n".into(), &types::CLUSTER.into()));
    assert!(body.get("version_info").is_none() && body.get("response_nonce").is_none(), "{body}");
    println!("covers: RJ-01 S0.202");
}

#[tokio::test]
async fn unreachable_server_is_reported_to_the_watcher() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    let client = client(&format!("http://{address}"), |server| server);
    let mut a = client.watch_untyped(types::CLUSTER, "a");
    let Notice::Changed(Err(why)) = next(&mut a).await else { panic!("nobody is there") };
    assert!(why.to_string().contains("cannot connect"), "{why}");
    println!("covers: RJ-10");
}

/// A type without a REST path is a configuration error, and the error text states that.
#[tokio::test]
async fn type_without_a_rest_path_cannot_be_polled() {
    let (_server, gateway) = serving();
    let uri = format!("http://{}", listening(gateway).await);
    for (type_url, variant) in
        [(types::VIRTUAL_HOST, Variant::StateOfTheWorld), (types::CLUSTER, Variant::Incremental)]
    {
        let client = client(&uri, |server| server.with_variant(variant));
        let mut watch = client.watch_untyped(type_url, "a");
        let Notice::Changed(Err(why)) = next(&mut watch).await else { panic!("there is no way") };
        assert!(why.to_string().contains("not available over REST"), "{why}");
    }
    println!("covers: S0.180 S0.204 RJ-11");
}
