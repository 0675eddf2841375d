//! Balancer in virtual time: which endpoints are connected to, and which get calls.

mod any_order;
mod least_request;
mod members;
mod outliers;
mod pick_first;
mod rig;
mod ring_hash;
mod sessions;
mod weighted;

use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
    sync::{Arc, Mutex, atomic::AtomicU32},
};

use crate::support::*;
use rig::{Driver, a_cluster, cluster_schema, connected_to, judged_endpoints, schema};
use xds_core::ResourceName;
use xds_routing::{
    Rules,
    balancer::{Balancer, BalancerOutput, BalancerTimes, CallCounters, ConnectionEvent, Source},
    cluster::{Cluster, Discovery},
    proto::envoy::{
        config::{cluster::v3 as cds, core::v3::HealthStatus, endpoint::v3 as eds},
        r#type::v3::{FractionalPercent, fractional_percent::DenominatorType},
    },
};

#[test]
fn localities_are_weighted_and_endpoints_are_round_robin() {
    let mut driver = Driver::new(&[(0, 3, &[1, 2, 3]), (0, 1, &[11, 12])]);
    assert_eq!(driver.log(), "+1 +2 +3 +11 +12");
    assert_eq!(driver.pick().unwrap_err(), "queue");
    driver.connected(&[1, 2, 11]);
    let about = |count: u32, mean: u32| count.abs_diff(mean) < 200;
    let shares = driver.shares();
    assert_eq!(shares.keys().copied().collect::<Vec<_>>(), [1, 2, 11], "those that are ready");
    assert!(about(shares[&11], 2_500) && shares[&1].abs_diff(shares[&2]) <= 1, "{shares:?}");
    driver.connected(&[3, 12]);
    let shares = driver.shares();
    assert!(about(shares[&1], 2_500) && about(shares[&11], 1_250), "{shares:?}");

    // A locality without ready endpoints leaves its calls to the others.
    driver.is(11, ConnectionEvent::Closed);
    driver.fails(12);
    assert_eq!(driver.serving(), [1, 2, 3].into());
    assert_eq!(driver.log(), "", "neither is tried again before its time");
    driver.after(2);
    assert_eq!(driver.log().split(' ').collect::<BTreeSet<_>>(), ["+11", "+12"].into());
}

#[test]
fn next_priority_is_tried_after_ten_seconds_or_a_failure() {
    let mut driver = Driver::new(&[(0, 1, &[1]), (1, 1, &[2]), (2, 1, &[3])]);
    assert_eq!(driver.log(), "+1");
    driver.after(9);
    assert_eq!((driver.log().as_str(), driver.serving().len()), ("", 0));
    driver.after(1);
    assert_eq!(driver.log(), "+2");
    driver.fails(2);
    assert_eq!(driver.log(), "+3", "at once");
    driver.connected(&[3]);
    assert_eq!(driver.serving(), [3].into());
    // A higher priority becomes ready: it serves, and the others are kept for 15 minutes.
    driver.connected(&[1]);
    assert_eq!(driver.serving(), [1].into());
    driver.connected(&[2]);
    assert_eq!(driver.serving(), [1].into());
    driver.log();
    driver.after(15 * 60 - 1);
    assert_eq!(driver.log(), "");
    driver.after(1);
    assert_eq!(driver.log(), "-2 -3");

    // It is lost, and gets a new failover timeout of 10 s.
    driver.is(1, ConnectionEvent::Closed);
    assert_eq!((driver.log().as_str(), driver.pick().unwrap_err().as_str()), ("+1", "queue"));
    driver.after(9);
    assert_eq!(driver.log(), "");
    driver.after(1);
    assert_eq!(driver.log(), "+2");
}

#[test]
fn retained_priority_serves_at_once() {
    let mut driver = Driver::new(&[(0, 1, &[1]), (1, 1, &[2])]);
    driver.fails(1);
    driver.connected(&[2]);
    assert_eq!(driver.serving(), [2].into());
    driver.after(2);
    driver.connected(&[1]);
    assert_eq!(driver.serving(), [1].into());
    driver.log();
    driver.is(1, ConnectionEvent::Closed);
    driver.after(2);
    driver.fails(1);
    assert_eq!((driver.serving(), driver.log().contains("+2")), ([2].into(), false));
    // It is not released while it serves.
    driver.after(20 * 60);
    assert_eq!((driver.serving(), driver.log().contains('-')), ([2].into(), false));
}

#[test]
fn calls_fail_with_the_last_error_when_all_endpoints_have_failed() {
    let mut driver = Driver::new(&[(0, 1, &[1, 2])]);
    driver.fails(1);
    assert_eq!(driver.pick().unwrap_err(), "queue", "the other may come");
    driver.fails(2);
    let failed = "connections to all endpoints failed; the last: 2 refused";
    assert_eq!(driver.pick().unwrap_err(), failed);
    driver.log();
    // Attempts become less frequent. Calls do not wait for them.
    let mut attempts = 0;
    for _ in 0..60 {
        driver.after(10);
        attempts += driver.log().split_whitespace().count();
        for port in [1, 2] {
            driver.fails(port);
        }
        assert_eq!(driver.pick().unwrap_err(), failed);
    }
    assert!((20..40).contains(&attempts), "{attempts}");
    driver.after(200);
    driver.connected(&[1]);
    assert_eq!(driver.serving(), [1].into());

    let mut none = Driver::new(&[]);
    assert_eq!(none.pick().unwrap_err(), "there are no endpoints");
    let mut empty = Driver::new(&[(0, 1, &[])]);
    assert_eq!(empty.pick().unwrap_err(), "there are no endpoints");
}

#[test]
fn connections_survive_updates_and_the_picker_is_updated_first() {
    let mut driver = Driver::new(&[(0, 1, &[1, 2]), (1, 1, &[3])]);
    driver.connected(&[1, 2]);
    driver.log();
    // Port 2 moves to another locality, port 3 to another priority, and port 1 is removed.
    driver.update(&schema(&[(0, 1, &[3]), (0, 7, &[2])]));
    assert_eq!(driver.log(), "-1 +3");
    assert_eq!(driver.serving(), [2].into());
    // Events of a disconnected connection are ignored.
    driver.balancer.handle_connection(
        *driver.ports.keys().next().unwrap(),
        connected_to(1),
        driver.now,
    );
    driver.follow();

    // Endpoints that are unhealthy or draining get no connection.
    let mut ill = schema(&[(0, 1, &[2, 4])]);
    ill.endpoints[0].lb_endpoints[0].health_status = HealthStatus::Draining as i32;
    driver.update(&ill);
    driver.connected(&[4]);
    assert!(!driver.ports.values().any(|&port| port == 2));
}

/// With thousands of endpoints, a picker for each event would be slow.
#[test]
fn events_in_a_row_produce_one_picker() {
    let mut driver = Driver::new(&[(0, 1, &[1, 2, 3]), (1, 1, &[4])]);
    let ids: Vec<_> = driver.ports.keys().copied().collect();
    for id in &ids[..2] {
        driver.balancer.handle_connection(*id, connected_to(1), driver.now);
    }
    let lost = ConnectionEvent::Failed("refused".into());
    driver.balancer.handle_connection(ids[2], lost, driver.now);
    let outputs: Vec<_> = iter::from_fn(|| driver.balancer.poll_output()).collect();
    let [BalancerOutput::Pick(picker)] = outputs.as_slice() else { panic!("{outputs:?}") };
    driver.picker = picker.clone();
    assert_eq!(driver.serving().len(), 2);
    // Without outputs in between, the events are due at once.
    driver.balancer.handle_connection(ids[0], ConnectionEvent::Closed, driver.now);
    assert_eq!(driver.balancer.poll_timeout(), Some(driver.now));
    driver.balancer.handle_timeout(driver.now);
    driver.follow();
    assert_eq!(driver.serving().len(), 1);
}

/// A socket can report its end after its failure. The endpoint stays failed, and calls do not wait
/// for the next attempt, which may be two minutes away.
#[test]
fn events_between_two_attempts_are_ignored() {
    let refused = "connections to all endpoints failed; the last: 1 refused";
    let mut driver = Driver::new(&[(0, 1, &[1])]);
    for _ in 0..4 {
        driver.fails(1);
        driver.log();
        driver.is(1, ConnectionEvent::Closed);
        assert_eq!(driver.pick().unwrap_err(), refused);
        let due = driver.balancer.poll_timeout();
        driver.fails(1);
        assert_eq!(driver.balancer.poll_timeout(), due, "one failure counts once");
        driver.after(due.unwrap().since(driver.now).as_secs() + 1);
        assert_eq!(driver.log(), "+1");
    }
    // The end of an earlier attempt can also be reported after the next one has begun.
    driver.is(1, ConnectionEvent::Closed);
    assert_eq!(driver.pick().unwrap_err(), refused);
    driver.after(200);
    driver.connected(&[1]);
    assert_eq!(driver.serving(), [1].into());

    // An attempt that ends with the wrong event is made again.
    let mut driver = Driver::new(&[(0, 1, &[1])]);
    driver.log();
    driver.is(1, ConnectionEvent::Closed);
    driver.after(2);
    assert_eq!(driver.log(), "+1");
}

/// Removed endpoints serve until new ones are ready or have failed.
#[test]
fn removed_endpoints_serve_until_new_ones_are_ready() {
    let mut driver = Driver::new(&[(0, 1, &[1, 2])]);
    driver.connected(&[1, 2]);
    driver.log();
    driver.update(&schema(&[(0, 1, &[3, 4])]));
    assert_eq!((driver.log().as_str(), driver.serving()), ("+3 +4", [1, 2].into()));
    // A lost connection of a removed endpoint is not established again.
    driver.is(1, ConnectionEvent::Closed);
    assert_eq!((driver.log().as_str(), driver.serving()), ("-1", [2].into()));
    driver.fails(3);
    assert_eq!(driver.serving(), [2].into());
    driver.connected(&[4]);
    assert_eq!((driver.log().as_str(), driver.serving()), ("-2", [4].into()));

    // An endpoint that moves to another priority keeps serving.
    driver.update(&schema(&[(0, 1, &[5]), (1, 1, &[4])]));
    assert_eq!((driver.log().as_str(), driver.serving()), ("-3 +5", [4].into()));
    driver.connected(&[5]);
    assert_eq!((driver.log().as_str(), driver.serving()), ("-4", [5].into()));

    // With no endpoints left, calls fail.
    driver.update(&schema(&[]));
    assert_eq!((driver.log().as_str(), driver.serving().len()), ("-5", 0));
    assert_eq!(driver.pick().unwrap_err(), "there are no endpoints");

    let mut failing = Driver::new(&[(0, 1, &[1])]);
    failing.connected(&[1]);
    failing.update(&schema(&[(0, 1, &[2])]));
    failing.fails(2);
    assert!(failing.pick().unwrap_err().contains("2 refused"), "as gRPC has it");
}

#[test]
fn drop_overloads_drop_their_share_of_calls() {
    let mut schema = schema(&[(0, 1, &[1])]);
    let drop = |category: &str, numerator| eds::cluster_load_assignment::policy::DropOverload {
        category: category.into(),
        drop_percentage: Some(FractionalPercent {
            numerator,
            denominator: DenominatorType::Hundred as i32,
        }),
    };
    schema.policy = Some(eds::cluster_load_assignment::Policy {
        drop_overloads: vec![drop("some", 10), drop("half", 50)],
    });
    let mut driver = Driver::new(&[]);
    driver.update(&schema);
    assert_eq!(driver.pick().unwrap_err(), "queue");
    driver.connected(&[1]);
    let mut counts = BTreeMap::<String, u32>::new();
    for _ in 0..10_000 {
        let picked = driver.pick().map_or_else(|why| why, |(port, _)| port.to_string());
        *counts.entry(picked).or_default() += 1;
    }
    for (what, mean) in [("drop: some", 1_000_u32), ("drop: half", 4_500), ("1", 4_500)] {
        assert!(counts[what].abs_diff(mean) < 200, "{counts:?}");
    }
}

fn limited(most: u32) -> Cluster {
    let mut schema = cluster_schema("c");
    schema.circuit_breakers = Some(cds::CircuitBreakers {
        thresholds: vec![cds::circuit_breakers::Thresholds {
            max_requests: number(most),
            ..cds::circuit_breakers::Thresholds::default()
        }],
    });
    Cluster::from_schema(&schema, &Rules::default()).expect("a cluster")
}

#[test]
fn calls_over_the_circuit_breaker_limit_are_dropped() {
    let mut driver = Driver::new(&[(0, 1, &[1])]);
    driver.connected(&[1]);
    let (few, endpoints) = (limited(2), judged_endpoints(&schema(&[(0, 1, &[1])])));
    driver.balance(&[Source::new(&few, &endpoints)]);
    let (first, second) = (driver.pick().unwrap(), driver.pick().unwrap());
    assert_eq!(driver.pick().unwrap_err(), "TooMany");
    // The count is kept across updates.
    driver.balance(&[Source::new(&few, &endpoints)]);
    assert_eq!(driver.pick().unwrap_err(), "TooMany");
    drop((first, second));
    assert!(driver.pick().is_ok());
}

/// Counters shared by balancers of the same cluster and endpoints.
#[derive(Debug, Default)]
struct Shared(Mutex<BTreeMap<Counted, Arc<AtomicU32>>>);

/// Cluster and name of its endpoints.
type Counted = (ResourceName, Option<ResourceName>);

impl CallCounters for Shared {
    fn counter(&self, cluster: &ResourceName, of: Option<&ResourceName>) -> Arc<AtomicU32> {
        let key = (cluster.clone(), of.cloned());
        Arc::clone(self.0.lock().unwrap().entry(key).or_default())
    }
}

/// Two balancers of one cluster share its limit of concurrent calls (gRFC A32).
#[test]
fn balancers_of_one_cluster_share_the_circuit_breaker() {
    let counters: Arc<Shared> = Arc::default();
    let endpoints = judged_endpoints(&schema(&[(0, 1, &[1])]));
    let mut elsewhere = limited(1);
    elsewhere.discovery = Discovery::Eds("elsewhere".into());
    let [mut one, mut two, mut other] = [&limited(1), &limited(1), &elsewhere].map(|cluster| {
        let mut driver = Driver::new(&[(0, 1, &[1])]);
        driver.balancer = Balancer::new(BalancerTimes::default(), 1)
            .with_counters(Arc::<Shared>::clone(&counters));
        driver.balance(&[Source::new(cluster, &endpoints)]);
        driver.connected(&[1]);
        driver
    });
    let (_, permit) = one.pick().unwrap();
    assert_eq!(two.pick().unwrap_err(), "TooMany");
    assert!(other.pick().is_ok(), "other endpoints, another limit");
    drop(permit);
    assert!(two.pick().is_ok());
}

#[test]
fn aggregate_members_are_tried_in_order() {
    let (first, second) = (schema(&[(0, 1, &[1]), (1, 1, &[2])]), schema(&[(0, 1, &[3])]));
    let (first, second) = (judged_endpoints(&first), judged_endpoints(&second));
    let mut driver = Driver::new(&[]);
    let cluster = a_cluster();
    driver.balance(&[Source::new(&cluster, &first), Source::new(&cluster, &second)]);
    for port in [1, 2] {
        driver.fails(port);
    }
    assert_eq!(driver.log(), "+1 +2 +3");
    driver.connected(&[3]);
    assert_eq!(driver.serving(), [3].into());
}
