//! Tests the adapter over gRPC: a client gets the resources that the suite sets.

#[path = "../../harness/adapter.rs"]
mod adapter;
mod service;

use core::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use std::net::SocketAddr;

use bytes::Bytes;
use futures_core::Stream;
use prost::Message;
use tokio::{net::TcpListener, sync::mpsc, time::timeout};
use tonic::{
    Code, Request, Status, Streaming,
    client::Grpc,
    transport::{Channel, Endpoint},
};
use xds_core::{
    proto::{
        Any, DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
        Node,
    },
    types,
};
use xds_tokio::RawCodec;

use self::adapter::{ResourceRequest, SetStateRequest};

const STREAM: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
const DELTA: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";

/// Requests of a stream.
struct Queue(mpsc::UnboundedReceiver<Bytes>);

impl Stream for Queue {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.0.poll_recv(cx)
    }
}

async fn connect(address: SocketAddr) -> Grpc<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let mut grpc = Grpc::new(endpoint.connect().await.unwrap());
    grpc.ready().await.unwrap();
    grpc
}

async fn call(
    suite: &mut Grpc<Channel>,
    method: &'static str,
    request: impl Message,
) -> Result<Bytes, Status> {
    suite.ready().await.unwrap();
    let path = http::uri::PathAndQuery::from_static(method);
    let request = Request::new(Bytes::from(request.encode_to_vec()));
    Ok(suite.unary(request, path, RawCodec).await?.into_inner())
}

fn cluster(name: &str, version: &str) -> ResourceRequest {
    ResourceRequest {
        node: "suite".into(),
        type_url: types::CLUSTER.into(),
        resource_name: name.into(),
        version: version.into(),
    }
}

/// Returns the next response, which must have this version, and the names of its resources.
async fn names(
    responses: &mut Streaming<Bytes>,
    version: &str,
) -> (DiscoveryResponse, Vec<String>) {
    let response = timeout(Duration::from_secs(20), responses.message()).await.unwrap().unwrap();
    let response = DiscoveryResponse::decode(response.expect("an open stream")).unwrap();
    assert_eq!(response.version_info, version);
    let mut names: Vec<_> =
        response.resources.iter().filter_map(|any| adapter::name_of(&any.value)).collect();
    names.sort_unstable();
    (response, names)
}

#[tokio::test]
async fn client_receives_what_the_test_suite_configures() {
    let sockets = [
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
    ];
    let [adapter, listener] = &sockets;
    let (at, serving) = (adapter.local_addr().unwrap(), listener.local_addr().unwrap());
    let [adapter, listener] = sockets;
    let serve = async {
        service::serve(adapter, listener).await.unwrap();
    };
    tokio::select! {
        () = serve => panic!("it ended"),
        () = play(at, serving) => {}
    }
    println!("covers: B62");
}

async fn play(at: SocketAddr, serving: SocketAddr) {
    let mut suite = connect(at).await;
    let any = |name| Any {
        type_url: types::CLUSTER.into(),
        value: adapter::body(types::CLUSTER, name, "1").into(),
    };
    let state = SetStateRequest {
        node: "suite".into(),
        version: "1".into(),
        resources: vec![any("a"), any("b"), any("a")],
    };
    let done = call(&mut suite, "/adapter.Adapter/SetState", state).await.unwrap();
    assert_eq!(&done[..], [8, 1], "success");

    let mut client = connect(serving).await;
    let (requests, queue) = mpsc::unbounded_channel::<Bytes>();
    let ask = |nonce: &str, version: &str| {
        let request = DiscoveryRequest {
            node: Some(Node { id: "suite".into(), ..Node::default() }),
            type_url: types::CLUSTER.into(),
            response_nonce: nonce.into(),
            version_info: version.into(),
            ..DiscoveryRequest::default()
        };
        requests.send(request.encode_to_vec().into()).unwrap();
    };
    ask("", "");
    let path = http::uri::PathAndQuery::from_static(STREAM);
    let stream = client.streaming(Request::new(Queue(queue)), path, RawCodec).await;
    let mut responses = stream.unwrap().into_inner();
    let (first, held) = names(&mut responses, "1").await;
    assert_eq!(held, ["a", "b"]);
    ask(&first.nonce, &first.version_info);

    // Under the existing version, as the suite does.
    call(&mut suite, "/adapter.Adapter/AddResource", cluster("c", "1")).await.unwrap();
    let (second, held) = names(&mut responses, "1").await;
    assert_eq!(held, ["a", "b", "c"]);
    ask(&second.nonce, &second.version_info);
    call(&mut suite, "/adapter.Adapter/UpdateResource", cluster("a", "2")).await.unwrap();
    let (third, held) = names(&mut responses, "2").await;
    assert_eq!(held, ["a", "b", "c"]);
    assert_ne!(third.resources, second.resources);
    ask(&third.nonce, &third.version_info);
    call(&mut suite, "/adapter.Adapter/RemoveResource", cluster("b", "")).await.unwrap();
    let (fourth, held) = names(&mut responses, "2").await;
    assert_eq!(held, ["a", "c"]);
    ask(&fourth.nonce, &fourth.version_info);

    incremental(serving).await;
    let node = ResourceRequest { node: "suite".into(), ..ResourceRequest::default() };
    call(&mut suite, "/adapter.Adapter/ClearState", node).await.unwrap();
    assert_eq!(names(&mut responses, "2").await.1, Vec::<String>::new());

    let unknown = call(&mut suite, "/adapter.Adapter/Reboot", cluster("a", "3")).await.unwrap_err();
    assert_eq!(unknown.code(), Code::Unimplemented);
    let nameless =
        call(&mut suite, "/adapter.Adapter/AddResource", cluster("", "3")).await.unwrap_err();
    assert_eq!(nameless.code(), Code::FailedPrecondition, "{nameless}");
}

/// Incremental responses contain the version of the response, which the suite checks, and the
/// version of each resource.
async fn incremental(serving: SocketAddr) {
    let mut client = connect(serving).await;
    let (requests, queue) = mpsc::unbounded_channel::<Bytes>();
    let request = DeltaDiscoveryRequest {
        node: Some(Node { id: "suite".into(), ..Node::default() }),
        type_url: types::CLUSTER.into(),
        resource_names_subscribe: vec!["a".into(), "c".into()],
        ..DeltaDiscoveryRequest::default()
    };
    requests.send(request.encode_to_vec().into()).unwrap();
    let path = http::uri::PathAndQuery::from_static(DELTA);
    let stream = client.streaming(Request::new(Queue(queue)), path, RawCodec).await;
    let mut responses = stream.unwrap().into_inner();
    let response = timeout(Duration::from_secs(20), responses.message()).await.unwrap().unwrap();
    let response = DeltaDiscoveryResponse::decode(response.expect("an open stream")).unwrap();
    assert_eq!(response.system_version_info, "2");
    let mut versions: Vec<_> =
        response.resources.iter().map(|it| (it.name.as_str(), it.version.as_str())).collect();
    versions.sort_unstable();
    assert_eq!(versions, [("a", "2"), ("c", "1")]);
}
