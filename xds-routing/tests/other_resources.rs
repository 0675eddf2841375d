//! What makes listeners, clusters and endpoints valid.

mod support;

use core::time::Duration;

use prost::Message;
use support::*;
use xds_core::proto::{Any, Duration as DurationSchema, Locality, UInt64Value};
use xds_routing::{
    Rules, SocketAddress,
    cluster::{BalancingPolicy, Cluster, Discovery, LoadReporting},
    endpoint::{ClusterLoadAssignment, Health},
    listener::{ConnectionSource, Listener, ListenerKind, Routes},
    proto::envoy::{
        config::{
            cluster::v3::{
                self as clusters,
                cluster::{
                    ClusterDiscoveryType, CustomClusterType, DiscoveryType, EdsClusterConfig,
                    LbConfig, LbPolicy, RingHashLbConfig,
                },
                load_balancing_policy::Policy,
            },
            core::v3::{
                CidrRange, ConfigSource, SelfConfigSource, TransportSocket, TypedExtensionConfig,
                config_source::ConfigSourceSpecifier, transport_socket,
            },
            endpoint::v3::{
                self as endpoints, Endpoint, LbEndpoint, LocalityLbEndpoints,
                cluster_load_assignment, lb_endpoint::HostIdentifier,
            },
            listener::v3::{self as listeners, Filter, FilterChain, FilterChainMatch, filter},
        },
        extensions::{
            clusters::aggregate::v3::ClusterConfig,
            load_balancing_policies::{round_robin::v3::RoundRobin, wrr_locality::v3::WrrLocality},
            transport_sockets::tls::v3::{
                CertificateProviderPluginInstance, CertificateValidationContext, CommonTlsContext,
                UpstreamTlsContext, common_tls_context,
            },
        },
        r#type::v3::FractionalPercent,
    },
    rules::ROUTER,
};

const FAULT: &str = "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault";
const RBAC: &str = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC";

fn listener(schema: &listeners::Listener) -> Result<Listener, String> {
    Listener::from_schema(schema, &Rules::default()).map_err(|it| it.to_string())
}

fn why<T: core::fmt::Debug>(result: Result<T, String>) -> String {
    result.expect_err("invalid")
}

#[test]
fn a_client_listener_leads_to_routes() {
    let named = listener(&api_listener("l", &manager(rds("r")))).unwrap();
    assert_eq!(named.api().unwrap().routes, Routes::Named("r".into()));
    assert_eq!(named.api().unwrap().filters[0].name, "router");

    let inline = manager(
        xds_routing::proto::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier::RouteConfig(
            table(vec![route(prefix(""), cluster("c"))]),
        ),
    );
    let inline = listener(&api_listener("l", &inline)).unwrap();
    assert!(
        matches!(&inline.api().unwrap().routes, Routes::Inline(it) if it.virtual_hosts().len() == 1)
    );

    let place = "api_listener.api_listener.";
    let neither = listener(&listeners::Listener::default());
    assert!(why(neither).starts_with("api_listener: must be set"));
    let mut both = api_listener("l", &manager(rds("r")));
    both.address = Some(address("127.0.0.1", 1));
    assert_eq!(why(listener(&both)), "address: must not be set beside api_listener");
    assert_eq!(
        why(listener(&api_listener("l", &manager(rds(""))))),
        format!("{place}rds.route_config_name: must not be empty")
    );
    let mut sourceless = manager(rds("r"));
    sourceless.route_specifier = None;
    assert_eq!(
        why(listener(&api_listener("l", &sourceless))),
        format!("{place}route_specifier: must be rds or route_config")
    );
    let mut trusting = manager(rds("r"));
    trusting.xff_num_trusted_hops = 1;
    assert_eq!(
        why(listener(&api_listener("l", &trusting))),
        format!("{place}xff_num_trusted_hops: must be zero")
    );
    println!("covers: S0.019 S0.020 B23 S2.063");
}

#[test]
fn filters_have_names_are_known_and_end_with_one_that_sends_on() {
    let with = |filters: Vec<_>| {
        let mut manager = manager(rds("r"));
        manager.http_filters = filters;
        listener(&api_listener("l", &manager))
    };
    let router = || filter("router", ROUTER);
    assert!(with(vec![filter("fault", FAULT), router()]).is_ok());
    let object = Any {
        type_url: "type.googleapis.com/xds.type.v3.TypedStruct".into(),
        value: [&[0x0a, FAULT.len() as u8], FAULT.as_bytes()].concat().into(),
    };
    let mut wrapped = filter("fault", FAULT);
    wrapped.config_type = Some(xds_routing::proto::envoy::extensions::filters::network::http_connection_manager::v3::http_filter::ConfigType::TypedConfig(object));
    let listener = with(vec![wrapped, router()]).unwrap();
    assert_eq!(listener.api().unwrap().filters[0].config.type_url, FAULT);

    let place = "api_listener.api_listener.http_filters";
    assert_eq!(why(with(vec![])), format!("{place}: must have one that sends requests on"));
    assert_eq!(
        why(with(vec![filter("f", FAULT)])),
        format!("{place}: the last one must send requests on")
    );
    assert_eq!(
        why(with(vec![router(), filter("r", ROUTER)])),
        format!("{place}: only the last one may send requests on")
    );
    assert_eq!(
        why(with(vec![filter("f", FAULT), filter("f", FAULT), router()])),
        format!("{place}[1].name: `f` is there twice")
    );
    assert!(
        why(with(vec![filter("", FAULT), router()]))
            .starts_with(&format!("{place}[0].name: must not be empty"))
    );
    let mut unknown = filter("u", "type.googleapis.com/a.Filter");
    assert_eq!(
        why(with(vec![unknown.clone(), router()])),
        format!(
            "{place}[0].typed_config: the HTTP filter `type.googleapis.com/a.Filter` is not known"
        )
    );
    unknown.is_optional = true;
    assert_eq!(with(vec![unknown, router()]).unwrap().api().unwrap().filters.len(), 1);
    assert!(why(with(vec![filter("r", RBAC), router()])).ends_with("is not for this side"));
}

#[test]
fn a_server_listener_is_judged_too() {
    let chain = |matches| FilterChain {
        filter_chain_match: matches,
        filters: vec![Filter {
            name: "hcm".into(),
            config_type: Some(filter::ConfigType::TypedConfig(packed(&manager(rds("r"))))),
        }],
        ..FilterChain::default()
    };
    let range =
        |prefix: &str, bits| CidrRange { address_prefix: prefix.into(), prefix_len: number(bits) };
    let from = |prefix: &str, bits| {
        Some(FilterChainMatch {
            source_prefix_ranges: vec![range(prefix, bits)],
            source_type: 2,
            ..Default::default()
        })
    };
    let server = |filter_chains| listeners::Listener {
        name: "s".into(),
        address: Some(address("0.0.0.0", 443)),
        filter_chains,
        ..Default::default()
    };
    let valid = listener(&server(vec![chain(from("10.1.2.3", 8))])).unwrap();
    let ListenerKind::Socket(socket) = valid.kind() else { panic!() };
    assert_eq!(socket.address.to_string(), "0.0.0.0:443");
    let matches = &socket.filter_chains[0].matches;
    assert_eq!(matches.sources[0].address.to_string(), "10.0.0.0");
    assert_eq!(matches.source, ConnectionSource::External);

    let same = server(vec![chain(from("10.1.2.3", 8)), chain(from("10.9.9.9", 8))]);
    assert_eq!(
        why(listener(&same)),
        "filter_chains[1].filter_chain_match: is the same as that of filter chain 0"
    );
    assert!(why(listener(&server(vec![]))).starts_with("filter_chains: must not be empty"));
    let mut none = chain(None);
    none.filters.clear();
    assert_eq!(
        why(listener(&server(vec![none]))),
        "filter_chains[0].filters: must be one, an HttpConnectionManager"
    );
    let bad = listener(&server(vec![chain(from("10.1", 8))]));
    assert!(why(bad).contains("source_prefix_ranges[0].address_prefix: `10.1` is no IP address"));
    for bits in [0, 8, 32, 128, 200] {
        assert!(listener(&server(vec![chain(from("::1", bits))])).is_ok());
    }
}

fn eds(name: &str) -> clusters::Cluster {
    clusters::Cluster {
        name: name.into(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds as i32)),
        eds_cluster_config: Some(EdsClusterConfig {
            eds_config: ads(),
            service_name: String::new(),
        }),
        ..Default::default()
    }
}

fn judged_cluster(schema: &clusters::Cluster) -> Result<Cluster, String> {
    Cluster::from_schema(schema, &Rules::default()).map_err(|it| it.to_string())
}

#[test]
fn a_cluster_says_where_its_endpoints_are() {
    let own = judged_cluster(&eds("c")).unwrap();
    assert_eq!(own.endpoints().unwrap().as_str(), "c");
    assert_eq!(own.max_requests, 1_024);
    let mut named = eds("c");
    named.eds_cluster_config.as_mut().unwrap().service_name = "e".into();
    assert_eq!(judged_cluster(&named).unwrap().discovery, Discovery::Eds("e".into()));

    let mut dns = clusters::Cluster {
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::LogicalDns as i32)),
        load_assignment: Some(assignment(vec![locality(0, 1, vec![endpoint("name.example", 80)])])),
        ..Default::default()
    };
    let found = judged_cluster(&dns).unwrap().discovery;
    assert!(
        matches!(found, Discovery::LogicalDns(SocketAddress { host, port: 80, .. }) if host == "name.example")
    );
    dns.load_assignment = Some(assignment(vec![]));
    assert_eq!(why(judged_cluster(&dns)), "load_assignment.endpoints: must be one locality");

    let aggregate = |names: &[&str]| clusters::Cluster {
        cluster_discovery_type: Some(ClusterDiscoveryType::ClusterType(CustomClusterType {
            name: "any".into(),
            typed_config: Some(packed(&ClusterConfig {
                clusters: names.iter().map(ToString::to_string).collect(),
            })),
        })),
        ..Default::default()
    };
    let found = judged_cluster(&aggregate(&["a", "b"])).unwrap().discovery;
    assert_eq!(found, Discovery::Aggregate(vec!["a".into(), "b".into()]));
    assert_eq!(
        why(judged_cluster(&aggregate(&[]))),
        "cluster_type.typed_config.clusters: must not be empty"
    );

    assert_eq!(why(judged_cluster(&Default::default())), "type: must be EDS or LOGICAL_DNS");
    let mut sourceless = eds("c");
    sourceless.eds_cluster_config.as_mut().unwrap().eds_config = None;
    assert_eq!(
        why(judged_cluster(&sourceless)),
        "eds_cluster_config.eds_config: must be ads or self"
    );
    assert!(
        why(judged_cluster(&eds("xdstp://a/envoy.config.cluster.v3.Cluster/c")))
            .starts_with("eds_cluster_config.service_name: ")
    );
    println!("covers: S0.022");
}

#[test]
fn a_cluster_says_how_to_balance() {
    let round_robin = BalancingPolicy::Localities(Box::new(BalancingPolicy::RoundRobin));
    assert_eq!(judged_cluster(&eds("c")).unwrap().balancing, round_robin);

    let mut ring = eds("c");
    ring.lb_policy = LbPolicy::RingHash as i32;
    let sizes = |least, most| {
        let size = |value| Some(UInt64Value { value });
        Some(LbConfig::RingHashLbConfig(RingHashLbConfig {
            minimum_ring_size: size(least),
            maximum_ring_size: size(most),
            hash_function: 0,
        }))
    };
    ring.lb_config = sizes(10, 20);
    assert!(matches!(judged_cluster(&ring).unwrap().balancing, BalancingPolicy::RingHash(_)));
    ring.lb_config = sizes(20, 10);
    assert_eq!(
        why(judged_cluster(&ring)),
        "ring_hash_lb_config.minimum_ring_size: must not be above maximum_ring_size"
    );
    let mut maglev = eds("c");
    maglev.lb_policy = LbPolicy::Maglev as i32;
    assert!(why(judged_cluster(&maglev)).starts_with("lb_policy: "));

    let policies = |configs: Vec<Any>| clusters::LoadBalancingPolicy {
        policies: configs
            .into_iter()
            .map(|config| Policy {
                typed_extension_config: Some(TypedExtensionConfig {
                    name: "p".into(),
                    typed_config: Some(config),
                }),
            })
            .collect(),
    };
    let with = |configs| {
        let mut cluster = eds("c");
        cluster.load_balancing_policy = Some(policies(configs));
        judged_cluster(&cluster)
    };
    let nested =
        |inner| packed(&WrrLocality { endpoint_picking_policy: Some(policies(vec![inner])) });
    let unknown =
        Any { type_url: "type.googleapis.com/a.Policy".into(), value: bytes::Bytes::new() };
    let first =
        with(vec![unknown.clone(), nested(packed(&RoundRobin {})), unknown.clone()]).unwrap();
    assert_eq!(first.balancing, round_robin);
    assert_eq!(why(with(vec![unknown])), "load_balancing_policy.policies: none of them is known");
    let mut deep = packed(&RoundRobin {});
    for _ in 0..20 {
        deep = nested(deep);
    }
    assert!(why(with(vec![deep])).contains("more than 16 policies inside one another"));
}

#[test]
fn other_parts_of_a_cluster_are_judged() {
    let mut reported = eds("c");
    reported.lrs_server = ads();
    assert_eq!(why(judged_cluster(&reported)), "lrs_server: must be self");
    reported.lrs_server = Some(ConfigSource {
        config_source_specifier: Some(ConfigSourceSpecifier::Self_(SelfConfigSource {})),
        ..Default::default()
    });
    assert_eq!(judged_cluster(&reported).unwrap().load_reporting, LoadReporting::SameServer);

    let mut outliers = eds("c");
    outliers.outlier_detection = Some(clusters::OutlierDetection {
        max_ejection_percent: number(101),
        interval: Some(DurationSchema { seconds: -1, nanos: 0 }),
        ..Default::default()
    });
    let text = why(judged_cluster(&outliers));
    assert!(
        text.contains("outlier_detection.interval: ") && text.contains("max_ejection_percent: "),
        "{text}"
    );
    outliers.outlier_detection = Some(Default::default());
    let detection = judged_cluster(&outliers).unwrap().outliers.unwrap();
    assert_eq!(detection.interval, Duration::from_secs(10));
    assert!(detection.success_rate.is_some() && detection.failure_percentage.is_none());

    let tls = |context: &UpstreamTlsContext| {
        let mut cluster = eds("c");
        cluster.transport_socket = Some(TransportSocket {
            name: "tls".into(),
            config_type: Some(transport_socket::ConfigType::TypedConfig(packed(context))),
        });
        cluster
    };
    let bare =
        UpstreamTlsContext { common_tls_context: Some(Default::default()), ..Default::default() };
    assert!(why(judged_cluster(&tls(&bare))).ends_with("must say who vouches for certificates"));
    let provider = CertificateProviderPluginInstance {
        instance_name: "p".into(),
        certificate_name: String::new(),
    };
    let validation = CertificateValidationContext {
        ca_certificate_provider_instance: Some(provider),
        ..Default::default()
    };
    let context = UpstreamTlsContext {
        common_tls_context: Some(CommonTlsContext {
            validation_context_type: Some(
                common_tls_context::ValidationContextType::ValidationContext(validation),
            ),
            ..Default::default()
        }),
        ..Default::default()
    };
    assert!(judged_cluster(&tls(&context)).unwrap().tls.unwrap().roots.is_some());
    let mut rules = Rules::default();
    rules.certificate_providers = Some(vec![]);
    let unknown = Cluster::from_schema(&tls(&context), &rules).unwrap_err().to_string();
    assert!(unknown.contains("instance_name: `p` is not in the bootstrap"), "{unknown}");
}

fn endpoint(ip: &str, port: u32) -> LbEndpoint {
    LbEndpoint {
        host_identifier: Some(HostIdentifier::Endpoint(Endpoint {
            address: Some(address(ip, port)),
            ..Default::default()
        })),
        ..Default::default()
    }
}

fn locality(priority: u32, weight: u32, lb_endpoints: Vec<LbEndpoint>) -> LocalityLbEndpoints {
    LocalityLbEndpoints {
        locality: Some(Locality { zone: format!("z{weight}"), ..Default::default() }),
        lb_endpoints,
        load_balancing_weight: number(weight),
        priority,
        ..Default::default()
    }
}

fn assignment(endpoints: Vec<LocalityLbEndpoints>) -> endpoints::ClusterLoadAssignment {
    endpoints::ClusterLoadAssignment { cluster_name: "e".into(), endpoints, ..Default::default() }
}

fn judged_endpoints(
    schema: &endpoints::ClusterLoadAssignment,
) -> Result<ClusterLoadAssignment, String> {
    ClusterLoadAssignment::from_schema(schema, &Rules::default()).map_err(|it| it.to_string())
}

#[test]
fn endpoints_come_by_priority_and_locality() {
    let mut ill = endpoint("10.0.0.9", 1);
    ill.health_status = 2;
    let mut well = endpoint("10.0.0.2", 1);
    well.health_status = 1;
    let valid = judged_endpoints(&assignment(vec![
        locality(1, 2, vec![endpoint("::1", 1)]),
        locality(0, 1, vec![endpoint("10.0.0.1", 1), ill, well]),
        locality(7, 0, vec![endpoint("no address", 1)]),
    ]))
    .unwrap();
    let shape: Vec<Vec<_>> = valid
        .priorities
        .iter()
        .map(|it| it.iter().map(|it| it.name.zone.as_str()).collect())
        .collect();
    assert_eq!(shape, [["z1"], ["z2"]]);
    let texts: Vec<_> =
        valid.endpoints().map(|it| (it.addresses[0].to_string(), it.health)).collect();
    let expected = [
        ("10.0.0.1:1", Health::Unknown),
        ("10.0.0.2:1", Health::Healthy),
        ("[::1]:1", Health::Unknown),
    ];
    assert_eq!(texts, expected.map(|(text, health)| (text.to_owned(), health)));
}

#[test]
fn what_endpoints_must_not_be() {
    let faults = |endpoints| why(judged_endpoints(&assignment(endpoints)));
    let one = |ip| vec![endpoint(ip, 1)];
    assert_eq!(
        faults(vec![locality(1, 1, one("::1")), locality(1, 2, one("::2"))]),
        "endpoints: priority 0 is empty"
    );
    assert_eq!(
        faults(vec![locality(u32::MAX, 1, one("::1"))]),
        "endpoints[0].priority: leaves a priority before it empty"
    );
    assert_eq!(
        faults(vec![locality(0, 1, one("::1")), locality(0, 1, one("::2"))]),
        "endpoints[1].locality: `/z1/` is there twice in its priority"
    );
    assert_eq!(
        faults(vec![locality(0, 1, one("::1")), locality(0, 2, one("::1"))]),
        "endpoints[1].lb_endpoints[0].endpoint: the address [::1]:1 is there twice"
    );
    assert_eq!(
        faults(vec![locality(0, u32::MAX, one("::1")), locality(0, 2, one("::2"))]),
        "endpoints: the weights of priority 0 sum up to more than 4294967295"
    );
    let text = faults(vec![locality(0, 1, one("name.example"))]);
    assert!(
        text.ends_with("address.socket_address.address: `name.example` is no IP address"),
        "{text}"
    );
    let text = faults(vec![locality(0, 1, vec![endpoint("::1", 65_536)])]);
    assert!(text.ends_with("port_value: must be a number up to 65535"), "{text}");
    let mut nameless = locality(0, 1, one("::1"));
    nameless.locality = None;
    assert_eq!(faults(vec![nameless.clone()]), "endpoints[0].locality: must be set");
    nameless.load_balancing_weight = None;
    assert!(judged_endpoints(&assignment(vec![nameless])).is_ok(), "it gets nothing anyway");
    let mut weightless = endpoint("::1", 1);
    weightless.load_balancing_weight = number(0);
    assert!(
        faults(vec![locality(0, 1, vec![weightless])])
            .contains("load_balancing_weight: must be above zero")
    );
}

#[test]
fn drops_are_shares_of_calls() {
    let mut with = assignment(vec![]);
    let drop = |category: &str, share| cluster_load_assignment::policy::DropOverload {
        category: category.into(),
        drop_percentage: share,
    };
    let half = FractionalPercent { numerator: 50, denominator: 0 };
    with.policy =
        Some(cluster_load_assignment::Policy { drop_overloads: vec![drop("busy", Some(half))] });
    assert_eq!(judged_endpoints(&with).unwrap().drops[0].share.millionths(), 500_000);
    with.policy = Some(cluster_load_assignment::Policy { drop_overloads: vec![drop("", None)] });
    let text = why(judged_endpoints(&with));
    assert!(text.contains("policy.drop_overloads[0].category: must not be empty"), "{text}");
}

/// Whatever bytes come, there is an answer.
#[test]
fn garbage_is_rejected_without_a_panic() {
    use proptest::prelude::*;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let seeds = [
        api_listener("l", &manager(rds("r"))).encode_to_vec(),
        eds("c").encode_to_vec(),
        assignment(vec![locality(0, 1, vec![endpoint("::1", 1)])]).encode_to_vec(),
        table(vec![route(safe_regex("a+"), weighted(&[("a", 1)]))]).encode_to_vec(),
    ];
    let edits = proptest::collection::vec((any_index(), any_byte()), 0..8);
    let strategy = (0..seeds.len(), edits, any_index());
    runner
        .run(&strategy, |(seed, edits, end)| {
            let mut bytes = seeds[seed].clone();
            for (place, byte) in edits {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            bytes.truncate(end.index(bytes.len() * 4).min(bytes.len()));
            let (bytes, rules) = (bytes::Bytes::from(bytes), Rules::default());
            let _ = Listener::from_bytes(&bytes, &rules);
            let _ = Cluster::from_bytes(&bytes, &rules);
            let _ = ClusterLoadAssignment::from_bytes(&bytes, &rules);
            let _ = xds_routing::route::RouteConfiguration::from_bytes(&bytes, &rules);
            Ok(())
        })
        .unwrap();

    fn any_index() -> impl Strategy<Value = proptest::sample::Index> {
        any::<proptest::sample::Index>()
    }
    fn any_byte() -> impl Strategy<Value = u8> {
        any::<u8>()
    }
}
