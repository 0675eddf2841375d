//! Warnings, recoveries and readiness of watches, against servers that fail or stay silent.

use core::time::Duration;

use tokio::time::{sleep, timeout};
use xds::{
    Client, ManagementServer, ResourceMessage, ResourceName,
    client::{Event, Profile, Watch},
    server::Transaction,
    types,
};

use crate::support::{Cluster, Endpoints, cluster, server, soon};

/// Cluster that does not decode, because its `alt_stat_name` is a number.
const INVALID: &[u8] = b"\x0a\x03web\xe0\x01\x01";

/// Starts a server at the address of one that has ended.
async fn restart(address: &str) -> ManagementServer {
    for _ in 0..50 {
        if let Ok(server) = ManagementServer::builder().bind(address).await {
            return server;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("{address} is in use");
}

async fn stop(server: ManagementServer) -> String {
    let address = server.address().to_string();
    soon(server.run_until(core::future::ready(()))).await.unwrap();
    address
}

fn client(address: &str) -> Client {
    Client::connect(address).node_id("test").start().unwrap()
}

/// Client for which an endpoint assignment does not exist after 300 ms.
fn impatient_client(address: &str, profile: Profile) -> Client {
    let after = Some(Duration::from_millis(300));
    Client::connect(address)
        .node_id("test")
        .profile(profile)
        .configure(|it| it.with_does_not_exist_timeout(types::CLUSTER_LOAD_ASSIGNMENT, after))
        .start()
        .unwrap()
}

fn snapshot(stat: &str) -> Transaction {
    Transaction::snapshot("").with(&cluster("web", stat)).unwrap()
}

fn subject(name: Option<&ResourceName>) -> &str {
    name.map_or("*", ResourceName::as_str)
}

/// Returns the next event in short form.
async fn next<T: ResourceMessage>(watch: &mut Watch<T>) -> String {
    match soon(watch.next()).await.expect("the client has ended") {
        Event::Applied(it) => format!("+{} {}", it.name(), it.version()),
        Event::Removed { name, .. } => format!("-{name}"),
        Event::Synced => "synced".into(),
        Event::Warning { name, .. } => format!("warning {}", subject(name.as_ref())),
        Event::Recovered { name } => format!("recovered {}", subject(name.as_ref())),
        _ => "another event".into(),
    }
}

/// Returns the next event that is not a warning. A client warns at each failed attempt to connect.
async fn next_but_warnings<T: ResourceMessage>(watch: &mut Watch<T>) -> String {
    loop {
        let event = next(watch).await;
        if !event.starts_with("warning") {
            return event;
        }
    }
}

async fn assert_applied(watch: &mut Watch<Cluster>, stat: &str) {
    let event = soon(watch.next()).await;
    let is_applied = matches!(&event, Some(Event::Applied(it)) if it.alt_stat_name == stat);
    assert!(is_applied, "{event:?}");
}

#[tokio::test]
async fn named_watch_recovers_before_the_changed_resource_of_a_restarted_server() {
    let server = server().await;
    server.apply(snapshot("1")).await.unwrap();
    let mut web = client(&server.address().to_string()).watch::<Cluster>("web");
    assert_applied(&mut web, "1").await;
    assert_eq!(next(&mut web).await, "synced");
    let address = stop(server).await;
    assert_eq!(next(&mut web).await, "warning web");
    let server = restart(&address).await;
    server.apply(snapshot("2")).await.unwrap();
    assert_eq!(next_but_warnings(&mut web).await, "recovered web");
    assert_applied(&mut web, "2").await;
    // Without another warning, there is no other recovery.
    server.apply(snapshot("3")).await.unwrap();
    assert_applied(&mut web, "3").await;
}

#[tokio::test]
async fn watch_recovers_before_the_corrected_version_of_a_rejected_resource() {
    let server = server().await;
    server.apply(snapshot("1")).await.unwrap();
    let client = client(&server.address().to_string());
    for mut watch in [client.watch::<Cluster>("web"), client.watch_all::<Cluster>()] {
        server.apply(snapshot("1")).await.unwrap();
        assert_applied(&mut watch, "1").await;
        assert_eq!(next(&mut watch).await, "synced");
        let invalid = Transaction::in_view("").with_encoded(types::CLUSTER, "web", INVALID);
        server.apply(invalid.unwrap()).await.unwrap();
        assert_eq!(next(&mut watch).await, "warning web");
        server.apply(snapshot("2")).await.unwrap();
        assert_eq!(next(&mut watch).await, "recovered web");
        assert_applied(&mut watch, "2").await;
        server.apply(snapshot("1")).await.unwrap();
        assert_applied(&mut watch, "1").await;
    }
}

#[tokio::test]
async fn deletion_of_a_rejected_resource_follows_its_recovery() {
    let server = server().await;
    server.apply(snapshot("1")).await.unwrap();
    let client = Client::connect(server.address().to_string()).node_id("test");
    let client = client.profile(Profile::envoy()).start().unwrap();
    let mut clusters = client.watch_all::<Cluster>();
    assert_applied(&mut clusters, "1").await;
    assert_eq!(next(&mut clusters).await, "synced");
    let invalid = Transaction::in_view("").with_encoded(types::CLUSTER, "web", INVALID);
    server.apply(invalid.unwrap()).await.unwrap();
    assert_eq!(next(&mut clusters).await, "warning web");
    server.apply(Transaction::in_view("").without::<Cluster>("web")).await.unwrap();
    assert_eq!(next(&mut clusters).await, "recovered web");
    assert_eq!(next(&mut clusters).await, "-web");
}

#[tokio::test]
async fn collection_watch_started_without_a_server_recovers_before_it_is_synced() {
    let address = stop(server().await).await;
    let mut clusters = client(&address).watch_all::<Cluster>();
    assert_eq!(next(&mut clusters).await, "warning *");
    let server = restart(&address).await;
    server.apply(snapshot("1")).await.unwrap();
    let applied = next_but_warnings(&mut clusters).await;
    assert!(applied.starts_with("+web"), "{applied}");
    assert_eq!(next(&mut clusters).await, "recovered *");
    assert_eq!(next(&mut clusters).await, "synced");
    server.apply(snapshot("2")).await.unwrap();
    assert_applied(&mut clusters, "2").await;
}

#[tokio::test]
async fn collection_that_does_not_exist_is_synced_after_the_timeout() {
    let server = server().await;
    server.apply(snapshot("1")).await.unwrap();
    let client = impatient_client(&server.address().to_string(), Profile::default());
    let mut endpoints = client.watch_all::<Endpoints>();
    soon(client.synced()).await.unwrap();
    soon(endpoints.synced()).await.unwrap();
    assert_eq!(next(&mut endpoints).await, "warning *");
    assert_eq!(next(&mut endpoints).await, "synced");
    let created = Transaction::in_view("").with(&Endpoints { cluster_name: "web".into() });
    server.apply(created.unwrap()).await.unwrap();
    let applied = next(&mut endpoints).await;
    assert!(applied.starts_with("+web"), "{applied}");
    assert_eq!(next(&mut endpoints).await, "recovered *", "it is not synced twice");
}

#[tokio::test]
async fn fetch_timeout_without_a_server_is_an_answer_with_the_profile_of_envoy_only() {
    let address = stop(server().await).await;
    let client = impatient_client(&address, Profile::envoy());
    let mut all = client.watch_all::<Endpoints>();
    let mut web = client.watch::<Endpoints>("web");
    soon(client.synced()).await.unwrap();
    soon(all.synced()).await.unwrap();
    assert_eq!(next(&mut web).await, "-web");
    assert_eq!(next(&mut web).await, "synced");

    let client = impatient_client(&address, Profile::default());
    let _all = client.watch_all::<Endpoints>();
    assert!(timeout(Duration::from_secs(1), client.synced()).await.is_err());
}
