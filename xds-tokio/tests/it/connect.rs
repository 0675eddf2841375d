//! Addresses behind a name, and services of a server.

use core::{convert::Infallible, net::SocketAddr, time::Duration};
use std::{
    io,
    sync::{Arc, Mutex},
};

use crate::support::{self, CLUSTER, Deaf, FakeServer, config, no_value, soon, value};
use bytes::Bytes;
use tokio::{
    net::{TcpSocket, TcpStream},
    time::timeout,
};
use tonic::Status;
use xds_bootstrap::envoy::{EnvoyBootstrap, GrpcTarget, Target};
use xds_core::client::{
    ClientConfig, FlowControl, OpaqueType, ServerAddress, Streams, TransportId, WatchErrorKind,
};
use xds_core::types::VIRTUAL_HOST;
use xds_tokio::{
    ClientOptions, Credentials, client,
    client::{Resolve, Resolving, Service},
};

/// Sufficient time for a connection within the machine.
const PAUSE: Duration = Duration::from_millis(300);

/// Resolver with these addresses that counts its calls.
#[derive(Clone, Debug)]
struct Addresses(Arc<Mutex<(Vec<SocketAddr>, usize)>>);

impl Addresses {
    fn new(addresses: &[SocketAddr]) -> Self {
        Self(Arc::new(Mutex::new((addresses.to_vec(), 0))))
    }

    fn questions(&self) -> usize {
        self.0.lock().unwrap().1
    }
}

impl Resolve for Addresses {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        Box::pin(async move {
            if (host, port) != ("xds.example", 443) {
                return Err(io::Error::other("no such host"));
            }
            let mut known = self.0.lock().unwrap();
            known.1 += 1;
            Ok(known.0.clone())
        })
    }
}

fn named(uri: &str) -> ClientConfig {
    let mut config = config(([127, 0, 0, 1], 1).into());
    config.servers = vec![ServerAddress::new(uri)];
    config
}

#[tokio::test]
async fn resolved_addresses_are_tried_in_order_within_one_attempt() {
    println!("covers: S1.034");
    let mut server = FakeServer::start().await;
    let unused = FakeServer::start().await;
    let refusing = Deaf::new();
    let resolver = Addresses::new(&[refusing.address(), server.address, unused.address]);
    let options = ClientOptions::default().with_resolver(resolver.clone());
    let client = client::connect(named("dns:///xds.example:443"), options);
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut stream = server.stream().await;
    assert_eq!(stream.uri.authority().map(|name| name.as_str()), Some("xds.example:443"));
    stream.request().await;
    stream.respond(CLUSTER, "1", "n1", &[("a", "one")]);
    // The first notice is the value: the failed address does not count as a server failure.
    value(&mut watch).await;
    assert_eq!(client.stats().await.unwrap().server_failures, 0);
    assert_eq!(resolver.questions(), 1);

    // Every attempt resolves the name again and begins with the first address.
    watch.handled();
    stream.close(Status::unavailable("come again"));
    let mut stream = server.stream().await;
    stream.request().await;
    assert_eq!(resolver.questions(), 2);
}

#[tokio::test]
async fn attempt_fails_when_all_addresses_have_failed() {
    println!("covers: S1.034 S1.017");
    let refusing = [Deaf::new(), Deaf::new()];
    let [first, second] = [refusing[0].address(), refusing[1].address()];
    let resolver = Addresses::new(&[first, second]);
    let options = ClientOptions::default().with_resolver(resolver.clone());
    let client = client::connect(named("xds.example:443"), options.clone());
    let error = no_value(&mut client.watch_untyped(CLUSTER, "a")).await.to_string();
    let told = [&format!("{first}: "), &format!("; {second}: "), "none of 2 addresses", "refused"];
    assert!(told.iter().all(|words| error.contains(&**words)), "{error}");

    for (uri, words) in [
        ("other.example:443", "cannot resolve \"other.example\": no such host"),
        ("ipv4:127.0.0.1:1,127.0.0.1:2", "127.0.0.1:2: "),
    ] {
        let client = client::connect(named(uri), options.clone());
        let error = no_value(&mut client.watch_untyped(CLUSTER, "a")).await.to_string();
        assert!(error.contains(words), "{error}");
    }
    let none = ClientOptions::default().with_resolver(Addresses::new(&[]));
    let client = client::connect(named("xds.example:443"), none);
    let error = no_value(&mut client.watch_untyped(CLUSTER, "a")).await.to_string();
    assert!(error.contains("no addresses"), "{error}");
}

#[tokio::test]
async fn unresponsive_address_does_not_use_up_the_connect_timeout() {
    println!("covers: S1.034");
    // The queue of connections is full, so a further connection is neither accepted nor refused.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let full = socket.listen(1).unwrap();
    let address = full.local_addr().unwrap();
    let mut queue = Vec::new();
    // A slow connection on a busy machine does not show that the queue is full.
    for _ in 0..3 {
        while let Ok(Ok(connection)) = timeout(PAUSE, TcpStream::connect(address)).await {
            queue.push(connection);
        }
    }
    assert!(timeout(PAUSE, TcpStream::connect(address)).await.is_err(), "the queue is full");
    let mut server = FakeServer::start().await;
    let resolver = Addresses::new(&[address, server.address]);
    let options = ClientOptions::default().with_resolver(resolver);
    let client = client::connect(named("xds.example:443"), options);
    let _watch = client.watch_untyped(CLUSTER, "a");
    server.stream().await.request().await;
    assert_eq!(client.stats().await.unwrap().server_failures, 0);
}

#[tokio::test]
async fn grpc_services_of_a_server_rotate_on_failure() {
    println!("covers: B18");
    let (mut one, mut two) = (FakeServer::start().await, FakeServer::start().await);
    let text = r#"{
        "node": { "id": "n", "cluster": "c" },
        "dynamic_resources": { "cds_config": { "ads": {} }, "ads_config": {
            "api_type": "GRPC", "grpc_services": [
                { "envoy_grpc": { "cluster_name": "nobody" } },
                { "envoy_grpc": { "cluster_name": "one", "authority": "own.name" },
                  "initial_metadata": [{ "key": "x-team", "value": "mesh" }] },
                { "envoy_grpc": { "cluster_name": "two" } }
            ]
        } }
    }"#;
    let bootstrap = EnvoyBootstrap::from_json(text).expect("it is right");
    let refusing = Deaf::new();
    let nobody = refusing.address();
    let addresses = (one.address, two.address);
    let service = move |target: Target<'_>| {
        let Target::Service(service) = target else { return Err("nobody is polled") };
        let GrpcTarget::Envoy { cluster_name, authority, .. } = &service.target else {
            return Err("only clusters are known");
        };
        let address = match cluster_name.as_str() {
            "nobody" => nobody,
            "one" => addresses.0,
            _ => addresses.1,
        };
        let mut known = Service::new(address.to_string(), Credentials::insecure());
        if !authority.is_empty() {
            known = known.with_authority(authority.parse().map_err(|_| "no authority")?);
        }
        for header in &service.initial_metadata {
            let name = header.key.parse().map_err(|_| "no header's name")?;
            known = known.with_metadata(name, header.value.parse().map_err(|_| "no value")?);
        }
        Ok(known)
    };
    let options =
        ClientOptions::default().with_envoy_bootstrap(&bootstrap, service).expect("all are known");
    assert!(!format!("{options:?}").contains("mesh"), "a header may be a secret");
    let mut config = bootstrap.client_config().expect("it can");
    config.profile.backoff.initial = Duration::from_millis(20);
    config.profile.backoff.max = Duration::from_millis(50);
    config.profile.flow_control = FlowControl::Off;
    let client = client::connect(config.with_type(OpaqueType::new(CLUSTER)), options);
    let _watch = client.watch_untyped(CLUSTER, "a");

    // The first service refuses, so the second is used, and used again after it has served.
    for _ in 0..2 {
        let mut stream = one.stream().await;
        assert_eq!(stream.uri.authority().map(|name| name.as_str()), Some("own.name"));
        assert_eq!(stream.headers.get("x-team").map(|value| value.as_bytes()), Some(&b"mesh"[..]));
        stream.request().await;
        stream.respond(CLUSTER, "1", "n1", &[("a", "one")]);
        stream.request().await;
        stream.close(Status::unavailable("come again"));
    }
    // A service that ends the stream without a response is not used again at once.
    let mut stream = one.stream().await;
    stream.request().await;
    stream.close(Status::unavailable("not now"));
    let mut stream = two.stream().await;
    assert!(!stream.headers.contains_key("x-team"));
    stream.request().await;
    stream.close(Status::unavailable("not now"));
    // The first service is next, and refuses again.
    one.stream().await.request().await;
}

#[tokio::test]
async fn response_size_limit_of_each_grpc_service_is_applied() {
    let (mut small, mut large) = (FakeServer::start().await, FakeServer::start().await);
    let text = r#"{
        "node": { "id": "n", "cluster": "c" },
        "dynamic_resources": { "cds_config": { "ads": {} }, "ads_config": {
            "api_type": "GRPC", "grpc_services": [
                { "envoy_grpc": { "cluster_name": "small", "max_receive_message_length": 200 } },
                { "envoy_grpc": { "cluster_name": "large" } }
            ]
        } }
    }"#;
    let bootstrap = EnvoyBootstrap::from_json(text).expect("it is right");
    let addresses = (small.address, large.address);
    let service = move |target: Target<'_>| -> Result<_, Infallible> {
        let address = if target.name() == "small" { addresses.0 } else { addresses.1 };
        Ok(Service::new(address.to_string(), Credentials::insecure()))
    };
    let Ok(options) = ClientOptions::default().with_envoy_bootstrap(&bootstrap, service);
    let mut config = bootstrap.client_config().expect("it can");
    config.profile.backoff.initial = Duration::from_millis(20);
    config.profile.backoff.max = Duration::from_millis(50);
    config.profile.flow_control = FlowControl::Off;
    let client = client::connect(config.with_type(OpaqueType::new(CLUSTER)), options);
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let long = "x".repeat(200);
    let mut stream = small.stream().await;
    stream.request().await;
    // Earlier valid responses make no difference.
    stream.respond(CLUSTER, "1", "n1", &[("a", "short")]);
    value(&mut watch).await;
    watch.handled();
    stream.request().await;
    stream.respond(CLUSTER, "2", "n2", &[("a", &long)]);
    // The next service is used.
    let mut stream = large.stream().await;
    assert_eq!(client.stats().await.expect("it runs").malformed, 1);
    stream.request().await;
    stream.respond(CLUSTER, "1", "n1", &[("a", &long)]);
    value(&mut watch).await;
    println!("covers: B18");
}

#[tokio::test]
async fn streams_that_fail_together_rotate_the_service_once() {
    println!("covers: B18");
    let (mut one, mut two) = (FakeServer::start().await, FakeServer::start().await);
    let (mut config, options) = both([&one, &two]);
    config.servers[0] = config.servers[0].clone().with_streams(Streams::PerType);
    let client = client::connect(config, options);
    let _clusters = client.watch_untyped(CLUSTER, "a");
    let _endpoints = client.watch_untyped(support::ENDPOINTS, "a");
    let (mut first, mut second) = (one.stream().await, one.stream().await);
    first.request().await;
    second.request().await;
    first.close(Status::unavailable("not now"));
    second.close(Status::unavailable("not now"));
    two.stream().await;
    two.stream().await;

    let nobody = ClientOptions::default().with_services(TransportId::default(), []);
    let client = client::connect(named("127.0.0.1:1"), nobody);
    let error = soon(no_value(&mut client.watch_untyped(CLUSTER, "a"))).await;
    assert!(matches!(error.kind(), WatchErrorKind::Unavailable(_)), "{error}");
    assert!(error.to_string().contains("no gRPC services"), "{error}");
}

/// Returns a configuration and options in which the transport `both` has these services.
fn both(services: [&FakeServer; 2]) -> (ClientConfig, ClientOptions) {
    let services =
        services.map(|server| Service::new(server.address.to_string(), Credentials::insecure()));
    let options = ClientOptions::default().with_services(TransportId::from("both"), services);
    let mut config = config(([127, 0, 0, 1], 1).into());
    let server = ServerAddress::new("cluster-of-control-planes").with_transport("both");
    config.servers = vec![server];
    (config, options)
}

#[tokio::test]
async fn undecodable_response_rotates_the_service() {
    println!("covers: B18");
    let (mut one, mut two) = (FakeServer::start().await, FakeServer::start().await);
    let (config, options) = both([&one, &two]);
    let client = client::connect(config, options);
    let _watch = client.watch_untyped(CLUSTER, "a");
    let mut stream = one.stream().await;
    stream.request().await;
    stream.send(Bytes::from_static(b"\xff\xff"));
    two.stream().await.request().await;
}

#[tokio::test]
async fn stream_without_a_discovery_service_does_not_rotate_the_service() {
    println!("covers: B18 NA-05");
    let (mut one, two) = (FakeServer::start().await, FakeServer::start().await);
    let (mut config, options) = both([&one, &two]);
    config.servers[0] = config.servers[0].clone().with_streams(Streams::PerType);
    // Virtual hosts are available over incremental streams only.
    let client = client::connect(config.with_type(OpaqueType::new(VIRTUAL_HOST)), options);
    let mut hosts = client.watch_untyped(VIRTUAL_HOST, "h");
    let error = no_value(&mut hosts).await;
    assert!(error.to_string().contains("no discovery service"), "{error}");
    let _clusters = client.watch_untyped(CLUSTER, "a");
    one.stream().await.request().await;
}
