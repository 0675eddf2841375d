//! All methods of the discovery services, called by a scripted client.

use core::{
    convert::Infallible,
    task::{Context, Poll},
};
use std::sync::{Arc, Mutex};

use crate::support::{
    self, CLUSTER, DELTA_AGGREGATED, ENDPOINTS, RawClient, names,
    server::{Running, set, start, streams},
    soon,
};
use prost::Message as _;
use tokio::net::TcpListener;
use tonic::{Code, body::Body, transport::server::TcpIncoming};
use tower_service::Service;
use xds_core::{
    proto::{DiscoveryRequest, Node},
    server::ServerConfig,
    types,
};
use xds_tokio::{DiscoveryService, ManagementServer, ServerOptions};

/// Services of single types: type, service name, and common part of the method names.
const SERVICES: [(&str, &str, &str); 9] = [
    (types::CLUSTER, "cluster.v3.ClusterDiscoveryService", "Clusters"),
    (types::CLUSTER_LOAD_ASSIGNMENT, "endpoint.v3.EndpointDiscoveryService", "Endpoints"),
    (types::LISTENER, "listener.v3.ListenerDiscoveryService", "Listeners"),
    (types::ROUTE_CONFIGURATION, "route.v3.RouteDiscoveryService", "Routes"),
    (types::SCOPED_ROUTE_CONFIGURATION, "route.v3.ScopedRoutesDiscoveryService", "ScopedRoutes"),
    (types::VIRTUAL_HOST, "route.v3.VirtualHostDiscoveryService", "VirtualHosts"),
    (types::SECRET, "secret.v3.SecretDiscoveryService", "Secrets"),
    (types::EXTENSION_CONFIG, "extension.v3.ExtensionConfigDiscoveryService", "ExtensionConfigs"),
    (types::RUNTIME, "runtime.v3.RuntimeDiscoveryService", "Runtime"),
];

const STREAM_CLUSTERS: &str = "/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters";

fn path(service: &str, verb: &str, methods: &str) -> &'static str {
    format!("/envoy.service.{service}/{verb}{methods}").leak()
}

async fn unimplemented(running: &Running, path: &'static str) -> String {
    let Err(status) = RawClient::call(running.address, path).await else {
        panic!("{path} is served")
    };
    assert_eq!(status.code(), Code::Unimplemented, "{path}");
    status.message().to_owned()
}

#[tokio::test]
async fn per_type_service_carries_only_its_type() {
    let running = start().await;
    for (type_url, ..) in SERVICES {
        running.handle.apply(set(&[(type_url, "a", type_url)])).await.unwrap();
    }
    for (type_url, service, methods) in SERVICES {
        if type_url == types::VIRTUAL_HOST {
            unimplemented(&running, path(service, "Stream", methods)).await;
        } else {
            // The type URL may be omitted in requests.
            let stream = path(service, "Stream", methods);
            let mut client = RawClient::call(running.address, stream).await.unwrap();
            client.subscribe("", &["a"]);
            let response = client.response().await;
            assert_eq!(
                (response.type_url.as_str(), names(&response)),
                (type_url, vec!["a".into()])
            );
        }
        let delta = path(service, "Delta", methods);
        let mut client = RawClient::call(running.address, delta).await.unwrap();
        client.subscribe_delta("", &["a"]);
        let response = client.delta_response().await;
        assert_eq!((response.type_url.as_str(), response.resources.len()), (type_url, 1));
        assert_eq!(response.resources[0].name, "a");

        let mut client = RawClient::call(running.address, delta).await.unwrap();
        client.subscribe_delta("type.googleapis.com/some.Other", &["a"]);
        let status = client.end().await;
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().contains(type_url), "{status}");
    }
    println!(
        "covers: M6 M7 IS22 S0.039 S0.040 S0.041 S0.042 S0.043 S0.044 S0.045 S0.046 S0.047 S0.050 \
         S0.051"
    );
}

#[tokio::test]
async fn aggregated_service_carries_all_types_in_both_variants() {
    let running = start().await;
    running.handle.apply(set(&[(CLUSTER, "c", "1"), (ENDPOINTS, "e", "1")])).await.unwrap();
    let mut client = RawClient::open(running.address).await;
    client.subscribe(CLUSTER, &[]);
    assert_eq!(client.response().await.type_url, CLUSTER);
    client.subscribe(ENDPOINTS, &["e"]);
    assert_eq!(client.response().await.type_url, ENDPOINTS);

    let mut client = RawClient::call(running.address, DELTA_AGGREGATED).await.unwrap();
    client.subscribe_delta(CLUSTER, &["*"]);
    let clusters = client.delta_response().await;
    assert_eq!((clusters.type_url.as_str(), clusters.resources.len()), (CLUSTER, 1));
    client.ack_delta(&clusters);
    client.subscribe_delta(ENDPOINTS, &["e", "missing"]);
    let endpoints = client.delta_response().await;
    assert_eq!(
        (endpoints.resources.len(), &endpoints.removed_resources[..]),
        (1, &["missing".into()][..])
    );
    client.ack_delta(&endpoints);
    // An incremental response contains only the changed resource.
    running.handle.apply(set(&[(CLUSTER, "d", "1")])).await.unwrap();
    let change = client.delta_response().await;
    assert_eq!(change.resources.iter().map(|it| &*it.name).collect::<Vec<_>>(), ["d"]);

    for aggregated in [
        "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources",
        DELTA_AGGREGATED,
    ] {
        let mut client = RawClient::call(running.address, aggregated).await.unwrap();
        match aggregated {
            DELTA_AGGREGATED => client.subscribe_delta("", &["a"]),
            _ => client.subscribe("", &["a"]),
        }
        let status = client.end().await;
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().contains("type URL"), "{status}");
    }
    println!("covers: M5 M19 M127 S0.048 S0.049");
}

/// A v2 client is served the resources stored with v2 type URLs.
#[tokio::test]
async fn v2_service_serves_resources_with_v2_type_urls() {
    let running = start().await;
    let (older, current) = ("type.googleapis.com/envoy.api.v2.Cluster", types::CLUSTER);
    running.handle.apply(set(&[(older, "a", "2"), (current, "b", "3")])).await.unwrap();
    let path = "/envoy.api.v2.ClusterDiscoveryService/StreamClusters";
    let mut client = RawClient::call(running.address, path).await.expect("it is served");
    client.send(request(&[], ""));
    let response = client.response().await;
    assert_eq!((&*response.type_url, response.resources.len()), (older, 1));
    println!("covers: S4.014");
}

#[tokio::test]
async fn undefined_methods_are_unimplemented() {
    let running = start().await;
    for odd in [
        "/envoy.service.discovery.v3.AggregatedDiscoveryService/FetchAggregatedResources",
        "/envoy.service.route.v3.VirtualHostDiscoveryService/FetchVirtualHosts",
        "/envoy.service.route.v3.VirtualHostDiscoveryService/StreamVirtualHosts",
        "/envoy.service.cluster.v3.ClusterDiscoveryService/Stream",
        "/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters/more",
        "/envoy.api.v2.VirtualHostDiscoveryService/StreamVirtualHosts",
        "/envoy.api.v1.ClusterDiscoveryService/StreamClusters",
        "/",
    ] {
        unimplemented(&running, odd).await;
    }
}

fn request(names: &[&str], version: &str) -> Vec<u8> {
    let request = DiscoveryRequest {
        node: Some(Node { id: "raw".into(), ..Node::default() }),
        resource_names: names.iter().map(|&name| name.into()).collect(),
        version_info: version.into(),
        ..DiscoveryRequest::default()
    };
    request.encode_to_vec()
}

// M196: one request and one response, for every type that has the method.
#[tokio::test]
async fn fetch_returns_one_response_with_status_ok() {
    let running = start().await;
    for (type_url, service, methods) in SERVICES {
        if type_url == types::VIRTUAL_HOST {
            continue;
        }
        running.handle.apply(set(&[(type_url, "a", type_url)])).await.unwrap();
        let fetch = path(service, "Fetch", methods);
        let mut client = RawClient::ask(running.address, fetch, request(&["a"], "")).await.unwrap();
        let response = client.response().await;
        assert_eq!((response.type_url.as_str(), names(&response)), (type_url, vec!["a".into()]));
        assert_eq!(client.end().await.code(), Code::Ok);
    }
    streams(&running.handle, 0).await;
    println!("covers: M196 S0.047");
}

/// A fetch without a request, or with an invalid one, is rejected immediately.
#[tokio::test]
async fn invalid_fetch_is_rejected() {
    let running = start().await;
    let fetch = "/envoy.service.cluster.v3.ClusterDiscoveryService/FetchClusters";
    let mut silent = RawClient::call(running.address, fetch).await.unwrap();
    silent.half_close();
    let status = silent.end().await;
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert!(status.message().contains("without a request"), "{status}");
    let mut garbage = RawClient::ask(running.address, fetch, &b"\xff\xff"[..]).await.unwrap();
    assert_eq!(garbage.end().await.code(), Code::InvalidArgument);
    streams(&running.handle, 0).await;
}

// M196: a fetch waits for a missing resource or a newer version.
#[tokio::test]
async fn fetch_waits_for_a_missing_resource_or_newer_version() {
    let running = start().await;
    let fetch = "/envoy.service.cluster.v3.ClusterDiscoveryService/FetchClusters";
    let waiting = |names: &'static [&'static str], version: String| {
        let address = running.address;
        tokio::spawn(async move {
            let request = request(names, &version);
            let mut client = RawClient::ask(address, fetch, request).await.unwrap();
            client.response().await
        })
    };
    let first = waiting(&["a"], String::new());
    streams(&running.handle, 1).await;
    running.handle.apply(set(&[(CLUSTER, "a", "1")])).await.unwrap();
    let first = soon(first).await.unwrap();
    assert_eq!(names(&first), ["a"]);

    let second = waiting(&[], first.version_info.clone());
    streams(&running.handle, 1).await;
    running.handle.apply(set(&[(CLUSTER, "a", "2")])).await.unwrap();
    let second = soon(second).await.unwrap();
    assert_ne!(second.version_info, first.version_info);

    // A cancelled fetch leaves nothing behind.
    let third = waiting(&[], second.version_info);
    streams(&running.handle, 1).await;
    third.abort();
    streams(&running.handle, 0).await;
    println!("covers: M196");
}

#[tokio::test]
async fn same_node_on_two_streams_is_served_on_both() {
    let running = start().await;
    running.handle.apply(set(&[(CLUSTER, "a", "1")])).await.unwrap();
    let mut aggregated = RawClient::open(running.address).await;
    aggregated.subscribe(CLUSTER, &[]);
    let mut single = RawClient::call(running.address, STREAM_CLUSTERS).await.unwrap();
    single.subscribe(CLUSTER, &[]);
    let (first, second) = (aggregated.response().await, single.response().await);
    assert_eq!(first.version_info, second.version_info);
    drop(aggregated);
    running.handle.apply(set(&[(CLUSTER, "a", "2")])).await.unwrap();
    single.answer(&second, &[], None);
    assert_ne!(single.response().await.version_info, second.version_info);
    println!("covers: M18 M20");
}

/// Middleware of the application that records calls.
#[derive(Clone)]
struct Porter {
    inner: DiscoveryService,
    called: Arc<Mutex<Vec<String>>>,
}

impl Service<http::Request<Body>> for Porter {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = <DiscoveryService as Service<http::Request<Body>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<http::Request<Body>>::poll_ready(&mut self.inner, cx)
    }

    fn call(&mut self, call: http::Request<Body>) -> Self::Future {
        self.called.lock().unwrap().push(call.uri().path().to_owned());
        self.inner.call(call)
    }
}

/// The services are one tower service behind middleware in the application's server, and the
/// application spawns the driver.
#[tokio::test]
async fn service_works_behind_middleware_in_a_tonic_server() {
    let (server, driver) =
        ManagementServer::driver(ServerConfig::default(), ServerOptions::default());
    tokio::spawn(driver);
    server.handle().apply(set(&[(CLUSTER, "c", "1")])).await.unwrap();
    let porter = Porter { inner: server.service(), called: Arc::default() };
    let called = Arc::clone(&porter.called);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(
        tonic::transport::Server::builder()
            .serve_with_incoming(porter, TcpIncoming::from(listener)),
    );
    for path in [STREAM_CLUSTERS, support::AGGREGATED] {
        let mut client = RawClient::call(address, path).await.unwrap();
        client.subscribe(CLUSTER, &["c"]);
        assert_eq!(names(&client.response().await), ["c"]);
    }
    assert_eq!(*called.lock().unwrap(), [STREAM_CLUSTERS, support::AGGREGATED]);
    server.handle().shut_down().await;
    let refused = RawClient::call(address, STREAM_CLUSTERS).await.err().unwrap();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
}
