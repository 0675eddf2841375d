//! Members of aggregate clusters, each with its own policy and way to connect (gRFC A75).

use std::time::Duration;

use xds_core::Time;
use xds_routing::{
    Random, Rules,
    balancer::{
        Balancer, BalancerOutput, BalancerTimes, ConnectionEvent, ConnectionId, ConnectorId,
        EndpointPick, Picker, Source,
    },
    cluster::Cluster,
};

use crate::{
    balancer::rig::{Driver, a_cluster, cluster_schema, connected_to, judged_endpoints, schema},
    support::unsupported_policy,
};

/// Cluster with an LB policy that the balancer does not implement.
fn unsupported() -> Cluster {
    let mut schema = cluster_schema("odd");
    schema.load_balancing_policy = unsupported_policy();
    Cluster::from_schema(&schema, &Rules::default()).expect("a cluster")
}

pub(crate) fn named(name: &str) -> Cluster {
    Cluster::from_schema(&cluster_schema(name), &Rules::default()).expect("a cluster")
}

#[test]
fn calls_to_an_unsupported_lb_policy_fail() {
    let (odd, endpoints) = (unsupported(), judged_endpoints(&schema(&[(0, 1, &[1])])));
    let mut driver = Driver::new(&[(0, 1, &[1])]);
    driver.connected(&[1]);
    driver.balance(&[Source::new(&odd, &endpoints)]);
    let why = driver.pick().unwrap_err();
    assert_eq!(
        why,
        "the LB policy of cluster `odd` is not supported: round robin in weighted localities in \
         weighted localities"
    );
    assert_eq!(driver.log(), "+1 -1", "nobody is connected to");
}

/// A member that was added before a connecting one gets its own 10 s. The other one still fails
/// over after the first 10 s.
#[test]
fn member_times_out_while_a_higher_one_is_connecting() {
    let at = |port| judged_endpoints(&schema(&[(0, 1, &[port])]));
    let (high, low, last) = (named("high"), named("low"), named("last"));
    let (endpoints, low_endpoints, last_endpoints) = (at(1), at(2), at(3));
    let lower = [Source::new(&low, &low_endpoints), Source::new(&last, &last_endpoints)];
    let mut driver = Driver::new(&[]);
    driver.balance(&lower);
    driver.after(5);
    let [low, last] = lower;
    driver.balance(&[Source::new(&high, &endpoints), low, last]);
    assert_eq!(driver.log(), "+2 +1");
    driver.now = driver.now.after(Duration::from_secs(5));
    driver.balancer.handle_timeout(driver.now);
    driver.follow();
    let due = driver.balancer.poll_timeout().expect("the higher member's timer");
    assert_eq!(due, driver.now.after(Duration::from_secs(5)), "no timer is overdue");
    assert_eq!(driver.log(), "", "the higher member has time left");
    driver.after(5);
    assert_eq!(driver.log(), "+3", "both have failed");
}

#[test]
fn unusable_aggregate_member_does_not_affect_the_others() {
    let at = |port| judged_endpoints(&schema(&[(0, 1, &[port])]));
    let (elsewhere, good, better) = (at(1), at(3), at(4));
    let (odd, bare, plain, spare) = (unsupported(), named("bare"), named("plain"), named("spare"));
    let refused = Source::new(&bare, &elsewhere).with_connector(Err("no roots".into()));
    let mut driver = Driver::new(&[]);
    driver.balance(&[Source::new(&odd, &elsewhere), refused.clone(), Source::new(&plain, &good)]);
    assert_eq!(driver.log(), "+3", "those before it are no reason to wait");
    driver.connected(&[3]);
    assert_eq!(driver.serving(), [3].into());

    // Its position does not matter, nor whether it was usable before.
    driver.balance(&[Source::new(&plain, &good), refused.clone(), Source::new(&spare, &better)]);
    assert_eq!((driver.log().as_str(), driver.serving()), ("", [3].into()));
    driver.is(3, ConnectionEvent::Closed);
    driver.fails(3);
    assert_eq!(driver.log(), "+4");
    driver.connected(&[4]);
    assert_eq!(driver.serving(), [4].into());
    driver.balance(&[Source::new(&plain, &elsewhere), refused.clone()]);
    driver.fails(1);
    assert_eq!(driver.pick().unwrap_err(), "no roots", "the last one says why");

    // First all members are unusable, then one is usable again.
    driver.balance(&[refused, Source::new(&odd, &elsewhere)]);
    assert!(driver.pick().unwrap_err().contains("not supported"));
    driver.log();
    driver.balance(&[Source::new(&plain, &elsewhere), Source::new(&plain, &good)]);
    driver.connected(&[1]);
    assert_eq!(driver.serving(), [1].into());
    println!("covers: B30b");
}

/// Reads all outputs of a balancer.
fn outputs(
    balancer: &mut Balancer,
) -> (Picker, Vec<(ConnectionId, ConnectorId)>, Vec<ConnectionId>) {
    let (mut picker, mut made, mut ended) = (None, Vec::new(), Vec::new());
    while let Some(output) = balancer.poll_output() {
        match output {
            BalancerOutput::Pick(newest) => picker = Some(newest),
            BalancerOutput::Connect(id, way, _) => made.push((id, way)),
            BalancerOutput::Disconnect(id) => ended.push(id),
            other => panic!("{other:?}"),
        }
    }
    (picker.expect("one for each input"), made, ended)
}

fn picked(picker: &Picker) -> Option<ConnectionId> {
    match picker.pick(&mut Random::new(0)) {
        EndpointPick::Endpoint(id, _) => Some(id),
        _ => None,
    }
}

/// An address with two ways is two endpoints. The old one serves until the new one is ready or has
/// failed.
#[test]
fn connection_uses_the_connector_of_its_cluster() {
    let endpoints = judged_endpoints(&schema(&[(0, 1, &[1])]));
    let cluster = a_cluster();
    let by = |way| Source::new(&cluster, &endpoints).with_connector(Ok(ConnectorId(way)));
    let mut balancer = Balancer::new(BalancerTimes::default(), 0);
    balancer.update(&[by(1)], Time::ZERO);
    let (_, made, _) = outputs(&mut balancer);
    let [(first, ConnectorId(1))] = made[..] else { panic!("{made:?}") };
    balancer.handle_connection(first, connected_to(1), Time::ZERO);
    assert_eq!(picked(&outputs(&mut balancer).0), Some(first));

    balancer.update(&[by(2)], Time::ZERO);
    let (picker, made, ended) = outputs(&mut balancer);
    let [(second, ConnectorId(2))] = made[..] else { panic!("{made:?}") };
    assert_eq!((picked(&picker), ended.as_slice()), (Some(first), [].as_slice()));
    balancer.handle_connection(second, connected_to(1), Time::ZERO);
    let (picker, _, ended) = outputs(&mut balancer);
    assert_eq!((picked(&picker), ended.as_slice()), (Some(second), [first].as_slice()));

    balancer.update(&[by(3)], Time::ZERO);
    let (_, made, _) = outputs(&mut balancer);
    balancer.handle_connection(made[0].0, ConnectionEvent::Failed("no".into()), Time::ZERO);
    let (picker, _, ended) = outputs(&mut balancer);
    assert_eq!((picked(&picker), ended.as_slice()), (None, [second].as_slice()));

    // Two members connect to the same address, each in its own way.
    balancer.update(&[by(4), by(5)], Time::ZERO);
    let (_, made, _) = outputs(&mut balancer);
    let ways: Vec<_> = made.iter().map(|(_, way)| *way).collect();
    assert_eq!(ways, [ConnectorId(4), ConnectorId(5)]);
    println!("covers: B30b");
}
