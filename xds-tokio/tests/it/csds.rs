//! Client status discovery over real connections: an xDS client of a scripted server, and a CSDS
//! client.

use core::time::Duration;
use std::{net::SocketAddr, time::SystemTime};

use crate::support::{
    CLUSTER, ENDPOINTS, FakeServer, RawClient, SECRET, config, connect, resource, soon, value,
};
use prost::Message as _;
use tokio::{net::TcpListener, task::JoinHandle};
use tonic::{
    Code, Status,
    transport::{Server, server::TcpIncoming},
};
use tower_service::Service as _;
use xds_core::proto::{
    ClientResourceStatus, ClientStatusRequest, ClientStatusResponse, NodeMatcher,
};
use xds_tokio::{ClientOptions, client, csds::CsdsService};

const FETCH: &str = "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus";
const STREAM: &str = "/envoy.service.status.v3.ClientStatusDiscoveryService/StreamClientStatus";

/// The service on a separate port.
struct Admin {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Admin {
    async fn start(service: &CsdsService) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = Server::builder()
            .add_service(service.clone())
            .serve_with_incoming(TcpIncoming::from(listener));
        Self { address, task: tokio::spawn(async { serving.await.unwrap() }) }
    }

    async fn fetch(&self, request: &ClientStatusRequest) -> Result<ClientStatusResponse, Status> {
        let mut call = RawClient::ask(self.address, FETCH, request.encode_to_vec()).await?;
        let answer = ClientStatusResponse::decode(call.message().await).unwrap();
        assert_eq!(call.end().await.code(), Code::Ok);
        Ok(answer)
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn any_question() -> ClientStatusRequest {
    ClientStatusRequest::default()
}

fn options() -> ClientOptions {
    ClientOptions::default().with_seed(7)
}

#[tokio::test]
async fn csds_stream_reports_the_current_state_for_each_request() {
    println!("covers: CM-01 CM-02 CM-06 B31");
    let mut server = FakeServer::start().await;
    let client = client::connect(config(server.address), options());
    let service = CsdsService::new();
    service.register("xds:///a", &client);
    let admin = Admin::start(&service).await;
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut stream = server.stream().await;
    stream.request().await;

    let mut questions = RawClient::call(admin.address, STREAM).await.unwrap();
    let ask = any_question().encode_to_vec();
    questions.send(ask.clone());
    let answer = ClientStatusResponse::decode(questions.message().await).unwrap();
    let [told] = &answer.config[..] else { panic!("one client is registered") };
    assert_eq!(told.client_scope, "xds:///a");
    let node = told.node.as_ref().expect("who the client is");
    assert_eq!((node.id.as_str(), node.user_agent_name.as_str()), ("node-1", "xds-core"));
    let [a] = &told.generic_xds_configs[..] else { panic!("one resource is watched") };
    assert_eq!((a.type_url.as_str(), a.name.as_str()), (CLUSTER, "a"));
    assert_eq!(a.client_status(), ClientResourceStatus::Requested);
    assert_eq!((&a.xds_config, &a.error_state, a.last_updated), (&None, &None, None));

    stream.respond(CLUSTER, "1", "n1", &[("a", "one"), ("stranger", "not watched")]);
    value(&mut watch).await;
    watch.handled();
    stream.request().await;
    stream.respond(CLUSTER, "2", "n2", &[("a", "bad")]);
    stream.request().await;
    questions.send(ask);
    let answer = ClientStatusResponse::decode(questions.message().await).unwrap();
    let [a] = &answer.config[0].generic_xds_configs[..] else { panic!("one is watched") };
    assert_eq!(a.client_status(), ClientResourceStatus::Nacked);
    assert_eq!(a.version_info, "1");
    assert_eq!(a.xds_config.as_ref().map(|any| &any.value), Some(&resource("a", "one")));
    let updated = a.last_updated.expect("it was received");
    let updated = SystemTime::UNIX_EPOCH + Duration::from_secs(updated.seconds.unsigned_abs());
    assert!(updated.elapsed().is_ok_and(|since| since < Duration::from_secs(600)));
    let failed = a.error_state.as_ref().expect("the newest is bad");
    assert_eq!(failed.version_info, "2");
    assert!(failed.details.contains("it is bad"), "{}", failed.details);
    assert!(failed.last_update_attempt.is_some());
    let rejected = failed.failed_configuration.as_ref().map(|any| &any.value);
    assert_eq!(rejected, Some(&resource("a", "bad")));

    questions.half_close();
    assert_eq!(questions.end().await.code(), Code::Ok, "the stream ends with the questions");
}

#[tokio::test]
async fn csds_fetch_reports_all_clients_in_order() {
    println!("covers: CM-05 CM-08 CM-09 B31");
    let service = CsdsService::new();
    let admin = Admin::start(&service).await;
    let nobody = admin.fetch(&any_question()).await.unwrap();
    assert_eq!(nobody.config, [], "no client, an empty answer");

    let server = FakeServer::start().await;
    let first = client::connect(config(server.address), options());
    let second = client::connect(config(server.address), options());
    service.register("xds:///first", &first);
    service.register("#server", &second);
    let _watches = (first.watch_untyped(CLUSTER, "a"), second.watch_untyped(ENDPOINTS, "b"));
    let answer = admin.fetch(&any_question()).await.unwrap();
    let told: Vec<_> = answer
        .config
        .iter()
        .map(|config| {
            let names = config.generic_xds_configs.iter().map(|config| config.name.as_str());
            (config.client_scope.as_str(), names.collect::<Vec<_>>())
        })
        .collect();
    assert_eq!(told, [("xds:///first", vec!["a"]), ("#server", vec!["b"])]);

    first.shut_down();
    soon(first.ended()).await;
    let answer = admin.fetch(&any_question()).await.unwrap();
    let scopes: Vec<_> = answer.config.iter().map(|config| &*config.client_scope).collect();
    assert_eq!(scopes, ["#server"], "a client that has ended is not told of");
}

#[tokio::test]
async fn csds_registration_does_not_keep_a_client_alive() {
    let server = FakeServer::start().await;
    let (client, driver) = client::driver(config(server.address), options());
    let driver = tokio::spawn(driver);
    let service = CsdsService::new();
    service.register("xds:///a", &client);
    drop(client);
    soon(driver).await.unwrap();
}

#[tokio::test]
async fn csds_omits_contents_on_request_and_secrets_by_default() {
    println!("covers: CM-06 B31");
    let mut server = FakeServer::start().await;
    let client = client::connect(config(server.address), options());
    let mut watch = client.watch_untyped(SECRET, "key");
    let mut stream = server.stream().await;
    stream.request().await;
    stream.respond(SECRET, "1", "n1", &[("key", "hush")]);
    value(&mut watch).await;

    let discreet = CsdsService::new();
    let frank = CsdsService::new().with_secrets();
    let bare = ClientStatusRequest { exclude_resource_contents: true, ..any_question() };
    for (service, question, is_told) in
        [(&discreet, any_question(), false), (&frank, any_question(), true), (&frank, bare, false)]
    {
        service.register("xds:///key", &client);
        let answer = Admin::start(service).await.fetch(&question).await.unwrap();
        let [key] = &answer.config[0].generic_xds_configs[..] else { panic!("one is watched") };
        assert_eq!((key.version_info.as_str(), key.xds_config.is_some()), ("1", is_told));
        assert_eq!(key.client_status(), ClientResourceStatus::Acked);
    }
}

#[tokio::test]
async fn invalid_csds_request_is_rejected() {
    println!("covers: CM-07 CM-08 B31");
    let admin = Admin::start(&CsdsService::new()).await;
    let matched = ClientStatusRequest {
        node_matchers: vec![NodeMatcher::default()],
        ..ClientStatusRequest::default()
    };
    for path in [FETCH, STREAM] {
        for question in [matched.encode_to_vec(), vec![0xff]] {
            let refusal = match RawClient::ask(admin.address, path, question).await {
                Ok(mut call) => call.end().await,
                Err(refusal) => refusal,
            };
            assert_eq!(refusal.code(), Code::InvalidArgument, "{path}: {refusal}");
        }
    }
    let path = "/envoy.service.status.v3.ClientStatusDiscoveryService/Other";
    let refusal = RawClient::call_on(connect(admin.address).await, path).await.err();
    assert_eq!(refusal.map(|status| status.code()), Some(Code::Unimplemented));
}

/// The clock is paused and advances only when all tasks are idle.
#[tokio::test(start_paused = true)]
async fn csds_fetch_fails_if_the_driver_of_a_client_is_not_polled() {
    let (client, _driver) = client::driver(config(([127, 0, 0, 1], 1).into()), options());
    let mut service = CsdsService::new();
    service.register("xds:///stuck", &client);
    // One empty message is a valid request.
    let question = http_body_util::Full::new(bytes::Bytes::from_static(&[0; 5]));
    let answer = service.call(http::Request::post(FETCH).body(question).unwrap()).await.unwrap();
    let refusal = Status::from_header_map(answer.headers()).expect("it is refused");
    assert_eq!(refusal.code(), Code::Aborted);
    assert!(refusal.message().contains("xds:///stuck"), "{refusal}");
    println!("covers: CM-08");
}
