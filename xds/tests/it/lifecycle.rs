//! Begin and end of servers: the first change, the readiness of clients, and addresses that are
//! used again.

use core::{future::Future, pin::Pin, pin::pin, time::Duration};
use std::task::{Context, Waker};

use xds::{
    Client, ManagementServer,
    client::Event,
    server::{DrainPlan, Transaction},
};

use crate::support::{Cluster, cluster, server, soon};

/// Polls a future that is not ready.
fn begin<T>(future: Pin<&mut impl Future<Output = T>>) {
    assert!(future.poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

/// Ends a server in one of three ways.
async fn end(server: &ManagementServer, way: usize) {
    match way % 3 {
        0 => server.handle().shut_down().await,
        1 => server.handle().drain(DrainPlan::new(Duration::from_secs(5))).await,
        _ => server.run_until(async {}).await.unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn address_is_free_when_the_server_has_ended() {
    let first = server().await;
    let address = first.address().to_string();
    end(&first, 0).await;
    for way in 0..60 {
        let bound = ManagementServer::builder().bind(&address).await;
        end(&bound.unwrap_or_else(|error| panic!("attempt {way}: {error}")), way).await;
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn socket_file_is_removed_when_the_server_has_ended() {
    let name = format!("xds-lifecycle-{}.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
    let address = format!("unix:{}", path.display());
    for way in 0..60 {
        let server = ManagementServer::builder().bind(&address).await.unwrap();
        end(&server, way).await;
        assert!(!path.exists(), "attempt {way}");
    }
}

#[tokio::test]
async fn first_change_answers_clients_although_its_future_is_dropped() {
    let server = server().await;
    let address = server.address().to_string();
    let client = Client::connect(address).node_id("test").start().unwrap();
    let mut clusters = client.watch_all::<Cluster>();
    let change = Transaction::snapshot("").with(&cluster("a", "1")).unwrap();
    begin(pin!(server.apply(change)));
    let event = soon(clusters.next()).await;
    assert!(matches!(event, Some(Event::Applied(_))), "{event:?}");
}

#[tokio::test]
async fn synced_does_not_wait_for_watches_that_are_dropped() {
    // No server listens.
    let client = Client::connect("127.0.0.1:1").node_id("test").start().unwrap();
    let watches = [client.watch::<Cluster>("a"), client.watch_all::<Cluster>()];
    let mut synced = pin!(client.synced());
    begin(synced.as_mut());
    drop(watches);
    assert_eq!(soon(synced).await, Ok(()));
}
