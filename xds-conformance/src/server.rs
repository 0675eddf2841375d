//! What management servers have to do.

use bytes::Bytes;
use xds_core::{
    server::{ServerConfig, Transaction},
    types::CLUSTER,
};

use crate::{Case, RunningServer, ServerAdapter, peer::resource, raw::Caller};

macro_rules! cases {
    ($($case:path => $what:literal,)*) => {
        &[$(Case { name: $what, run: |adapter| smol::block_on($case(adapter)) },)*]
    };
}

/// Streams.
pub const GRPC: &[Case<dyn ServerAdapter>] = cases![
    changes => "what is set is sent, and when it changes sent again",
    slow_reader => "who does not read delays nobody",
    too_long => "a request beyond the limit ends its stream",
    garbage => "a request that is none ends its stream, and nothing else",
    drain => "streams of a server that drains end with a status",
];

fn set(server: &dyn RunningServer, name: &str, content: &str) {
    let mut change = Transaction::new();
    change.set(CLUSTER, name, resource(name, content));
    server.apply(change);
}

async fn changes(adapter: &dyn ServerAdapter) {
    let server = adapter.start(ServerConfig::default());
    set(&*server, "a", "one");
    let mut caller = Caller::subscribe(server.address(), CLUSTER, &["a"]).await;
    let first = caller.response().await;
    assert_eq!(first.resources[0].value, resource("a", "one"));
    caller.ack(&first, &["a"]);
    set(&*server, "a", "two");
    let second = caller.response().await;
    assert_eq!(second.resources[0].value, resource("a", "two"));
    assert_ne!(first.version_info, second.version_info);
}

async fn slow_reader(adapter: &dyn ServerAdapter) {
    // More than any window of HTTP/2 here lets through unread.
    const LONG: usize = 32 << 20;

    let server = adapter.start(ServerConfig::default());
    set(&*server, "a", &"x".repeat(LONG));
    let mut slow = Caller::subscribe(server.address(), CLUSTER, &["a"]).await;
    for content in ["one", "two", "three"] {
        set(&*server, "b", content);
        let mut other = Caller::subscribe(server.address(), CLUSTER, &["b"]).await;
        assert_eq!(other.response().await.resources[0].value, resource("b", content));
    }
    // And has lost nothing.
    assert!(slow.response().await.resources[0].value.len() > LONG);
    println!("covers: IS25");
}

async fn too_long(adapter: &dyn ServerAdapter) {
    let server = adapter.start(ServerConfig::default());
    let name = "x".repeat(2 << 20);
    let caller = Caller::subscribe(server.address(), CLUSTER, &[&name]).await;
    assert_eq!(caller.end().await.as_deref(), Some("8"));
}

async fn garbage(adapter: &dyn ServerAdapter) {
    let server = adapter.start(ServerConfig::default());
    set(&*server, "a", "one");
    let mut witness = Caller::subscribe(server.address(), CLUSTER, &["a"]).await;
    let first = witness.response().await;
    // What is no node in the place of one.
    let bad = xds_core::proto::Any { type_url: "\u{1}".into(), value: Bytes::from_static(b"\xff") };
    let caller = Caller::call(server.address(), &bad).await;
    assert_eq!(caller.end().await.as_deref(), Some("3"));
    witness.ack(&first, &["a"]);
    set(&*server, "a", "two");
    assert_eq!(witness.response().await.resources[0].value, resource("a", "two"));
}

async fn drain(adapter: &dyn ServerAdapter) {
    let server = adapter.start(ServerConfig::default());
    set(&*server, "a", "one");
    let mut caller = Caller::subscribe(server.address(), CLUSTER, &["a"]).await;
    let first = caller.response().await;
    caller.ack(&first, &["a"]);
    server.drain();
    assert_eq!(caller.end().await.as_deref(), Some("14"));
}
