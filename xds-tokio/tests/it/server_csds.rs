//! Client status discovery of a management server, over real connections.

use core::time::Duration;
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::support::{CLUSTER, RawClient, SECRET, give_way, resource, server::set, soon};
use prost::Message as _;
use tokio::net::TcpListener;
use tonic::{Code, Status};
use xds_core::{
    proto::{
        ClientStatusRequest, ClientStatusResponse, ConfigStatus, NodeMatcher, StringMatcher,
        envoy::r#type::matcher::v3::{RegexMatcher, StructMatcher, string_matcher::MatchPattern},
    },
    server::{ServerConfig, StatusCode, Transaction},
};
use xds_tokio::{
    ManagementServer, ServerHandle, ServerOptions,
    csds::{CsdsCaller, CsdsDecision, ServerCsdsService, VisibleClients},
    server::{AuthorizationDecision, AuthorizationRequest, Denied},
};

const FETCH: &str = "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus";
const STREAM: &str = "/envoy.service.status.v3.ClientStatusDiscoveryService/StreamClientStatus";

async fn start(options: ServerOptions, readers: Readers) -> (ServerHandle, SocketAddr) {
    let server = ManagementServer::start(ServerConfig::default(), options);
    let handle = server.handle();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = server.routes().add_service(readers(ServerCsdsService::new(handle.clone())));
    tokio::spawn(server.serve_routes(listener, routes));
    (handle, address)
}

/// Configures who may read.
type Readers = fn(ServerCsdsService) -> ServerCsdsService;

async fn fetch(
    address: SocketAddr,
    request: &ClientStatusRequest,
) -> Result<ClientStatusResponse, Status> {
    let mut call = RawClient::ask(address, FETCH, request.encode_to_vec()).await?;
    Ok(ClientStatusResponse::decode(call.message().await).unwrap())
}

/// Returns a request for nodes whose id matches a pattern.
fn about(pattern: MatchPattern) -> ClientStatusRequest {
    let node_id = Some(StringMatcher { match_pattern: Some(pattern), ..Default::default() });
    ClientStatusRequest {
        node_matchers: vec![NodeMatcher { node_id, ..Default::default() }],
        ..Default::default()
    }
}

#[tokio::test]
async fn first_status_request_has_to_arrive_in_time() {
    let timeout = Duration::from_millis(50);
    let options = ServerOptions::default().with_request_timeout(timeout);
    let (_server, address) = start(options, ServerCsdsService::with_unrestricted_access).await;
    let Err(why) = RawClient::call(address, FETCH).await else { panic!("no request was sent") };
    assert_eq!(why.code(), Code::ResourceExhausted, "{why}");
    let mut idle = RawClient::call(address, STREAM).await.unwrap();
    assert_eq!(idle.end().await.code(), Code::ResourceExhausted);

    let mut stream = RawClient::call(address, STREAM).await.unwrap();
    for _ in 0..2 {
        stream.send(ClientStatusRequest::default().encode_to_vec());
        assert_eq!(ClientStatusResponse::decode(stream.message().await).unwrap().config, []);
        // Between its requests, a stream may be idle.
        tokio::time::sleep(2 * timeout).await;
    }
}

#[tokio::test]
async fn csds_reports_sent_and_acked_versions_of_clients() {
    let everybody = ServerCsdsService::with_unrestricted_access;
    let (handle, address) = start(ServerOptions::default(), everybody).await;
    handle.apply(set(&[(CLUSTER, "a", "1"), (SECRET, "s", "hush")])).await.unwrap();
    assert!(fetch(address, &ClientStatusRequest::default()).await.unwrap().config.is_empty());
    let mut client = RawClient::open(address).await;
    client.subscribe(CLUSTER, &["a"]);
    let clusters = client.response().await;
    client.answer(&clusters, &["a"], None);
    client.subscribe(SECRET, &["s", "missing"]);
    let secrets = client.response().await;
    client.answer(&secrets, &["s", "missing"], Some("no good"));
    soon(async {
        while handle.stats().await.unwrap().nacks == 0 {
            give_way().await;
        }
    })
    .await;

    let mut questions = RawClient::call(address, STREAM).await.unwrap();
    for _ in 0..2 {
        questions.send(ClientStatusRequest::default().encode_to_vec());
        let answer = ClientStatusResponse::decode(questions.message().await).unwrap();
        let [told] = &answer.config[..] else { panic!("one client is there: {answer:?}") };
        assert_eq!(told.node.as_ref().unwrap().id, "raw");
        let of = |name: &str| {
            let mut all = told.generic_xds_configs.iter();
            all.find(|config| config.name == name).unwrap_or_else(|| panic!("no {name}"))
        };
        assert_eq!(of("a").config_status(), ConfigStatus::Synced);
        assert_eq!(of("a").xds_config.as_ref().map(|it| &*it.type_url), Some(CLUSTER));
        assert_eq!(of("s").config_status(), ConfigStatus::Error);
        assert_eq!(of("s").error_state.as_ref().unwrap().details, "no good");
        assert_eq!(of("s").xds_config, None, "it is a secret");
        assert_eq!(of("missing").config_status(), ConfigStatus::NotSent);
    }

    let bare = ClientStatusRequest { exclude_resource_contents: true, ..Default::default() };
    let told = fetch(address, &bare).await.unwrap();
    assert!(told.config[0].generic_xds_configs.iter().all(|config| config.xds_config.is_none()));
    for (pattern, count) in [
        (MatchPattern::Exact("raw".into()), 1),
        (MatchPattern::Exact("RAW".into()), 0),
        (MatchPattern::Prefix("r".into()), 1),
        (MatchPattern::Suffix("aw".into()), 1),
        (MatchPattern::Contains("x".into()), 0),
    ] {
        let told = fetch(address, &about(pattern.clone())).await.unwrap();
        assert_eq!(told.config.len(), count, "{pattern:?}");
    }
    let mut any_case = about(MatchPattern::Exact("RAW".into()));
    any_case.node_matchers[0].node_id.as_mut().unwrap().ignore_case = true;
    assert_eq!(fetch(address, &any_case).await.unwrap().config.len(), 1);

    let regex = about(MatchPattern::SafeRegex(RegexMatcher::default()));
    let metadata = ClientStatusRequest {
        node_matchers: vec![NodeMatcher {
            node_metadatas: vec![StructMatcher::default()],
            ..Default::default()
        }],
        ..Default::default()
    };
    for question in [regex, metadata] {
        let why = fetch(address, &question).await.unwrap_err();
        assert_eq!(why.code(), Code::InvalidArgument, "{why}");
        assert!(why.message().contains("node_"), "{why}");
    }
    soon(handle.shut_down()).await;
    println!("covers: M234");
}

/// Assigns each node to the view of its team, the first word of its id.
async fn by_team(client: AuthorizationRequest) -> AuthorizationDecision {
    let team = client.node_id.split('-').next().unwrap_or_default();
    Ok(team.into())
}

/// Authorizes readers by their token.
async fn by_token(reader: CsdsCaller) -> CsdsDecision {
    assert!(reader.peer.address.is_some_and(|address| address.ip().is_loopback()));
    let token = reader.metadata.get("authorization").and_then(|token| token.to_str().ok());
    match token {
        Some("operator") => Ok(VisibleClients::All),
        Some("red") => Ok(VisibleClients::views(["red"])),
        Some("first") => Ok(VisibleClients::matching(|client| {
            client.node_id.ends_with("-1") && client.view.is_some()
        })),
        Some("broken") => panic!("a bug of the application"),
        Some(_) => Err(Denied::new(StatusCode::PermissionDenied, "nothing for you")),
        None => Err(Denied::new(StatusCode::Unauthenticated, "who are you?")),
    }
}

/// Returns the ids of the nodes that a reader receives.
async fn visible_nodes(address: SocketAddr, token: &'static str) -> Result<Vec<String>, Status> {
    visible_nodes_for(address, token, &ClientStatusRequest::default()).await
}

async fn visible_nodes_for(
    address: SocketAddr,
    token: &'static str,
    question: &ClientStatusRequest,
) -> Result<Vec<String>, Status> {
    let mut call = RawClient::call_as(address, STREAM, token).await?;
    call.send(question.encode_to_vec());
    let answer = ClientStatusResponse::decode(call.message_or_end().await?).unwrap();
    let mut nodes: Vec<_> =
        answer.config.into_iter().map(|config| config.node.unwrap().id).collect();
    nodes.sort_unstable();
    Ok(nodes)
}

#[tokio::test]
async fn csds_authorizer_restricts_the_visible_clients() {
    let options = ServerOptions::default().with_authorizer(by_team);
    let (handle, address) = start(options, |it| it.with_authorizer(by_token)).await;
    let mut clients = Vec::new();
    for node in ["red-1", "red-2", "blue-1"] {
        let mut change = Transaction::in_view(node.split('-').next().unwrap_or_default());
        change.set(CLUSTER, "a", resource("a", "1"));
        handle.apply(change).await.unwrap();
        let mut client = RawClient::open(address).await;
        client.subscribe_as(node, CLUSTER, &["a"]);
        client.response().await;
        clients.push(client);
    }
    assert_eq!(visible_nodes(address, "operator").await.unwrap(), ["blue-1", "red-1", "red-2"]);
    assert_eq!(visible_nodes(address, "red").await.unwrap(), ["red-1", "red-2"]);
    assert_eq!(visible_nodes(address, "first").await.unwrap(), ["blue-1", "red-1"]);
    // A reader cannot find out whether an inaccessible node exists.
    let blue = about(MatchPattern::Exact("blue-1".into()));
    assert_eq!(visible_nodes_for(address, "red", &blue).await.unwrap(), [""; 0]);
    let none = about(MatchPattern::Exact("blue-7".into()));
    assert_eq!(visible_nodes_for(address, "red", &none).await.unwrap(), [""; 0]);
    let refused = visible_nodes(address, "stranger").await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::PermissionDenied, "nothing for you"));
    let refused = fetch(address, &ClientStatusRequest::default()).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::Unauthenticated, "who are you?"));
    assert_eq!(visible_nodes(address, "broken").await.unwrap_err().code(), Code::Internal);
    assert_eq!(visible_nodes(address, "red").await.unwrap().len(), 2, "it goes on");
    soon(handle.shut_down()).await;
    println!("covers: M235");
}

/// Each matcher is compared with all clients, and an incomplete request is kept in memory.
#[tokio::test]
async fn large_csds_requests_are_refused() {
    let (handle, address) =
        start(ServerOptions::default(), |it| it.with_unrestricted_access()).await;
    let of = |count| ClientStatusRequest {
        node_matchers: vec![
            about(MatchPattern::Exact("red".into())).node_matchers[0].clone();
            count
        ],
        ..Default::default()
    };
    fetch(address, &of(64)).await.unwrap();
    let refused = fetch(address, &of(65)).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert_eq!(refused.message(), "node_matchers: 65, and at most 64 are allowed");
    let long = about(MatchPattern::Exact("x".repeat(64 << 10)));
    assert_eq!(fetch(address, &long).await.unwrap_err().code(), Code::ResourceExhausted);
    soon(handle.shut_down()).await;
    println!("covers: M235");
}

#[tokio::test]
async fn incomplete_csds_requests_count_for_the_budgets_of_the_server() {
    let options = ServerOptions::default().with_max_incomplete_bytes(4 << 10, 64 << 10);
    let (handle, address) = start(options, |it| it.with_unrestricted_access()).await;
    let of = |length| about(MatchPattern::Exact("x".repeat(length)));
    let refused = fetch(address, &of(40 << 10)).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(refused.message(), "the incomplete requests of the connection exceed 4096 bytes");
    // A complete request counts no more.
    let mut questions = RawClient::call(address, STREAM).await.unwrap();
    for _ in 0..4 {
        questions.send(of(3 << 10).encode_to_vec());
        ClientStatusResponse::decode(questions.message().await).unwrap();
    }
    soon(handle.shut_down()).await;
    println!("covers: M235");
}

/// A listener may have a private key too.
#[tokio::test]
async fn csds_omits_contents_that_a_check_finds_secret() {
    let readers: Readers = |it| {
        let is_secret =
            |type_url: &str, bytes: &[u8]| type_url == CLUSTER && *bytes == *resource("a", "key");
        it.with_unrestricted_access().with_secret_check(is_secret)
    };
    let (handle, address) = start(ServerOptions::default(), readers).await;
    handle.apply(set(&[(CLUSTER, "a", "key"), (CLUSTER, "b", "public")])).await.unwrap();
    let mut client = RawClient::open(address).await;
    client.subscribe(CLUSTER, &["a", "b"]);
    client.response().await;
    let status = fetch(address, &ClientStatusRequest::default()).await.unwrap();
    let mut shown: Vec<_> = status.config[0]
        .generic_xds_configs
        .iter()
        .map(|it| (it.name.as_str(), it.xds_config.is_some()))
        .collect();
    shown.sort();
    assert_eq!(shown, [("a", false), ("b", true)]);
    soon(handle.shut_down()).await;
}

/// The decision about a call applies to all its requests.
#[tokio::test]
async fn csds_authorizer_is_asked_once_per_call() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let once = move |_: CsdsCaller| {
        let before = counted.fetch_add(1, Ordering::Relaxed);
        let denied = Denied::new(StatusCode::PermissionDenied, "not again");
        async move { if before == 0 { Ok(VisibleClients::All) } else { Err(denied) } }
    };
    let server = ManagementServer::start(ServerConfig::default(), ServerOptions::default());
    let handle = server.handle();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = ServerCsdsService::new(handle.clone()).with_authorizer(once);
    tokio::spawn(server.serve_routes(listener, server.routes().add_service(service)));
    let mut questions = RawClient::call(address, STREAM).await.unwrap();
    for _ in 0..3 {
        questions.send(ClientStatusRequest::default().encode_to_vec());
        questions.message().await;
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    let refused = fetch(address, &ClientStatusRequest::default()).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::PermissionDenied, "not again"));
    soon(handle.shut_down()).await;
    println!("covers: M235");
}

/// Without an authorizer all calls are rejected.
#[tokio::test]
async fn csds_is_denied_without_an_authorizer() {
    let (handle, address) = start(ServerOptions::default(), |it| it).await;
    let refused = fetch(address, &ClientStatusRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert_eq!(
        visible_nodes(address, "operator").await.unwrap_err().code(),
        Code::PermissionDenied
    );
    soon(handle.shut_down()).await;
    println!("covers: M235");
}
