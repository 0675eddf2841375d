//! Tokens of call credentials: read for every call, sent over TLS only, and never printed.

use crate::support::{
    CLUSTER, FakeServer, config, no_value, soon,
    tls::{Ca, Clients, Directory, TlsServer, token},
};
use http::{HeaderValue, header::AUTHORIZATION};
use tonic::Status;
use xds_bootstrap::{CallCredentials, TlsFiles};
use xds_core::client::{ChannelError, ClientConfig, TransportId, WatchErrorKind};
use xds_tokio::{ClientOptions, Credentials, client, client::Service};

struct Stage {
    directory: Directory,
    server: TlsServer,
    credentials: Credentials,
}

impl Stage {
    async fn new() -> Self {
        let ca = Ca::new("ours");
        let server = TlsServer::start(&ca.issue(&["127.0.0.1"]), Clients::Anybody).await;
        let directory = Directory::new();
        let files = TlsFiles::default().with_ca_certificate(directory.write("ca.pem", &ca.pem));
        let calls = CallCredentials::JwtTokenFile(directory.path("token"));
        let credentials = Credentials::tls(files).with_call_credentials(&calls);
        Self { directory, server, credentials }
    }

    fn config(&self) -> ClientConfig {
        let mut config = config(self.server.fake.address);
        config.servers[0] = config.servers[0].clone().with_transport("tls");
        config
    }

    fn options(&self) -> ClientOptions {
        let (id, credentials) = (TransportId::from("tls"), self.credentials.clone());
        ClientOptions::default().with_seed(7).with_credentials(id, credentials)
    }

    /// Returns the token of the next call.
    async fn bearer(&mut self) -> String {
        let mut stream = self.server.fake.stream().await;
        let header = stream.headers.get("authorization").expect("the call is authorized");
        let header = header.to_str().unwrap().to_owned();
        stream.request().await;
        stream.close(Status::unavailable("come again"));
        header
    }
}

#[tokio::test]
async fn every_call_carries_the_current_token_of_the_file() {
    println!("covers: B42");
    let mut stage = Stage::new().await;
    let (first, second) = (token(3_600, "first"), token(3_600, "second"));
    stage.directory.write("token", &format!("{first}\n"));
    stage.credentials.check().await.expect("the file is right");
    let client = client::connect(stage.config(), stage.options());
    let _watch = client.watch_untyped(CLUSTER, "a");
    assert_eq!(stage.bearer().await, format!("Bearer {first}"));
    stage.directory.write("token", &second);
    // A call may be in progress.
    while stage.bearer().await != format!("Bearer {second}") {}
    // A missing, invalid or expired token does not replace a valid one.
    for bad in [None, Some("no token".to_owned()), Some(token(-5, "old"))] {
        match &bad {
            Some(text) => drop(stage.directory.write("token", text)),
            None => std::fs::remove_file(stage.directory.path("token")).unwrap(),
        }
        assert_eq!(stage.bearer().await, format!("Bearer {second}"));
        assert_eq!(stage.bearer().await, format!("Bearer {second}"));
    }
}

#[tokio::test]
async fn call_fails_without_a_valid_token_and_does_not_show_it() {
    println!("covers: B42");
    let stage = Stage::new().await;
    let path = stage.directory.path("token").to_string_lossy().into_owned();
    for (content, code, words) in [
        (None, 14, "cannot read"),
        (Some("secret".to_owned()), 16, "not a JWT"),
        (Some(token(-5, "secret")), 16, "expired"),
        // Within the margin of 30 s.
        (Some(token(20, "secret")), 16, "expired"),
    ] {
        if let Some(content) = &content {
            stage.directory.write("token", content);
        }
        let client = client::connect(stage.config(), stage.options());
        let error = no_value(&mut client.watch_untyped(CLUSTER, "a")).await;
        let WatchErrorKind::Unavailable(ChannelError::Status { code: found, message }) =
            error.kind()
        else {
            panic!("unexpected {error}");
        };
        assert_eq!(found.as_i32(), code, "{message}");
        assert!(message.contains(words) && message.contains(&path), "{message}");
        let printed = format!("{message} {:?} {:?}", stage.credentials, stage.options());
        assert!(content.is_none_or(|content| !printed.contains(&content)), "{printed}");
        client.shut_down();
        soon(client.ended()).await;
    }
}

#[cfg(unix)]
#[tokio::test]
async fn pipe_is_rejected_as_a_token_file() {
    println!("covers: B42");
    let directory = Directory::new();
    let path = directory.path("token");
    // Nothing writes to the pipe, so opening it would block forever.
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let calls = CallCredentials::JwtTokenFile(path);
    let ca = directory.write("ca.pem", &Ca::new("ours").pem);
    let files = TlsFiles::default().with_ca_certificate(ca);
    let credentials = Credentials::tls(files).with_call_credentials(&calls);
    let why = soon(credentials.check()).await.expect_err("it cannot be read");
    assert!(why.to_string().contains("not a regular file"), "{why}");
}

#[tokio::test]
async fn token_is_sent_only_over_tls() {
    println!("covers: B42");
    let directory = Directory::new();
    let path = directory.write("token", &token(3_600, "secret"));
    let server = FakeServer::start().await;
    let credentials =
        Credentials::insecure().with_call_credentials(&CallCredentials::JwtTokenFile(path));
    let why = credentials.check().await.expect_err("it would be sent in the clear");
    assert!(why.to_string().contains("only be sent over TLS"), "{why}");
    let unstated = Credentials::default()
        .with_call_credentials(&CallCredentials::JwtTokenFile(directory.path("token")));
    unstated.check().await.expect("the address may be one of TLS");
    unstated.check_for("h:1").await.expect_err("but is not");
    let id = TransportId::default();
    let options = ClientOptions::default().with_credentials(id, credentials);
    let client = client::connect(config(server.address), options);
    let error = no_value(&mut client.watch_untyped(CLUSTER, "a")).await;
    assert!(error.to_string().contains("only be sent over TLS"), "{error}");
}

#[tokio::test]
async fn authorization_metadata_is_sent_only_over_tls() {
    println!("covers: B18 B42");
    let server = FakeServer::start().await;
    let id = TransportId::default();
    let service = Service::new(server.address.to_string(), Credentials::insecure())
        .with_metadata(AUTHORIZATION, HeaderValue::from_static("Basic c2VjcmV0"));
    let options = ClientOptions::default().with_services(id, [service]);
    let client = client::connect(config(server.address), options);
    let error = no_value(&mut client.watch_untyped(CLUSTER, "a")).await;
    assert!(error.to_string().contains("only be sent over TLS"), "{error}");
}
