//! Server-side TLS, and authorization of clients.

use core::net::SocketAddr;

use crate::support::{
    CLUSTER, RawClient, config,
    log::Log,
    names, no_value, resource,
    server::{Running, set, start_with, streams},
    soon,
    tls::{Ca, Directory, Identity, TlsClient, der},
    value,
};
use rustls::HandshakeKind;
use tokio::{net::TcpStream, sync::mpsc};
use tonic::Code;
use xds_bootstrap::{IdentityFiles, TlsFiles};
use xds_core::{
    StreamId,
    client::{ClientConfig, Node, OpaqueType, ServerAddress as Upstream, TransportId},
    server::{
        Admission, Observation, PerClientLimits, ServerConfig, ServerLimits, StatusCode,
        Transaction,
    },
};
use xds_tokio::{
    ClientHandle, ClientOptions, Credentials, ManagementServer, ServerOptions, client,
    credentials::{ClientCertificates, CredentialsError, ServerCredentials},
    server::{
        Admitted, AllowSans, AuthorizationDecision, AuthorizationRequest, Authorizer, Denied,
        NodeFromSan, Observations, Observed, Peer, UnixSocket,
    },
};

/// Writes a server's certificate and key files.
fn identity(directory: &Directory, own: &Identity) -> IdentityFiles {
    IdentityFiles {
        certificate: directory.write("server.pem", &own.certificate),
        private_key: directory.write("server.key", &own.private_key),
    }
}

async fn secured(credentials: ServerCredentials) -> Running {
    let options = ServerOptions::default().with_credentials(credentials);
    let running = start_with(ServerConfig::default(), options).await;
    running.handle.apply(set(&[(CLUSTER, "a", "one")])).await.unwrap();
    running
}

/// Writes a client's files: it trusts `ca` and presents `own`.
fn client_files(directory: &Directory, ca: &Ca, own: Option<&Identity>) -> TlsFiles {
    let files = TlsFiles::default().with_ca_certificate(directory.write("ca.pem", &ca.pem));
    let Some(own) = own else { return files };
    let certificate = directory.write("client.pem", &own.certificate);
    files.with_identity(certificate, directory.write("client.key", &own.private_key))
}

fn over_tls(address: SocketAddr, files: TlsFiles) -> ClientHandle {
    let mut config: ClientConfig = config(address);
    config.servers[0] = config.servers[0].clone().with_transport("tls");
    let credentials = Credentials::tls(files);
    let options = ClientOptions::default().with_credentials(TransportId::from("tls"), credentials);
    client::connect(config, options)
}

#[tokio::test]
async fn server_serves_tls_and_reloads_its_certificate_files() {
    let (ca, next_ca, directory) = (Ca::new("first"), Ca::new("next"), Directory::new());
    let files = identity(&directory, &ca.issue(&["127.0.0.1"]));
    let credentials = ServerCredentials::tls(files.clone());
    credentials.check().await.unwrap();
    let running = secured(credentials).await;
    let client = over_tls(running.address, client_files(&directory, &ca, None));
    assert_eq!(value(&mut client.watch_untyped(CLUSTER, "a")).await.name.as_str(), "a");

    // Clients without TLS are not served, and neither delay nor end other connections.
    let silent = TcpStream::connect(running.address).await.unwrap();
    let plain = client::connect(config(running.address), ClientOptions::default());
    no_value(&mut plain.watch_untyped(CLUSTER, "a")).await;

    // New connections use the current files; open ones continue.
    identity(&directory, &next_ca.issue(&["127.0.0.1"]));
    let later = over_tls(running.address, client_files(&directory, &next_ca, None));
    value(&mut later.watch_untyped(CLUSTER, "a")).await;
    // An invalid file changes nothing.
    directory.write("server.key", "no key");
    let still = over_tls(running.address, client_files(&directory, &next_ca, None));
    value(&mut still.watch_untyped(CLUSTER, "a")).await;
    streams(&running.handle, 3).await;
    drop(silent);
}

#[tokio::test]
async fn credential_errors_do_not_contain_file_contents() {
    let (ca, directory) = (Ca::new("ours"), Directory::new());
    let (own, other) = (ca.issue(&["127.0.0.1"]), ca.issue(&["127.0.0.1"]));
    let files = identity(&directory, &own);
    let missing = IdentityFiles { private_key: directory.path("none"), ..files.clone() };
    let why = ServerCredentials::tls(missing).check().await.unwrap_err();
    assert!(matches!(why, CredentialsError::Unreadable { .. }), "{why}");
    let swapped = IdentityFiles {
        private_key: directory.write("other.key", &other.private_key),
        ..files.clone()
    };
    let why = ServerCredentials::tls(swapped).check().await.unwrap_err();
    assert!(matches!(why, CredentialsError::BadIdentity { .. }), "{why}");
    let authority = directory.write("clients.pem", "nothing of the kind");
    let credentials = ServerCredentials::tls(files)
        .with_client_authority(authority, ClientCertificates::Required);
    let why = credentials.check().await.unwrap_err();
    assert!(matches!(why, CredentialsError::NoCertificates { .. }), "{why}");
    let secret = own.private_key.lines().nth(1).unwrap();
    assert!(!format!("{credentials:?} {why:?} {why}").contains(secret));
}

/// Returns an authorizer that admits clients whose certificate is for their node id. Sends each
/// applicant to `told`.
fn by_certificate(
    told: mpsc::UnboundedSender<AuthorizationRequest>,
) -> impl Fn(AuthorizationRequest) -> core::future::Ready<AuthorizationDecision> + Send + Sync {
    move |client| {
        let is_own = client.peer.dns_names().contains(&client.node_id.to_string());
        let _ = told.send(client);
        core::future::ready(if is_own {
            Ok(Admitted::to("mesh"))
        } else {
            Err(Denied::new(StatusCode::PermissionDenied, "that is not your name"))
        })
    }
}

#[tokio::test]
async fn authorizer_decides_by_node_and_client_certificate() {
    let (ca, clients) = (Ca::new("servers"), Ca::new("clients"));
    let directory = Directory::new();
    let authority = directory.write("clients.pem", &clients.pem);
    let credentials = ServerCredentials::tls(identity(&directory, &ca.issue(&["127.0.0.1"])))
        .with_client_authority(authority, ClientCertificates::Requested);
    let (told, mut asked) = mpsc::unbounded_channel();
    let options = ServerOptions::default()
        .with_credentials(credentials)
        .with_authorizer(by_certificate(told));
    let running = start_with(ServerConfig::default(), options).await;
    let mut mesh = Transaction::snapshot("mesh");
    mesh.set(CLUSTER, "a", resource("a", "mesh"));
    running.handle.apply(mesh).await.unwrap();
    running.handle.apply(set(&[(CLUSTER, "a", "default")])).await.unwrap();

    let own = clients.issue(&["node-1"]);
    let member = over_tls(running.address, client_files(&directory, &ca, Some(&own)));
    let mut watch = member.watch_untyped(CLUSTER, "a");
    assert_eq!(value(&mut watch).await.bytes, resource("a", "mesh"));
    let applicant = soon(asked.recv()).await.unwrap();
    assert_eq!(applicant.peer.certificates.first(), Some(&der(&own.certificate)));
    assert_eq!(&*applicant.node_id, "node-1");
    assert_eq!(applicant.node().unwrap().id, "node-1");
    assert!(applicant.peer.address.is_some_and(|address| address.ip().is_loopback()));

    // Clients with another node's certificate, and without one.
    let others = clients.issue(&["node-2"]);
    for own in [Some(&others), None] {
        let stranger = over_tls(running.address, client_files(&directory, &ca, own));
        let why = no_value(&mut stranger.watch_untyped(CLUSTER, "a")).await;
        assert!(why.to_string().contains("that is not your name"), "{why}");
        let applicant = soon(asked.recv()).await.unwrap();
        assert_eq!(applicant.peer.certificates.len(), usize::from(own.is_some()));
    }
    println!("covers: M9 M10 M12 M236 S0.105 IS20");
}

#[tokio::test]
async fn required_client_certificate_must_be_issued_by_the_client_authority() {
    let (ca, clients) = (Ca::new("servers"), Ca::new("clients"));
    let directory = Directory::new();
    let authority = directory.write("clients.pem", &clients.pem);
    let running = secured(
        ServerCredentials::tls(identity(&directory, &ca.issue(&["127.0.0.1"])))
            .with_client_authority(authority, ClientCertificates::Required),
    )
    .await;
    for own in [None, Some(ca.issue(&["node-1"]))] {
        let stranger = over_tls(running.address, client_files(&directory, &ca, own.as_ref()));
        no_value(&mut stranger.watch_untyped(CLUSTER, "a")).await;
    }
    let own = clients.issue(&["node-1"]);
    let member = over_tls(running.address, client_files(&directory, &ca, Some(&own)));
    value(&mut member.watch_untyped(CLUSTER, "a")).await;
}

/// Starts a server that requires certificates of `clients`, with an authorizer. It has one stream
/// per node.
async fn authorized(
    directory: &Directory,
    (ca, clients): (&Ca, &Ca),
    authorizer: impl Authorizer + 'static,
) -> Running {
    let authority = directory.write("clients.pem", &clients.pem);
    let credentials = ServerCredentials::tls(identity(directory, &ca.issue(&["127.0.0.1"])))
        .with_client_authority(authority, ClientCertificates::Required);
    let options =
        ServerOptions::default().with_credentials(credentials).with_authorizer(authorizer);
    let mut limits = ServerLimits::default();
    limits.streams_per_node = 1;
    let running = start_with(ServerConfig::default().with_limits(limits), options).await;
    running.handle.apply(set(&[(CLUSTER, "a", "one")])).await.unwrap();
    running
}

#[tokio::test]
async fn node_from_san_refuses_a_node_id_of_another_certificate() {
    let (ca, clients, directory) = (Ca::new("servers"), Ca::new("clients"), Directory::new());
    let running = authorized(&directory, (&ca, &clients), NodeFromSan).await;
    let connect =
        |own: &Identity| over_tls(running.address, client_files(&directory, &ca, Some(own)));
    // All clients have the node id node-1.
    let strangers = [
        (clients.issue(&["node-2", "node-1"]), "node-2"),
        (clients.issue_for_uri("spiffe://mesh/node-2", &["node-1"]), "spiffe://mesh/node-2"),
    ];
    let refused = async |(own, name): &(Identity, &str)| {
        let client = connect(own);
        let why = no_value(&mut client.watch_untyped(CLUSTER, "a")).await.to_string();
        let expected =
            format!("the node id is \"node-1\", but the client certificate is for \"{name}\"");
        assert!(why.contains(&expected), "{why}");
    };
    for stranger in &strangers {
        refused(stranger).await;
    }
    // Refused streams do not count towards the limit of the node, which is one stream.
    let own = connect(&clients.issue(&["node-1"]));
    let mut watch = own.watch_untyped(CLUSTER, "a");
    value(&mut watch).await;
    for stranger in &strangers {
        refused(stranger).await;
    }
    running.handle.apply(set(&[(CLUSTER, "a", "two")])).await.unwrap();
    assert_eq!(value(&mut watch).await.bytes, resource("a", "two"));
    let nameless = clients.issue(&[]);
    let client = connect(&nameless);
    let why = no_value(&mut client.watch_untyped(CLUSTER, "a")).await.to_string();
    assert!(why.contains("has no URI and no DNS name"), "{why}");
    println!("covers: M9 M10");
}

#[tokio::test]
async fn allowed_names_are_combined_with_another_authorizer() {
    let (ca, clients, directory) = (Ca::new("servers"), Ca::new("clients"), Directory::new());
    let mesh = |_: AuthorizationRequest| core::future::ready(Ok(Admitted::to("mesh")));
    let patterns = ["spiffe://mesh/*/envoy", "node-*.example"];
    let policy = AllowSans::new(patterns).unwrap().and(mesh);
    let running = authorized(&directory, (&ca, &clients), policy).await;
    let mut transaction = Transaction::snapshot("mesh");
    transaction.set(CLUSTER, "a", resource("a", "mesh"));
    running.handle.apply(transaction).await.unwrap();
    for (own, is_allowed) in [
        (clients.issue_for_uri("spiffe://mesh/a/envoy", &[]), true),
        (clients.issue(&["other", "node-1.example"]), true),
        (clients.issue_for_uri("spiffe://mesh/a/b/envoy", &["other"]), false),
        (clients.issue(&["node-1.a.example"]), false),
    ] {
        let client = over_tls(running.address, client_files(&directory, &ca, Some(&own)));
        let mut watch = client.watch_untyped(CLUSTER, "a");
        if is_allowed {
            assert_eq!(value(&mut watch).await.bytes, resource("a", "mesh"));
        } else {
            let why = no_value(&mut watch).await.to_string();
            assert!(why.contains("names of the client certificate are not allowed: ["), "{why}");
        }
        drop((watch, client));
        streams(&running.handle, 0).await;
    }
    println!("covers: M9 M10 M12");
}

#[tokio::test]
async fn revoked_client_certificate_is_rejected_and_lists_are_reloaded() {
    let (log, _guard) = Log::start();
    let (ca, clients, directory) = (Ca::new("servers"), Ca::new("clients"), Directory::new());
    let list = directory.write("clients.crl", &clients.revoke(&[1]));
    let credentials = ServerCredentials::tls(identity(&directory, &ca.issue(&["127.0.0.1"])))
        .with_client_authority(
            directory.write("clients.pem", &clients.pem),
            ClientCertificates::Required,
        )
        .with_revocation_lists([list]);
    credentials.check().await.unwrap();
    let running = secured(credentials.clone()).await;
    let connect =
        |own: &Identity| over_tls(running.address, client_files(&directory, &ca, Some(own)));
    let (first, second) = (clients.issue_numbered("a", 1), clients.issue_numbered("b", 2));
    let client = connect(&first);
    let why = no_value(&mut client.watch_untyped(CLUSTER, "a")).await.to_string();
    assert!(why.contains("because it has been revoked"), "{why}");
    let lines = log.lines(&["WARN", "the client's certificate has been revoked"]);
    assert!(!lines.is_empty(), "{}", log.text());
    value(&mut connect(&second).watch_untyped(CLUSTER, "a")).await;
    // A client that has sent requests meanwhile gets the reason, too.
    let why = soon(TlsClient::new(&ca, &first).rejection(running.address)).await.to_string();
    assert!(why.contains("CertificateRevoked"), "{why}");

    directory.write("clients.crl", &clients.revoke(&[2]));
    let client = connect(&second);
    let why = no_value(&mut client.watch_untyped(CLUSTER, "a")).await.to_string();
    assert!(why.contains("because it has been revoked"), "{why}");
    value(&mut connect(&first).watch_untyped(CLUSTER, "a")).await;
    // An invalid file changes nothing.
    directory.write("clients.crl", "no list");
    value(&mut connect(&first).watch_untyped(CLUSTER, "a")).await;

    for (content, expected) in [
        ("no list", "no line begins with"),
        ("-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n", "CertRevocationList"),
        (&*clients.pem, "certificate"),
    ] {
        directory.write("other.crl", content);
        let credentials = credentials.clone().with_revocation_lists([directory.path("other.crl")]);
        let why = credentials.check().await.unwrap_err();
        assert!(matches!(why, CredentialsError::BadRevocationList { .. }), "{why}");
        assert_eq!(why.path(), Some(&*directory.path("other.crl")));
        assert!(why.to_string().contains(expected), "{why}");
    }
    println!("covers: M9");
}

// A resumed session does not check the client's certificate again, which may have expired since.
#[tokio::test]
async fn sessions_are_resumed_only_without_client_certificates() {
    let (ca, clients, directory) = (Ca::new("servers"), Ca::new("clients"), Directory::new());
    let public = ServerCredentials::tls(identity(&directory, &ca.issue(&["127.0.0.1"])));
    let authority = directory.write("clients.pem", &clients.pem);
    let mutual = public.clone().with_client_authority(authority, ClientCertificates::Required);
    let own = clients.issue(&["client"]);
    for (credentials, second) in [(public, HandshakeKind::Resumed), (mutual, HandshakeKind::Full)] {
        let running = secured(credentials).await;
        let client = TlsClient::new(&ca, &own);
        assert_eq!(client.handshake(running.address).await, HandshakeKind::Full);
        assert_eq!(client.handshake(running.address).await, second);
    }
}

#[tokio::test]
async fn requests_wait_for_authorization_which_ends_with_the_stream() {
    /// Reports when it is dropped.
    struct Dropped(mpsc::UnboundedSender<&'static str>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send("dropped");
        }
    }
    let (news, mut told) = mpsc::unbounded_channel();
    let options = ServerOptions::default().with_authorizer(move |client: AuthorizationRequest| {
        let dropped = Dropped(news.clone());
        async move {
            let _ = dropped.0.send("asked");
            match client.metadata.contains_key("x-panic") {
                true => panic!("as the test wants it"),
                false => core::future::pending().await,
            }
        }
    });
    let running = start_with(ServerConfig::default(), options).await;
    running.handle.apply(set(&[(CLUSTER, "a", "one")])).await.unwrap();
    let waiting = RawClient::open(running.address).await;
    waiting.subscribe(CLUSTER, &[]);
    assert_eq!(soon(told.recv()).await, Some("asked"));
    let rows = running.handle.status().await.unwrap();
    assert!(rows.is_empty(), "nothing is subscribed before the decision: {rows:?}");
    drop(waiting);
    assert_eq!(soon(told.recv()).await, Some("dropped"));
    streams(&running.handle, 0).await;
    println!("covers: M9 M13");
}

// M13: a half-closed client with a pending request waits for its response, whatever the decision.
#[tokio::test]
async fn half_closed_client_is_kept_until_the_authorization_decision() {
    let mut server = ServerConfig::default();
    server.admission = Admission::ByApplication;
    let running = start_with(server, ServerOptions::default()).await;
    running.handle.apply(set(&[(CLUSTER, "a", "one")])).await.unwrap();
    let mut observations = running.handle.observations();
    let mut clients = Vec::new();
    for _ in 0..2 {
        let mut client = RawClient::open(running.address).await;
        client.subscribe(CLUSTER, &[]);
        client.half_close();
        clients.push((identified(&mut observations).await, client));
    }
    // A half-closed client without a request is not kept.
    let mut silent = RawClient::open(running.address).await;
    silent.half_close();
    assert_eq!(silent.end().await.code(), Code::Ok);
    let (stream, mut refused) = clients.remove(1);
    let why = Denied::new(StatusCode::PermissionDenied, "not you");
    running.handle.refuse(stream, why).await.unwrap();
    assert_eq!(refused.end().await.code(), Code::PermissionDenied);
    let (stream, mut admitted) = clients.remove(0);
    running.handle.assign(stream, "".into()).await.unwrap();
    assert_eq!(names(&admitted.response().await), ["a"]);
    assert_eq!(admitted.end().await.code(), Code::Ok);
    streams(&running.handle, 0).await;
    println!("covers: M9 M13 IS23");
}

#[tokio::test]
async fn panicking_authorizer_rejects_the_client() {
    let answer = |_: AuthorizationRequest| async { panic!("as the test wants it") };
    let options = ServerOptions::default().with_authorizer(answer);
    let running = start_with(ServerConfig::default(), options).await;
    for _ in 0..2 {
        let mut client = RawClient::open(running.address).await;
        client.subscribe(CLUSTER, &[]);
        let status = client.end().await;
        assert_eq!(status.code(), Code::Internal, "{status}");
    }
}

/// Returns the stream of the next client that is identified.
async fn identified(observations: &mut Observations) -> StreamId {
    loop {
        match soon(observations.next()).await {
            Some(Observed::Event(Observation::Identified { stream, node_id, .. })) => {
                assert_eq!(&*node_id, "raw");
                return stream;
            }
            Some(_) => {}
            None => panic!("the server ended"),
        }
    }
}

/// Returns the default limits with this number of names per stream.
fn names_per_stream(names_per_stream: usize) -> PerClientLimits {
    let mut limits = PerClientLimits::from(&ServerLimits::default());
    limits.names_per_stream = names_per_stream;
    limits
}

/// A limit set with the admission applies to the client's first request.
#[tokio::test]
async fn limits_set_by_the_authorizer_apply_to_the_first_request() {
    let mut admitted = vec![Admitted::to(""), Admitted::to("").with_limits(names_per_stream(1))];
    let answers = std::sync::Mutex::new(move || admitted.pop());
    let options = ServerOptions::default().with_authorizer(move |_: AuthorizationRequest| {
        let permission = (answers.lock().unwrap())().expect("a third client");
        async { Ok(permission) }
    });
    let running = start_with(ServerConfig::default(), options).await;
    running.handle.apply(set(&[(CLUSTER, "a", "one"), (CLUSTER, "b", "two")])).await.unwrap();
    let mut limited = RawClient::open(running.address).await;
    limited.subscribe(CLUSTER, &["a", "b"]);
    let status = limited.end().await;
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    let mut other = RawClient::open(running.address).await;
    other.subscribe(CLUSTER, &["a", "b"]);
    assert_eq!(names(&other.response().await), ["a", "b"]);
    println!("covers: M9 M12 M242");
}

/// A limit set while the stream is open applies from the next request on, to this stream only.
#[tokio::test]
async fn limits_set_on_an_open_stream_apply_from_the_next_request() {
    let running = start_with(ServerConfig::default(), ServerOptions::default()).await;
    running.handle.apply(set(&[(CLUSTER, "a", "one"), (CLUSTER, "b", "two")])).await.unwrap();
    let mut observations = running.handle.observations();
    let mut clients = Vec::new();
    for _ in 0..2 {
        let mut client = RawClient::open(running.address).await;
        client.subscribe(CLUSTER, &["a"]);
        let stream = identified(&mut observations).await;
        let first = client.response().await;
        clients.push((client, stream, first));
    }
    let (mut limited, stream, first) = clients.remove(0);
    running.handle.limit_client(stream, names_per_stream(1)).await.unwrap();
    limited.answer(&first, &["a"], None);
    running.handle.apply(set(&[(CLUSTER, "a", "three")])).await.unwrap();
    let changed = limited.response().await;
    limited.answer(&changed, &["a", "b"], None);
    let status = limited.end().await;
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    let (mut other, _, first) = clients.remove(0);
    other.answer(&first, &["a", "b"], None);
    assert_eq!(names(&other.response().await), ["a", "b"]);
    // For a stream that has ended, the call has no effect.
    running.handle.limit_client(stream, names_per_stream(1)).await.unwrap();
    println!("covers: M242 IS24");
}

#[tokio::test]
async fn open_stream_can_be_moved_to_another_view_or_closed() {
    let mut server = ServerConfig::default();
    server.admission = Admission::ByApplication;
    let running = start_with(server, ServerOptions::default()).await;
    let mut transaction = Transaction::in_view("blue");
    transaction.set(CLUSTER, "a", resource("a", "blue"));
    running.handle.apply(transaction).await.unwrap();
    let mut transaction = Transaction::in_view("green");
    transaction.set(CLUSTER, "a", resource("a", "green"));
    running.handle.apply(transaction).await.unwrap();
    let mut observations = running.handle.observations();

    // Without an authorizer the application observes which clients connect.
    let mut client = RawClient::open(running.address).await;
    client.subscribe(CLUSTER, &["a"]);
    let stream = identified(&mut observations).await;
    running.handle.assign(stream, "blue".into()).await.unwrap();
    let blue = client.response().await;
    assert_eq!(blue.resources[0].value, resource("a", "blue"));
    client.answer(&blue, &["a"], None);
    running.handle.assign(stream, "green".into()).await.unwrap();
    let green = client.response().await;
    assert_eq!(
        (names(&green), &green.resources[0].value),
        (vec!["a".into()], &resource("a", "green"))
    );
    client.answer(&green, &["a"], None);
    let [row] = &running.handle.status().await.unwrap()[..] else { panic!("not one row") };
    assert_eq!(row.view.as_str(), "green");

    let why = Denied::new(StatusCode::Unauthenticated, "your token has expired");
    running.handle.refuse(stream, why).await.unwrap();
    let status = client.end().await;
    assert_eq!(
        (status.code(), status.message()),
        (Code::Unauthenticated, "your token has expired")
    );
    println!("covers: M12 M223 M237");
}

/// Clients over a socket file have no address; the peer contains the socket.
#[cfg(unix)]
#[tokio::test]
async fn peer_of_a_unix_socket_client_is_the_socket_path() {
    let directory = Directory::new();
    let path = directory.path("xds.sock");
    let (told, mut peers) = mpsc::unbounded_channel();
    let everybody = move |client: AuthorizationRequest| {
        let _ = told.send(client.peer);
        core::future::ready(AuthorizationDecision::Ok(Admitted::to("all")))
    };
    let options = ServerOptions::default().with_authorizer(everybody);
    let server = ManagementServer::start(ServerConfig::default(), options);
    let socket = UnixSocket::new(&path).into();
    let (listener, bound) = ManagementServer::bind(&socket).await.unwrap();
    tokio::spawn(server.serve(listener));
    let upstream = Upstream::new(bound.to_string());
    let config =
        ClientConfig::new(Node::new("node-1"), upstream).with_type(OpaqueType::new(CLUSTER));
    let client = client::connect(config, ClientOptions::default());
    let _watch = client.watch_untyped(CLUSTER, "a");
    let peer: Peer = soon(peers.recv()).await.unwrap();
    assert_eq!((peer.address, peer.socket.as_deref()), (None, Some(path.as_path())));
}
