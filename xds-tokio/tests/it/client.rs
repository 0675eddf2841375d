//! The client's transport against a scripted server.

use core::{future::pending, time::Duration};

use crate::support::{
    CLUSTER, ENDPOINTS, FakeServer, Headers, config, give_way, next, next_change, no_value, soon,
    value,
};
use tokio::{net::TcpListener, sync::oneshot};
use tonic::Status;
use xds_core::{
    StatusCode,
    client::{Change, ChannelError, FlowControl, Notice, WatchErrorKind},
};
use xds_tokio::{ClientEnded, ClientOptions, Keepalive, client};

fn options() -> ClientOptions {
    ClientOptions::default().with_seed(7)
}

/// Detects at compile time whether `To: From<From>` exists: the inherent constant, which requires
/// the conversion, takes precedence over the trait's.
struct Made<To, From>(core::marker::PhantomData<(To, From)>);

impl<To: core::convert::From<From>, From> Made<To, From> {
    const IS_CONVERTED: bool = true;
}

trait Otherwise {
    const IS_CONVERTED: bool = false;
}

impl<T> Otherwise for T {}

#[test]
fn control_plane_errors_do_not_convert_to_data_plane_status() {
    let known = Made::<Status, std::io::Error>::IS_CONVERTED;
    assert!(known, "others are converted, so this test can tell");
    let errors = [
        Made::<Status, xds_core::client::WatchError>::IS_CONVERTED,
        Made::<Status, WatchErrorKind>::IS_CONVERTED,
        Made::<Status, ChannelError>::IS_CONVERTED,
        Made::<tonic::Code, WatchErrorKind>::IS_CONVERTED,
    ];
    assert_eq!(errors, [false; 4]);
    println!("covers: B37");
}

#[tokio::test]
async fn watcher_receives_changes_and_every_response_is_acked() {
    let mut server = FakeServer::start().await;
    let client = client::connect(config(server.address), options());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut stream = server.stream().await;

    let first = stream.request().await;
    assert_eq!(first.node.as_ref().map(|node| node.id.as_str()), Some("node-1"));
    assert_eq!((first.resource_names, first.type_url.as_str()), (vec!["a".into()], CLUSTER));
    stream.respond(CLUSTER, "1", "n1", &[("a", "one")]);
    let resource = value(&mut watch).await;
    assert_eq!((resource.name.as_str(), resource.version.as_str()), ("a", "1"));
    let ack = stream.request().await;
    assert_eq!((ack.version_info.as_str(), ack.response_nonce.as_str()), ("1", "n1"));
    assert!(ack.error_detail.is_none() && ack.node.is_none());

    stream.respond(CLUSTER, "2", "n2", &[("a", "two")]);
    assert_eq!(value(&mut watch).await.version.as_str(), "2");
    assert_eq!(stream.request().await.version_info, "2");
}

#[tokio::test]
async fn invalid_resource_is_nacked_and_the_valid_one_is_delivered() {
    let mut server = FakeServer::start().await;
    let client = client::connect(config(server.address), options());
    let (mut good, mut bad) =
        (client.watch_untyped(CLUSTER, "good"), client.watch_untyped(CLUSTER, "b"));
    let mut stream = server.stream().await;
    stream.request().await;
    stream.respond(CLUSTER, "1", "n1", &[("good", "fine"), ("b", "bad")]);
    assert_eq!(value(&mut good).await.version.as_str(), "1");
    let error = no_value(&mut bad).await;
    assert!(matches!(error.kind(), WatchErrorKind::Invalid(_)), "{error}");
    let nack = stream.request().await;
    assert_eq!((nack.version_info.as_str(), nack.response_nonce.as_str()), ("", "n1"));
    let detail = nack.error_detail.expect("it is a NACK");
    assert!(detail.message.contains("it is bad"), "{}", detail.message);
    println!("covers: PN-01 S0.088 S0.089 IC18");
}

#[tokio::test]
async fn first_request_does_not_wait_for_response_headers() {
    // SB-19: a server that waits for a request before its headers, and a client that waits for
    // headers, would deadlock.
    let mut server = FakeServer::start_with(Headers::AfterFirstRequest).await;
    let client = client::connect(config(server.address), options());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut stream = server.stream().await;
    assert_eq!(stream.request().await.resource_names, ["a"]);
    stream.respond(CLUSTER, "1", "n1", &[("a", "one")]);
    value(&mut watch).await;
    println!("covers: SB-19");
}

#[tokio::test]
async fn hundred_thousand_watches_are_sent_in_one_request() {
    let mut server = FakeServer::start().await;
    let client = client::connect(config(server.address), options());
    let names = |from: usize| (from..from + 100_000).map(|n| format!("e{n}"));
    let mut watches: Vec<_> =
        names(0).map(|name| client.watch_untyped(ENDPOINTS, name.as_str())).collect();
    let mut stream = server.stream().await;
    assert_eq!(stream.request().await.resource_names.len(), 100_000);

    watches.extend(names(100_000).map(|name| client.watch_untyped(ENDPOINTS, name.as_str())));
    assert_eq!(stream.request().await.resource_names.len(), 200_000);
    client.stats().await.unwrap();
    give_way().await;
    assert_eq!(stream.request_now(), None, "there was more to say");
    drop(watches);
}

#[tokio::test]
async fn next_response_is_read_after_the_previous_one_is_handled() {
    let mut server = FakeServer::start().await;
    let mut config = config(server.address);
    config.profile.flow_control = FlowControl::On;
    let client = client::connect(config, options());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut stream = server.stream().await;
    stream.request().await;
    stream.respond(CLUSTER, "1", "n1", &[("a", "one")]);
    stream.respond(CLUSTER, "2", "n2", &[("a", "two")]);
    value(&mut watch).await;
    assert_eq!(stream.request().await.version_info, "1");
    client.stats().await.unwrap();
    give_way().await;
    assert_eq!(client.stats().await.unwrap().responses, 1, "the second one waits");
    watch.handled();
    assert_eq!(stream.request().await.version_info, "2");
    assert_eq!(value(&mut watch).await.version.as_str(), "2");
    println!("covers: FC-01 AN-10 IC34");
}

/// One watch has an item in hand and another was never polled; a third one receives its value
/// nevertheless.
#[tokio::test]
async fn unpolled_watch_does_not_delay_other_watches() {
    let mut server = FakeServer::start().await;
    let client = client::connect(config(server.address), options());
    let mut clusters = client.watch_all_untyped(CLUSTER);
    let mut unpolled = client.watch_untyped(CLUSTER, "a");
    let mut stream = server.stream().await;
    stream.request().await;
    stream.respond(CLUSTER, "1", "n1", &[("a", "one"), ("b", "one")]);
    let in_hand = next_change(&mut clusters).await;
    assert!(matches!(in_hand, Change::Resource { .. }), "{in_hand:?}");
    let mut endpoints = client.watch_untyped(ENDPOINTS, "e");
    while stream.request().await.type_url != ENDPOINTS {}
    stream.respond(ENDPOINTS, "1", "n2", &[("e", "one")]);
    value(&mut endpoints).await;
    stream.respond(CLUSTER, "2", "n3", &[("a", "two"), ("b", "one")]);
    while stream.request().await.version_info != "2" {}
    // It returns the newest value, once.
    assert_eq!(value(&mut unpolled).await.version.as_str(), "2");
}

#[tokio::test]
async fn wildcard_watch_receives_all_resources_and_then_changes() {
    let mut server = FakeServer::start().await;
    let client = client::connect(config(server.address), options());
    let mut all = client.watch_all_untyped(CLUSTER);
    let mut stream = server.stream().await;
    assert!(stream.request().await.resource_names.is_empty());
    stream.respond(CLUSTER, "1", "n1", &[("a", "one"), ("b", "one")]);
    let mut names = Vec::new();
    while names.len() < 2 {
        if let Change::Resource { name, result: Ok(_) } = next_change(&mut all).await {
            names.push(name.as_str().to_owned());
        }
    }
    assert_eq!(names, ["a", "b"]);
    stream.request().await;
    stream.respond(CLUSTER, "2", "n2", &[("a", "one"), ("b", "two")]);
    loop {
        match next_change(&mut all).await {
            Change::Resource { name, result: Ok(_) } => {
                assert_eq!(name.as_str(), "b");
                break;
            }
            Change::Collection(Ok(())) => {}
            other => panic!("unexpected {other:?}"),
        }
    }
}

#[tokio::test]
async fn response_over_the_limit_is_an_error_and_the_next_stream_works() {
    let mut server = FakeServer::start().await;
    let mut config = config(server.address);
    config.limits.response_bytes = 1_000;
    let client = client::connect(config, options());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut stream = server.stream().await;
    stream.request().await;
    stream.respond(CLUSTER, "1", "n1", &[("a", &"x".repeat(5_000))]);
    let error = no_value(&mut watch).await;
    let WatchErrorKind::Unavailable(ChannelError::Undeliverable(why)) = error.kind() else {
        panic!("unexpected {error}");
    };
    assert!(why.contains("limit is: 1000 bytes"), "{why}");
    stream.end().await;

    let mut stream = server.stream().await;
    stream.request().await;
    stream.respond(CLUSTER, "2", "n1", &[("a", "short")]);
    assert_eq!(value(&mut watch).await.version.as_str(), "2");
}

#[tokio::test]
async fn response_larger_than_four_mebibytes_is_accepted() {
    let mut server = FakeServer::start().await;
    let client = client::connect(config(server.address), options());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut stream = server.stream().await;
    stream.request().await;
    stream.respond(CLUSTER, "1", "n1", &[("a", &"x".repeat(9 << 20))]);
    assert!(value(&mut watch).await.bytes.len() > 9 << 20);
}

#[tokio::test]
async fn request_over_the_limit_ends_the_stream_with_an_error() {
    let mut server = FakeServer::start().await;
    let client = client::connect(config(server.address), options().with_max_request_bytes(1_000));
    let mut watch = client.watch_untyped(CLUSTER, "a".repeat(2_000).as_str());
    let error = no_value(&mut watch).await;
    let WatchErrorKind::Unavailable(ChannelError::Status {
        code: StatusCode::ResourceExhausted,
        message,
    }) = error.kind()
    else {
        panic!("unexpected {error}");
    };
    assert!(message.contains("limit of 1000 bytes"), "{message}");
    drop(watch);
    let mut watch = client.watch_untyped(CLUSTER, "a");
    no_value(&mut watch).await;
    let mut stream = server.stream().await;
    assert_eq!(stream.request().await.resource_names, ["a"]);
    stream.respond(CLUSTER, "1", "n1", &[("a", "one")]);
    value(&mut watch).await;
}

#[tokio::test]
async fn status_of_the_server_reaches_the_watcher_unchanged() {
    let mut server = FakeServer::start().await;
    let client = client::connect(config(server.address), options());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut stream = server.stream().await;
    stream.request().await;
    stream.close(Status::permission_denied("not you"));
    let error = no_value(&mut watch).await;
    let WatchErrorKind::Unavailable(ChannelError::Status {
        code: StatusCode::PermissionDenied,
        message,
    }) = error.kind()
    else {
        panic!("unexpected {error}");
    };
    assert_eq!(&**message, "not you");
    assert!(error.to_string().contains("node-1"), "{error}");
    println!("covers: FM-01 FM-11 S1.004");
}

#[tokio::test]
async fn stream_that_ends_after_a_response_is_reopened_without_an_error() {
    let mut server = FakeServer::start().await;
    let client = client::connect(config(server.address), options());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut stream = server.stream().await;
    stream.request().await;
    stream.respond(CLUSTER, "1", "n1", &[("a", "one")]);
    value(&mut watch).await;
    watch.handled();
    stream.request().await;
    stream.close(Status::unavailable("going down for maintenance"));

    let mut stream = server.stream().await;
    let first = stream.request().await;
    assert!(first.node.is_some(), "the node is said again on a new stream");
    assert_eq!((first.version_info.as_str(), first.response_nonce.as_str()), ("1", ""));
    stream.respond(CLUSTER, "2", "m1", &[("a", "two")]);
    assert_eq!(value(&mut watch).await.version.as_str(), "2", "no error came first");
    println!("covers: FM-04 RS-01 S0.082 S1.008 S1.009");
}

#[tokio::test]
async fn stream_outlives_the_task_that_started_it() {
    let mut server = FakeServer::start().await;
    let (give, take) = oneshot::channel();
    let address = server.address;
    let caller = tokio::spawn(async move {
        let client = client::connect(config(address), options());
        let watch = client.watch_untyped(CLUSTER, "a");
        give.send((client, watch)).expect("somebody waits for them");
        pending::<()>().await;
    });
    let (_client, mut watch) = soon(take).await.expect("the caller gives them away");
    let mut stream = server.stream().await;
    stream.request().await;
    caller.abort();
    assert!(soon(caller).await.is_err_and(|error| error.is_cancelled()));

    stream.respond(CLUSTER, "1", "n1", &[("a", "one")]);
    assert_eq!(value(&mut watch).await.version.as_str(), "1");
    assert_eq!(stream.request().await.response_nonce, "n1", "the same stream goes on");
    println!("covers: SB-18");
}

#[tokio::test]
async fn unreachable_server_is_retried_until_it_is_available() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let client = client::connect(config(address), options());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let error = no_value(&mut watch).await;
    let WatchErrorKind::Unavailable(ChannelError::Unreachable(why)) = error.kind() else {
        panic!("unexpected {error}");
    };
    assert!(why.contains("refused"), "{why}");
    assert!(error.to_string().contains(&address.to_string()), "{error}");

    let listener = TcpListener::bind(address).await.unwrap();
    let mut server = FakeServer::start_on(listener, Headers::AtOnce);
    let mut stream = server.stream().await;
    stream.request().await;
    stream.respond(CLUSTER, "1", "n1", &[("a", "one")]);
    value(&mut watch).await;
    println!("covers: DE-01 FM-11 S1.014 S1.016 S1.017");
}

#[tokio::test]
async fn invalid_server_address_is_unreachable() {
    let mut config = config(([127, 0, 0, 1], 1).into());
    config.servers = vec![xds_core::client::ServerAddress::new("xds://127.0.0.1:1")];
    let client = client::connect(config, options());
    let error = no_value(&mut client.watch_untyped(CLUSTER, "a")).await;
    assert!(error.to_string().contains("is not a server address"), "{error}");
    println!("covers: FM-07");
}

#[tokio::test]
async fn keepalive_detects_a_server_that_stops_responding() {
    // The server accepts connections and never sends anything.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let keepalive = Keepalive::new(Duration::from_millis(100), Duration::from_millis(100));
    let client = client::connect(config(address), options().with_keepalive(keepalive));
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let (_connection, _) = soon(listener.accept()).await.unwrap();
    let error = no_value(&mut watch).await;
    let WatchErrorKind::Unavailable(ChannelError::Unreachable(why)) = error.kind() else {
        panic!("unexpected {error}");
    };
    assert!(why.contains("neither HTTP/2 SETTINGS nor a keepalive response"), "{why}");
    println!("covers: FM-14 IL3");
}

#[tokio::test]
async fn shutdown_closes_the_stream_and_ends_the_watches() {
    let mut server = FakeServer::start().await;
    let (client, driver) = client::driver(config(server.address), options());
    let driver = tokio::spawn(driver);
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut stream = server.stream().await;
    stream.request().await;
    client.shut_down();
    assert!(soon(watch.next()).await.is_none());
    soon(client.ended()).await;
    soon(driver).await.unwrap();
    stream.end().await;
    assert_eq!(client.status().await, Err(ClientEnded));
    println!("covers: SB-17 IC39");
}

#[tokio::test]
async fn driver_ends_with_the_last_handle_and_watch() {
    let mut server = FakeServer::start().await;
    let (client, driver) = client::driver(config(server.address), options());
    let driver = tokio::spawn(driver);
    let watch = client.watch_untyped(CLUSTER, "a");
    drop(client);
    let mut stream = server.stream().await;
    stream.request().await;
    assert!(!driver.is_finished());
    drop(watch);
    soon(driver).await.unwrap();
    stream.end().await;
}

#[tokio::test]
async fn dropping_the_driver_ends_the_watches() {
    let server = FakeServer::start().await;
    let (client, driver) = client::driver(config(server.address), options());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    drop(driver);
    assert!(matches!(soon(watch.next()).await, None | Some(Err(_))));
    soon(client.ended()).await;
}

#[tokio::test]
async fn unwatch_before_the_connection_does_not_affect_later_watches() {
    let mut server = FakeServer::start().await;
    let client = client::connect(config(server.address), options());
    drop(client.watch_untyped(CLUSTER, "a"));
    let mut watch = client.watch_untyped(ENDPOINTS, "e");
    let mut stream = server.stream().await;
    let first = stream.request().await;
    assert_eq!((first.type_url.as_str(), first.resource_names), (ENDPOINTS, vec!["e".into()]));
    stream.respond(ENDPOINTS, "1", "n1", &[("e", "one")]);
    assert!(matches!(next(&mut watch).await, Notice::Changed(Ok(_))));
}

/// Eight ACKs wait because the server does not read, so the client stops reading too. It must
/// notice the end of the server nevertheless.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn end_of_a_server_that_does_not_read_is_noticed() {
    let (tell_address, address) = std::sync::mpsc::channel();
    let doomed = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime of its own, to be taken away");
    doomed.spawn(async move {
        let mut server = FakeServer::start().await;
        tell_address.send(server.address).expect("the test waits for it");
        // Accepted and never read: with 2 MiB of names, a few requests fill every buffer.
        let stream = server.stream().await;
        for n in 0..40 {
            stream.respond(ENDPOINTS, &n.to_string(), &n.to_string(), &[]);
        }
        pending::<()>().await;
    });
    let address = address.recv().expect("the server starts");
    let client = client::connect(config(address), options());
    let names = (0..5_000).map(|n| format!("{n:0>400}"));
    let _watches: Vec<_> = names.map(|name| client.watch_untyped(ENDPOINTS, name)).collect();

    let stuck = async {
        // Each call wakes the driver, which reads what is available.
        let (mut last, mut turns) = (0, 0);
        while last < 8 || turns < 1_000 {
            let read = client.stats().await.expect("the client lives").responses;
            turns = if read == last { turns + 1 } else { 0 };
            last = read;
            tokio::task::yield_now().await;
        }
    };
    soon(stuck).await;
    doomed.shutdown_background();

    let listener = soon(async {
        loop {
            match TcpListener::bind(address).await {
                Ok(listener) => return listener,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    });
    let mut again = FakeServer::start_on(listener.await, Headers::AtOnce);
    soon(again.stream()).await;
}
