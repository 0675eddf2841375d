//! Outlier detection (gRFC A50): which endpoints are ejected, and for how long.

use std::collections::BTreeSet;

use xds_core::proto::Duration;
use xds_routing::{
    Rules,
    balancer::{CallOutcome, Source},
    cluster::Cluster,
    proto::envoy::config::cluster::v3 as cds,
};

use crate::{
    balancer::{
        members::named,
        rig::{Driver, cluster_schema, judged_endpoints, schema},
    },
    support::*,
};

const ALL: [u32; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

fn seconds(seconds: i64) -> Option<Duration> {
    Some(Duration { seconds, nanos: 0 })
}

/// Failure percentage only: an interval of 10 s, ejections of 30 s and at most 50 s.
fn failures() -> cds::OutlierDetection {
    cds::OutlierDetection {
        interval: seconds(10),
        base_ejection_time: seconds(30),
        max_ejection_time: seconds(50),
        max_ejection_percent: number(20),
        enforcing_success_rate: number(0),
        enforcing_failure_percentage: number(100),
        failure_percentage_threshold: number(50),
        failure_percentage_request_volume: number(10),
        failure_percentage_minimum_hosts: number(3),
        ..cds::OutlierDetection::default()
    }
}

fn cluster_with(outliers: Option<cds::OutlierDetection>) -> Cluster {
    let schema = cds::Cluster { outlier_detection: outliers, ..cluster_schema("c") };
    Cluster::from_schema(&schema, &Rules::default()).expect("a cluster")
}

fn balance(driver: &mut Driver, outliers: Option<cds::OutlierDetection>, ports: &[u32]) {
    let endpoints = judged_endpoints(&schema(&[(0, 1, ports)]));
    driver.balance(&[Source::new(&cluster_with(outliers), &endpoints)]);
}

fn driver(outliers: cds::OutlierDetection, ports: &[u32]) -> Driver {
    let mut driver = Driver::new(&[]);
    balance(&mut driver, Some(outliers), ports);
    ports.iter().for_each(|&port| driver.connected(&[port as u16]));
    driver
}

/// Makes 20 calls to each endpoint in turn. Of those to a failing endpoint, this many fail.
fn calls(driver: &mut Driver, failing: &[(u16, u32)]) {
    let serving = driver.serving();
    let mut left: Vec<(u16, u32)> = failing.to_vec();
    for _ in 0..20 * serving.len() {
        let (port, mut permit) = driver.pick().expect("an endpoint");
        let fails = left.iter_mut().find(|(it, left)| *it == port && *left > 0);
        permit.set_outcome(match fails {
            Some((_, left)) => {
                *left -= 1;
                CallOutcome::Failure
            }
            None => CallOutcome::Success,
        });
    }
}

fn without(ports: &[u16]) -> BTreeSet<u16> {
    ALL.iter().map(|port| *port as u16).filter(|port| !ports.contains(port)).collect()
}

#[test]
fn failing_endpoint_is_ejected_at_the_end_of_the_interval() {
    let mut driver = driver(failures(), &ALL);
    calls(&mut driver, &[(4, 11), (5, 10)]);
    driver.after(9);
    assert_eq!(driver.serving(), without(&[]), "the interval has not ended");
    driver.after(1);
    assert_eq!(driver.serving(), without(&[4]), "half of the calls to 5 failed, which is not more");
    // No call fails from here on. The ejection of 30 s is over after the next evaluation.
    driver.after(30);
    assert_eq!(driver.serving(), without(&[4]));
    driver.after(10);
    assert_eq!(driver.serving(), without(&[]));
    assert_eq!(driver.log(), "+1 +2 +3 +4 +5 +6 +7 +8 +9 +10", "connections are kept");
    println!("covers: B33d");
}

/// Sessions depend on the connection only (A61), and the results of their calls count.
#[test]
fn ejected_endpoint_keeps_its_sessions() {
    let mut driver = driver(failures(), &ALL);
    calls(&mut driver, &[]);
    for _ in 0..30 {
        let (_, mut permit) = driver.pick_session("10.0.0.1:4").expect("an endpoint");
        permit.set_outcome(CallOutcome::Failure);
    }
    driver.after(10);
    assert_eq!(driver.serving(), without(&[4]));
    for _ in 0..10 {
        assert_eq!(driver.pick_session("10.0.0.1:4").expect("an endpoint").0, 4);
    }
}

/// Ejections become longer by the base time, up to the maximum. Each interval without one shortens
/// the next.
#[test]
fn repeated_ejections_are_longer() {
    let mut driver = driver(failures(), &ALL);
    let ejection = |driver: &mut Driver| {
        calls(driver, &[(4, 20)]);
        driver.after(10);
        assert_eq!(driver.serving(), without(&[4]));
        let mut time = 0;
        while !driver.serving().contains(&4) {
            driver.after(10);
            time += 10;
        }
        time
    };
    assert_eq!([ejection(&mut driver), ejection(&mut driver), ejection(&mut driver)], [40, 60, 60]);
    driver.after(100);
    assert_eq!(ejection(&mut driver), 40);
}

#[test]
fn number_of_ejected_endpoints_is_limited() {
    let mut limited = driver(failures(), &ALL);
    calls(&mut limited, &[(2, 20), (4, 20), (6, 20)]);
    limited.after(10);
    assert_eq!(limited.serving().len(), 8, "20 percent of ten");
    calls(&mut limited, &[(6, 20), (2, 20), (4, 20)]);
    limited.after(10);
    assert_eq!(limited.serving().len(), 8);

    // At least one, unless it is zero.
    let mut few = driver(failures(), &[1, 2, 3]);
    calls(&mut few, &[(1, 20), (2, 20)]);
    few.after(10);
    assert_eq!(few.serving().len(), 2);
    let never = cds::OutlierDetection { max_ejection_percent: number(0), ..failures() };
    let mut none = driver(never, &ALL);
    calls(&mut none, &[(4, 20)]);
    none.after(10);
    assert_eq!(none.serving(), without(&[]));
}

#[test]
fn too_few_endpoints_or_calls_eject_none() {
    let mut driver = driver(failures(), &[1, 2]);
    calls(&mut driver, &[(1, 20)]);
    driver.after(10);
    assert_eq!(driver.serving().len(), 2, "two endpoints");

    let unused =
        cds::OutlierDetection { failure_percentage_request_volume: number(21), ..failures() };
    let mut driver = self::driver(unused, &ALL);
    calls(&mut driver, &[(1, 20)]);
    driver.after(10);
    assert_eq!(driver.serving(), without(&[]), "20 calls each");
    // Neither those of the interval before count, nor a hundred calls that were not sent.
    calls(&mut driver, &[(1, 20)]);
    assert_eq!(driver.serving(), without(&[]));
    driver.after(10);
    assert_eq!(driver.serving(), without(&[]));
}

/// The success rates are 1, nine times, and 0.9: less than the mean by three standard deviations.
#[test]
fn endpoint_with_a_low_success_rate_is_ejected() {
    let rates = |deviation| cds::OutlierDetection {
        enforcing_success_rate: number(100),
        success_rate_request_volume: number(20),
        success_rate_minimum_hosts: number(10),
        success_rate_stdev_factor: number(deviation),
        enforcing_failure_percentage: number(0),
        ..failures()
    };
    for (deviation, ejected) in [(1_900, &[7][..]), (2_990, &[7]), (3_010, &[])] {
        let mut driver = driver(rates(deviation), &ALL);
        calls(&mut driver, &[(7, 2)]);
        driver.after(10);
        assert_eq!(driver.serving(), without(ejected), "{deviation}");
    }
    // Equal endpoints are never outliers.
    let mut driver = driver(rates(0), &ALL);
    calls(&mut driver, &ALL.map(|port| (port as u16, 10)));
    driver.after(10);
    assert_eq!(driver.serving(), without(&[]));
    println!("covers: B33d");
}

#[test]
fn enforcement_is_a_probability() {
    let seldom = cds::OutlierDetection { enforcing_failure_percentage: number(30), ..failures() };
    let mut ejected = 0;
    let mut driver = driver(seldom, &ALL);
    for _ in 0..100 {
        calls(&mut driver, &[(4, 20)]);
        driver.after(10);
        ejected += u32::from(!driver.serving().contains(&4));
        driver.after(100);
    }
    assert!((15..45).contains(&ejected), "{ejected} of 100");
}

/// A priority whose endpoints are all ejected fails over.
#[test]
fn ejected_endpoints_count_as_failed() {
    let all = cds::OutlierDetection {
        max_ejection_percent: number(100),
        failure_percentage_minimum_hosts: number(1),
        ..failures()
    };
    let mut driver = Driver::new(&[]);
    let endpoints = judged_endpoints(&schema(&[(0, 1, &[1]), (1, 1, &[2])]));
    driver.balance(&[Source::new(&cluster_with(Some(all)), &endpoints)]);
    driver.connected(&[1]);
    calls(&mut driver, &[(1, 20)]);
    driver.after(10);
    assert_eq!(driver.log(), "+1 +2");
    driver.connected(&[2]);
    assert_eq!(driver.serving(), [2].into());
    driver.after(40);
    assert_eq!(driver.serving(), [1].into());

    // Without another priority, calls fail.
    balance(&mut driver, Some(all), &[1]);
    calls(&mut driver, &[(1, 20)]);
    driver.after(10);
    let why = driver.pick().unwrap_err();
    assert_eq!(why, "connections to all endpoints failed; the last: ejected by outlier detection");
}

/// Ejections survive an update of the endpoints, and end with the configuration.
#[test]
fn update_keeps_ejections_of_endpoints_that_stay() {
    let mut driver = driver(failures(), &ALL);
    calls(&mut driver, &[(4, 20)]);
    driver.after(10);
    balance(&mut driver, Some(failures()), &ALL[..9]);
    assert_eq!(driver.serving(), without(&[4, 10]));
    balance(&mut driver, None, &ALL[..9]);
    assert_eq!(driver.serving(), without(&[10]));
    assert_eq!(driver.balancer.poll_timeout(), None);
    // Calls before the configuration do not count.
    calls(&mut driver, &[(4, 20)]);
    balance(&mut driver, Some(failures()), &ALL[..9]);
    driver.after(10);
    assert_eq!(driver.serving(), without(&[10]));
}

/// An endpoint is used although it is the only one that is connected, unless it is ejected.
#[test]
fn ejected_endpoint_does_not_serve_while_others_connect() {
    let all = cds::OutlierDetection {
        max_ejection_percent: number(50),
        failure_percentage_minimum_hosts: number(1),
        ..failures()
    };
    let mut driver = Driver::new(&[]);
    balance(&mut driver, Some(all), &[1, 2]);
    driver.connected(&[1]);
    calls(&mut driver, &[(1, 20)]);
    driver.after(10);
    assert_eq!(driver.pick().unwrap_err(), "queue");
    driver.connected(&[2]);
    assert_eq!(driver.serving(), [2].into());
}

/// A priority that is ready at once, because another cluster has connected to its endpoints, is
/// evaluated like any other.
#[test]
fn cluster_with_known_connections_is_evaluated() {
    let mut driver = Driver::new(&[]);
    let endpoints = judged_endpoints(&schema(&[(0, 1, &ALL)]));
    driver.balance(&[Source::new(&named("other"), &endpoints)]);
    ALL.iter().for_each(|&port| driver.connected(&[port as u16]));
    balance(&mut driver, Some(failures()), &ALL);
    calls(&mut driver, &[(4, 20)]);
    driver.after(10);
    assert_eq!(driver.serving(), without(&[4]));
}

/// Each priority counts the calls that it got, also if another one has the same endpoints.
#[test]
fn evaluation_of_another_priority_takes_no_calls() {
    let often = cds::OutlierDetection { interval: seconds(1), ..failures() };
    let schema = |name: &str, outliers| {
        let schema = cds::Cluster { outlier_detection: outliers, ..cluster_schema(name) };
        Cluster::from_schema(&schema, &Rules::default()).expect("a cluster")
    };
    let (high, low) = (schema("high", Some(failures())), schema("low", Some(often)));
    let (few, all) = (self::schema(&[(0, 1, &[1, 2, 3])]), self::schema(&[(0, 1, &ALL)]));
    let (few, all) = (judged_endpoints(&few), judged_endpoints(&all));
    let mut driver = Driver::new(&[]);
    driver.balance(&[Source::new(&low, &all)]);
    ALL.iter().for_each(|&port| driver.connected(&[port as u16]));
    driver.balance(&[Source::new(&high, &few), Source::new(&low, &all)]);
    for _ in 0..5 {
        assert_eq!(driver.serving(), [1, 2, 3].into());
        for _ in 0..12 {
            let (port, mut permit) = driver.pick().expect("an endpoint");
            permit.set_outcome(match port {
                2 => CallOutcome::Failure,
                _ => CallOutcome::Success,
            });
        }
        driver.after(2);
    }
    assert_eq!(driver.serving(), [1, 3].into());
}

/// Without an algorithm there is nothing to evaluate, and ejections end.
#[test]
fn configuration_without_algorithms_ends_ejections() {
    let mut driver = driver(failures(), &ALL);
    calls(&mut driver, &[(4, 20)]);
    driver.after(10);
    assert_eq!(driver.serving(), without(&[4]));
    let none = cds::OutlierDetection { enforcing_failure_percentage: number(0), ..failures() };
    balance(&mut driver, Some(none), &ALL);
    assert_eq!(driver.serving(), without(&[]));
    assert_eq!(driver.balancer.poll_timeout(), None);
}
