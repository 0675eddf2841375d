//! A typed client and a typed server, against each other over TCP.

use core::time::Duration;

use tokio::time::timeout;
use xds::{
    Client, ManagementServer,
    client::{Event, Profile, StartError, Variant, Watch, WatchEnded},
    server::{ChangeError, Guard, Transaction, Violation, rollout::RolloutPolicy},
    types,
};

use crate::support::{Cluster, Endpoints, cluster, server, soon};

/// A type that the Envoy API does not define.
#[derive(Clone, PartialEq, prost::Message)]
struct Own {
    #[prost(string, tag = "1")]
    id: String,
}

xds::resource_message!(Own, "type.googleapis.com/example.Own", id);

/// A type whose name is not its first field.
#[derive(Clone, PartialEq, prost::Message)]
struct Titled {
    #[prost(string, tag = "1")]
    title: String,
    #[prost(uint32, tag = "2")]
    priority: u32,
    #[prost(string, tag = "3")]
    id: String,
}

xds::resource_message!(Titled, "type.googleapis.com/example.Titled", id);

fn client(server: &ManagementServer) -> Client {
    let address = server.address().to_string();
    Client::connect(address).node_id("test").profile(Profile::envoy()).start().unwrap()
}

/// Returns the next event in short form.
async fn next(watch: &mut Watch<Cluster>) -> String {
    match soon(watch.next()).await.expect("the client has ended") {
        Event::Applied(it) => format!("+{} {}", it.name, it.alt_stat_name),
        Event::Removed { name, .. } => format!("-{name}"),
        Event::Synced => "synced".into(),
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn changes_of_a_collection_are_events() {
    let server = server().await;
    let snapshot = Transaction::snapshot("").with(&cluster("a", "1")).unwrap();
    server.apply(snapshot.with(&cluster("b", "1")).unwrap()).await.unwrap();
    let client = client(&server);
    let mut clusters = client.watch_all::<Cluster>();
    assert_eq!(next(&mut clusters).await, "+a 1");
    assert_eq!(next(&mut clusters).await, "+b 1");
    assert_eq!(next(&mut clusters).await, "synced");
    let changes =
        Transaction::in_view("").with(&cluster("b", "2")).unwrap().without::<Cluster>("a");
    server.apply(changes).await.unwrap();
    let mut events = [next(&mut clusters).await, next(&mut clusters).await];
    events.sort();
    assert_eq!(events, ["+b 2", "-a"]);
    client.shut_down();
    assert!(soon(clusters.next()).await.is_none());
    assert_eq!(soon(clusters.synced()).await, Ok(()), "it was synced before");
}

#[tokio::test]
async fn clients_are_answered_after_the_first_change() {
    let server = server().await;
    let client = client(&server);
    let mut clusters = client.watch_all::<Cluster>();
    let early = timeout(Duration::from_millis(300), clusters.next()).await;
    assert!(early.is_err(), "an empty answer: {early:?}");
    server.apply(Transaction::snapshot("").with(&cluster("a", "1")).unwrap()).await.unwrap();
    assert_eq!(next(&mut clusters).await, "+a 1");
    assert_eq!(next(&mut clusters).await, "synced");
}

#[tokio::test]
async fn named_watch_reports_a_missing_resource_and_its_creation() {
    let server = server().await;
    server.apply(Transaction::snapshot("").with(&cluster("a", "1")).unwrap()).await.unwrap();
    // An incremental server reports at once that a resource does not exist.
    let client = Client::connect(server.address().to_string()).node_id("test");
    let client = client.variant(Variant::Incremental).profile(Profile::envoy()).start().unwrap();
    let mut web = client.watch::<Cluster>("web");
    assert_eq!(next(&mut web).await, "-web");
    assert_eq!(next(&mut web).await, "synced");
    server.apply(Transaction::in_view("").with(&cluster("web", "1")).unwrap()).await.unwrap();
    assert_eq!(next(&mut web).await, "+web 1");
}

#[tokio::test]
async fn client_is_synced_when_each_watch_has_its_first_answer() {
    let server = server().await;
    server.apply(Transaction::snapshot("").with(&cluster("a", "1")).unwrap()).await.unwrap();
    let client = client(&server);
    soon(client.synced()).await.unwrap();
    // Neither watch is polled.
    let mut all = client.watch_all::<Cluster>();
    let endpoints = client.watch::<Endpoints>("a");
    assert!(timeout(Duration::from_millis(200), client.synced()).await.is_err());
    let changes = Transaction::in_view("").with(&Endpoints { cluster_name: "a".into() }).unwrap();
    server.apply(changes).await.unwrap();
    soon(client.synced()).await.unwrap();
    drop(endpoints);
    soon(all.synced()).await.unwrap();
    assert_eq!(next(&mut all).await, "+a 1", "events are kept");
    client.shut_down();
    soon(client.handle().ended()).await;
    assert_eq!(soon(client.synced()).await, Err(WatchEnded));
}

#[tokio::test]
async fn second_message_for_a_type_is_decoded_by_its_watch() {
    let server = server().await;
    server.apply(Transaction::snapshot("").with(&cluster("a", "1")).unwrap()).await.unwrap();
    let client = client(&server);
    let mut untyped = client.handle().watch_all_untyped(types::CLUSTER);
    soon(untyped.next()).await.unwrap().unwrap();
    // The resource was received undecoded.
    assert_eq!(next(&mut client.watch_all::<Cluster>()).await, "+a 1");
}

#[tokio::test]
async fn type_outside_of_the_api_must_be_registered() {
    let server = server().await;
    server.apply(Transaction::snapshot("").with(&Own { id: "x".into() }).unwrap()).await.unwrap();
    let mut watch = client(&server).watch::<Own>("x");
    assert!(matches!(soon(watch.next()).await, Some(Event::Invalid(_))));
    assert!(soon(watch.next()).await.is_none());
    assert_eq!(soon(watch.synced()).await, Err(WatchEnded));

    let client = Client::connect(server.address().to_string()).node_id("test");
    let mut watch = client.resource_type::<Own>().start().unwrap().watch::<Own>("x");
    let event = soon(watch.next()).await;
    assert!(matches!(&event, Some(Event::Applied(own)) if own.id == "x"), "{event:?}");
}

#[tokio::test]
async fn clients_see_the_view_of_their_zone() {
    let by_zone = ManagementServer::builder().view_of(|node| node.zone().to_owned());
    let server = by_zone.bind("127.0.0.1:0").await.unwrap();
    let snapshot = |zone| Transaction::snapshot(zone).with(&cluster("web", zone)).unwrap();
    // A rollout would answer clients from views without resources.
    let early = server.rollout(snapshot("a"), RolloutPolicy::new([])).await.unwrap_err();
    assert!(matches!(early, ChangeError::NothingServed), "{early}");
    // The clients wait for the resources of both zones.
    let mut clients = ["a", "b"].map(|zone| {
        let client = Client::connect(server.address().to_string()).node_id("test");
        (zone, client.locality("r", zone, "").start().unwrap().watch_all::<Cluster>())
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.apply_all(["a", "b"].map(snapshot)).await.unwrap();
    for (zone, clusters) in &mut clients {
        assert_eq!(next(clusters).await, format!("+web {zone}"));
    }
}

#[tokio::test]
async fn server_learns_the_user_agent_of_the_program() {
    let of_agent = ManagementServer::builder().view_of(|it| it.node().user_agent_name.clone());
    let server = of_agent.bind("127.0.0.1:0").await.unwrap();
    let snapshot = Transaction::snapshot("mesh-agent").with(&cluster("web", "1")).unwrap();
    server.apply(snapshot).await.unwrap();
    let client = Client::connect(server.address().to_string()).node_id("test");
    let client = client.user_agent("mesh-agent", "1.2").start().unwrap();
    assert_eq!(next(&mut client.watch_all::<Cluster>()).await, "+web 1");
}

#[tokio::test]
async fn dangling_references_are_refused_if_denied() {
    /// Cluster of type EDS.
    #[derive(Clone, PartialEq, prost::Message)]
    struct Eds {
        #[prost(string, tag = "1")]
        name: String,
        #[prost(int32, tag = "2")]
        r#type: i32,
    }
    xds::resource_message!(Eds, types::CLUSTER, name);

    let checked = ManagementServer::builder().deny_dangling_references();
    let server = checked.bind("127.0.0.1:0").await.unwrap();
    let eds = || Transaction::snapshot("").with(&Eds { name: "web".into(), r#type: 3 }).unwrap();
    let error = server.apply(eds()).await.unwrap_err();
    let ChangeError::Refused(refused) = &error else { panic!("{error}") };
    assert!(matches!(&refused.violations[0].violation, Violation::Dangling(it) if it.len() == 1));
    let endpoints = Endpoints { cluster_name: "web".into() };
    server.apply(eds().with(&endpoints).unwrap()).await.unwrap();
    let error =
        server.apply(Transaction::in_view("").without::<Endpoints>("web")).await.unwrap_err();
    let text = "1 reference would be dangling: cds `web` refers to eds `web`, which is missing";
    assert!(error.to_string().contains(text), "{error}");
}

#[tokio::test]
async fn change_that_violates_a_rule_is_refused_and_can_be_forced() {
    let freeze = Guard::hook("freeze", |change| match change.after().len() {
        3.. => Err("at most two clusters".to_owned()),
        _ => Ok(()),
    });
    let builder = ManagementServer::builder().guard("max-removal:cds=50".parse().unwrap());
    let server = builder.guard(freeze).bind("127.0.0.1:0").await.unwrap();
    let snapshot = |names: &[&str]| {
        let mut snapshot = Transaction::snapshot("");
        for name in names {
            snapshot = snapshot.with(&cluster(name, "1")).unwrap();
        }
        snapshot
    };
    server.apply(snapshot(&["a", "b"])).await.unwrap();
    let error = server.apply(snapshot(&["a", "b", "c"])).await.unwrap_err();
    assert!(error.to_string().ends_with("at most two clusters (guard freeze)"), "{error}");
    let error = server.apply(snapshot(&["c"])).await.unwrap_err();
    let text = "would remove 2 of 2 clusters (100 percent), the limit is 50 percent";
    assert!(error.to_string().contains(text), "{error}");
    // What is served is unchanged.
    assert_eq!(server.apply(snapshot(&["a"])).await.unwrap().removed, 1);
    server.apply(snapshot(&[])).await.unwrap_err();
    assert_eq!(server.force(snapshot(&[])).await.unwrap().removed, 1);
}

#[tokio::test]
async fn server_ends_when_the_signal_completes() {
    let server = server().await;
    server.apply(Transaction::snapshot("").with(&cluster("a", "1")).unwrap()).await.unwrap();
    // With Envoy's profile, a lost connection is no warning.
    let client = Client::connect(server.address().to_string()).node_id("test").start().unwrap();
    let mut clusters = client.watch_all::<Cluster>();
    assert_eq!(next(&mut clusters).await, "+a 1");
    assert_eq!(next(&mut clusters).await, "synced");
    soon(server.run_until(core::future::ready(()))).await.unwrap();
    assert!(matches!(soon(clusters.next()).await, Some(Event::Warning { .. })));
    let ended = server.run_until(core::future::pending::<()>());
    soon(ended).await.expect_err("it has ended before the signal");
}

#[tokio::test]
async fn invalid_addresses_are_errors() {
    let error = Client::connect("localhost").node_id("test").start().unwrap_err();
    assert!(matches!(error, StartError::Address { .. }), "{error}");
    let error = Client::connect("127.0.0.1:1").start().unwrap_err();
    assert_eq!(error, StartError::NoNodeId);
    let error = ManagementServer::builder().bind("nowhere").await.unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
    let untrusting = ManagementServer::builder().client_authority("roots.pem");
    let error = untrusting.bind("127.0.0.1:0").await.unwrap_err();
    assert!(error.to_string().starts_with("client certificates require TLS"), "{error}");
    let without_files = ManagementServer::builder().tls("no-cert.pem", "no-key.pem");
    let error = without_files.bind("127.0.0.1:0").await.unwrap_err();
    assert!(error.to_string().contains("no-cert.pem"), "{error}");
    let taken = server().await;
    let error = ManagementServer::builder().bind(taken.address().to_string()).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot listen on 127.0.0.1:"), "{error}");
}

#[cfg(feature = "formats")]
#[test]
fn invalid_yaml_is_an_error_with_line_and_field() {
    let text = "'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: web\nlb: 1\n";
    let error = Transaction::snapshot("").with_yaml(text).unwrap_err().to_string();
    assert!(error.contains('3') && error.contains("lb"), "{error}");
    Transaction::snapshot("").with_yaml(&text.replace("lb: 1\n", "")).unwrap();
}

#[cfg(feature = "validation")]
#[tokio::test]
async fn validating_client_rejects_a_constraint_violation() {
    use xds::format::Validator;

    let server = server().await;
    let valid = cluster("web", "valid");
    server.apply(Transaction::snapshot("").with(&valid).unwrap()).await.unwrap();
    let client = Client::connect(server.address().to_string()).node_id("test");
    let client = client.validate(Validator::envoy()).start().unwrap();
    let mut web = client.watch::<Cluster>("web");
    assert_eq!(next(&mut web).await, "+web valid");
    assert_eq!(next(&mut web).await, "synced");
    // `connect_timeout: 0s` is not greater than zero.
    let invalid = &b"\x0a\x03web\x22\x00"[..];
    let change = Transaction::in_view("").with_encoded(types::CLUSTER, "web", invalid).unwrap();
    server.apply(change).await.unwrap();
    let event = soon(web.next()).await;
    assert!(
        matches!(&event, Some(Event::Warning { error, .. }) if error.to_string().contains("timeout")),
        "{event:?}"
    );
}

#[tokio::test]
async fn name_can_be_in_any_field_of_a_message() {
    let server = server().await;
    let titled = Titled { title: "A title".into(), priority: 1, id: "web".into() };
    server.apply(Transaction::snapshot("").with(&titled).unwrap()).await.unwrap();
    for variant in [Variant::StateOfTheWorld, Variant::Incremental] {
        let client = Client::connect(server.address().to_string()).node_id("test");
        let client = client.variant(variant).resource_type::<Titled>().start().unwrap();
        let mut watch = client.watch::<Titled>("web");
        let Some(Event::Applied(resource)) = soon(watch.next()).await else { panic!() };
        assert_eq!((resource.name().as_str(), &*resource.title), ("web", "A title"));
        assert_eq!(server.handle().rejections().await.unwrap(), []);
    }
}
