//! The four resource types in a client: invalid resources are rejected, valid ones are used.

use crate::support::*;
use bytes::Bytes;
use prost::Message;
use xds_core::{
    ChannelId, Client, Frame, Time, TypeUrl, WatchId,
    client::{ChannelEvent, ClientConfig, Interest, Node, Notice, Output, Resource, ServerAddress},
    proto::{Any, DiscoveryRequest, DiscoveryResponse},
    types,
};
use xds_routing::{
    ClusterLoadAssignments, Clusters, Listeners, RouteConfigurations,
    listener::{Listener, Routes},
    proto::envoy::config::{cluster::v3 as cds, endpoint::v3 as eds},
    route::RouteConfiguration,
    service_config::ServiceConfigs,
};

fn config() -> ClientConfig {
    ClientConfig::new(Node::new("n"), ServerAddress::new("s"))
        .with_type(Listeners::default())
        .with_type(RouteConfigurations::default())
        .with_type(Clusters::default())
        .with_type(ClusterLoadAssignments::default())
}

/// Client with one stream, whose server is the test.
struct Wire {
    client: Client,
    channel: Option<ChannelId>,
    nonce: u32,
}

const NOW: Time = Time::ZERO;

impl Wire {
    fn new() -> Self {
        Self { client: Client::new(config(), 1, NOW), channel: None, nonce: 0 }
    }

    fn watch(&mut self, url: &str, name: &str) -> WatchId {
        self.client.watch(&TypeUrl::from(url), Interest::Name(name), NOW).expect("a watch")
    }

    /// Returns the watches that received a value.
    fn news(&mut self) -> Vec<(WatchId, Resource)> {
        let mut news = Vec::new();
        while let Some(output) = self.client.poll_output() {
            match output {
                Output::Open(channel, _) => {
                    self.channel = Some(channel);
                    self.client.handle_event(ChannelEvent::Opened(channel), NOW);
                }
                Output::Notify(watch, Notice::Changed(Ok(resource))) => {
                    news.push((watch, resource));
                    self.client.handled(watch, NOW);
                }
                _ => {}
            }
        }
        news
    }

    /// Returns the names of each request that is sent, with the short name of the type.
    fn sent(&mut self) -> Vec<(&'static str, Vec<String>)> {
        let _ = self.news();
        let mut frame = Frame::default();
        let mut requests = Vec::new();
        let channel = self.channel.expect("a stream");
        while self.client.poll_transmit(channel, NOW, &mut frame).is_some() {
            let request = DiscoveryRequest::decode(frame.to_bytes()).expect("a request");
            assert_eq!(request.error_detail, None);
            let url = TypeUrl::from(request.type_url.as_str());
            requests.push((
                types::short_name(url.as_str()).expect("a known type"),
                request.resource_names,
            ));
        }
        requests
    }

    fn receive_response(&mut self, url: &str, resources: &[Vec<u8>]) {
        self.nonce += 1;
        let packed = |value: &Vec<u8>| Any { type_url: url.into(), value: value.clone().into() };
        let response = DiscoveryResponse {
            version_info: self.nonce.to_string(),
            type_url: url.into(),
            nonce: self.nonce.to_string(),
            resources: resources.iter().map(packed).collect(),
            ..DiscoveryResponse::default()
        };
        let event =
            ChannelEvent::Message(self.channel.expect("a stream"), response.encode_to_vec().into());
        self.client.handle_event(event, NOW);
    }
}

/// Resolves a listener to its routes and to a service config.
#[test]
fn listener_resolves_to_routes_and_a_service_config() {
    let mut wire = Wire::new();
    let _ = wire.watch(types::LISTENER, "shop");
    assert_eq!(wire.sent(), [("lds", vec!["shop".into()])]);
    wire.receive_response(
        types::LISTENER,
        &[api_listener("shop", &manager(rds("routes"))).encode_to_vec()],
    );
    let [(_, listener)] = wire.news().try_into().expect("one");
    let listener = listener.value.and_then(|it| it.downcast::<Listener>()).expect("a listener");
    let Routes::Named(name) = &listener.api().expect("of a client").routes else {
        panic!("{listener:?}")
    };
    let _ = wire.watch(types::ROUTE_CONFIGURATION, name.as_str());
    assert_eq!(wire.sent(), [("lds", vec!["shop".into()]), ("rds", vec!["routes".into()])]);
    let table = routes(
        "routes",
        vec![host(&["shop"], vec![route(path("/s/m"), cluster("c"))]), host(&["*"], vec![])],
    );
    wire.receive_response(types::ROUTE_CONFIGURATION, &[table.encode_to_vec()]);
    let [(_, found)] = wire.news().try_into().expect("one");
    let found = found.value.and_then(|it| it.downcast::<RouteConfiguration>()).expect("routes");
    let host = found.virtual_host("shop").expect("a host");
    let config = ServiceConfigs::new().next(host).expect("a config").to_json();
    assert!(config.contains(r#""route":[{"action":"cds:c","path":"/s/m"}]"#), "{config}");
    println!("covers: S2.003 S2.062");
}

/// Clusters and endpoints are watched in parallel, under equal and different names.
#[test]
fn clusters_and_endpoints_are_watched_in_parallel() {
    let cluster = |name: &str| {
        let eds = cds::cluster::EdsClusterConfig {
            eds_config: ads(),
            ..cds::cluster::EdsClusterConfig::default()
        };
        cds::Cluster {
            name: name.into(),
            cluster_discovery_type: Some(cds::cluster::ClusterDiscoveryType::Type(
                cds::cluster::DiscoveryType::Eds as i32,
            )),
            eds_cluster_config: Some(eds),
            ..cds::Cluster::default()
        }
        .encode_to_vec()
    };
    let endpoints = |name: &str| {
        let cluster_name = name.into();
        eds::ClusterLoadAssignment { cluster_name, ..eds::ClusterLoadAssignment::default() }
            .encode_to_vec()
    };
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let told = |news: Vec<(WatchId, Resource)>| news.into_iter().map(|it| it.0).collect::<Vec<_>>();

    let mut wire = Wire::new();
    let a = wire.watch(types::CLUSTER, "a");
    let of_a = wire.watch(types::CLUSTER_LOAD_ASSIGNMENT, "a");
    assert_eq!(wire.sent(), [("cds", names(&["a"])), ("eds", names(&["a"]))]);
    wire.receive_response(types::CLUSTER, &[cluster("a")]);
    assert_eq!(told(wire.news()), [a]);
    wire.receive_response(types::CLUSTER_LOAD_ASSIGNMENT, &[endpoints("a")]);
    assert_eq!(told(wire.news()), [of_a]);
    assert_eq!(wire.sent(), [("cds", names(&["a"])), ("eds", names(&["a"]))], "the ACKs");

    // A cached resource is reported at once, without a request.
    let again = wire.watch(types::CLUSTER, "a");
    assert_eq!(told(wire.news()), [again]);
    assert_eq!(wire.sent(), []);
    // Another name is added to the subscription. The old resource, sent again, is not reported.
    let b = wire.watch(types::CLUSTER, "b");
    assert_eq!(wire.sent(), [("cds", names(&["a", "b"]))]);
    wire.receive_response(types::CLUSTER, &[cluster("a"), cluster("b")]);
    assert_eq!(told(wire.news()), [b]);
    let _ack = wire.sent();

    // An unwatched resource is not cached: a later watch waits for the next response.
    wire.client.unwatch(b, NOW);
    assert_eq!(wire.sent(), [("cds", names(&["a"]))]);
    wire.receive_response(types::CLUSTER, &[cluster("a"), cluster("b")]);
    assert_eq!(told(wire.news()), []);
    let _ack = wire.sent();
    let late = wire.watch(types::CLUSTER, "b");
    assert_eq!(told(wire.news()), []);
    assert_eq!(wire.sent(), [("cds", names(&["a", "b"]))]);
    wire.receive_response(types::CLUSTER, &[cluster("a"), cluster("b")]);
    assert_eq!(told(wire.news()), [late]);
    println!("covers: S2.125 S2.126 S2.127 S2.128 S2.129 S2.130 S2.135 S2.136 S2.137");
}

/// In a response with a valid and an invalid resource, the valid one is used. The NACK and the
/// watcher's error name the invalid field.
// B34
#[test]
fn nack_names_the_field_and_valid_resources_are_used() {
    let now = Time::ZERO;
    let mut client = Client::new(config(), 1, now);
    let url = TypeUrl::from(types::ROUTE_CONFIGURATION);
    let good = client.watch(&url, Interest::Name("good"), now).unwrap();
    let bad = client.watch(&url, Interest::Name("bad"), now).unwrap();

    let mut frame = Frame::default();
    let mut open = None;
    while let Some(output) = client.poll_output() {
        if let Output::Open(channel, _) = output {
            open = Some(channel);
            client.handle_event(ChannelEvent::Opened(channel), now);
        }
    }
    let channel = open.expect("a server to ask");
    while client.poll_transmit(channel, now, &mut frame).is_some() {}

    let mut resources = [
        routes("good", vec![host(&["*"], vec![route(prefix(""), cluster("c"))])]),
        routes("bad", vec![host(&["*"], vec![route(safe_regex("("), cluster("c"))])]),
    ]
    .map(|it| Any { type_url: url.as_str().into(), value: it.encode_to_vec().into() });
    // Unknown fields stay in the bytes.
    let unknown = [resources[0].value.as_ref(), &[0xc2, 0x3e, 0x01, b'x']].concat();
    resources[0].value = Bytes::from(unknown.clone());
    let response = DiscoveryResponse {
        version_info: "1".into(),
        type_url: url.as_str().into(),
        nonce: "n1".into(),
        resources: resources.into(),
        ..DiscoveryResponse::default()
    };
    client.handle_event(ChannelEvent::Message(channel, response.encode_to_vec().into()), now);

    let (mut used, mut told) = (None, None);
    while let Some(output) = client.poll_output() {
        match output {
            Output::Notify(watch, Notice::Changed(Ok(resource))) if watch == good => {
                used = Some(resource)
            }
            Output::Notify(watch, Notice::Changed(Err(error))) if watch == bad => {
                told = Some(error.to_string())
            }
            _ => {}
        }
    }
    let used = used.expect("a value");
    assert_eq!(used.bytes, unknown);
    let value = used.value.and_then(|it| it.downcast::<RouteConfiguration>()).expect("our value");
    assert!(value.virtual_host("anything").is_some());
    let field = "virtual_hosts[0].routes[0].match.safe_regex.regex: invalid expression";
    assert!(told.as_ref().is_some_and(|it| it.contains(field)), "{told:?}");

    assert!(client.poll_transmit(channel, now, &mut frame).is_some());
    let answer = DiscoveryRequest::decode(frame.to_bytes()).unwrap();
    let detail = answer.error_detail.expect("a NACK");
    assert!(detail.message.contains(field), "{}", detail.message);
    println!("covers: S2.101 B34");
}
