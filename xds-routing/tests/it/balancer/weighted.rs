//! Weighted round robin (gRFC A58): shares of the endpoints by the loads that they report.

use xds_core::proto::Duration;
use xds_routing::{
    Rules,
    balancer::{CallOutcome, ConnectionEvent, LoadReport, Source},
    cluster::Cluster,
    proto::envoy::{
        config::cluster::v3 as cds,
        extensions::load_balancing_policies::client_side_weighted_round_robin::v3::ClientSideWeightedRoundRobin,
    },
};

use crate::{
    balancer::rig::{Driver, cluster_schema, judged_endpoints, schema},
    support::*,
};

fn driver(config: &ClientSideWeightedRoundRobin) -> Driver {
    driver_with(config, None)
}

fn driver_with(
    config: &ClientSideWeightedRoundRobin,
    outliers: Option<cds::OutlierDetection>,
) -> Driver {
    let schema_of_cluster = cds::Cluster {
        load_balancing_policy: policies(config),
        outlier_detection: outliers,
        ..cluster_schema("c")
    };
    let cluster = Cluster::from_schema(&schema_of_cluster, &Rules::default()).expect("a cluster");
    let mut driver = Driver::new(&[]);
    let endpoints = judged_endpoints(&schema(&[(0, 1, &[1, 2, 3])]));
    driver.balance(&[Source::new(&cluster, &endpoints)]);
    driver.connected(&[1, 2, 3]);
    driver
}

/// Makes a call to each endpoint. Each reports 100 requests per second and its utilization.
fn report(driver: &mut Driver, utilizations: [f64; 3]) {
    let mut missing = [1, 2, 3].into_iter().zip(utilizations).collect::<Vec<_>>();
    while !missing.is_empty() {
        let (port, permit) = driver.pick().expect("an endpoint");
        if let Some(place) = missing.iter().position(|(it, _)| *it == port) {
            let (_, utilization) = missing.remove(place);
            let load = LoadReport { requests: 100.0, errors: 0.0, utilization };
            permit.report_load(&load, driver.now);
        }
    }
}

#[track_caller]
fn check(driver: &mut Driver, expected: [u32; 3]) {
    let shares = driver.shares();
    for (port, expected) in [1, 2, 3].into_iter().zip(expected) {
        assert!(shares[&port].abs_diff(expected) < 100, "{shares:?}");
    }
}

const EQUAL: [u32; 3] = [3_333, 3_333, 3_333];

#[test]
fn shares_follow_the_reports_after_the_blackout() {
    let mut driver = driver(&ClientSideWeightedRoundRobin::default());
    check(&mut driver, EQUAL);
    report(&mut driver, [0.2, 0.2, 0.4]);
    driver.after(9);
    check(&mut driver, EQUAL);
    driver.after(2);
    check(&mut driver, [4_000, 4_000, 2_000]);
    report(&mut driver, [0.4, 0.2, 0.2]);
    driver.after(1);
    check(&mut driver, [2_000, 4_000, 4_000]);
    // An endpoint that is connected again has the mean weight of the others until its blackout ends.
    driver.is(1, ConnectionEvent::Closed);
    driver.connected(&[1]);
    check(&mut driver, EQUAL);
    report(&mut driver, [0.4, 0.2, 0.2]);
    driver.after(11);
    check(&mut driver, [2_000, 4_000, 4_000]);
    // The weights expire three minutes after the last report.
    driver.after(175);
    check(&mut driver, EQUAL);
    println!("covers: B33f");
}

/// One timer per interval, which is at least 100 ms.
#[test]
fn weights_are_renewed_at_the_interval() {
    for (stated, expected) in [(None, 1_000), (Some(0), 100), (Some(250_000_000), 250)] {
        let mut driver = driver(&ClientSideWeightedRoundRobin {
            weight_update_period: stated.map(|nanos| Duration { seconds: 0, nanos }),
            ..ClientSideWeightedRoundRobin::default()
        });
        let due = driver.balancer.poll_timeout().expect("a timer");
        assert_eq!(due.since(driver.now).as_millis(), expected);
        driver.now = due;
        driver.balancer.handle_timeout(due);
        driver.follow();
        let next = driver.balancer.poll_timeout().expect("a timer");
        assert_eq!(next.since(due).as_millis(), expected);
    }
}

/// Calls are rarer than the renewals of the weights.
#[test]
fn shares_of_rare_calls_follow_the_weights() {
    let mut driver = driver(&ClientSideWeightedRoundRobin::default());
    report(&mut driver, [0.1, 1.0, 0.1]);
    driver.after(11);
    let mut shares = [0_u32; 3];
    for _ in 0..2_100 {
        driver.after(1);
        let (port, permit) = driver.pick().expect("an endpoint");
        let utilization = if port == 2 { 1.0 } else { 0.1 };
        permit.report_load(&LoadReport { requests: 100.0, errors: 0.0, utilization }, driver.now);
        shares[usize::from(port) - 1] += 1;
    }
    for (share, expected) in shares.into_iter().zip([1_000, 100, 1_000]) {
        assert!(share.abs_diff(expected) < 20, "{shares:?}");
    }
}

/// An endpoint that was ejected has no recent reports, so its blackout begins again.
#[test]
fn readmitted_outlier_has_the_mean_weight_until_its_blackout_ends() {
    let seconds = |seconds| Some(Duration { seconds, nanos: 0 });
    let outliers = cds::OutlierDetection {
        interval: seconds(10),
        base_ejection_time: seconds(20),
        max_ejection_percent: number(50),
        enforcing_success_rate: number(0),
        enforcing_failure_percentage: number(100),
        failure_percentage_threshold: number(50),
        failure_percentage_request_volume: number(1),
        failure_percentage_minimum_hosts: number(3),
        ..cds::OutlierDetection::default()
    };
    let mut driver = driver_with(&ClientSideWeightedRoundRobin::default(), Some(outliers));
    report(&mut driver, [0.2, 0.2, 0.4]);
    driver.after(15);
    check(&mut driver, [4_000, 4_000, 2_000]);
    for _ in 0..30 {
        let (port, mut permit) = driver.pick().expect("an endpoint");
        let outcome = if port == 3 { CallOutcome::Failure } else { CallOutcome::Success };
        permit.set_outcome(outcome);
    }
    driver.after(10);
    assert!(!driver.serving().contains(&3), "ejected");
    driver.after(30);
    assert!(driver.serving().contains(&3), "no longer ejected");
    check(&mut driver, EQUAL);
    report(&mut driver, [0.2, 0.2, 0.4]);
    driver.after(11);
    check(&mut driver, [4_000, 4_000, 2_000]);
}

#[test]
fn weights_are_not_renewed_without_a_ready_endpoint() {
    let mut driver = driver(&ClientSideWeightedRoundRobin::default());
    [1, 2, 3].into_iter().for_each(|port| driver.is(port, ConnectionEvent::Closed));
    driver.after(2);
    let due = driver.balancer.poll_timeout().expect("the failover timer");
    assert!(due.since(driver.now).as_secs() > 5, "{due:?}");
}
