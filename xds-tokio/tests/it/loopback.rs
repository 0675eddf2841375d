//! Client against server over real connections.

use core::time::Duration;
use std::net::SocketAddr;

use crate::support::{
    self, CLUSTER, ENDPOINTS, config, next, next_change, no_value, resource, soon, value,
};
use tokio::{net::TcpListener, task::JoinHandle};
use xds_core::{
    client::{Change, Notice, WatchErrorKind},
    server::{Observation, ServerConfig, SyncState, Transaction},
};
use xds_tokio::{
    ClientOptions, Keepalive, ManagementServer, ServerHandle, ServerOptions, client,
    server::Observed,
};

async fn serve(address: SocketAddr) -> (ServerHandle, SocketAddr, JoinHandle<()>) {
    let server = ManagementServer::start(ServerConfig::default(), ServerOptions::default());
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = server.serve(listener);
    let task = tokio::spawn(async move { serving.await.unwrap() });
    (server.handle(), address, task)
}

fn anywhere() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

async fn set(handle: &ServerHandle, type_url: &str, name: &str, content: &str) {
    let mut transaction = Transaction::new();
    transaction.set(type_url, name, resource(name, content));
    handle.apply(transaction).await.unwrap();
}

async fn remove(handle: &ServerHandle, type_url: &str, name: &str) {
    let mut transaction = Transaction::new();
    transaction.remove(type_url, name);
    handle.apply(transaction).await.unwrap();
}

#[tokio::test]
async fn watcher_sees_set_change_and_removal() {
    let (handle, address, _serving) = serve(anywhere()).await;
    set(&handle, CLUSTER, "a", "one").await;
    let client = client::connect(config(address), ClientOptions::default());
    let mut a = client.watch_untyped(CLUSTER, "a");
    let mut later = client.watch_untyped(ENDPOINTS, "later");
    assert_eq!(value(&mut a).await.bytes, resource("a", "one"));
    a.handled();
    set(&handle, CLUSTER, "a", "two").await;
    assert_eq!(value(&mut a).await.bytes, resource("a", "two"));
    a.handled();
    set(&handle, ENDPOINTS, "later", "now").await;
    assert_eq!(value(&mut later).await.name.as_str(), "later");
    later.handled();
    remove(&handle, CLUSTER, "a").await;
    let Notice::Ambient(Some(error)) = next(&mut a).await else { panic!("not told") };
    assert_eq!(error.kind(), &WatchErrorKind::Deleted);
}

#[tokio::test]
async fn invalid_resource_is_nacked_once_and_not_sent_again() {
    let (handle, address, _serving) = serve(anywhere()).await;
    set(&handle, CLUSTER, "a", "bad").await;
    let mut observations = handle.observations();
    let client = client::connect(config(address), ClientOptions::default());
    let mut a = client.watch_untyped(CLUSTER, "a");
    let error = no_value(&mut a).await;
    assert!(matches!(error.kind(), WatchErrorKind::Invalid(_)), "{error}");
    a.handled();
    let reason = loop {
        match soon(observations.next()).await {
            Some(Observed::Event(Observation::Nacked { message, .. })) => break message,
            Some(_) => {}
            None => panic!("the server ended"),
        }
    };
    assert!(reason.contains("it is bad"), "{reason}");
    // A change of another type completes a round trip; the rejected response is not sent again.
    set(&handle, ENDPOINTS, "e", "one").await;
    let mut e = client.watch_untyped(ENDPOINTS, "e");
    value(&mut e).await;
    e.handled();
    let rows = handle.status().await.unwrap();
    let row = rows.iter().find(|row| row.type_url.as_str() == CLUSTER).unwrap();
    assert_eq!((row.state, row.responses, row.nacks), (SyncState::Nacked, 1, 1));
    assert!(row.last_error.as_ref().is_some_and(|error| error.contains("it is bad")));

    set(&handle, CLUSTER, "a", "fine").await;
    value(&mut a).await;
    println!("covers: IS4");
}

#[tokio::test]
async fn client_recovers_after_a_server_restart() {
    let (handle, address, serving) = serve(anywhere()).await;
    set(&handle, CLUSTER, "a", "one").await;
    let client = client::connect(config(address), ClientOptions::default());
    let mut a = client.watch_untyped(CLUSTER, "a");
    value(&mut a).await;
    a.handled();
    soon(handle.shut_down()).await;
    soon(serving).await.unwrap();

    let (handle, _, _serving) = serve(address).await;
    set(&handle, CLUSTER, "a", "two").await;
    loop {
        // While the server was down, an ambient error may have been reported.
        match next(&mut a).await {
            Notice::Changed(Ok(resource)) => {
                assert_eq!(resource.bytes, support::resource("a", "two"));
                break;
            }
            Notice::Ambient(_) => {}
            other => panic!("unexpected {other:?}"),
        }
    }
}

#[tokio::test]
async fn large_collection_arrives_complete_and_in_order() {
    let (handle, address, _serving) = serve(anywhere()).await;
    let mut transaction = Transaction::new();
    for n in 0..20_000 {
        let name = format!("c{n:05}");
        transaction.set(CLUSTER, name.as_str(), resource(&name, &"x".repeat(400)));
    }
    handle.apply(transaction).await.unwrap();
    let client = client::connect(config(address), ClientOptions::default());
    let mut all = client.watch_all_untyped(CLUSTER);
    let mut seen = 0;
    while seen < 20_000 {
        match next_change(&mut all).await {
            Change::Resource { name, result: Ok(_) } => {
                assert_eq!(name.as_str(), format!("c{seen:05}"));
                seen += 1;
            }
            Change::Collection(Ok(())) => {}
            other => panic!("unexpected {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_converge_to_the_newest_state() {
    const CLIENTS: usize = 100;
    const ROUNDS: usize = 30;

    let (handle, address, _serving) = serve(anywhere()).await;
    let mut tasks = Vec::new();
    for n in 0..CLIENTS {
        let client = client::connect(config(address), ClientOptions::default());
        tasks.push(tokio::spawn(async move {
            let mut endpoints = client.watch_untyped(ENDPOINTS, "e");
            let mut clusters = client.watch_all_untyped(CLUSTER);
            // In parallel: reading waits until both watches have handled their items.
            let newest_endpoints = async {
                let last = resource("e", &(ROUNDS - 1).to_string());
                while n % 2 == 0 && value(&mut endpoints).await.bytes != last {}
                drop(endpoints);
            };
            let newest_cluster = async {
                let last = resource("c", &(ROUNDS - 1).to_string());
                loop {
                    if let Change::Resource { result: Ok(cluster), .. } =
                        next_change(&mut clusters).await
                        && cluster.bytes == last
                    {
                        break;
                    }
                }
                drop(clusters);
            };
            tokio::join!(newest_endpoints, newest_cluster);
        }));
    }
    for round in 0..ROUNDS {
        let mut transaction = Transaction::new();
        transaction.set(ENDPOINTS, "e", resource("e", &round.to_string()));
        transaction.set(CLUSTER, "c", resource("c", &round.to_string()));
        handle.apply(transaction).await.unwrap();
    }
    for task in tasks {
        soon(task).await.unwrap();
    }
    soon(async {
        while handle.stats().await.unwrap().streams > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn idle_connection_is_kept_alive() {
    let server = ManagementServer::start(
        ServerConfig::default(),
        ServerOptions::default()
            .with_keepalive(Keepalive::new(Duration::from_millis(20), Duration::from_secs(10))),
    );
    let listener = TcpListener::bind(anywhere()).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(server.serve(listener));
    let handle = server.handle();
    set(&handle, CLUSTER, "a", "one").await;
    let options = ClientOptions::default()
        .with_keepalive(Keepalive::new(Duration::from_millis(20), Duration::from_secs(10)));
    let client = client::connect(config(address), options);
    let mut a = client.watch_untyped(CLUSTER, "a");
    value(&mut a).await;
    a.handled();
    // Ten ping intervals without other traffic. Virtual time passes while all tasks are idle.
    tokio::time::pause();
    tokio::time::sleep(Duration::from_millis(200)).await;
    tokio::time::resume();
    set(&handle, CLUSTER, "a", "two").await;
    value(&mut a).await;
    assert_eq!(client.stats().await.unwrap().server_failures, 0);
    assert_eq!(handle.stats().await.unwrap().streams, 1);
}
