//! Client status discovery as a management server answers it, over real connections.

mod support;

use std::net::SocketAddr;

use prost::Message as _;
use support::{CLUSTER, RawClient, SECRET, give_way, server::set, soon};
use tokio::net::TcpListener;
use tonic::{Code, Status};
use xds_core::{
    proto::{
        ClientStatusRequest, ClientStatusResponse, ConfigStatus, NodeMatcher, StringMatcher,
        envoy::r#type::matcher::v3::{RegexMatcher, StructMatcher, string_matcher::MatchPattern},
    },
    server::ServerConfig,
};
use xds_tokio::{ManagementServer, ServerHandle, ServerOptions, csds::ServerCsdsService};

const FETCH: &str = "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus";
const STREAM: &str = "/envoy.service.status.v3.ClientStatusDiscoveryService/StreamClientStatus";

async fn start() -> (ServerHandle, SocketAddr) {
    let server = ManagementServer::start(ServerConfig::default(), ServerOptions::default());
    let handle = server.handle();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = server.routes().add_service(ServerCsdsService::new(handle.clone()));
    tokio::spawn(server.serve_routes(listener, routes));
    (handle, address)
}

async fn fetch(
    address: SocketAddr,
    request: &ClientStatusRequest,
) -> Result<ClientStatusResponse, Status> {
    let mut call = RawClient::ask(address, FETCH, request.encode_to_vec()).await?;
    Ok(ClientStatusResponse::decode(call.message().await).unwrap())
}

/// A question about nodes whose id is as the pattern says.
fn about(pattern: MatchPattern) -> ClientStatusRequest {
    let node_id = Some(StringMatcher { match_pattern: Some(pattern), ..Default::default() });
    ClientStatusRequest {
        node_matchers: vec![NodeMatcher { node_id, ..Default::default() }],
        ..Default::default()
    }
}

#[tokio::test]
async fn a_server_tells_what_its_clients_have_been_sent_and_accepted() {
    let (handle, address) = start().await;
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
