//! The server's transport against a scripted client.

use core::time::Duration;
use std::net::SocketAddr;

use crate::support::{
    AGGREGATED, CLUSTER, ENDPOINTS, RawClient, connect, give_way, names, resource,
    server::{Running, set, start, start_with, streams},
    soon,
};
use prost::Message as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tonic::Code;
use xds_core::{
    proto::{DiscoveryRequest, Node},
    server::{
        Observation, ObserveResponses, ResponseCause, ServerConfig, ServerLimits, SubscribedNames,
        SyncState, TransactionError,
    },
};
use xds_tokio::{
    Keepalive, ManagementServer, ServerOptions,
    server::{ApplyError, Observed},
};

// IS24: connections above the limit are closed at once and reported. A closed connection makes
// space for another.
#[tokio::test]
async fn connections_over_the_limit_are_closed_and_reported() {
    let options = ServerOptions::default().with_max_connections(1);
    let running = start_with(ServerConfig::default(), options).await;
    let mut observations = running.handle.observations();
    let first = RawClient::open(running.address).await;
    let mut second = TcpStream::connect(running.address).await.unwrap();
    let from = second.local_addr().unwrap();
    // End of file or a reset.
    assert!(!matches!(soon(second.read(&mut [0; 1])).await, Ok(1..)));
    let refused = soon(async {
        loop {
            match observations.next().await {
                Some(Observed::ConnectionRefused { address, limit }) => return (address, limit),
                Some(_) => {}
                None => panic!("the server has ended"),
            }
        }
    });
    assert_eq!(refused.await, (Some(from), 1));
    drop(first);
    soon(async {
        while !is_taken(running.address).await {
            give_way().await;
        }
    })
    .await;
    println!("covers: IS24");
}

/// Returns whether a server answers in HTTP/2 on a new connection.
async fn is_taken(address: SocketAddr) -> bool {
    let mut socket = TcpStream::connect(address).await.unwrap();
    // The connection may be closed before.
    let _ = socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
    matches!(soon(socket.read(&mut [0; 1])).await, Ok(1))
}

/// `Duration::MAX` cannot be added to an instant. A request in several parts has a deadline.
#[tokio::test]
async fn longest_times_are_accepted() {
    let options = ServerOptions::default()
        .with_keepalive(Keepalive::new(Duration::MAX, Duration::MAX))
        .with_request_timeout(Duration::MAX);
    let Running { handle, address, .. } = start_with(ServerConfig::default(), options).await;
    handle.apply(set(&[(CLUSTER, "a", "1")])).await.unwrap();
    let mut client = RawClient::open(address).await;
    let long = "x".repeat(500);
    let many: Vec<String> = (0..200).map(|at| format!("{long}{at}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).chain(["a"]).collect();
    client.subscribe(CLUSTER, &many);
    assert_eq!(names(&client.response().await), ["a"]);
}

#[tokio::test]
async fn client_receives_resources_and_changes_after_its_ack() {
    let Running { handle, address, .. } = start().await;
    let applied = handle.apply(set(&[(CLUSTER, "a", "1"), (CLUSTER, "b", "1")])).await.unwrap();
    assert_eq!((applied.changed, applied.removed), (2, 0));

    let mut client = RawClient::open(address).await;
    client.subscribe(CLUSTER, &[]);
    let first = client.response().await;
    assert_eq!((names(&first), first.type_url.as_str()), (vec!["a".into(), "b".into()], CLUSTER));
    client.answer(&first, &[], None);
    handle.apply(set(&[(CLUSTER, "c", "1")])).await.unwrap();
    let second = client.response().await;
    assert_eq!(names(&second).len(), 3, "clusters are sent whole");
    assert_ne!(second.version_info, first.version_info);
    client.answer(&second, &[], Some("c is bad"));

    let mut observations = handle.observations();
    handle.apply(set(&[(CLUSTER, "c", "2")])).await.unwrap();
    let third = client.response().await;
    client.answer(&third, &[], None);
    loop {
        if let Some(Observed::Event(Observation::Acked { version, .. })) =
            soon(observations.next()).await
        {
            assert_eq!(version.as_str(), third.version_info);
            break;
        }
    }
    let rows = handle.status().await.unwrap();
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((row.node_id.as_str(), row.type_url.as_str()), ("raw", CLUSTER));
    assert_eq!((row.subscribed, row.state), (SubscribedNames::Wildcard, SyncState::Acked));
    assert_eq!((row.responses, row.acks, row.nacks), (3, 2, 1));
    assert_eq!(handle.stats().await.unwrap().streams, 1);
}

#[tokio::test]
async fn invalid_transaction_is_rejected_as_a_whole() {
    let Running { handle, .. } = start().await;
    let wrong = set(&[(CLUSTER, "a", "1"), (CLUSTER, "", "1")]);
    assert_eq!(
        handle.apply(wrong).await,
        Err(ApplyError::Transaction(TransactionError::EmptyName { change: 1 }))
    );
    assert_eq!(handle.stats().await.unwrap().resources, 0);
}

#[tokio::test]
async fn service_can_be_added_to_a_tonic_server() {
    let server = ManagementServer::start(ServerConfig::default(), ServerOptions::default());
    server.handle().apply(set(&[(CLUSTER, "a", "1")])).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    let router = tonic::transport::Server::builder().add_routes(server.routes());
    tokio::spawn(router.serve_with_incoming(incoming));
    let mut client = RawClient::open(address).await;
    client.subscribe(CLUSTER, &[]);
    assert_eq!(names(&client.response().await), ["a"]);
    let other = "/some.other.Service/Method";
    let Err(status) = RawClient::call(address, other).await else { panic!("it is served") };
    assert_eq!(status.code(), Code::Unimplemented);
}

#[tokio::test]
async fn protocol_violation_closes_only_its_stream() {
    let options = ServerOptions::default()
        .with_max_request_bytes(10_000)
        .with_request_limit_advice("raise it with --limit");
    let Running { handle, address, .. } = start_with(ServerConfig::default(), options).await;
    handle.apply(set(&[(CLUSTER, "a", "1")])).await.unwrap();
    let mut good = RawClient::open(address).await;
    good.subscribe(CLUSTER, &[]);
    good.response().await;

    let mut garbage = RawClient::open(address).await;
    garbage.send(&b"\xff\xff\xff"[..]);
    let status = garbage.end().await;
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert!(status.message().contains("malformed"), "{status}");

    let mut nobody = RawClient::open(address).await;
    nobody.send(&b"\x22\x03t/x"[..]);
    let status = nobody.end().await;
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert!(status.message().contains("node"), "{status}");

    let mut long = RawClient::open(address).await;
    long.subscribe(CLUSTER, &[&"x".repeat(20_000)]);
    let status = long.end().await;
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    let expected = "limit is: 10000 bytes; raise it with --limit";
    assert!(status.message().contains(expected), "{status}");

    handle.apply(set(&[(ENDPOINTS, "e", "1")])).await.unwrap();
    good.subscribe(ENDPOINTS, &["e"]);
    assert_eq!(names(&good.response().await), ["e"]);
}

/// Sent responses are observed if the configuration enables it.
#[tokio::test]
async fn sent_responses_are_observed_if_enabled() {
    let mut config = ServerConfig::default();
    config.observe_responses = ObserveResponses::On;
    let Running { handle, address, .. } = start_with(config, ServerOptions::default()).await;
    handle.apply(set(&[(CLUSTER, "a", "1")])).await.unwrap();
    let mut observations = handle.observations();
    let mut client = RawClient::open(address).await;
    client.subscribe_as("observed", CLUSTER, &[]);
    let received = client.response().await;
    let (node_id, sent) = loop {
        match soon(observations.next()).await {
            Some(Observed::Event(Observation::Sent { node_id, response, .. })) => {
                break (node_id, response);
            }
            Some(_) => {}
            None => panic!("the server ended"),
        }
    };
    assert_eq!((&*node_id, sent.resources), ("observed", 1));
    assert_eq!(sent.cause, ResponseCause::First);
    assert_eq!(sent.version.as_str(), received.version_info);
    assert_eq!(sent.nonce.as_str(), received.nonce);
}

#[tokio::test]
async fn streams_over_the_limit_are_rejected() {
    let mut limits = ServerLimits::default();
    limits.streams = 1;
    let config = ServerConfig::default().with_limits(limits);
    let Running { address, .. } = start_with(config, ServerOptions::default()).await;
    let channel = connect(address).await;
    let _first = RawClient::call_on(channel.clone(), AGGREGATED).await.unwrap();
    let Err(status) = RawClient::call_on(channel, AGGREGATED).await else { panic!("accepted") };
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
}

#[tokio::test]
async fn half_closed_client_still_receives_requested_resources() {
    let Running { handle, address, .. } = start().await;
    handle.apply(set(&[(CLUSTER, "a", "1")])).await.unwrap();
    let mut client = RawClient::open(address).await;
    client.subscribe(CLUSTER, &[]);
    assert_eq!(names(&client.response().await), ["a"]);
    client.half_close();
    assert_eq!(client.end().await.code(), Code::Ok);
    soon(async {
        while handle.stats().await.unwrap().streams > 0 {
            give_way().await;
        }
    })
    .await;
}

/// A client that sends one request and half-closes at once.
#[tokio::test]
async fn client_that_half_closes_at_once_receives_its_response() {
    let Running { handle, address, .. } = start().await;
    handle.apply(set(&[(CLUSTER, "a", "1")])).await.unwrap();
    for _ in 0..20 {
        let request = DiscoveryRequest {
            node: Some(Node { id: "asks once".into(), ..Default::default() }),
            type_url: CLUSTER.into(),
            ..Default::default()
        };
        let mut client =
            RawClient::ask(address, AGGREGATED, request.encode_to_vec()).await.unwrap();
        assert_eq!(names(&client.response().await), ["a"]);
        assert_eq!(client.end().await.code(), Code::Ok);
    }
    // A half-closed client without pending resources is not kept.
    let request = DiscoveryRequest {
        node: Some(Node { id: "asks once".into(), ..Default::default() }),
        type_url: ENDPOINTS.into(),
        resource_names: vec!["missing".into()],
        ..Default::default()
    };
    let mut client = RawClient::ask(address, AGGREGATED, request.encode_to_vec()).await.unwrap();
    assert_eq!(client.end().await.code(), Code::Ok);
    streams(&handle, 0).await;
}

/// gRPC: a compressed message is rejected with `UNIMPLEMENTED` and the list of accepted encodings.
#[tokio::test]
async fn compressed_messages_are_rejected() {
    let Running { address, .. } = start().await;
    for (encoding, code) in [("gzip", Some(Code::Unimplemented)), ("identity", None)] {
        let call = RawClient::call_encoded(address, AGGREGATED, encoding).await;
        let status = call.err();
        assert_eq!(status.as_ref().map(tonic::Status::code), code);
        if let Some(status) = status {
            let accepted = status.metadata().get("grpc-accept-encoding");
            assert_eq!(accepted.map(|it| it.as_bytes()), Some(&b"identity"[..]));
        }
    }
}

#[tokio::test]
async fn disconnected_client_leaves_no_state() {
    let Running { handle, address, .. } = start().await;
    let mut observations = handle.observations();
    let client = RawClient::open(address).await;
    client.subscribe(CLUSTER, &["a"]);
    loop {
        let Some(Observed::Event(event)) = soon(observations.next()).await else { panic!() };
        if matches!(event, Observation::Subscribed { .. }) {
            break;
        }
    }
    drop(client);
    loop {
        let Some(Observed::Event(event)) = soon(observations.next()).await else { panic!() };
        if matches!(event, Observation::Disconnected { .. }) {
            break;
        }
    }
    let stats = handle.stats().await.unwrap();
    assert_eq!((stats.streams, stats.subscriptions), (0, 0));
}

#[tokio::test]
async fn slow_client_does_not_delay_others_and_gets_the_newest_state() {
    let Running { handle, address, .. } = start().await;
    let size = 1 << 20;
    let big = |round: usize| set(&[(ENDPOINTS, "e", &round.to_string().repeat(size))]);
    let mut slow = RawClient::open(address).await;
    slow.subscribe(ENDPOINTS, &["e"]);
    let mut quick = RawClient::open(address).await;
    quick.subscribe(ENDPOINTS, &["e"]);
    for round in 0..8 {
        handle.apply(big(round)).await.unwrap();
        let response = quick.response().await;
        assert_eq!(response.resources[0].value.last(), Some(&(b'0' + round as u8)));
        quick.answer(&response, &["e"], None);
    }
    let first = slow.response().await;
    slow.answer(&first, &["e"], None);
    let newest = slow.response().await;
    assert_eq!(newest.resources[0].value.last(), Some(&b'7'), "what lay between is skipped");
}

#[tokio::test]
async fn client_that_does_not_answer_pings_is_disconnected() {
    let keepalive = Keepalive::new(Duration::from_millis(50), Duration::from_millis(50));
    let options = ServerOptions::default().with_keepalive(keepalive);
    let Running { address, .. } = start_with(ServerConfig::default(), options).await;
    let mut frozen = TcpStream::connect(address).await.unwrap();
    // The connection preface and empty SETTINGS, then nothing more.
    frozen.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    frozen.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
    let mut said = Vec::new();
    // The connection may end with GOAWAY or a reset.
    let _ = soon(frozen.read_to_end(&mut said)).await;
}

#[tokio::test(start_paused = true)]
async fn connection_without_http2_preface_is_closed() {
    let Running { address, .. } =
        start_with(ServerConfig::default(), ServerOptions::default()).await;
    for first in [&b""[..], b"PRI * HTTP/2.0\r\n\r\nSM"] {
        let mut silent = TcpStream::connect(address).await.unwrap();
        silent.write_all(first).await.unwrap();
        // The connection may end with GOAWAY or a reset.
        let _ = soon(silent.read_to_end(&mut Vec::new())).await;
    }
    println!("covers: IS24");
}

#[tokio::test]
async fn slow_observation_reader_receives_the_lost_count() {
    let options = ServerOptions::default().with_observation_capacity(4);
    let Running { handle, address, .. } = start_with(ServerConfig::default(), options).await;
    let mut observations = handle.observations();
    let client = RawClient::open(address).await;
    for name in 0..20 {
        client.subscribe(ENDPOINTS, &[name.to_string().as_str()]);
    }
    soon(async {
        while handle.stats().await.unwrap().requests < 20 {
            give_way().await;
        }
    })
    .await;
    let Some(Observed::Lagged(lost)) = soon(observations.next()).await else {
        panic!("nothing was lost");
    };
    assert!(lost >= 16, "{lost}");
    assert!(matches!(soon(observations.next()).await, Some(Observed::Event(_))));
}

// M220: transactions of several threads are applied atomically, one after the other. A client that
// reads meanwhile ends with the final state.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_transactions_are_atomic_and_readers_converge() {
    const WRITERS: usize = 4;
    const CHANGES: usize = 50;

    let Running { handle, address, .. } = start().await;
    let writers = (0..WRITERS).map(|writer| {
        let handle = handle.clone();
        tokio::spawn(async move {
            let mut sequences = Vec::new();
            for change in 0..CHANGES {
                let (own, content) = (format!("own-{writer}"), change.to_string());
                let both = [(CLUSTER, own.as_str(), content.as_str()), (CLUSTER, "all", &own)];
                sequences.push(handle.apply(set(&both)).await.unwrap().sequence);
            }
            sequences
        })
    });
    let writers: Vec<_> = writers.collect();
    let readers = (0..2).map(|_| {
        tokio::spawn(async move {
            let mut client = RawClient::open(address).await;
            client.subscribe(CLUSTER, &[]);
            loop {
                let response = client.response().await;
                client.answer(&response, &[], None);
                let newest = (0..WRITERS)
                    .map(|writer| resource(&format!("own-{writer}"), &(CHANGES - 1).to_string()));
                let resources: Vec<_> = response.resources.iter().map(|it| &it.value[..]).collect();
                if newest.into_iter().all(|newest| resources.contains(&&newest[..])) {
                    return response.version_info;
                }
            }
        })
    });
    let readers: Vec<_> = readers.collect();

    let mut sequences = Vec::new();
    for writer in writers {
        let own = soon(writer).await.unwrap();
        assert!(own.is_sorted(), "what one writes is applied in order");
        sequences.extend(own);
    }
    sequences.sort_unstable();
    let unique = sequences.len();
    sequences.dedup();
    assert_eq!(sequences.len(), unique, "no two at once");
    assert_eq!(handle.stats().await.unwrap().resources, WRITERS + 1);
    for reader in readers {
        soon(reader).await.unwrap();
    }
    println!("covers: M220");
}
