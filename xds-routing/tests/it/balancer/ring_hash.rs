//! Ring hash (gRFC A42): which endpoints get the calls of a hash.

use std::collections::BTreeMap;

use xds_core::proto::{self, UInt64Value};
use xds_routing::{
    Rules,
    balancer::{ConnectionEvent, ConnectorId, Source},
    cluster::Cluster,
    proto::envoy::config::{cluster::v3 as cds, endpoint::v3 as eds},
};

use crate::{
    balancer::rig::{Driver, cluster_schema, judged_endpoints, schema},
    support::*,
};

fn ring_of(minimum: u64, maximum: Option<u64>) -> Cluster {
    let mut schema = cluster_schema("c");
    schema.lb_policy = cds::cluster::LbPolicy::RingHash as i32;
    schema.lb_config =
        Some(cds::cluster::LbConfig::RingHashLbConfig(cds::cluster::RingHashLbConfig {
            minimum_ring_size: Some(UInt64Value { value: minimum }),
            maximum_ring_size: maximum.map(|value| UInt64Value { value }),
            ..cds::cluster::RingHashLbConfig::default()
        }));
    Cluster::from_schema(&schema, &Rules::default()).expect("a cluster")
}

fn balance(driver: &mut Driver, schema: &eds::ClusterLoadAssignment) {
    driver.balance(&[Source::new(&ring_of(1_024, None), &judged_endpoints(schema))]);
}

fn driver(localities: &[(u32, u32, &[u32])]) -> Driver {
    let mut driver = Driver::new(&[]);
    balance(&mut driver, &schema(localities));
    for (_, _, ports) in localities {
        ports.iter().for_each(|&port| driver.connected(&[port as u16]));
    }
    driver
}

/// Hashes spread over all values.
fn hashes() -> impl Iterator<Item = u64> {
    (0..2_000_u64).map(|it| it.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Returns the port for each hash.
fn choices(driver: &mut Driver) -> Vec<u16> {
    hashes().map(|hash| driver.pick_by(Some(hash)).expect("an endpoint").0).collect()
}

fn shares(choices: &[u16]) -> BTreeMap<u16, usize> {
    let mut shares = BTreeMap::new();
    choices.iter().for_each(|port| *shares.entry(*port).or_default() += 1);
    shares
}

#[test]
fn equal_hashes_choose_the_same_endpoint() {
    let mut first = driver(&[(0, 1, &[1, 2, 3, 4])]);
    let chosen = choices(&mut first);
    assert_eq!(choices(&mut first), chosen);
    assert_eq!(shares(&chosen).len(), 4);
    // The order of the endpoints does not matter, nor does a reconnection.
    let mut second = driver(&[(0, 1, &[4, 2, 1, 3])]);
    second.is(2, ConnectionEvent::Closed);
    second.connected(&[2]);
    assert_eq!(choices(&mut second), chosen);
    println!("covers: B33a");
}

#[test]
fn call_without_a_hash_chooses_at_random() {
    let mut driver = driver(&[(0, 1, &[1, 2])]);
    let shares = driver.shares();
    assert!(shares[&1] > 4_000 && shares[&2] > 4_000, "{shares:?}");
}

/// All localities are one ring. The weights of localities and endpoints are multiplied.
#[test]
fn weights_of_localities_and_endpoints_count() {
    let mut driver = Driver::new(&[]);
    let mut schema = schema(&[(0, 3, &[1, 2]), (0, 1, &[3, 4])]);
    schema.endpoints[0].lb_endpoints[0].load_balancing_weight = number(3);
    balance(&mut driver, &schema);
    driver.connected(&[1, 2, 3, 4]);
    // 9 : 3 : 1 : 1 of 2,000
    let shares = shares(&choices(&mut driver));
    for (port, expected) in [(1, 1_286), (2, 429), (3, 143), (4, 143)] {
        assert!(shares[&port].abs_diff(expected) < expected / 2, "{shares:?}");
    }
}

/// Calls of an endpoint that is connecting wait. Those of one that has failed go to the next one on
/// the ring, and come back.
#[test]
fn calls_of_a_failed_endpoint_go_to_the_next_one() {
    let mut driver = driver(&[(0, 1, &[1, 2, 3])]);
    let before = choices(&mut driver);
    driver.is(2, ConnectionEvent::Closed);
    for (hash, port) in hashes().zip(&before) {
        let picked = driver.pick_by(Some(hash)).map(|(port, _)| port);
        match port {
            2 => assert_eq!(picked, Err("queue".into())),
            port => assert_eq!(picked, Ok(*port)),
        }
    }
    driver.fails(2);
    let after = choices(&mut driver);
    for (before, after) in before.iter().zip(&after) {
        assert!(before == after || *before == 2);
    }
    let of_failed: Vec<u16> =
        before.iter().zip(&after).filter(|(it, _)| **it == 2).map(|(_, after)| *after).collect();
    assert_eq!(shares(&of_failed).len(), 2, "both others get a part of its calls");
    driver.connected(&[2]);
    assert_eq!(choices(&mut driver), before);

    driver.fails(1);
    driver.fails(2);
    assert_eq!(shares(&choices(&mut driver)).keys().copied().collect::<Vec<_>>(), [3]);
    driver.fails(3);
    let why = driver.pick_by(Some(7)).unwrap_err();
    assert_eq!(why, "connections to all endpoints failed; the last: 3 refused");
}

/// A small ring has no place for some endpoints. Calls do not wait for those.
#[test]
fn calls_fail_when_all_endpoints_of_the_ring_have_failed() {
    let mut driver = Driver::new(&[]);
    let endpoints = judged_endpoints(&schema(&[(0, 1, &[1, 2, 3, 4])]));
    driver.balance(&[Source::new(&ring_of(1, Some(2)), &endpoints)]);
    driver.connected(&[1, 2, 3, 4]);
    let used: Vec<u16> = shares(&choices(&mut driver)).into_keys().collect();
    assert_eq!(used.len(), 2, "one hash for each");
    used.iter().for_each(|&port| driver.fails(port));
    let why = driver.pick_by(Some(7)).unwrap_err();
    assert_eq!(why, "all endpoints on the ring have failed");
    driver.connected(&used[..1]);
    assert_eq!(driver.pick_by(Some(7)).map(|(port, _)| port), Ok(used[0]));
}

/// gRFC A42: two failed endpoints are enough to fail over. With round robin, all must fail.
#[test]
fn priority_with_two_failed_endpoints_fails_over() {
    let mut driver = Driver::new(&[]);
    balance(&mut driver, &schema(&[(0, 1, &[1, 2, 3]), (1, 1, &[4])]));
    driver.fails(1);
    assert_eq!(driver.log(), "+1 +2 +3");
    driver.fails(2);
    assert_eq!(driver.log(), "+4");
    driver.connected(&[4]);
    assert_eq!(driver.pick_by(Some(7)).map(|(port, _)| port), Ok(4));
    driver.connected(&[3]);
    assert_eq!(driver.pick_by(Some(7)).map(|(port, _)| port), Ok(3));
    // Without another priority, calls wait for the endpoint that is connecting.
    let mut last = Driver::new(&[]);
    balance(&mut last, &schema(&[(0, 1, &[1, 2, 3])]));
    last.fails(1);
    last.fails(2);
    assert_eq!(last.pick_by(Some(7)).unwrap_err(), "queue");
    println!("covers: B33a");
}

/// While a changed connector makes new connections, calls stay with their endpoints.
#[test]
fn affinity_is_kept_while_new_connections_are_made() {
    let mut driver = driver(&[(0, 1, &[1, 2, 3])]);
    driver.is(3, ConnectionEvent::Closed);
    driver.fails(3);
    let before = choices(&mut driver);
    let (ring, endpoints) =
        (ring_of(1_024, None), judged_endpoints(&schema(&[(0, 1, &[1, 2, 3])])));
    let way = ConnectorId(1);
    driver.balance(&[Source::new(&ring, &endpoints).with_connector(Ok(way))]);
    assert_eq!(choices(&mut driver), before);
}

/// gRFC A76: the position of an endpoint follows its hash key, whatever its address.
#[test]
fn hash_key_replaces_the_address() {
    let keyed = |ports: [u32; 3]| {
        let mut schema = schema(&[(0, 1, &ports)]);
        for (endpoint, key) in schema.endpoints[0].lb_endpoints.iter_mut().zip(["x", "y", "z"]) {
            let key = proto::Value { kind: Some(proto::value::Kind::StringValue(key.into())) };
            let fields = [("hash_key".into(), key)].into();
            let mut metadata = proto::Metadata::default();
            metadata.filter_metadata.insert("envoy.lb".into(), proto::Struct { fields });
            endpoint.metadata = Some(metadata);
        }
        let mut driver = Driver::new(&[]);
        balance(&mut driver, &schema);
        driver.connected(&ports.map(|port| port as u16));
        choices(&mut driver)
    };
    let (first, second) = (keyed([1, 2, 3]), keyed([7, 8, 9]));
    assert_eq!(first.iter().map(|port| port + 6).collect::<Vec<_>>(), second);
    println!("covers: B33a");
}
