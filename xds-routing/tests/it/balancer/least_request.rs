//! Least request (gRFC A48): which endpoints get calls while others have active ones.

use std::collections::BTreeMap;

use xds_routing::{
    Rules,
    balancer::{CallPermit, ConnectionEvent, Source},
    cluster::Cluster,
    proto::envoy::config::cluster::v3 as cds,
};

use crate::{
    balancer::rig::{Driver, cluster_schema, judged_endpoints, schema},
    support::*,
};

fn least_of(choices: u32) -> Cluster {
    let mut schema = cluster_schema("c");
    schema.lb_policy = cds::cluster::LbPolicy::LeastRequest as i32;
    let config = cds::cluster::LeastRequestLbConfig { choice_count: number(choices) };
    schema.lb_config = Some(cds::cluster::LbConfig::LeastRequestLbConfig(config));
    Cluster::from_schema(&schema, &Rules::default()).expect("a cluster")
}

fn driver(choices: u32, ports: &[u32]) -> Driver {
    let mut driver = Driver::new(&[]);
    let endpoints = judged_endpoints(&schema(&[(0, 1, ports)]));
    driver.balance(&[Source::new(&least_of(choices), &endpoints)]);
    ports.iter().for_each(|&port| driver.connected(&[port as u16]));
    driver
}

/// Makes calls that do not end. Returns them by port.
fn calls(driver: &mut Driver, count: usize) -> BTreeMap<u16, Vec<CallPermit>> {
    let mut active: BTreeMap<u16, Vec<CallPermit>> = BTreeMap::new();
    for _ in 0..count {
        let (port, permit) = driver.pick().expect("an endpoint");
        active.entry(port).or_default().push(permit);
    }
    active
}

#[test]
fn endpoint_with_fewer_active_calls_is_preferred() {
    let mut driver = driver(2, &[1, 2]);
    let mut active = calls(&mut driver, 100);
    let counts = |active: &BTreeMap<u16, Vec<CallPermit>>| [active[&1].len(), active[&2].len()];
    let [one, two] = counts(&active);
    assert!(one.abs_diff(two) <= 10, "{one} and {two}");
    // The calls to one endpoint end, so it gets three of four further calls: all for which it is drawn.
    active.remove(&1);
    let more = calls(&mut driver, 40);
    assert!((22..=38).contains(&more[&1].len()), "{}", more[&1].len());
    // A dropped permit counts no more.
    drop((active, more));
    let [one, two] = counts(&calls(&mut driver, 100));
    assert!(one.abs_diff(two) <= 10, "{one} and {two}");
}

/// With ten choices of two endpoints, the one with more active calls is practically never chosen. More
/// choices than ten count as ten.
#[test]
fn number_of_choices_is_limited() {
    for choices in [10, u32::MAX] {
        let mut driver = driver(choices, &[1, 2]);
        let (first, _busy) = driver.pick().expect("an endpoint");
        let (second, _) = driver.pick().expect("an endpoint");
        assert_ne!(first, second, "{choices} choices");
        let shares = driver.shares();
        assert!(shares.get(&first).copied().unwrap_or(0) < 50, "{choices} choices: {shares:?}");
    }
}

/// Active calls count after an update of the endpoints.
#[test]
fn active_calls_count_in_the_next_picker() {
    let mut driver = driver(10, &[1, 2]);
    let _busy: Vec<_> = calls(&mut driver, 20).remove(&1).expect("calls to it");
    let endpoints = judged_endpoints(&schema(&[(0, 1, &[1, 2, 3])]));
    driver.balance(&[Source::new(&least_of(10), &endpoints)]);
    driver.connected(&[3]);
    let shares = driver.shares();
    assert!(shares.get(&1).copied().unwrap_or(0) < 10, "{shares:?}");
    assert!(shares[&2] > 3_000 && shares[&3] > 3_000, "{shares:?}");
    driver.is(3, ConnectionEvent::Closed);
    let shares = driver.shares();
    assert!(!shares.contains_key(&3) && shares[&2] > 9_900, "{shares:?}");
}
