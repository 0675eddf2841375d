//! Log lines and their levels. Contents are logged only by the application's printer.

use core::fmt;
use std::net::SocketAddr;

use crate::support::{
    self, AGGREGATED, CLUSTER, DELTA_AGGREGATED, Deaf, FakeServer, RawClient, SECRET, config,
    connect,
    log::Log,
    no_value, resource,
    server::{Running, start},
    soon,
    tls::{Ca, Directory, token},
    value,
};
use prost::Message as _;
use tokio::net::TcpListener;
use tonic::Status;
use xds_bootstrap::{CallCredentials, IdentityFiles, TlsFiles};
use xds_core::{
    client::{FlowControl, ServerAddress as Upstream},
    proto,
    server::{Observation, ServerConfig, Transaction},
    service::Variant,
};
use xds_tokio::{
    ClientOptions, Credentials, ManagementServer, PayloadPrinter, ServerHandle, ServerOptions,
    client, credentials::ServerCredentials, server::Observed,
};

async fn serve(options: ServerOptions) -> (ServerHandle, SocketAddr) {
    let server = ManagementServer::start(ServerConfig::default(), options);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(server.serve(listener));
    (server.handle(), address)
}

async fn set(handle: &ServerHandle, type_url: &str, name: &str, content: &str) {
    let mut transaction = Transaction::new();
    transaction.set(type_url, name, resource(name, content));
    handle.apply(transaction).await.unwrap();
}

#[tokio::test]
async fn nack_is_logged_as_a_warning_by_client_and_server() {
    // S1.006, S1.015, S0.017
    let (log, _guard) = Log::start();
    let (handle, address) = serve(ServerOptions::default()).await;
    set(&handle, CLUSTER, "a", "bad").await;
    let mut observations = handle.observations();
    let client = client::connect(config(address), ClientOptions::default());
    let mut a = client.watch_untyped(CLUSTER, "a");
    no_value(&mut a).await;
    while !matches!(
        soon(observations.next()).await,
        Some(Observed::Event(Observation::Nacked { .. }))
    ) {}
    let client_side = log.lines(&["WARN", "rejected a response (NACK)", "xds_grpc::client"]);
    let [line] = &client_side[..] else { panic!("{}", log.text()) };
    let server = format!("server={address}");
    for part in ["node=node-1", &server, "stream=c0", "type=cds ", "nonce=1", "it is bad"] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    let server_side = log.lines(&["WARN", "client rejected a response (NACK)"]);
    let [line] = &server_side[..] else { panic!("{}", log.text()) };
    for part in ["node=node-1", "stream=s0", "type=cds", "nonce=1", "code=3", "it is bad"] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
}

/// The limit of the core is one of each stream.
#[tokio::test]
async fn warnings_about_nacks_of_many_streams_are_limited() {
    let (log, _guard) = Log::start();
    let (handle, address) = serve(ServerOptions::default()).await;
    let mut clients = Vec::new();
    for _ in 0..8 {
        let client = RawClient::open(address).await;
        client.subscribe(CLUSTER, &["a"]);
        clients.push(client);
    }
    for round in 0..20 {
        set(&handle, CLUSTER, "a", &round.to_string()).await;
        for client in &mut clients {
            let response = client.response().await;
            client.answer(&response, &["a"], Some("no good"));
        }
        while soon(handle.stats()).await.unwrap().nacks < 8 * (round + 1) {}
    }
    let warnings = log.lines(&["WARN", "client reject"]).len();
    // A slow machine may need more than one interval, each with up to a hundred warnings.
    assert!((100..160).contains(&warnings), "{warnings} warnings");
    assert!(!log.lines(&["DEBUG", "warning suppressed", "no good"]).is_empty());
}

#[tokio::test]
async fn messages_are_logged_in_the_shorthand_of_the_xds_docs() {
    // S0.091
    let (log, _guard) = Log::start();
    let mut server = FakeServer::start().await;
    let client = client::connect(config(server.address), ClientOptions::default());
    let mut a = client.watch_untyped(CLUSTER, "a");
    let mut stream = server.stream().await;
    stream.request().await;
    stream.respond(CLUSTER, "1", "n1", &[("a", "one")]);
    value(&mut a).await;
    stream.request().await;
    for message in [
        "sent (V=,R=[a],N=,T=cds)",
        "received (V=1,R=[a],N=n1,T=cds)",
        "sent (V=1,R=[a],N=n1,T=cds)",
    ] {
        assert_eq!(log.lines(&["DEBUG", message]).len(), 1, "{message}:\n{}", log.text());
    }
    println!("covers: S0.091");
}

#[tokio::test]
async fn response_is_logged_with_its_control_plane_identifier() {
    let (log, _guard) = Log::start();
    let mut server = FakeServer::start().await;
    let client = client::connect(config(server.address), ClientOptions::default());
    let mut a = client.watch_untyped(CLUSTER, "a");
    let mut stream = server.stream().await;
    stream.request().await;
    let any = proto::Any { type_url: CLUSTER.into(), value: resource("a", "one") };
    let response = proto::DiscoveryResponse {
        version_info: "1".into(),
        resources: vec![any],
        type_url: CLUSTER.into(),
        nonce: "n1".into(),
        control_plane: Some(proto::ControlPlane { identifier: "plane\n7".into() }),
        ..Default::default()
    };
    stream.send(response.encode_to_vec().into());
    value(&mut a).await;
    let message = r"received (V=1,R=[a],N=n1,T=cds,C=plane\n7)";
    assert_eq!(log.lines(&["DEBUG", message]).len(), 1, "{}", log.text());
    println!("covers: B12");
}

/// Printer that prints everything.
struct Printer;

impl PayloadPrinter for Printer {
    fn print(&self, url: &str, bytes: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{url}: {}", String::from_utf8_lossy(bytes).trim())
    }
}

#[tokio::test]
async fn resource_contents_are_logged_only_with_a_payload_printer() {
    let (log, _guard) = Log::start();
    let (handle, address) = serve(ServerOptions::default()).await;
    set(&handle, SECRET, "key", "hush-hush").await;
    let client = client::connect(config(address), ClientOptions::default());
    let mut key = client.watch_untyped(SECRET, "key");
    value(&mut key).await;
    assert!(!log.lines(&["TRACE", "payloads=16 bytes"]).is_empty(), "{}", log.text());
    assert!(log.text().contains("R=[key]"));
    assert!(!log.text().contains("hush"), "{}", log.text());

    let options = ClientOptions::default().with_payload_printer(Printer);
    let client = client::connect(config(address), options);
    let mut key = client.watch_untyped(SECRET, "key");
    value(&mut key).await;
    assert_eq!(log.lines(&["TRACE", "hush-hush"]).len(), 1);
}

/// Fetches a secret incrementally and accepts it.
async fn fetch_incrementally(options: ClientOptions) {
    let mut server = FakeServer::start().await;
    let mut config = config(server.address);
    config.servers[0].variant = Variant::Incremental;
    let client = client::connect(config, options);
    let mut key = client.watch_untyped(SECRET, "key");
    let mut stream = server.stream().await;
    stream.message().await;
    let body = proto::Any { type_url: SECRET.into(), value: resource("key", "hush-hush") };
    let resource = proto::Resource {
        name: "key".into(),
        version: "7".into(),
        resource: Some(body),
        ..Default::default()
    };
    let response = proto::DeltaDiscoveryResponse {
        system_version_info: "9".into(),
        resources: vec![resource],
        type_url: SECRET.into(),
        removed_resources: vec!["gone".into()],
        nonce: "n1".into(),
        ..Default::default()
    };
    stream.send(response.encode_to_vec().into());
    value(&mut key).await;
    key.handled();
    stream.message().await;
}

#[tokio::test]
async fn delta_messages_are_logged_with_their_own_fields() {
    // S0.091
    let (log, _guard) = Log::start();
    fetch_incrementally(ClientOptions::default()).await;
    for message in [
        "sent (S=[key],U=[],I=[],N=,T=sds)",
        "received (V=9,R=[key=7],D=[gone],N=n1,T=sds)",
        "sent (S=[],U=[],I=[],N=n1,T=sds)",
    ] {
        assert_eq!(log.lines(&["DEBUG", message]).len(), 1, "{message}:\n{}", log.text());
    }
    assert_eq!(log.lines(&["TRACE", "payloads=16 bytes"]).len(), 1, "{}", log.text());
    assert!(!log.text().contains("hush"), "{}", log.text());
    // A printer that hides secrets must know the type.
    fetch_incrementally(ClientOptions::default().with_payload_printer(Printer)).await;
    let printed = log.lines(&["hush-hush"]);
    let [line] = &printed[..] else { panic!("{}", log.text()) };
    assert!(line.contains(&format!("payloads={SECRET}: ")), "{line}");
    println!("covers: S0.091");
}

#[tokio::test]
async fn server_logs_both_variants_without_contents() {
    let (log, _guard) = Log::start();
    let (handle, address) = serve(ServerOptions::default()).await;
    set(&handle, SECRET, "key", "hush-hush").await;
    let mut whole = RawClient::open(address).await;
    whole.subscribe(SECRET, &["key"]);
    whole.response().await;
    let mut changes = RawClient::call(address, DELTA_AGGREGATED).await.unwrap();
    changes.subscribe_delta(SECRET, &["key", "missing"]);
    changes.delta_response().await;
    for parts in [
        ["received (V=,R=[key],N=,T=sds)", ""],
        ["sent (V=", "R=[key],N=1,T=sds)"],
        ["received (S=[key missing],U=[],I=[],N=,T=sds)", ""],
        ["sent (V=", "],D=[missing],N=1,T=sds)"],
    ] {
        assert_eq!(
            log.lines(&["DEBUG", parts[0], parts[1]]).len(),
            1,
            "{parts:?}:\n{}",
            log.text()
        );
    }
    assert_eq!(log.lines(&["TRACE", "payloads=16 bytes"]).len(), 2, "{}", log.text());
    assert!(!log.text().contains("hush"), "{}", log.text());
    println!("covers: S0.091");
}

#[tokio::test]
async fn unreachable_server_is_logged_as_a_warning_once() {
    let (log, _guard) = Log::start();
    let away = Deaf::new();
    let client = client::connect(config(away.address()), ClientOptions::default());
    let mut a = client.watch_untyped(CLUSTER, "a");
    no_value(&mut a).await;
    soon(async {
        while client.stats().await.unwrap().server_failures < 3 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(log.lines(&["WARN"]).len(), 1, "{}", log.text());
    assert!(log.lines(&["DEBUG", "still cannot connect"]).len() >= 2);

    let mut server = FakeServer::start_on(away.listen(), support::Headers::AtOnce);
    let mut stream = server.stream().await;
    stream.request().await;
    stream.respond(CLUSTER, "1", "n1", &[("a", "one")]);
    value(&mut a).await;
    assert_eq!(log.lines(&["INFO", "the server responds again"]).len(), 1, "{}", log.text());
    println!("covers: S1.015");
}

#[tokio::test]
async fn v2_type_url_from_a_server_is_logged_once_per_type() {
    println!("covers: S4.011");
    let (log, _guard) = Log::start();
    let mut server = FakeServer::start().await;
    let client = client::connect(config(server.address), ClientOptions::default());
    let mut a = client.watch_untyped(CLUSTER, "a");
    let mut stream = server.stream().await;
    stream.request().await;
    for (version, content) in [("1", "one"), ("2", "two")] {
        let older = "type.googleapis.com/envoy.api.v2.Cluster";
        stream.respond(older, version, version, &[("a", content)]);
        value(&mut a).await;
        stream.request().await;
    }
    let warnings = log.lines(&["WARN"]);
    let [line] = &warnings[..] else { panic!("{}", log.text()) };
    for part in ["node=node-1", "type=cds", "version 2 of the API"] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    assert_eq!(client.stats().await.unwrap().v2_resources, 2);
}

#[tokio::test]
async fn each_unreachable_server_is_logged_separately() {
    // S1.006
    let (log, _guard) = Log::start();
    let (first, second) = (Deaf::new(), Deaf::new());
    let config = config(first.address()).with_server(Upstream::new(second.address().to_string()));
    let client = client::connect(config, ClientOptions::default());
    let mut a = client.watch_untyped(CLUSTER, "a");
    no_value(&mut a).await;
    soon(async {
        while client.stats().await.unwrap().server_failures < 6 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    for server in [first.address(), second.address()] {
        let warned = log.lines(&["WARN", "cannot connect", &format!("server={server}")]);
        assert_eq!(warned.len(), 1, "{}", log.text());
    }
    // The other server is still down, and no line about it appears.
    let first_address = first.address();
    let mut server = FakeServer::start_on(first.listen(), support::Headers::AtOnce);
    let mut stream = server.stream().await;
    stream.request().await;
    stream.respond(CLUSTER, "1", "n1", &[("a", "one")]);
    value(&mut a).await;
    let again = log.lines(&["INFO", "the server responds again"]);
    let [line] = &again[..] else { panic!("{}", log.text()) };
    assert!(line.contains(&format!("server={first_address}")), "{line}");
    println!("covers: S1.006 S1.015");
}

#[tokio::test]
async fn stream_end_without_a_response_is_logged_as_a_warning() {
    let (log, _guard) = Log::start();
    let mut server = FakeServer::start().await;
    let client = client::connect(config(server.address), ClientOptions::default());
    let mut a = client.watch_untyped(CLUSTER, "a");
    let mut stream = server.stream().await;
    stream.request().await;
    stream.close(Status::unavailable("overload"));
    no_value(&mut a).await;
    assert_eq!(log.lines(&["WARN", "overload"]).len(), 1, "{}", log.text());
    println!("covers: S1.005 S1.006 S1.007");
}

#[tokio::test]
async fn stream_end_after_a_response_is_not_a_warning() {
    let (log, _guard) = Log::start();
    let mut server = FakeServer::start().await;
    let client = client::connect(config(server.address), ClientOptions::default());
    let mut a = client.watch_untyped(CLUSTER, "a");
    let mut stream = server.stream().await;
    stream.request().await;
    stream.respond(CLUSTER, "1", "n1", &[("a", "one")]);
    value(&mut a).await;
    a.handled();
    stream.request().await;
    stream.close(Status::unavailable("rebalancing"));
    server.stream().await;
    assert_eq!(log.lines(&["INFO", "stream ended", "rebalancing"]).len(), 1, "{}", log.text());
    assert!(log.lines(&["WARN"]).is_empty(), "{}", log.text());
    println!("covers: FM-04 S1.008 S1.009");
}

#[tokio::test]
async fn watcher_that_blocks_reading_is_logged() {
    let (log, _guard) = Log::start();
    let mut server = FakeServer::start().await;
    let mut config = config(server.address);
    config.profile.flow_control = FlowControl::On;
    let client = client::connect(config, ClientOptions::default());
    let mut a = client.watch_untyped(CLUSTER, "a");
    let _all = client.watch_all_untyped(CLUSTER);
    let mut stream = server.stream().await;
    stream.request().await;
    stream.respond(CLUSTER, "1", "n1", &[("a", "one")]);
    value(&mut a).await;
    stream.request().await;
    // The value stays in hand while virtual time passes.
    tokio::time::pause();
    tokio::time::sleep(core::time::Duration::from_secs(15)).await;
    let told = ["WARN", "reading from the server is paused", "watches=cds a, all of cds"];
    assert_eq!(log.lines(&told).len(), 1, "{}", log.text());
}

#[tokio::test]
async fn stale_token_file_is_logged_as_a_warning() {
    // gRFC A97
    let (log, _guard) = Log::start();
    let directory = Directory::new();
    let text = token(3_600, "secret");
    let path = directory.write("token", &text);
    let ca = directory.write("ca.pem", &Ca::new("ours").pem);
    let credentials = Credentials::tls(TlsFiles::default().with_ca_certificate(ca))
        .with_call_credentials(&CallCredentials::JwtTokenFile(path.clone()));
    credentials.check().await.expect("the files are right");
    assert!(log.lines(&["WARN"]).is_empty(), "{}", log.text());
    for (bad, why) in [("no token".to_owned(), "not a JWT"), (token(-5, "old"), "expired")] {
        directory.write("token", &bad);
        credentials.check().await.expect("the last one is valid");
        let warned = log.lines(&["WARN", "the last one stays in use", why]);
        let [line] = &warned[..] else { panic!("{}", log.text()) };
        assert!(line.contains(&*path.to_string_lossy()), "{line}");
    }
    assert!(!log.text().contains(&text), "{}", log.text());
    println!("covers: B42");
}

// IS24: clients control the number of invalid streams, but not the length of the log.
#[tokio::test]
async fn warnings_for_malformed_streams_are_rate_limited() {
    let (log, _guard) = Log::start();
    let Running { address, .. } = start().await;
    let channel = connect(address).await;
    for _ in 0..300 {
        let mut client = RawClient::call_on(channel.clone(), AGGREGATED).await.unwrap();
        client.send(&b"\xff\xff\xff"[..]);
        client.end().await;
    }
    let warnings = log.lines(&["WARN", "closed a stream"]).len();
    // A slow machine may need more than one interval, each with up to a hundred warnings.
    assert!((1..300).contains(&warnings), "{warnings} warnings");
    println!("covers: IS24");
}

/// The server's log shows which side must change its TLS configuration.
#[tokio::test]
async fn tls_mismatch_is_logged_on_both_sides() {
    let ca = Ca::new("ours");
    let directory = Directory::new();
    let files = TlsFiles::default().with_ca_certificate(directory.write("ca.pem", &ca.pem));
    let own = ca.issue(&["127.0.0.1"]);
    let secured = ServerCredentials::tls(IdentityFiles {
        certificate: directory.write("cert", &own.certificate),
        private_key: directory.write("key", &own.private_key),
    });
    for (server, client, client_words, server_words) in [
        (
            ServerOptions::default(),
            Credentials::tls(files),
            "does not speak TLS on this port",
            "the client uses TLS, but this port does not",
        ),
        (
            ServerOptions::default().with_credentials(secured),
            Credentials::insecure(),
            "connect with TLS credentials",
            "the client does not speak TLS",
        ),
    ] {
        let (log, _guard) = Log::start();
        let (_handle, address) = serve(server).await;
        let mut config = config(address);
        config.servers[0] = config.servers[0].clone().with_transport("t");
        let options = ClientOptions::default().with_credentials("t".into(), client);
        let client = client::connect(config, options);
        let why = no_value(&mut client.watch_untyped(CLUSTER, "a")).await.to_string();
        assert!(why.contains(client_words), "{why}");
        soon(async {
            while log.lines(&["WARN", "connection failed", server_words]).is_empty() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}
