//! Requests of the server to its application, and calls of the application to the server.

use crate::support::{
    CLUSTER, DELTA_AGGREGATED, ENDPOINTS, RawClient, connect, give_way, names, resource,
    server::{Running, set, start, start_with, streams},
    soon,
};
use prost::Message as _;
use xds_core::{
    ViewName,
    proto::{DiscoveryRequest, DiscoveryResponse},
    server::{
        Admission, CustomMessageError, LagReason, LayersError, OnDemand, ServerConfig,
        ServerLimits, StatusCode, TooManyWaits, Transaction, ViewContents,
    },
};
use xds_tokio::{
    ServerHandle, ServerOptions,
    server::{
        ConvergenceError, Denied, SendCustomMessageError, ServerEvent, ServerEvents, SetLayersError,
    },
};

const HEALTH: &str = "type.googleapis.com/test.Health";

fn on_demand() -> ServerConfig {
    let mut config = ServerConfig::default();
    config.on_demand = OnDemand::Notify;
    config
}

/// Returns the next wanted name.
async fn requested(events: &mut ServerEvents) -> String {
    match soon(events.next()).await {
        Some(ServerEvent::Wanted { view, type_url, names }) => {
            assert_eq!((view, type_url.as_str()), (ViewName::default(), ENDPOINTS));
            assert_eq!(names.len(), 1, "each client names one");
            names[0].to_string()
        }
        other => panic!("{other:?}"),
    }
}

async fn delta(running: &Running, name: &str) -> RawClient {
    let channel = connect(running.address).await;
    let client = RawClient::call_on(channel, DELTA_AGGREGATED).await.unwrap();
    client.subscribe_delta(ENDPOINTS, &[name]);
    client
}

// M254-M256.
#[tokio::test]
async fn resources_are_requested_from_the_application_on_demand() {
    let running = start_with(on_demand(), ServerOptions::default()).await;
    let mut events = running.handle.events();
    let mut client = delta(&running, "a").await;
    let second = delta(&running, "a").await;
    assert_eq!(requested(&mut events).await, "a");
    running.handle.apply(set(&[(ENDPOINTS, "a", "1")])).await.unwrap();
    assert_eq!(client.delta_response().await.resources[0].name, "a");

    let mut other = delta(&running, "b").await;
    assert_eq!(requested(&mut events).await, "b", "each once");
    let mut missing = Transaction::new();
    missing.mark_missing(ENDPOINTS, "b");
    running.handle.apply(missing).await.unwrap();
    assert_eq!(other.delta_response().await.removed_resources, ["b"]);

    drop((client, second));
    let gone = soon(events.next()).await;
    assert!(
        matches!(&gone, Some(ServerEvent::Unwanted { names, .. }) if names[0] == "a"),
        "{gone:?}"
    );
    let remove = |name: &'static str| {
        running.handle.remove_unless_named(ViewName::default(), ENDPOINTS, name)
    };
    assert_eq!(remove("b").await.unwrap(), None, "a client names it");
    assert_eq!(remove("a").await.unwrap().map(|applied| applied.removed), Some(1));
    println!("covers: M254 M255 M256");
}

/// While the application is behind, clients wait, and the application can still act.
#[tokio::test]
async fn on_demand_requests_are_limited_by_the_event_capacity() {
    let options = ServerOptions::default().with_event_capacity(1);
    let running = start_with(on_demand(), options).await;
    let mut events = running.handle.events();
    let mut clients = Vec::new();
    for name in ["a", "b", "c"] {
        clients.push(delta(&running, name).await);
    }
    streams(&running.handle, 3).await;
    for _ in 0..50 {
        give_way().await;
    }
    let rows = running.handle.status().await.unwrap();
    assert_eq!(rows.len(), 1, "one is asked about, the others are not read: {rows:?}");
    running.handle.apply(set(&[(ENDPOINTS, "z", "1")])).await.unwrap();

    let mut asked = Vec::new();
    for _ in 0..3 {
        asked.push(requested(&mut events).await);
    }
    asked.sort_unstable();
    assert_eq!(asked, ["a", "b", "c"]);

    // Dropping the reader unblocks the clients.
    clients.push(delta(&running, "d").await);
    clients.push(delta(&running, "e").await);
    drop(events);
    soon(async {
        while running.handle.status().await.unwrap().len() < 5 {
            give_way().await;
        }
    })
    .await;
}

#[tokio::test]
async fn each_event_goes_to_one_reader_and_the_end_to_all() {
    let running = start_with(on_demand(), ServerOptions::default()).await;
    let (mut one, mut other) = (running.handle.events(), running.handle.events());
    let _client = delta(&running, "a").await;
    let next = soon(async {
        tokio::select! {
            event = one.next() => event,
            event = other.next() => event,
        }
    });
    assert!(matches!(next.await, Some(ServerEvent::Wanted { .. })));
    running.handle.shut_down().await;
    // The stream and its client are gone, so the name may be reported as unwanted.
    let mut rest = Vec::new();
    while let Some(event) = soon(one.next()).await {
        rest.push(event);
    }
    assert!(rest.len() <= 1, "{rest:?}");
    assert_eq!(soon(other.next()).await, None);
}

/// An event wakes a waiting reader even if another reader has stopped polling.
#[tokio::test]
async fn reader_that_stopped_polling_does_not_take_a_wake_up() {
    let running = start_with(on_demand(), ServerOptions::default()).await;
    let (mut busy, mut waiting) = (running.handle.events(), running.handle.events());
    tokio::select! {
        biased;
        event = busy.next() => panic!("{event:?}"),
        () = give_way() => {}
    }
    let waits = tokio::spawn(async move { waiting.next().await });
    give_way().await;
    let _client = delta(&running, "a").await;
    let event = soon(waits).await.unwrap();
    assert!(matches!(event, Some(ServerEvent::Wanted { .. })), "{event:?}");
    drop(busy);
}

#[tokio::test]
async fn without_an_authorizer_the_application_admits_clients_by_events() {
    let mut config = ServerConfig::default();
    config.admission = Admission::ByApplication;
    let Running { handle, address, .. } = start_with(config, ServerOptions::default()).await;
    let mut events = handle.events();
    let (base, blue) = (ViewName::from("base"), ViewName::from("blue"));
    let mut resources = Transaction::in_view(base.clone());
    resources.set(CLUSTER, "a", resource("a", "1"));
    handle.apply(resources).await.unwrap();
    handle.set_layers(blue.clone(), vec![base.clone()]).await.unwrap();
    let wrong = handle.set_layers(base.clone(), vec![blue.clone()]).await;
    assert!(matches!(wrong, Err(SetLayersError::Layers(LayersError::Nested { .. }))), "{wrong:?}");

    let mut client = RawClient::open(address).await;
    client.subscribe(CLUSTER, &[]);
    let Some(ServerEvent::Authorize { stream, node_id }) = soon(events.next()).await else {
        panic!("nobody asks")
    };
    assert_eq!(&*node_id, "raw");
    handle.assign(stream, blue.clone()).await.unwrap();
    assert_eq!(names(&client.response().await), ["a"]);
    handle.refuse(stream, Denied::new(StatusCode::PermissionDenied, "no longer")).await.unwrap();
    assert_eq!(client.end().await.message(), "no longer");
    println!("covers: M236 M237");
}

// M9, M254: a restarted application receives the open requests, even those delivered before.
#[tokio::test]
async fn new_event_reader_receives_the_open_requests() {
    let mut config = on_demand();
    config.admission = Admission::ByApplication;
    let Running { handle, address, .. } = start_with(config, ServerOptions::default()).await;
    // No reader exists yet.
    let mut first = RawClient::open(address).await;
    first.subscribe_as("first", ENDPOINTS, &["a"]);
    streams(&handle, 1).await;
    while handle.stats().await.unwrap().requests == 0 {
        give_way().await;
    }
    let asks = |event: Option<ServerEvent>| match event {
        Some(ServerEvent::Authorize { stream, node_id }) => (stream, node_id.to_string()),
        other => panic!("{other:?}"),
    };
    let mut events = handle.events();
    assert_eq!(asks(soon(events.next()).await).1, "first");
    // The application ends before it has answered.
    drop(events);
    let mut events = handle.events();
    let (stream, node_id) = asks(soon(events.next()).await);
    assert_eq!(node_id, "first");
    handle.assign(stream, ViewName::default()).await.unwrap();
    assert_eq!(requested(&mut events).await, "a");
    drop(events);
    let mut second = RawClient::open(address).await;
    second.subscribe_as("second", ENDPOINTS, &["b"]);
    while handle.stats().await.unwrap().requests < 2 {
        give_way().await;
    }
    let mut events = handle.events();
    let (stream, node_id) = asks(soon(events.next()).await);
    assert_eq!(node_id, "second");
    assert_eq!(requested(&mut events).await, "a", "still");
    handle.assign(stream, ViewName::default()).await.unwrap();
    assert_eq!(requested(&mut events).await, "b");
    handle.apply(set(&[(ENDPOINTS, "a", "1"), (ENDPOINTS, "b", "1")])).await.unwrap();
    assert_eq!(names(&first.response().await), ["a"]);
    assert_eq!(names(&second.response().await), ["b"]);
    // A continuing reader receives nothing twice.
    let mut other = handle.events();
    handle.shut_down().await;
    while let Some(event) = soon(other.next()).await {
        assert!(matches!(event, ServerEvent::Unwanted { .. }), "{event:?}");
    }
    println!("covers: M9 M254 M255");
}

// M21.
#[tokio::test]
async fn custom_message_types_are_passed_to_the_application() {
    let mut config = ServerConfig::default();
    config.custom_message_types.insert(HEALTH.into());
    let Running { handle, address, .. } = start_with(config, ServerOptions::default()).await;
    let mut events = handle.events();
    let mut client = RawClient::open(address).await;
    let report = DiscoveryRequest { type_url: HEALTH.into(), ..Default::default() };
    client.send(report.encode_to_vec());
    let Some(ServerEvent::CustomMessage { stream, type_url, message }) = soon(events.next()).await
    else {
        panic!("it did not pass")
    };
    assert_eq!((type_url.as_str(), message.to_vec()), (HEALTH, report.encode_to_vec()));
    let answer = DiscoveryResponse { type_url: HEALTH.into(), ..Default::default() };
    handle.send_custom_message(stream, HEALTH, answer.encode_to_vec()).await.unwrap();
    assert_eq!(client.response().await, answer);
    drop(client);
    streams(&handle, 0).await;
    let late = handle.send_custom_message(stream, HEALTH, answer.encode_to_vec()).await;
    assert_eq!(late, Err(SendCustomMessageError::Message(CustomMessageError::NoStream)));
    println!("covers: M21");
}

/// Returns whether clients lag behind the change. Returns after the server has processed earlier
/// inputs.
async fn waits(handle: &ServerHandle, sequence: u64) -> bool {
    let lag = handle.convergence(ViewName::default(), CLUSTER, sequence).await.unwrap();
    !lag.lagging.is_empty()
}

// IS29: which clients have accepted a change, and when all have.
#[tokio::test]
async fn converged_returns_when_all_clients_have_acked_the_change() {
    let mut limits = ServerLimits::default();
    limits.convergence_waits = 1;
    let config = ServerConfig::default().with_limits(limits);
    let Running { handle, address, .. } = start_with(config, ServerOptions::default()).await;
    let mut client = RawClient::open(address).await;
    client.subscribe(CLUSTER, &[]);
    let first = handle.apply(set(&[(CLUSTER, "a", "1")])).await.unwrap().sequence;
    let response = client.response().await;
    assert!(waits(&handle, first).await);
    let waiting = tokio::spawn({
        let handle = handle.clone();
        async move { handle.converged(ViewName::default(), CLUSTER, first).await }
    });
    give_way().await;
    let second = soon(handle.converged(ViewName::default(), "t/other", first)).await;
    let Err(ConvergenceError::TooManyWaits(TooManyWaits { limit: 1, .. })) = second else {
        panic!("{second:?}")
    };
    client.answer(&response, &[], Some("a is bad"));
    let lag = soon(async {
        loop {
            let lag = handle.convergence(ViewName::default(), CLUSTER, first).await.unwrap();
            if !matches!(lag.lagging[0].reason, LagReason::Pending) {
                return lag;
            }
            give_way().await;
        }
    })
    .await;
    assert_eq!((lag.accepted, lag.lagging.len()), (0, 1));
    let rejections = handle.rejections().await.unwrap();
    let [rejection] = &rejections[..] else { panic!("{rejections:?}") };
    assert_eq!((rejection.node_id.as_str(), &*rejection.message), ("raw", "a is bad"));
    assert_eq!(rejection.names, ["a"]);

    handle.apply(set(&[(CLUSTER, "a", "2")])).await.unwrap();
    let response = client.response().await;
    assert!(!waiting.is_finished());
    client.answer(&response, &[], None);
    soon(waiting).await.unwrap().unwrap();
    assert!(!waits(&handle, first).await);
    assert!(handle.rejections().await.unwrap().is_empty());
    soon(handle.converged(ViewName::default(), CLUSTER, u64::MAX)).await.unwrap();
    println!("covers: IS29");
}

// IS24: calls cancelled repeatedly do not use up the limit.
#[tokio::test]
async fn cancelled_converged_call_frees_its_slot() {
    let mut limits = ServerLimits::default();
    limits.convergence_waits = 1;
    let config = ServerConfig::default().with_limits(limits);
    let Running { handle, address, .. } = start_with(config, ServerOptions::default()).await;
    let mut client = RawClient::open(address).await;
    client.subscribe(CLUSTER, &[]);
    handle.apply(set(&[(CLUSTER, "a", "1")])).await.unwrap();
    let response = client.response().await;
    for text in ["2", "3", "4"] {
        let sequence = handle.apply(set(&[(CLUSTER, "a", text)])).await.unwrap().sequence;
        let waiting = tokio::spawn({
            let handle = handle.clone();
            async move { handle.converged(ViewName::default(), CLUSTER, sequence).await }
        });
        // The server has processed the call when it has answered the next one.
        give_way().await;
        assert!(waits(&handle, sequence).await);
        assert!(!waiting.is_finished(), "it is not refused");
        waiting.abort();
        assert!(soon(waiting).await.unwrap_err().is_cancelled());
    }
    client.answer(&response, &[], None);
    client.response().await;
    println!("covers: IS24");
}

#[tokio::test]
async fn converged_fails_when_the_server_shuts_down() {
    let Running { handle, address, .. } = start().await;
    let client = RawClient::open(address).await;
    client.subscribe(CLUSTER, &[]);
    let sequence = handle.apply(set(&[(CLUSTER, "a", "1")])).await.unwrap().sequence;
    soon(async {
        while !waits(&handle, sequence).await {
            give_way().await;
        }
    })
    .await;
    let waiting = tokio::spawn({
        let handle = handle.clone();
        async move { handle.converged(ViewName::default(), CLUSTER, sequence).await }
    });
    give_way().await;
    handle.shut_down().await;
    let ended = soon(waiting).await.unwrap();
    assert!(matches!(ended, Err(ConvergenceError::Ended(_))), "{ended:?}");
}

// M206, M216: a snapshot is previewed before it is served.
#[tokio::test]
async fn snapshot_preview_does_not_change_what_is_served() {
    let running = start().await;
    running.handle.apply(set(&[(CLUSTER, "gone", "1"), (CLUSTER, "kept", "1")])).await.unwrap();
    let snapshot = || {
        let mut snapshot = Transaction::snapshot("");
        snapshot.set(CLUSTER, "kept", resource("kept", "1"));
        snapshot.set(CLUSTER, "new", resource("new", "1"));
        snapshot
    };
    let names = |contents: &ViewContents| -> Vec<String> {
        contents.iter().map(|(_, name, _)| name.to_string()).collect()
    };
    let view = ViewName::default();
    let preview = running.handle.preview(snapshot()).await.unwrap();
    assert_eq!(preview.iter().map(names).collect::<Vec<_>>(), [["kept", "new"]]);
    let contents = running.handle.contents(view.clone()).await.unwrap();
    assert_eq!(names(&contents), ["gone", "kept"], "it is not applied");
    running.handle.apply(snapshot()).await.unwrap();
    let contents = running.handle.contents(view.clone()).await.unwrap();
    assert_eq!(contents, preview[0]);
    let mut twice = snapshot();
    twice.set(CLUSTER, "new", resource("new", "2"));
    running.handle.preview(twice).await.unwrap_err();
    println!("covers: M206 M216");
}
