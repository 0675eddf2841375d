//! Client-side TLS: trust, client certificates, and reloading of files.

use core::{net::SocketAddr, time::Duration};
use std::path::PathBuf;

use crate::support::{
    CLUSTER, FakeServer, FakeStream, config, no_value, soon,
    tls::{Ca, Clients, Directory, Identity, TlsServer, der},
    value,
};
use tokio::{net::TcpListener, time::sleep};
use tonic::Status;
use xds_bootstrap::{Bootstrap, TlsFiles};
use xds_core::{
    client::{ClientConfig, TransportId},
    types::CLUSTER_LOAD_ASSIGNMENT,
};
use xds_tokio::{ClientOptions, Credentials, client};

/// Returns a client configuration for the server at `address` with a transport.
fn over(transport: &str, address: SocketAddr) -> ClientConfig {
    let mut config = config(address);
    config.servers[0] = config.servers[0].clone().with_transport(transport);
    config
}

fn options(credentials: Credentials) -> ClientOptions {
    ClientOptions::default().with_seed(7).with_credentials(TransportId::from("tls"), credentials)
}

/// Returns files that trust `ca`.
fn trusting(directory: &Directory, ca: &Ca) -> TlsFiles {
    TlsFiles::default().with_ca_certificate(directory.write("ca.pem", &ca.pem))
}

/// Adds a client certificate to the files.
fn showing(files: TlsFiles, directory: &Directory, identity: &Identity) -> TlsFiles {
    let certificate = directory.write("cert.pem", &identity.certificate);
    files.with_identity(certificate, directory.write("key.pem", &identity.private_key))
}

/// Returns the error of the first attempt to connect.
async fn failure(address: SocketAddr, credentials: Credentials) -> String {
    let client = client::connect(over("tls", address), options(credentials));
    no_value(&mut client.watch_untyped(CLUSTER, "a")).await.to_string()
}

/// Answers the stream's first request and waits until the client uses the answer.
async fn answer(stream: &mut FakeStream) {
    stream.request().await;
    stream.respond(CLUSTER, "1", "n1", &[("a", "one")]);
}

#[tokio::test]
async fn server_is_trusted_if_a_configured_root_issued_its_certificate() {
    println!("covers: B42");
    let (ca, other) = (Ca::new("ours"), Ca::new("theirs"));
    let mut server = TlsServer::start(&ca.issue(&["127.0.0.1"]), Clients::Anybody).await;
    let address = server.fake.address;
    let directory = Directory::new();

    let credentials = Credentials::tls(trusting(&directory, &ca));
    credentials.check().await.expect("the files are right");
    let client = client::connect(over("tls", address), options(credentials));
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut stream = server.fake.stream().await;
    assert_eq!(stream.uri.scheme_str(), Some("https"));
    assert_eq!(stream.uri.authority().map(ToString::to_string), Some(address.to_string()));
    assert!(!stream.headers.contains_key("authorization"));
    answer(&mut stream).await;
    value(&mut watch).await;
    assert_eq!(server.handshake().await, Ok(None), "the client shows no certificate");

    let theirs = directory.write("other.pem", &other.pem);
    let why = failure(address, Credentials::tls(TlsFiles::default().with_ca_certificate(theirs)));
    let why = why.await;
    assert!(why.contains("TLS: ") && why.contains("UnknownIssuer"), "{why}");
}

#[tokio::test]
async fn certificate_must_match_the_host_or_the_configured_server_name() {
    let ca = Ca::new("ours");
    let mut server = TlsServer::start(&ca.issue(&["xds.example"]), Clients::Anybody).await;
    let address = server.fake.address;
    let directory = Directory::new();
    let credentials = Credentials::tls(trusting(&directory, &ca));
    let why = failure(address, credentials.clone()).await;
    assert!(why.contains("not valid for"), "{why}");

    let credentials = credentials.with_server_name("xds.example").expect("it is a name");
    let client = client::connect(over("tls", address), options(credentials.clone()));
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut stream = server.fake.stream().await;
    answer(&mut stream).await;
    value(&mut watch).await;
    assert!(credentials.with_server_name("not a name").is_err());
}

#[tokio::test]
async fn client_presents_its_certificate_on_request() {
    println!("covers: B42");
    let (ca, clients) = (Ca::new("servers"), Ca::new("clients"));
    let own = ca.issue(&["127.0.0.1"]);
    let mut server = TlsServer::start(&own, Clients::Of(&clients)).await;
    let address = server.fake.address;
    let directory = Directory::new();
    let files = trusting(&directory, &ca);

    let anonymous = failure(address, Credentials::tls(files.clone())).await;
    assert!(server.handshake().await.is_err(), "{anonymous}");

    let identity = clients.issue(&["client"]);
    let credentials = Credentials::tls(showing(files, &directory, &identity));
    let client = client::connect(over("tls", address), options(credentials));
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut stream = server.fake.stream().await;
    answer(&mut stream).await;
    value(&mut watch).await;
    loop {
        // The anonymous client may have connected again.
        if let Ok(Some(shown)) = server.handshake().await {
            assert_eq!(shown, der(&identity.certificate));
            break;
        }
    }
}

#[tokio::test]
async fn new_connection_uses_the_current_file_contents() {
    println!("covers: B42");
    let (ca, clients) = (Ca::new("servers"), Ca::new("clients"));
    let own = ca.issue(&["127.0.0.1"]);
    let mut server = TlsServer::start(&own, Clients::Of(&clients)).await;
    let directory = Directory::new();
    let first = clients.issue(&["first"]);
    let files = showing(trusting(&directory, &ca), &directory, &first);
    let client =
        client::connect(over("tls", server.fake.address), options(Credentials::tls(files)));
    let _watch = client.watch_untyped(CLUSTER, "a");
    let mut stream = server.fake.stream().await;
    assert_eq!(server.handshake().await, Ok(Some(der(&first.certificate))));

    let second = clients.issue(&["second"]);
    directory.write("key.pem", &second.private_key);
    directory.write("cert.pem", &second.certificate);
    stream.request().await;
    stream.close(Status::unavailable("come again"));
    let mut stream = server.fake.stream().await;
    assert_eq!(server.handshake().await, Ok(Some(der(&second.certificate))));

    // Half of a replacement is not a valid identity; the last valid one is used.
    directory.write("key.pem", &clients.issue(&["third"]).private_key);
    stream.request().await;
    stream.close(Status::unavailable("come again"));
    let mut stream = server.fake.stream().await;
    assert_eq!(server.handshake().await, Ok(Some(der(&second.certificate))));

    // The same applies to a missing file.
    std::fs::remove_file(directory.path("ca.pem")).unwrap();
    stream.request().await;
    stream.close(Status::unavailable("come again"));
    server.fake.stream().await;
    assert_eq!(server.handshake().await, Ok(Some(der(&second.certificate))));
}

#[tokio::test]
async fn credential_files_are_read_at_their_refresh_interval() {
    println!("covers: B42");
    let (ca, clients) = (Ca::new("servers"), Ca::new("clients"));
    let own = ca.issue(&["127.0.0.1"]);
    let mut server = TlsServer::start(&own, Clients::Of(&clients)).await;
    let directory = Directory::new();
    let files = showing(trusting(&directory, &ca), &directory, &clients.issue(&["first"]))
        .with_refresh_interval(Duration::from_millis(20));
    let client =
        client::connect(over("tls", server.fake.address), options(Credentials::tls(files)));
    let _watch = client.watch_untyped(CLUSTER, "a");
    let mut stream = server.fake.stream().await;
    server.handshake().await.expect("the first identity is one");

    let second = clients.issue(&["second"]);
    // Longer and longer, so that the file is read even on a busy machine.
    for there_for in [100, 400, 1_600, 6_400].map(Duration::from_millis) {
        directory.write("key.pem", &second.private_key);
        directory.write("cert.pem", &second.certificate);
        sleep(there_for).await;
        directory.write("cert.pem", "broken");
        stream.request().await;
        stream.close(Status::unavailable("come again"));
        // No connection was made while the second identity was available.
        stream = server.fake.stream().await;
        if server.handshake().await == Ok(Some(der(&second.certificate))) {
            return;
        }
    }
    panic!("the second identity was never read");
}

#[tokio::test]
async fn invalid_credential_file_is_named_in_the_error() {
    let ca = Ca::new("ours");
    let identity = ca.issue(&["client"]);
    let directory = Directory::new();
    let good = || trusting(&directory, &ca);
    let (cert, key) = ("cert.pem", "key.pem");
    let text = directory.write("text", "hello");
    let long = directory.write("long", &"x".repeat((1 << 20) + 1));
    let cut = directory.write("cut", identity.certificate.trim_end().rsplit_once('\n').unwrap().0);
    let garbled = directory
        .write("garbled", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let stranger = directory.write("stranger", &ca.issue(&["other"]).private_key);
    showing(good(), &directory, &identity);
    let root = |path: PathBuf| TlsFiles::default().with_ca_certificate(path);
    let own = |cert: PathBuf, key: PathBuf| good().with_identity(cert, key);
    let path = |name: &str| directory.path(name);
    for (files, name, words) in [
        (root(path("nowhere")), "nowhere", "cannot read"),
        (root(long), "long", "longer than"),
        (root(text.clone()), "text", "not a list of certificates"),
        (root(cut), "cut", "not a list of certificates"),
        (root(garbled), "garbled", "BadEncoding"),
        (own(path("nowhere"), path(key)), "nowhere", "cannot read"),
        (own(path(cert), path("nowhere")), "nowhere", "cannot read"),
        (own(text.clone(), path(key)), "text", "not a list of certificates"),
        (own(path(cert), text), "text", "not a private key"),
        (own(path(cert), stranger), "stranger", "cert.pem"),
    ] {
        let credentials = Credentials::tls(files);
        let why = credentials.check().await.expect_err("it is wrong").to_string();
        assert!(why.contains(&*path(name).to_string_lossy()) && why.contains(words), "{why}");
        let told = failure(([127, 0, 0, 1], 1).into(), credentials.clone()).await;
        assert!(told.contains(&why), "{told}");
        assert!(!format!("{why}{told}{credentials:?}").contains("-----BEGIN "));
    }
}

/// The error gives advice about a faulty server certificate, and about a peer without TLS.
#[tokio::test]
async fn tls_errors_contain_advice() {
    let (ca, other) = (Ca::new("ours"), Ca::new("theirs"));
    let directory = Directory::new();
    let tls = Credentials::tls(trusting(&directory, &ca));
    let here = &["127.0.0.1"];
    for (own, words) in [
        (ca.itself(), "is a CA certificate, which cannot be used as a server certificate"),
        (other.issue(here), "trust the CA certificate that issued it"),
        (ca.issue(&["a.example", "b.example"]), "is not for 127.0.0.1 but for"),
        (
            ca.issue_as(here, |it| it.not_after = rcgen::date_time_ymd(2001, 1, 1)),
            "has expired: renew it",
        ),
        (
            ca.issue_as(here, |it| it.not_before = rcgen::date_time_ymd(4000, 1, 1)),
            "is not valid yet: check the clock",
        ),
        (
            ca.issue_as(here, |it| {
                it.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
            }),
            "must contain serverAuth",
        ),
    ] {
        let server = TlsServer::start(&own, Clients::Anybody).await;
        let why = failure(server.fake.address, tls.clone()).await;
        assert!(why.contains("TLS: ") && why.contains(words), "{why}");
    }

    // The server rejects the client. In TLS 1.3 this is reported after the handshake.
    let server = TlsServer::start(&ca.issue(here), Clients::Of(&other)).await;
    let why = failure(server.fake.address, tls.clone()).await;
    assert!(why.contains("it may require a client certificate (mutual TLS)"), "{why}");
    let stranger = showing(trusting(&directory, &ca), &directory, &ca.issue(&["client"]));
    let why = failure(server.fake.address, Credentials::tls(stranger)).await;
    assert!(why.contains("rejected the client certificate"), "{why}");

    // TLS to a port without TLS, and the reverse.
    let plain = FakeServer::start().await;
    let why = failure(plain.address, tls).await;
    assert!(why.contains("the server does not speak TLS on this port"), "{why}");
    let why = failure(server.fake.address, Credentials::insecure()).await;
    assert!(why.contains("it answered in TLS; connect with TLS credentials"), "{why}");
}

#[tokio::test]
async fn server_without_http2_alpn_is_rejected() {
    let ca = Ca::new("ours");
    let own = ca.issue(&["127.0.0.1"]);
    let anywhere = ([127, 0, 0, 1], 0).into();
    let server = TlsServer::start_on(anywhere, &own, Clients::Anybody, &[]).await;
    let directory = Directory::new();
    let why = failure(server.fake.address, Credentials::tls(trusting(&directory, &ca))).await;
    assert!(why.contains("HTTP/2"), "{why}");
}

/// The clock is paused and advances only when all tasks are idle.
#[tokio::test(start_paused = true)]
async fn silent_tls_server_is_given_up_after_the_connect_timeout() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let directory = Directory::new();
    let tls = Credentials::tls(trusting(&directory, &Ca::new("ours")));
    let options = options(tls).with_connect_timeout(Duration::from_secs(3));
    let client = client::connect(over("tls", address), options);
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let why = no_value(&mut watch).await.to_string();
    assert!(why.contains("no connection within 3s"), "{why}");
    println!("covers: B42");
}

#[tokio::test]
async fn mismatched_address_and_credentials_fail_without_fallback() {
    let ca = Ca::new("ours");
    let server = TlsServer::start(&ca.issue(&["127.0.0.1"]), Clients::Anybody).await;
    let address = server.fake.address;
    let directory = Directory::new();
    let tls = Credentials::tls(trusting(&directory, &ca));
    for (uri, transport, credentials, words) in [
        (format!("http://{address}"), "tls", tls.clone(), "the credentials require TLS"),
        (
            format!("https://{address}"),
            "tls",
            Credentials::insecure(),
            "the credentials are insecure",
        ),
        (address.to_string(), "other", tls, "the transport \"other\" is not defined"),
        // The system's root certificates, if there are any, do not include the authority of this
        // test.
        (format!("https://{address}"), "", Credentials::insecure(), "root"),
    ] {
        let mut config = over(transport, address);
        config.servers[0].uri = uri.as_str().into();
        let client = client::connect(config, options(credentials));
        let why = no_value(&mut client.watch_untyped(CLUSTER, "a")).await.to_string();
        let is_unknown = words == "root" && why.contains("UnknownIssuer");
        assert!(is_unknown || why.contains(words), "{uri}: {why}");
    }
}

#[tokio::test]
async fn bootstrap_configures_a_complete_client() {
    println!("covers: B42 BS-08 FE-16");
    let (ca, clients) = (Ca::new("servers"), Ca::new("clients"));
    let own = ca.issue(&["127.0.0.1"]);
    let mut server = TlsServer::start(&own, Clients::Of(&clients)).await;
    let directory = Directory::new();
    let (one, two) = (clients.issue(&["one"]), clients.issue(&["two"]));
    let write = |name: &str, text: &str| directory.write(name, text).to_string_lossy().into_owned();
    let entry = |identity: &Identity, name: &str| {
        serde_json::json!({
            "server_uri": server.fake.address.to_string(),
            "channel_creds": [{ "type": "google_default" }, { "type": "tls", "config": {
                "ca_certificate_file": write("ca", &ca.pem),
                "certificate_file": write(&format!("{name}.cert"), &identity.certificate),
                "private_key_file": write(&format!("{name}.key"), &identity.private_key),
            } }, { "type": "insecure" }],
        })
    };
    let text = serde_json::json!({
        "xds_servers": [entry(&one, "one")],
        "authorities": { "a": { "xds_servers": [entry(&two, "two")] } },
        "node": { "id": "n" },
    });
    let bootstrap = Bootstrap::from_json(&text.to_string()).expect("it is right");
    let options = ClientOptions::default().with_bootstrap(&bootstrap);
    let endpoints = xds_core::client::OpaqueType::new(CLUSTER_LOAD_ASSIGNMENT);
    let client = client::connect(bootstrap.client_config().with_type(endpoints), options);

    // A server with two sets of credentials counts as two servers with a stream each.
    let _first = client.watch_untyped(CLUSTER_LOAD_ASSIGNMENT, "e");
    let mut stream = server.fake.stream().await;
    assert_eq!(stream.request().await.resource_names, ["e"]);
    assert_eq!(server.handshake().await, Ok(Some(der(&one.certificate))));
    let name = "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/e";
    let _second = client.watch_untyped(CLUSTER_LOAD_ASSIGNMENT, name);
    let mut stream = server.fake.stream().await;
    assert_eq!(stream.request().await.resource_names, [name]);
    assert_eq!(server.handshake().await, Ok(Some(der(&two.certificate))));
    client.shut_down();
    soon(client.ended()).await;
}
