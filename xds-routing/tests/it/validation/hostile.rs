//! Malformed and very large resources.

use prost::Message as _;
use xds_routing::{
    Rules,
    cluster::Cluster,
    endpoint::ClusterLoadAssignment,
    listener::Listener,
    proto::envoy::config::{core::v3::CidrRange, listener::v3::FilterChainMatch},
};

use crate::{
    support::*,
    validation::{
        clusters::eds,
        endpoints::{assignment, endpoint, locality},
        servers,
    },
};

/// Validation time grows linearly with the size of a resource. In quadratic time this test would
/// take minutes.
#[test]
fn validation_time_is_linear_in_the_resource_size() {
    let rules = Rules::default();
    let places = (0..40_000).map(|n| {
        let mut place = locality(0, 1, vec![]);
        place.locality.as_mut().expect("it has one").zone = format!("zone {n}");
        place
    });
    let assignment = assignment(places.collect());
    assert!(ClusterLoadAssignment::from_schema(&assignment, &rules).is_ok());

    let mut manager = manager(rds("r"));
    let last = manager.http_filters.pop().expect("the router");
    let fault = "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault";
    manager.http_filters.extend((0..40_000).map(|n| filter(&format!("fault {n}"), fault)));
    manager.http_filters.push(last);
    assert!(Listener::from_schema(&api_listener("l", &manager), &rules).is_ok());

    let chains = |count: u32, ports: core::ops::Range<u32>| {
        let chains = (0..count).map(|n| {
            let prefix = format!("10.{}.{}.0", n / 256, n % 256);
            servers::chain(Some(FilterChainMatch {
                prefix_ranges: vec![CidrRange { address_prefix: prefix, prefix_len: number(24) }],
                source_ports: ports.clone().collect(),
                ..FilterChainMatch::default()
            }))
        });
        let validated = Listener::from_schema(&servers::server(chains.collect()), &rules);
        validated.map(|_| ()).map_err(|it| it.to_string())
    };
    assert_eq!(chains(20_000, 0..5), Ok(()));
    let more = chains(20, 0..6_000).expect_err("they stand for too many");
    assert_eq!(more, "filter_chains: represent more than 100000 combinations of match conditions");
}

/// No bytes cause a panic.
#[test]
fn malformed_bytes_are_rejected_without_a_panic() {
    use proptest::prelude::*;
    let mut runner = proptest::test_runner::TestRunner::default();
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
