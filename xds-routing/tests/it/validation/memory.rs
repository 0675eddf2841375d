//! Values do not keep the response alive that their resource came in.

use bytes::Bytes;
use prost::Message;
use xds_core::proto::Any;
use xds_routing::{
    Rules,
    cluster::{BalancingPolicy, Cluster},
    listener::Listener,
    proto::envoy::config::{
        cluster::v3::{LoadBalancingPolicy, load_balancing_policy::Policy},
        core::v3::TypedExtensionConfig,
        route::v3::ClusterSpecifierPlugin,
    },
    route::RouteConfiguration,
    rules::{FilterPlace, FilterSides, HttpFilterKind},
};

use crate::{support::*, validation::clusters::eds};

const OWN: &str = "type.googleapis.com/a.Own";
const REPORTED: &str = "type.googleapis.com/envoy.extensions.load_balancing_policies.\
    client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin";

fn rules() -> Rules {
    let mut rules = Rules::default();
    let kind = HttpFilterKind::new(FilterPlace::Before, FilterSides::Both);
    rules.http_filters.insert(OWN.into(), kind);
    rules.cluster_specifiers.push(OWN.into());
    rules.lb_policies.push(OWN.into());
    rules
}

fn own(url: &str) -> Any {
    // An unknown field.
    Any { type_url: url.into(), value: [&[0xa2, 0x06, 32][..], &[7; 32]].concat().into() }
}

/// Validates a resource that is a slice of a frame. Returns the value, and whether nothing else
/// refers to the frame afterwards.
fn releases_the_frame<T>(
    resource: &impl Message,
    validator: impl FnOnce(&Bytes) -> T,
) -> (T, bool) {
    let frame = Bytes::from([resource.encode_to_vec(), vec![0; 4096]].concat());
    let value = validator(&frame.slice(..resource.encoded_len()));
    let is_ours_alone = frame.is_unique();
    (value, is_ours_alone)
}

#[test]
fn validated_resource_does_not_keep_the_response_frame() {
    let rules = rules();
    let mut manager = manager(rds("r"));
    let mut first = filter("own", OWN);
    first.config_type = Some(
        xds_routing::proto::envoy::extensions::filters::network::http_connection_manager::v3::http_filter::ConfigType::TypedConfig(own(OWN)),
    );
    manager.http_filters.insert(0, first);
    let (listener, is_free) = releases_the_frame(&api_listener("l", &manager), |bytes| {
        Listener::from_bytes(bytes, &rules).expect("a valid listener")
    });
    assert_eq!(listener.api().expect("of clients").filters.len(), 2);
    assert!(is_free, "the filters of a listener");

    let chosen = route(
        prefix(""),
        xds_routing::proto::envoy::config::route::v3::route_action::ClusterSpecifier::ClusterSpecifierPlugin("p".into()),
    );
    let mut table = table(vec![chosen]);
    table.typed_per_filter_config.insert("own".into(), own(OWN));
    table.cluster_specifier_plugins.push(ClusterSpecifierPlugin {
        extension: Some(TypedExtensionConfig { name: "p".into(), typed_config: Some(own(OWN)) }),
        is_optional: false,
    });
    let (routes, is_free) = releases_the_frame(&table, |bytes| {
        RouteConfiguration::from_bytes(bytes, &rules).expect("valid routes")
    });
    assert_eq!(routes.overrides().len(), 1);
    assert!(is_free, "the plugins and settings of routes");

    for url in [OWN, REPORTED] {
        let config = TypedExtensionConfig { name: "p".into(), typed_config: Some(own(url)) };
        let mut cluster = eds("c");
        cluster.load_balancing_policy = Some(LoadBalancingPolicy {
            policies: vec![Policy { typed_extension_config: Some(config) }],
        });
        let (cluster, is_free) = releases_the_frame(&cluster, |bytes| {
            Cluster::from_bytes(bytes, &rules).expect("a valid cluster")
        });
        let is_kept = matches!(
            cluster.balancing,
            BalancingPolicy::Custom(_) | BalancingPolicy::ClientSideWeightedRoundRobin(_)
        );
        assert!(is_kept && is_free, "the policy of a cluster");
    }
}
