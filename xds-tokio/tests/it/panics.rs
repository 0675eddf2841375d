//! Panics in application code that a driver calls affect one operation, and neither the server nor
//! the client.

use core::fmt;
use std::sync::Arc;

use crate::support::{
    CLUSTER, ENDPOINTS, FakeServer, RawClient, config,
    log::Log,
    names, no_value,
    server::{set, start_with},
    soon, value,
};
use bytes::Bytes;
use prost::Message as _;
use tokio::net::TcpListener;
use xds_core::{
    Malformed, TypeUrl,
    client::{
        ClientConfig, Node, OpaqueType, Rejection, ResourceType, ServerAddress, ValidationContext,
        Value,
    },
    proto::{ClientStatusRequest, ClientStatusResponse},
    references::{Reference, ReferenceExtractor},
    server::{MakeBeforeBreakPolicy, OrderingPolicy, ServerConfig},
};
use xds_tokio::{
    ClientOptions, ManagementServer as Server, PayloadPrinter, ServerOptions, client,
    client::{Resolve, Resolving},
    csds::{CsdsCaller, ServerCsdsService, VisibleClients},
};

const FETCH: &str = "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus";

/// The application's predicate panics for some node ids, which clients choose.
#[tokio::test]
async fn panicking_csds_predicate_hides_the_client() {
    let server = Server::start(ServerConfig::default(), ServerOptions::default());
    let handle = server.handle();
    let second_word_is_a = |_: CsdsCaller| async {
        Ok(VisibleClients::matching(|client| client.node_id.split('-').nth(1).unwrap() == "a"))
    };
    let service = ServerCsdsService::new(handle.clone()).with_authorizer(second_word_is_a);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(server.serve_routes(listener, server.routes().add_service(service)));
    handle.apply(set(&[(CLUSTER, "c", "1")])).await.unwrap();
    let mut clients = Vec::new();
    for node in ["x", "team-a"] {
        let mut client = RawClient::open(address).await;
        client.subscribe_as(node, CLUSTER, &["c"]);
        client.response().await;
        clients.push(client);
    }
    for _ in 0..2 {
        let question = ClientStatusRequest::default().encode_to_vec();
        let mut answer = RawClient::ask(address, FETCH, question).await.unwrap();
        let told = ClientStatusResponse::decode(answer.message().await).unwrap().config;
        let nodes: Vec<_> = told.into_iter().map(|it| it.node.unwrap().id).collect();
        assert_eq!(nodes, ["team-a"]);
    }
    handle.apply(set(&[(CLUSTER, "d", "1")])).await.unwrap();
    println!("covers: M235");
}

/// Reference extractor that panics.
#[derive(Debug)]
struct NoReferences;

impl ReferenceExtractor for NoReferences {
    fn references(
        &self,
        _: &str,
        _: &[u8],
        _: &mut dyn FnMut(Reference<'_>),
    ) -> Result<(), Malformed> {
        panic!("an extractor with a bug");
    }
}

#[tokio::test]
async fn panicking_reference_extractor_does_not_stop_the_server() {
    let mut gated = MakeBeforeBreakPolicy::default();
    gated.references = Some(Arc::new(NoReferences));
    let mut config = ServerConfig::default();
    config.ordering = OrderingPolicy::MakeBeforeBreak(gated);
    let running = start_with(config, ServerOptions::default()).await;
    let mut client = RawClient::open(running.address).await;
    client.subscribe(CLUSTER, &["c"]);
    running.handle.apply(set(&[(CLUSTER, "c", "1")])).await.unwrap();
    assert_eq!(names(&client.response().await), ["c"]);
}

/// Resource type that panics for some resources.
#[derive(Debug)]
struct Fragile(OpaqueType);

impl ResourceType for Fragile {
    fn type_url(&self) -> &TypeUrl {
        self.0.type_url()
    }

    fn name<'a>(&self, resource: &'a [u8]) -> Result<&'a str, Rejection> {
        assert!(!resource.windows(4).any(|word| word == b"anon"), "who is that?");
        self.0.name(resource)
    }

    fn validate(
        &self,
        resource: &Bytes,
        _: &ValidationContext<'_>,
    ) -> Result<Option<Value>, Rejection> {
        assert!(!resource.windows(3).any(|word| word == b"bad"), "it is bad");
        Ok(None)
    }
}

// AN-12: a panic of the type rejects the resource, and the NACK contains the reason.
#[tokio::test]
async fn resource_whose_type_panics_is_nacked() {
    let mut server = FakeServer::start().await;
    let to = ServerAddress::new(server.address.to_string());
    let config = ClientConfig::new(Node::new("n"), to).with_type(Fragile(OpaqueType::new(CLUSTER)));
    let client = client::connect(config, ClientOptions::default());
    let mut good = client.watch_untyped(CLUSTER, "good");
    let mut other = client.watch_untyped(CLUSTER, "other");
    let mut stream = server.stream().await;
    stream.request().await;
    let all = [("good", "fine"), ("other", "bad"), ("anon", "nobody")];
    stream.respond(CLUSTER, "1", "n1", &all);
    value(&mut good).await;
    let error = no_value(&mut other).await.to_string();
    assert!(error.contains("panicked: it is bad"), "{error}");
    let mut nack = stream.request().await;
    while nack.response_nonce.is_empty() {
        nack = stream.request().await;
    }
    let message = nack.error_detail.expect("it is a NACK").message;
    for words in ["panicked: it is bad", "panicked: who is that?"] {
        assert!(message.contains(words), "{message}");
    }
    println!("covers: AN-12");
}

/// Resolver that panics.
#[derive(Debug)]
struct PanickingResolver;

impl Resolve for PanickingResolver {
    fn resolve<'a>(&'a self, host: &'a str, _: u16) -> Resolving<'a> {
        match host {
            "now.example" => panic!("a resolver with a bug"),
            _ => Box::pin(async { panic!("a resolver with another one") }),
        }
    }
}

#[tokio::test]
async fn panicking_resolver_makes_the_server_unreachable() {
    for host in ["now.example:443", "later.example:443"] {
        let mut config = config(([127, 0, 0, 1], 1).into());
        config.servers = vec![ServerAddress::new(host)];
        let client =
            client::connect(config, ClientOptions::default().with_resolver(PanickingResolver));
        let error = no_value(&mut client.watch_untyped(CLUSTER, "a")).await.to_string();
        assert!(error.contains("panicked"), "{error}");
        client.stats().await.expect("the client lives");
    }
}

struct Torn;

impl PayloadPrinter for Torn {
    fn print(&self, _: &str, _: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("half")?;
        panic!("out of paper");
    }
}

#[tokio::test]
async fn panicking_payload_printer_affects_only_its_log_line() {
    let (log, _guard) = Log::start();
    let running =
        start_with(ServerConfig::default(), ServerOptions::default().with_payload_printer(Torn));
    let running = running.await;
    running.handle.apply(set(&[(ENDPOINTS, "a", "1")])).await.unwrap();
    let options = ClientOptions::default().with_payload_printer(Torn);
    let client = client::connect(config(running.address), options);
    let mut watch = client.watch_untyped(ENDPOINTS, "a");
    value(&mut watch).await;
    assert_eq!(log.lines(&["TRACE", "half(the printer panicked)"]).len(), 2, "{}", log.text());
    soon(running.handle.shut_down()).await;
}
