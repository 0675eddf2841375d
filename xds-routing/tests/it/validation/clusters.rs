//! Validation of clusters.

use core::time::Duration;

use prost::Message as _;
use xds_core::{
    client::{Profile, ResourceType as _, ServerAddress, ValidationContext},
    proto::{self, Any, Duration as DurationSchema, FloatValue, UInt64Value},
};
use xds_routing::{
    Clusters, Rules, SocketAddress,
    cluster::{BalancingPolicy, Cluster, Discovery, UtilizationMetric},
    endpoint::ClusterLoadAssignment,
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
                ConfigSource, HttpProtocolOptions as CommonOptions, SelfConfigSource,
                TypedExtensionConfig, config_source::ConfigSourceSpecifier,
            },
        },
        extensions::{
            clusters::aggregate::v3::ClusterConfig,
            load_balancing_policies::{
                client_side_weighted_round_robin::v3::ClientSideWeightedRoundRobin,
                round_robin::v3::RoundRobin, wrr_locality::v3::WrrLocality,
            },
            upstreams::http::v3::HttpProtocolOptions,
        },
    },
};

use crate::{
    support::*,
    validation::{
        endpoints::{assignment, endpoint, locality},
        why,
    },
};

pub(crate) fn eds(name: &str) -> clusters::Cluster {
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

fn seconds(seconds: i64) -> Option<DurationSchema> {
    Some(DurationSchema { seconds, nanos: 0 })
}

fn validated_cluster(schema: &clusters::Cluster) -> Result<Cluster, String> {
    Cluster::from_schema(schema, &Rules::default()).map_err(|it| it.to_string())
}

#[test]
fn cluster_discovery_is_parsed_for_every_type() {
    let own = validated_cluster(&eds("c")).unwrap();
    assert_eq!(own.endpoints().unwrap().as_str(), "c");
    assert_eq!(own.max_requests, 1_024);
    let mut named = eds("c");
    named.eds_cluster_config.as_mut().unwrap().service_name = "e".into();
    assert_eq!(validated_cluster(&named).unwrap().discovery, Discovery::Eds("e".into()));

    let mut dns = clusters::Cluster {
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::LogicalDns as i32)),
        load_assignment: Some(assignment(vec![locality(0, 1, vec![endpoint("name.example", 80)])])),
        ..Default::default()
    };
    let found = validated_cluster(&dns).unwrap().discovery;
    assert!(
        matches!(found, Discovery::LogicalDns(SocketAddress { host, port: 80, .. }) if host == "name.example")
    );
    dns.load_assignment = Some(assignment(vec![]));
    assert_eq!(why(validated_cluster(&dns)), "load_assignment.endpoints: must be one locality");

    let aggregate = |names: &[&str]| clusters::Cluster {
        cluster_discovery_type: Some(ClusterDiscoveryType::ClusterType(CustomClusterType {
            name: "any".into(),
            typed_config: Some(packed(&ClusterConfig {
                clusters: names.iter().map(ToString::to_string).collect(),
            })),
        })),
        ..Default::default()
    };
    let found = validated_cluster(&aggregate(&["a", "b"])).unwrap().discovery;
    assert_eq!(found, Discovery::Aggregate(vec!["a".into(), "b".into()]));
    // Envoy requires this policy, and gRPC reads none (A75).
    let mut envoy = aggregate(&["a"]);
    envoy.lb_policy = LbPolicy::ClusterProvided as i32;
    let found = validated_cluster(&envoy).unwrap();
    assert_eq!(found.discovery, Discovery::Aggregate(vec!["a".into()]));
    assert_eq!(
        why(validated_cluster(&aggregate(&[]))),
        "cluster_type.typed_config.clusters: must not be empty"
    );

    assert_eq!(why(validated_cluster(&Default::default())), "type: must be EDS or LOGICAL_DNS");
    let mut sourceless = eds("c");
    sourceless.eds_cluster_config.as_mut().unwrap().eds_config = None;
    assert_eq!(
        why(validated_cluster(&sourceless)),
        "eds_cluster_config.eds_config: must be ads or self"
    );
    assert!(
        why(validated_cluster(&eds("xdstp://a/envoy.config.cluster.v3.Cluster/c")))
            .starts_with("eds_cluster_config.service_name: ")
    );
    println!("covers: S0.022");
}

#[test]
fn cluster_lb_policy_is_parsed() {
    let round_robin = BalancingPolicy::WrrLocality(Box::new(BalancingPolicy::RoundRobin));
    assert_eq!(validated_cluster(&eds("c")).unwrap().balancing, round_robin);

    let mut maglev = eds("c");
    maglev.lb_policy = LbPolicy::Maglev as i32;
    assert!(why(validated_cluster(&maglev)).starts_with("lb_policy: "));

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
        validated_cluster(&cluster)
    };
    let nested =
        |inner| packed(&WrrLocality { endpoint_picking_policy: Some(policies(vec![inner])) });
    let unknown =
        Any { type_url: "type.googleapis.com/a.Policy".into(), value: bytes::Bytes::new() };
    let first =
        with(vec![unknown.clone(), nested(packed(&RoundRobin {})), unknown.clone()]).unwrap();
    assert_eq!(first.balancing, round_robin);
    assert_eq!(
        why(with(vec![unknown])),
        "load_balancing_policy.policies: none of the policies is known"
    );
    let mut deep = packed(&RoundRobin {});
    for _ in 0..20 {
        deep = nested(deep);
    }
    assert!(why(with(vec![deep])).contains("policies are nested more than 16 levels deep"));

    // A policy of the data plane whose configuration is a `TypedStruct`: the inner type counts.
    let own = "type.googleapis.com/shop.Policy";
    let object = Any {
        type_url: "type.googleapis.com/xds.type.v3.TypedStruct".into(),
        value: [&[0x0a, own.len() as u8], own.as_bytes()].concat().into(),
    };
    let mut cluster = eds("c");
    // The new field precedes `lb_policy`.
    cluster.lb_policy = LbPolicy::RingHash as i32;
    cluster.load_balancing_policy = Some(policies(vec![object, packed(&RoundRobin {})]));
    assert_eq!(validated_cluster(&cluster).unwrap().balancing, BalancingPolicy::RoundRobin);
    let mut rules = Rules::default();
    rules.lb_policies = vec![own.into()];
    let custom = Cluster::from_schema(&cluster, &rules).unwrap().balancing;
    assert!(matches!(custom, BalancingPolicy::Custom(config) if config.type_url == own));
    println!("covers: B33e");
}

/// Periods and error penalty of gRFC A58.
#[test]
fn client_side_wrr_settings_are_validated() {
    let place = "load_balancing_policy.policies[0].typed_extension_config.typed_config";
    let with = |config: Any| {
        let config = TypedExtensionConfig { name: "p".into(), typed_config: Some(config) };
        let policy = Policy { typed_extension_config: Some(config) };
        let mut cluster = eds("c");
        cluster.load_balancing_policy =
            Some(clusters::LoadBalancingPolicy { policies: vec![policy] });
        validated_cluster(&cluster)
    };
    type Change = fn(&mut ClientSideWeightedRoundRobin);
    let changed = |change: Change| {
        let mut config = ClientSideWeightedRoundRobin::default();
        change(&mut config);
        with(packed(&config))
    };
    let valid = changed(|it| {
        it.blackout_period = seconds(10);
        it.error_utilization_penalty = Some(FloatValue { value: 1.0 });
        let names =
            ["mem_utilization", "named_metrics.a.b", "request_cost.c", "eps", "named_metrics"];
        it.metric_names_for_computing_utilization = names.map(String::from).into();
    });
    let BalancingPolicy::ClientSideWeightedRoundRobin(rules) = valid.unwrap().balancing else {
        panic!("another policy")
    };
    let metrics = [UtilizationMetric::Memory, UtilizationMetric::Named("a.b".into())];
    assert_eq!(rules.utilization_metrics, metrics, "names that are not supported are omitted");
    let periods: [(&str, Change); 4] = [
        ("oob_reporting_period", |it| it.oob_reporting_period = seconds(-1)),
        ("blackout_period", |it| it.blackout_period = seconds(-1)),
        ("weight_expiration_period", |it| it.weight_expiration_period = seconds(-1)),
        ("weight_update_period", |it| it.weight_update_period = seconds(-1)),
    ];
    for (name, change) in periods {
        let text = why(changed(change));
        assert!(text.starts_with(&format!("{place}.{name}: must be a duration")), "{text}");
    }
    let negative = changed(|it| it.error_utilization_penalty = Some(FloatValue { value: -0.5 }));
    assert_eq!(why(negative), format!("{place}.error_utilization_penalty: must not be negative"));
    let garbage =
        Any { value: vec![0xff].into(), ..packed(&ClientSideWeightedRoundRobin::default()) };
    assert!(why(with(garbage)).starts_with(&format!("{place}.value: ")));
}

/// Bounds of gRFC A42, and the hash key of gRFC A76.
#[test]
fn ring_hash_sizes_are_bounded() {
    const MOST: u64 = 8 * 1_024 * 1_024;
    let with = |least: Option<u64>, most: Option<u64>, hash_function| {
        let size = |value: Option<u64>| value.map(|value| UInt64Value { value });
        let mut ring = eds("c");
        ring.lb_policy = LbPolicy::RingHash as i32;
        ring.lb_config = Some(LbConfig::RingHashLbConfig(RingHashLbConfig {
            minimum_ring_size: size(least),
            maximum_ring_size: size(most),
            hash_function,
        }));
        validated_cluster(&ring).map(|it| match it.balancing {
            BalancingPolicy::RingHash(ring) => (ring.minimum_size, ring.maximum_size),
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(with(None, None, 0), Ok((1_024, MOST)));
    assert_eq!(with(Some(10), Some(MOST), 0), Ok((10, MOST)));
    let place = "ring_hash_lb_config.";
    let reversed = format!("{place}minimum_ring_size: must not be above maximum_ring_size");
    assert_eq!(with(Some(20), Some(10), 0), Err(reversed));
    for (least, most, field) in
        [(Some(MOST + 1), None, "minimum_ring_size"), (None, Some(MOST + 1), "maximum_ring_size")]
    {
        let large = why(with(least, most, 0));
        assert!(large.contains(&format!("{place}{field}: must be from 1 to {MOST}")), "{large}");
    }
    assert_eq!(with(None, None, 1), Err(format!("{place}hash_function: must be XX_HASH")));

    let key = |value| {
        let said = proto::Struct { fields: [("hash_key".into(), value)].into() };
        let mut endpoint = endpoint("::1", 1);
        let mut metadata = proto::Metadata::default();
        metadata.filter_metadata.insert("envoy.lb".into(), said);
        endpoint.metadata = Some(metadata);
        let assignment = assignment(vec![locality(0, 1, vec![endpoint])]);
        let validated = ClusterLoadAssignment::from_schema(&assignment, &Rules::default()).unwrap();
        validated.endpoints().next().unwrap().hash_key.clone()
    };
    let value = |kind| proto::Value { kind: Some(kind) };
    assert_eq!(key(value(proto::value::Kind::StringValue("k".into()))), "k");
    assert_eq!(key(value(proto::value::Kind::NumberValue(1.0))), "");
    println!("covers: B33a");
}

#[test]
fn outlier_detection_has_defaults_and_bounds() {
    let with = |outliers: clusters::OutlierDetection| {
        let mut cluster = eds("c");
        cluster.outlier_detection = Some(outliers);
        validated_cluster(&cluster).map(|cluster| cluster.outliers.expect("it is asked for"))
    };
    let usual = with(Default::default()).unwrap();
    let times = [usual.interval, usual.base_ejection_time, usual.max_ejection_time];
    assert_eq!(times, [10, 30, 300].map(Duration::from_secs));
    assert_eq!(usual.max_ejection_percent, 10);
    let success = usual.success_rate.unwrap();
    let rate = (success.deviation, success.enforcement);
    assert_eq!((rate, success.minimum_endpoints, success.minimum_calls), ((1_900, 100), 5, 100));
    assert_eq!(usual.failure_percentage, None);
    let other = with(clusters::OutlierDetection {
        enforcing_success_rate: number(0),
        enforcing_failure_percentage: number(50),
        base_ejection_time: seconds(400),
        ..Default::default()
    });
    let other = other.unwrap();
    // Without a maximum, a longer base is the maximum.
    assert_eq!(other.max_ejection_time, Duration::from_secs(400));
    let half = DurationSchema { seconds: 300, nanos: 500_000_000 };
    let longer =
        with(clusters::OutlierDetection { base_ejection_time: Some(half), ..Default::default() });
    assert_eq!(longer.unwrap().max_ejection_time, Duration::from_millis(300_500));
    assert_eq!(other.success_rate, None);
    let failure = other.failure_percentage.unwrap();
    let rate = (failure.threshold, failure.enforcement);
    assert_eq!((rate, failure.minimum_endpoints, failure.minimum_calls), ((85, 50), 5, 50));

    type Change = fn(&mut clusters::OutlierDetection);
    let percentages: [(&str, Change); 4] = [
        ("max_ejection_percent", |it| it.max_ejection_percent = number(101)),
        ("enforcing_success_rate", |it| it.enforcing_success_rate = number(101)),
        ("failure_percentage_threshold", |it| it.failure_percentage_threshold = number(101)),
        ("enforcing_failure_percentage", |it| it.enforcing_failure_percentage = number(101)),
    ];
    for (name, change) in percentages {
        let mut outliers = Default::default();
        change(&mut outliers);
        let place = format!("outlier_detection.{name}: must not be above 100");
        assert_eq!(why(with(outliers)), place);
    }
    let times: [(&str, Change); 4] = [
        ("interval", |it| it.interval = seconds(-1)),
        ("base_ejection_time", |it| it.base_ejection_time = seconds(-1)),
        ("max_ejection_time", |it| it.max_ejection_time = seconds(-1)),
        ("interval", |it| {
            it.interval = Some(DurationSchema { seconds: 1, nanos: 1_000_000_000 });
        }),
    ];
    for (name, change) in times {
        let mut outliers = Default::default();
        change(&mut outliers);
        let text = why(with(outliers));
        assert!(
            text.starts_with(&format!("outlier_detection.{name}: must be a duration")),
            "{text}"
        );
    }
    println!("covers: B33d");
}

#[test]
fn http_protocol_options_are_parsed() {
    let with = |config: Option<Any>| {
        let upstream_config = TypedExtensionConfig { name: "http".into(), typed_config: config };
        validated_cluster(&clusters::Cluster { upstream_config: Some(upstream_config), ..eds("c") })
    };
    let hour = Duration::from_secs(3_600);
    assert_eq!(validated_cluster(&eds("c")).unwrap().idle_timeout, hour);
    let idle = |idle_timeout| {
        with(Some(packed(&HttpProtocolOptions {
            common_http_protocol_options: Some(CommonOptions {
                idle_timeout,
                ..CommonOptions::default()
            }),
        })))
    };
    assert_eq!(with(Some(packed(&HttpProtocolOptions::default()))).unwrap().idle_timeout, hour);
    assert_eq!(idle(None).unwrap().idle_timeout, hour);
    assert_eq!(idle(seconds(5)).unwrap().idle_timeout, Duration::from_secs(5));
    assert_eq!(idle(seconds(0)).unwrap().idle_timeout, Duration::ZERO);

    let place = "upstream_config.typed_config";
    for other in [None, Some(packed(&RoundRobin::default())), Some(Any::default())] {
        assert_eq!(why(with(other)), format!("{place}: must be HttpProtocolOptions"));
    }
    let garbage = Any { value: vec![0xff].into(), ..packed(&HttpProtocolOptions::default()) };
    assert!(why(with(Some(garbage))).starts_with(&format!("{place}.value: ")));
    let place = format!("{place}.common_http_protocol_options.idle_timeout");
    let nanos = |nanos| Some(DurationSchema { seconds: 1, nanos });
    for bad in [seconds(-1), seconds(315_576_000_001), nanos(-1), nanos(1_000_000_000)] {
        assert!(why(idle(bad)).starts_with(&format!("{place}: must be a duration")), "{bad:?}");
    }
    println!("covers: B30b");
}

#[test]
fn lrs_server_must_be_self() {
    let mut reported = eds("c");
    reported.lrs_server = ads();
    assert_eq!(why(validated_cluster(&reported)), "lrs_server: must be self");
    reported.lrs_server = Some(ConfigSource {
        config_source_specifier: Some(ConfigSourceSpecifier::Self_(SelfConfigSource {})),
        ..Default::default()
    });
    reported.lrs_report_endpoint_metrics = vec!["named_metrics.queue".into()];
    let reporting = validated_cluster(&reported).unwrap().load_reporting.expect("requested");
    assert_eq!(reporting.server, None, "the sender is unknown");
    assert!(reporting.metrics.named.contains("queue"));
    let (server, profile) = (ServerAddress::new("lrs:18000"), Profile::grpc());
    let context = ValidationContext::new(&server, &profile);
    let value = Clusters::default().validate(&reported.encode_to_vec().into(), &context);
    let cluster = value.unwrap().unwrap().downcast::<Cluster>().expect("a cluster");
    let reporting = cluster.load_reporting.clone().expect("requested");
    assert_eq!(reporting.server.map(|it| *it), Some(server));
    println!("covers: B49b");
}
