//! Version 2 of the xDS API: services, paths and types have other names, while the encoding is the
//! same except for fields that version 3 removed.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use prost::Message as _;
use xds_core::{
    ChannelId, Client, Frame, Time, TypeUrl, WatchId,
    client::{
        ChannelEvent, ClientConfig, Interest, Node, Notice, OpaqueType, Output, PollPolicy,
        RequestCause, ResourceType, ServerAddress, Streams, Transmit, VerdictSource,
    },
    proto,
    service::{ApiVersion, Variant},
    types,
};

const CLUSTER_2: &str = "type.googleapis.com/envoy.api.v2.Cluster";
const RESOURCE_2: &str = "type.googleapis.com/envoy.api.v2.Resource";

/// A client of one server, with the state its driver keeps.
struct Talk {
    client: Client,
    channel: Option<ChannelId>,
    path: Option<&'static str>,
    requests: Vec<(Transmit, Bytes)>,
    notices: Vec<Notice>,
}

impl Talk {
    fn new(server: ServerAddress, resource_type: impl ResourceType + 'static) -> Self {
        let config = ClientConfig::new(Node::new("me"), server).with_type(resource_type);
        let client = Client::new(config, 1, Time::ZERO);
        Self { client, channel: None, path: None, requests: vec![], notices: vec![] }
    }

    fn watch(&mut self, type_url: &str, name: &str) -> WatchId {
        let type_url = TypeUrl::from(type_url);
        let watch = self.client.watch(&type_url, Interest::Name(name), Time::ZERO);
        let watch = watch.expect("a registered type and a good name");
        self.drain();
        watch
    }

    fn drain(&mut self) {
        let mut frame = Frame::default();
        while let Some(output) = self.client.poll_output() {
            match output {
                Output::Open(channel, call) => {
                    self.channel = Some(channel);
                    self.path = call.rest_path().filter(|_| is_polled(&call.server));
                    self.path = self.path.or_else(|| call.grpc_path());
                    self.client.handle_event(ChannelEvent::Opened(channel), Time::ZERO);
                }
                Output::Writable(channel) => {
                    while let Some(sent) =
                        self.client.poll_transmit(channel, Time::ZERO, &mut frame)
                    {
                        self.requests.push((sent, frame.to_bytes()));
                    }
                }
                Output::Notify(watch, notice) => {
                    self.notices.push(notice);
                    self.client.handled(watch, Time::ZERO);
                }
                Output::Update(update, _) => {
                    self.client.submit_verdict(update, Vec::new(), Time::ZERO).expect("it is open");
                }
                other => panic!("unexpected: {other:?}"),
            }
        }
    }

    fn receive(&mut self, response: &impl prost::Message) {
        let frame = Bytes::from(response.encode_to_vec());
        let channel = self.channel.expect("the stream is open");
        self.client.handle_event(ChannelEvent::Message(channel, frame), Time::ZERO);
        self.drain();
    }

    /// Cause of the newest request, and the type URL it carries.
    fn last(&self) -> (&RequestCause, String) {
        let (sent, bytes) = self.requests.last().expect("something was asked for");
        let is_sotw = proto::DiscoveryRequest::decode(bytes.clone());
        let stated = is_sotw.map(|it| it.type_url).unwrap_or_default();
        assert_eq!(stated, sent.type_url.as_str(), "what is said to be sent is what is");
        (&sent.cause, stated)
    }

    fn value(&self) -> Option<&Bytes> {
        match self.notices.last()? {
            Notice::Changed(Ok(resource)) => Some(&resource.bytes),
            _ => None,
        }
    }
}

fn is_polled(server: &Arc<ServerAddress>) -> bool {
    matches!(server.transport_kind, xds_core::client::TransportKind::Polling(_))
}

fn cluster(name: &str, more: &[u8]) -> Bytes {
    let mut bytes = vec![0x0a, u8::try_from(name.len()).expect("a short name")];
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(more);
    bytes.into()
}

fn response(type_url: &str, nonce: &str, resources: &[(&str, Bytes)]) -> proto::DiscoveryResponse {
    let any = |(type_url, value): &(&str, Bytes)| proto::Any {
        type_url: (*type_url).to_owned(),
        value: value.clone(),
    };
    proto::DiscoveryResponse {
        version_info: nonce.to_owned(),
        type_url: type_url.to_owned(),
        nonce: nonce.to_owned(),
        resources: resources.iter().map(any).collect(),
        ..Default::default()
    }
}

#[test]
fn v2_server_gets_v2_requests_and_v2_resources_are_accepted() {
    let server = ServerAddress::new("s").with_api(ApiVersion::V2);
    let mut talk = Talk::new(server, OpaqueType::new(types::CLUSTER));
    talk.watch(types::CLUSTER, "a");
    assert_eq!(
        talk.path,
        Some("/envoy.service.discovery.v2.AggregatedDiscoveryService/StreamAggregatedResources")
    );
    assert_eq!(talk.last().1, CLUSTER_2);

    let first = cluster("a", &[0x10, 1]);
    talk.receive(&response(CLUSTER_2, "1", &[(CLUSTER_2, first.clone())]));
    assert_eq!(talk.value(), Some(&first));
    assert_eq!(talk.last(), (&RequestCause::Ack, CLUSTER_2.to_owned()));
    assert_eq!(talk.client.stats().v2_resources, 1);

    // In the version 2 wrapper; then again, unwrapped and unchanged.
    let wrapped = proto::Resource {
        name: "a".into(),
        resource: Some(proto::Any { type_url: CLUSTER_2.into(), value: cluster("a", &[0x10, 2]) }),
        ..Default::default()
    };
    let wrapped = Bytes::from(wrapped.encode_to_vec());
    talk.receive(&response(CLUSTER_2, "2", &[(RESOURCE_2, wrapped)]));
    assert_eq!(talk.value(), Some(&cluster("a", &[0x10, 2])));
    let notices = talk.notices.len();
    talk.receive(&response(CLUSTER_2, "3", &[(CLUSTER_2, cluster("a", &[0x10, 2]))]));
    assert_eq!((talk.notices.len(), talk.last().0), (notices, &RequestCause::Ack));
    assert_eq!(talk.client.stats().v2_resources, 3);
    let by_type: Vec<_> = talk.client.type_stats().map(|it| it.v2_resources).collect();
    assert_eq!(by_type, [3]);
    println!("covers: S4.008 S4.009 S4.011 S4.014 S4.051");
}

#[test]
fn v2_resource_satisfies_v3_watch() {
    for variant in [Variant::StateOfTheWorld, Variant::Incremental] {
        let server = ServerAddress::new("s").with_variant(variant);
        let mut talk = Talk::new(server, OpaqueType::new(types::CLUSTER));
        talk.watch(types::CLUSTER, "a");
        let value = cluster("a", &[0x10, 1]);
        match variant {
            Variant::StateOfTheWorld => {
                talk.receive(&response(types::CLUSTER, "1", &[(CLUSTER_2, value.clone())]));
            }
            Variant::Incremental => talk.receive(&proto::DeltaDiscoveryResponse {
                type_url: CLUSTER_2.into(),
                nonce: "1".into(),
                resources: vec![proto::Resource {
                    name: "a".into(),
                    version: "1".into(),
                    resource: Some(proto::Any { type_url: CLUSTER_2.into(), value: value.clone() }),
                    ..Default::default()
                }],
                ..Default::default()
            }),
        }
        assert_eq!(talk.value(), Some(&value), "{variant:?}");
        let (sent, _) = talk.requests.last().expect("it was answered");
        assert_eq!(sent.cause, RequestCause::Ack);
        assert_eq!(sent.type_url, types::CLUSTER, "who asks in version 3 answers in it");
        assert_eq!(talk.client.stats().v2_resources, 1);
    }
    println!("covers: S4.008 S4.010 S4.011");
}

#[test]
fn v2_only_field_is_nacked_with_field_name() {
    // Protobuf fields: (number << 3 | 2), length, content, nested.
    let cases: [(&str, &[u8], Option<&str>); 8] = [
        (types::CLUSTER, &[0x3a, 0], Some("hosts")),
        (types::CLUSTER, &[0x30, 4], Some("lb_policy: ORIGINAL_DST_LB")),
        (types::CLUSTER, &[0x30, 6], None),
        (types::CLUSTER, &[0xc2, 1, 2, 0x12, 0], Some("transport_socket.config")),
        (types::CLUSTER, &[0x8a, 2, 4, 0x22, 2, 0x28, 1], Some("load_assignment.policy.disable")),
        (types::LISTENER, &[0x1a, 2, 0x12, 0], Some("filter_chains.tls_context")),
        (types::LISTENER, &[0x1a, 2, 0x0a, 0], None),
        (
            types::ROUTE_CONFIGURATION,
            &[0x12, 7, 0x1a, 5, 0x0a, 3, 0x1a, 1, b'x'],
            Some("virtual_hosts.routes.match.regex"),
        ),
    ];
    for (url, more, removed) in cases {
        let older = types::v2_type_url(url).expect("it was there");
        let server = ServerAddress::new("s").with_api(ApiVersion::V2);
        let mut talk = Talk::new(server, OpaqueType::new(url));
        talk.watch(url, "a");
        let good = cluster("a", &[]);
        talk.receive(&response(older, "1", &[(older, good.clone())]));
        assert_eq!(talk.value(), Some(&good));

        talk.receive(&response(older, "2", &[(older, cluster("a", more))]));
        let Some(removed) = removed else {
            assert_eq!(talk.last().0, &RequestCause::Ack);
            continue;
        };
        let RequestCause::Nack { message, .. } = talk.last().0 else {
            panic!("{url} {more:?}: {:?}", talk.last());
        };
        assert!(message.contains(removed) && message.contains("version 3"), "{message}");
        assert!(message.contains("\"a\"") || message.contains("(a)"), "it is named: {message}");
        // The previous valid resource stays in use and is not treated as deleted.
        assert!(
            matches!(talk.notices.last(), Some(Notice::Ambient(Some(_)))),
            "{:?}",
            talk.notices
        );
        // In version 3 only the resource type validates the field.
        talk.receive(&response(url, "3", &[(url, cluster("a", more))]));
        assert_eq!(talk.last().0, &RequestCause::Ack);
    }
    println!("covers: S4.009 S4.050 S4.051");
}

#[test]
fn per_type_streams_and_polls_use_paths_of_api_version() {
    let older = |transport, resource| {
        let mut server = ServerAddress::new("s").with_streams(Streams::PerType);
        (server.transport_api, server.resource_api) = (transport, resource);
        server
    };
    use ApiVersion::{V2, V3};
    let stream_2 = "/envoy.api.v2.ClusterDiscoveryService/StreamClusters";
    let stream_3 = "/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters";
    for (server, path, type_url) in [
        (older(V2, V2), stream_2, CLUSTER_2),
        (older(V2, V3), stream_2, types::CLUSTER),
        (older(V3, V2), stream_3, CLUSTER_2),
        (
            older(V2, V2).with_polling(PollPolicy::new(Duration::from_secs(5))),
            "/v2/discovery:clusters",
            CLUSTER_2,
        ),
    ] {
        let mut talk = Talk::new(server, OpaqueType::new(types::CLUSTER));
        talk.watch(types::CLUSTER, "a");
        assert_eq!((talk.path, &*talk.last().1), (Some(path), type_url));
    }
    println!("covers: S4.014 S4.059");
}

/// A resource type with an external verdict.
#[derive(Debug)]
struct Reviewed(TypeUrl);

impl ResourceType for Reviewed {
    fn type_url(&self) -> &TypeUrl {
        &self.0
    }

    fn verdict_source(&self) -> VerdictSource {
        VerdictSource::External
    }
}

#[test]
fn polled_response_without_type_url_is_of_polled_type_after_external_verdict() {
    let server = ServerAddress::new("s").with_polling(PollPolicy::new(Duration::from_secs(5)));
    let mut talk = Talk::new(server, Reviewed(TypeUrl::from(types::CLUSTER)));
    talk.watch(types::CLUSTER, "a");
    let value = cluster("a", &[]);
    talk.receive(&response("", "1", &[(types::CLUSTER, value.clone())]));
    assert_eq!(talk.value(), Some(&value));
    println!("covers: S4.050");
}
