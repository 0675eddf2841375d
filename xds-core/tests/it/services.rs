//! The gRPC methods of the discovery services by full name, and the client's choice among them.

use bytes::Bytes;
use prost::Message as _;
use xds_core::{
    Client, Frame, Time, TypeUrl,
    client::{
        ChannelEvent, ClientConfig, Interest, Node, OpaqueType, Output, ServerAddress, Streams,
    },
    proto,
    service::{ApiVersion, Variant, grpc_path},
    types,
};

/// A discovery service: its full name, the suffix of its `Stream` and `Delta` methods, its
/// variants, and its requirement id.
struct Service {
    type_url: Option<&'static str>,
    name: &'static str,
    methods: &'static str,
    variants: &'static [Variant],
    id: &'static str,
}

const BOTH: &[Variant] = &[Variant::StateOfTheWorld, Variant::Incremental];

const SERVICES: [Service; 10] = [
    Service {
        type_url: None,
        name: "envoy.service.discovery.v3.AggregatedDiscoveryService",
        methods: "AggregatedResources",
        variants: BOTH,
        id: "S0.049",
    },
    Service {
        type_url: Some(types::LISTENER),
        name: "envoy.service.listener.v3.ListenerDiscoveryService",
        methods: "Listeners",
        variants: BOTH,
        id: "S0.039",
    },
    Service {
        type_url: Some(types::ROUTE_CONFIGURATION),
        name: "envoy.service.route.v3.RouteDiscoveryService",
        methods: "Routes",
        variants: BOTH,
        id: "S0.040",
    },
    // The API names the service `ScopedRoutes...`, in the plural.
    Service {
        type_url: Some(types::SCOPED_ROUTE_CONFIGURATION),
        name: "envoy.service.route.v3.ScopedRoutesDiscoveryService",
        methods: "ScopedRoutes",
        variants: BOTH,
        id: "S0.041",
    },
    Service {
        type_url: Some(types::VIRTUAL_HOST),
        name: "envoy.service.route.v3.VirtualHostDiscoveryService",
        methods: "VirtualHosts",
        variants: &[Variant::Incremental],
        id: "S0.042",
    },
    Service {
        type_url: Some(types::CLUSTER),
        name: "envoy.service.cluster.v3.ClusterDiscoveryService",
        methods: "Clusters",
        variants: BOTH,
        id: "S0.043",
    },
    Service {
        type_url: Some(types::CLUSTER_LOAD_ASSIGNMENT),
        name: "envoy.service.endpoint.v3.EndpointDiscoveryService",
        methods: "Endpoints",
        variants: BOTH,
        id: "S0.044",
    },
    Service {
        type_url: Some(types::SECRET),
        name: "envoy.service.secret.v3.SecretDiscoveryService",
        methods: "Secrets",
        variants: BOTH,
        id: "S0.045",
    },
    Service {
        type_url: Some(types::RUNTIME),
        name: "envoy.service.runtime.v3.RuntimeDiscoveryService",
        methods: "Runtime",
        variants: BOTH,
        id: "S0.046",
    },
    Service {
        type_url: Some(types::EXTENSION_CONFIG),
        name: "envoy.service.extension.v3.ExtensionConfigDiscoveryService",
        methods: "ExtensionConfigs",
        variants: BOTH,
        id: "B17",
    },
];

fn path(service: &Service, variant: Variant) -> Option<String> {
    let prefix = match variant {
        Variant::StateOfTheWorld => "Stream",
        Variant::Incremental => "Delta",
    };
    let is_there = service.variants.contains(&variant);
    is_there.then(|| format!("/{}/{prefix}{}", service.name, service.methods))
}

#[test]
fn each_discovery_service_has_its_api_methods() {
    for service in &SERVICES {
        for &variant in BOTH {
            let expected = path(service, variant);
            let found = grpc_path(service.type_url, variant, ApiVersion::V3);
            assert_eq!(found.map(str::to_owned), expected);
        }
        println!("covers: {}", service.id);
    }
    // The API version is part of the path, which tells a server the version of the transport.
    for &variant in BOTH {
        assert!(SERVICES.iter().all(|it| path(it, variant).is_none_or(|it| it.contains(".v3."))));
        let custom = Some("type.googleapis.com/custom.Type");
        assert_eq!(grpc_path(custom, variant, ApiVersion::V3), None);
    }
    println!("covers: S0.047 S0.063 S0.064 NA-05");
}

/// Returns the method of each call that a client opens when every type of the table is watched,
/// with the bytes of the call's first request.
fn calls(streams: Streams, variant: Variant) -> Vec<(Option<String>, Bytes)> {
    let server = ServerAddress::new("server").with_streams(streams).with_variant(variant);
    let urls: Vec<&str> = SERVICES.iter().filter_map(|service| service.type_url).collect();
    let config = urls.iter().fold(ClientConfig::new(Node::new("me"), server), |config, &url| {
        config.with_type(OpaqueType::new(url))
    });
    let mut client = Client::new(config, 1, Time::ZERO);
    for url in urls {
        let watch = client.watch(&TypeUrl::from(url), Interest::Name("x"), Time::ZERO);
        watch.expect("a registered type and a good name");
    }
    let (mut calls, mut frame) = (Vec::new(), Frame::default());
    while let Some(output) = client.poll_output() {
        if let Output::Open(channel, call) = output {
            // One channel opens at a time (IC26).
            client.handle_event(ChannelEvent::Opened(channel), Time::ZERO);
            let sent = client.poll_transmit(channel, Time::ZERO, &mut frame);
            assert!(sent.is_some(), "something is wanted");
            calls.push((call.grpc_path().map(str::to_owned), frame.to_bytes()));
        }
    }
    calls
}

#[test]
fn all_four_protocol_variants_can_be_chosen() {
    for &variant in BOTH {
        let paths = |streams| calls(streams, variant).into_iter().map(|(path, _)| path);
        assert!(paths(Streams::Aggregated).eq([path(&SERVICES[0], variant)]));
        // A service without the variant has no path: an adapter refuses to call it.
        let each = SERVICES[1..].iter().map(|service| path(service, variant));
        assert!(paths(Streams::PerType).eq(each));
    }
    println!("covers: S0.029 S0.047 S0.049");
}

#[test]
fn all_methods_of_variant_use_same_request_message() {
    let urls = || SERVICES[1..].iter().filter_map(|service| service.type_url);
    for streams in [Streams::Aggregated, Streams::PerType] {
        for ((_, bytes), url) in calls(streams, Variant::StateOfTheWorld).into_iter().zip(urls()) {
            let request = proto::DiscoveryRequest::decode(bytes.clone()).expect("it is one");
            assert!(!request.type_url.is_empty() && request.resource_names == ["x"]);
            assert!(streams == Streams::Aggregated || request.type_url == url);
            assert_eq!(request.encode_to_vec().len(), bytes.len(), "it has no other field");
        }
        for ((_, bytes), url) in calls(streams, Variant::Incremental).into_iter().zip(urls()) {
            let request = proto::DeltaDiscoveryRequest::decode(bytes.clone()).expect("it is one");
            assert!(!request.type_url.is_empty() && request.resource_names_subscribe == ["x"]);
            assert!(streams == Streams::Aggregated || request.type_url == url);
            assert_eq!(request.encode_to_vec().len(), bytes.len(), "it has no other field");
        }
    }
    println!("covers: S0.050 S0.051");
}

/// Type names of both API versions from the xDS transport specification, and those of version 3
/// only.
#[test]
fn v2_and_v3_type_names_are_known() {
    const TYPES: [(&str, &str, &str); 9] = [
        ("lds", "envoy.api.v2.Listener", "envoy.config.listener.v3.Listener"),
        ("rds", "envoy.api.v2.RouteConfiguration", "envoy.config.route.v3.RouteConfiguration"),
        (
            "srds",
            "envoy.api.v2.ScopedRouteConfiguration",
            "envoy.config.route.v3.ScopedRouteConfiguration",
        ),
        ("vhds", "envoy.api.v2.route.VirtualHost", "envoy.config.route.v3.VirtualHost"),
        ("cds", "envoy.api.v2.Cluster", "envoy.config.cluster.v3.Cluster"),
        (
            "eds",
            "envoy.api.v2.ClusterLoadAssignment",
            "envoy.config.endpoint.v3.ClusterLoadAssignment",
        ),
        ("sds", "envoy.api.v2.auth.Secret", "envoy.extensions.transport_sockets.tls.v3.Secret"),
        ("rtds", "envoy.service.discovery.v2.Runtime", "envoy.service.runtime.v3.Runtime"),
        ("ecds", "", "envoy.config.core.v3.TypedExtensionConfig"),
    ];
    let url = |name: &str| format!("type.googleapis.com/{name}");
    for (short, older, name) in TYPES {
        let current = TypeUrl::from(url(name).as_str());
        assert_eq!(types::by_short_name(short), Some(current.as_str()));
        assert_eq!(
            (types::short_name(current.as_str()), current.message_name()),
            (Some(short), name)
        );
        assert_eq!(types::v3_type_url(current.as_str()), current.as_str());
        if older.is_empty() {
            assert_eq!(types::v2_type_url(current.as_str()), None);
            continue;
        }
        let older_url = TypeUrl::from(url(older).as_str());
        assert_eq!(types::v2_type_url(current.as_str()), Some(older_url.as_str()));
        assert_eq!(types::v3_type_url(older_url.as_str()), current.as_str());
        assert_eq!(
            (types::short_name(older_url.as_str()), older_url.message_name()),
            (Some(short), older)
        );
    }
    println!("covers: S0.006 S0.007 S0.008");
}
