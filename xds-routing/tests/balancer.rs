//! Endpoints of clusters in virtual time: who is connected to, and who gets calls.

mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proptest::prelude::*;
use support::*;
use xds_core::{Time, proto::Locality};
use xds_routing::{
    Random, Rules,
    balancer::{
        Balancer, BalancerOutput, BalancerTimes, CallPermit, ConnectionEvent, ConnectionId,
        EndpointPick, Picker,
    },
    cluster::Cluster,
    endpoint::ClusterLoadAssignment,
    proto::envoy::{
        config::{cluster::v3 as cds, core::v3::HealthStatus, endpoint::v3 as eds},
        r#type::v3::{FractionalPercent, fractional_percent::DenominatorType},
    },
};

fn cluster_schema(name: &str) -> cds::Cluster {
    cds::Cluster {
        name: name.into(),
        cluster_discovery_type: Some(cds::cluster::ClusterDiscoveryType::Type(
            cds::cluster::DiscoveryType::Eds as i32,
        )),
        eds_cluster_config: Some(cds::cluster::EdsClusterConfig {
            eds_config: ads(),
            ..cds::cluster::EdsClusterConfig::default()
        }),
        ..cds::Cluster::default()
    }
}

fn a_cluster() -> Cluster {
    Cluster::from_schema(&cluster_schema("c"), &Rules::default()).expect("a cluster")
}

fn endpoint(port: u32) -> eds::LbEndpoint {
    let endpoint =
        eds::Endpoint { address: Some(address("10.0.0.1", port)), ..eds::Endpoint::default() };
    eds::LbEndpoint {
        host_identifier: Some(eds::lb_endpoint::HostIdentifier::Endpoint(endpoint)),
        ..eds::LbEndpoint::default()
    }
}

/// Localities, each by its priority, its weight and the ports of its endpoints.
fn schema(localities: &[(u32, u32, &[u32])]) -> eds::ClusterLoadAssignment {
    let localities = localities.iter().enumerate().map(|(index, &(priority, weight, ports))| {
        eds::LocalityLbEndpoints {
            locality: Some(Locality { zone: index.to_string(), ..Locality::default() }),
            lb_endpoints: ports.iter().map(|&port| endpoint(port)).collect(),
            load_balancing_weight: number(weight),
            priority,
            ..eds::LocalityLbEndpoints::default()
        }
    });
    eds::ClusterLoadAssignment {
        cluster_name: "c".into(),
        endpoints: localities.collect(),
        ..eds::ClusterLoadAssignment::default()
    }
}

fn judged_endpoints(schema: &eds::ClusterLoadAssignment) -> ClusterLoadAssignment {
    ClusterLoadAssignment::from_schema(schema, &Rules::default()).expect("endpoints")
}

/// A balancer, and who does what it says.
struct Driver {
    balancer: Balancer,
    now: Time,
    /// The ports of connections that are to be made or are there.
    ports: BTreeMap<ConnectionId, u16>,
    picker: Picker,
    log: Vec<String>,
    random: Random,
}

impl Driver {
    fn new(localities: &[(u32, u32, &[u32])]) -> Self {
        let mut balancer = Balancer::new(BalancerTimes::default(), 1);
        let endpoints = judged_endpoints(&schema(localities));
        balancer.update(&[(&a_cluster(), &endpoints)], Time::ZERO).expect("a policy that is here");
        let Some(BalancerOutput::Pick(picker)) = balancer.poll_output() else {
            panic!("a picker comes first")
        };
        let (ports, log, random) = (BTreeMap::new(), Vec::new(), Random::new(7));
        let mut driver = Self { balancer, now: Time::ZERO, ports, picker, log, random };
        driver.follow();
        driver
    }

    fn update(&mut self, schema: &eds::ClusterLoadAssignment) {
        let endpoints = judged_endpoints(schema);
        self.balancer.update(&[(&a_cluster(), &endpoints)], self.now).expect("a policy");
        self.follow();
    }

    fn follow(&mut self) {
        while let Some(output) = self.balancer.poll_output() {
            match output {
                BalancerOutput::Connect(id, addresses) => {
                    self.ports.insert(id, addresses[0].port);
                    self.log.push(format!("+{}", addresses[0].port));
                }
                BalancerOutput::Disconnect(id) => {
                    let port = self.ports.remove(&id).expect("one that was to be made");
                    self.log.push(format!("-{port}"));
                }
                BalancerOutput::Pick(picker) => self.picker = picker,
                other => panic!("{other:?}"),
            }
        }
    }

    fn log(&mut self) -> String {
        std::mem::take(&mut self.log).join(" ")
    }

    fn is(&mut self, port: u16, event: ConnectionEvent) {
        let (&id, _) = self.ports.iter().find(|(_, it)| **it == port).expect("a connection");
        self.balancer.handle_connection(id, event, self.now);
        self.follow();
    }

    fn connected(&mut self, ports: &[u16]) {
        ports.iter().for_each(|&port| self.is(port, ConnectionEvent::Connected));
    }

    fn fails(&mut self, port: u16) {
        self.is(port, ConnectionEvent::Failed(format!("{port} refused")));
    }

    /// Lets time go by, with everything that is due in it.
    fn after(&mut self, seconds: u64) {
        let end = self.now.after(Duration::from_secs(seconds));
        while let Some(due) = self.balancer.poll_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.balancer.handle_timeout(self.now);
            self.follow();
        }
        self.now = end;
    }

    fn pick(&mut self) -> Result<(u16, CallPermit), String> {
        match self.picker.pick(&mut self.random) {
            EndpointPick::Endpoint(id, permit) => Ok((self.ports[&id], permit)),
            EndpointPick::Queue => Err("queue".into()),
            EndpointPick::Fail(why) => Err(why.into()),
            EndpointPick::Drop(why) => Err(format!("drop: {why}")),
            other => Err(format!("{other:?}")),
        }
    }

    /// Who gets calls, out of a hundred.
    fn serving(&mut self) -> BTreeSet<u16> {
        (0..100).filter_map(|_| self.pick().ok()).map(|(port, _)| port).collect()
    }

    fn shares(&mut self) -> BTreeMap<u16, u32> {
        let mut shares = BTreeMap::new();
        for _ in 0..10_000 {
            *shares.entry(self.pick().expect("an endpoint").0).or_default() += 1;
        }
        shares
    }
}

#[test]
fn localities_get_calls_by_weight_and_endpoints_in_turn() {
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

    // A locality without anybody leaves its share to the others.
    driver.is(11, ConnectionEvent::Closed);
    driver.fails(12);
    assert_eq!(driver.serving(), [1, 2, 3].into());
    assert_eq!(driver.log(), "", "neither is tried again before its time");
    driver.after(2);
    assert_eq!(driver.log().split(' ').collect::<BTreeSet<_>>(), ["+11", "+12"].into());
}

#[test]
fn the_next_priority_is_tried_after_ten_seconds_or_a_failure() {
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
    // The first one comes after all: it has the calls, and the others are kept for a quarter of an hour.
    driver.connected(&[1]);
    assert_eq!(driver.serving(), [1].into());
    driver.connected(&[2]);
    assert_eq!(driver.serving(), [1].into());
    driver.log();
    driver.after(15 * 60 - 1);
    assert_eq!(driver.log(), "");
    driver.after(1);
    assert_eq!(driver.log(), "-2 -3");

    // It is lost: it has ten seconds again.
    driver.is(1, ConnectionEvent::Closed);
    assert_eq!((driver.log().as_str(), driver.pick().unwrap_err().as_str()), ("+1", "queue"));
    driver.after(9);
    assert_eq!(driver.log(), "");
    driver.after(1);
    assert_eq!(driver.log(), "+2");
}

#[test]
fn a_priority_that_was_kept_serves_at_once() {
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
    // It is not given up while it serves.
    driver.after(20 * 60);
    assert_eq!((driver.serving(), driver.log().contains('-')), ([2].into(), false));
}

#[test]
fn when_all_fail_calls_do_and_say_why() {
    let mut driver = Driver::new(&[(0, 1, &[1, 2])]);
    driver.fails(1);
    assert_eq!(driver.pick().unwrap_err(), "queue", "the other may come");
    driver.fails(2);
    let failed = "connections to all endpoints failed; the last: 2 refused";
    assert_eq!(driver.pick().unwrap_err(), failed);
    driver.log();
    // Attempts grow rarer; calls do not wait for them.
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
fn connections_outlive_updates_and_the_picker_goes_before_them() {
    let mut driver = Driver::new(&[(0, 1, &[1, 2]), (1, 1, &[3])]);
    driver.connected(&[1, 2]);
    driver.log();
    // From one locality and priority to another, beside a new one; one goes.
    driver.update(&schema(&[(0, 1, &[3]), (0, 7, &[2])]));
    assert_eq!(driver.log(), "-1 +3");
    assert_eq!(driver.serving(), [2].into());
    // What is said of a connection that was given up is nobody's.
    driver.balancer.handle_connection(
        *driver.ports.keys().next().unwrap(),
        ConnectionEvent::Connected,
        driver.now,
    );
    driver.follow();

    // Ill endpoints are not connected to.
    let mut ill = schema(&[(0, 1, &[2, 4])]);
    ill.endpoints[0].lb_endpoints[0].health_status = HealthStatus::Draining as i32;
    driver.update(&ill);
    driver.connected(&[4]);
    assert!(!driver.ports.values().any(|&port| port == 2));
}

/// Those that serve do so until others can, or cannot.
#[test]
fn endpoints_are_replaced_by_make_before_break() {
    let mut driver = Driver::new(&[(0, 1, &[1, 2])]);
    driver.connected(&[1, 2]);
    driver.log();
    driver.update(&schema(&[(0, 1, &[3, 4])]));
    assert_eq!((driver.log().as_str(), driver.serving()), ("+3 +4", [1, 2].into()));
    // What is lost meanwhile is not made again.
    driver.is(1, ConnectionEvent::Closed);
    assert_eq!((driver.log().as_str(), driver.serving()), ("-1", [2].into()));
    driver.fails(3);
    assert_eq!(driver.serving(), [2].into());
    driver.connected(&[4]);
    assert_eq!((driver.log().as_str(), driver.serving()), ("-2", [4].into()));

    // From one priority to another, the one that serves stays.
    driver.update(&schema(&[(0, 1, &[5]), (1, 1, &[4])]));
    assert_eq!((driver.log().as_str(), driver.serving()), ("-3 +5", [4].into()));
    driver.connected(&[5]);
    assert_eq!((driver.log().as_str(), driver.serving()), ("-4", [5].into()));

    // Nobody is to serve: nobody does.
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
fn a_share_of_the_calls_and_those_beyond_the_limit_are_not_tried() {
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

    let mut few = cluster_schema("c");
    few.circuit_breakers = Some(cds::CircuitBreakers {
        thresholds: vec![cds::circuit_breakers::Thresholds {
            max_requests: number(2),
            ..cds::circuit_breakers::Thresholds::default()
        }],
    });
    let few = Cluster::from_schema(&few, &Rules::default()).expect("a cluster");
    schema.policy = None;
    let endpoints = judged_endpoints(&schema);
    driver.balancer.update(&[(&few, &endpoints)], driver.now).unwrap();
    driver.follow();
    let (first, second) = (driver.pick().unwrap(), driver.pick().unwrap());
    assert_eq!(driver.pick().unwrap_err(), "TooMany");
    // The count goes on over updates.
    driver.balancer.update(&[(&few, &endpoints)], driver.now).unwrap();
    driver.follow();
    assert_eq!(driver.pick().unwrap_err(), "TooMany");
    std::mem::drop((first, second));
    assert!(driver.pick().is_ok());
}

#[test]
fn the_clusters_of_an_aggregate_come_one_after_the_other() {
    let (first, second) = (schema(&[(0, 1, &[1]), (1, 1, &[2])]), schema(&[(0, 1, &[3])]));
    let (first, second) = (judged_endpoints(&first), judged_endpoints(&second));
    let mut driver = Driver::new(&[]);
    let cluster = a_cluster();
    driver.balancer.update(&[(&cluster, &first), (&cluster, &second)], driver.now).unwrap();
    driver.follow();
    for port in [1, 2] {
        driver.fails(port);
    }
    assert_eq!(driver.log(), "+1 +2 +3");
    driver.connected(&[3]);
    assert_eq!(driver.serving(), [3].into());
}

#[test]
fn a_policy_that_is_not_here_is_refused() {
    let mut schema = cluster_schema("c");
    schema.lb_policy = cds::cluster::LbPolicy::RingHash as i32;
    let ring = Cluster::from_schema(&schema, &Rules::default()).expect("a cluster");
    let endpoints = judged_endpoints(&self::schema(&[(0, 1, &[1])]));
    let mut balancer = Balancer::new(BalancerTimes::default(), 0);
    let refused = balancer.update(&[(&ring, &endpoints)], Time::ZERO).unwrap_err();
    assert!(refused.to_string().starts_with("cluster `c` asks for"), "{refused}");
    assert!(balancer.poll_output().is_none());
}

#[derive(Clone, Debug)]
enum Step {
    Update(Vec<(u32, u32, Vec<u32>)>),
    /// Of one of the connections, what comes next for it.
    Connection(prop::sample::Index, bool),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let ports = prop::collection::btree_set(1..12_u32, 0..4);
    let localities = prop::collection::vec((0..3_u32, 1..5_u32, ports), 0..5);
    prop_oneof![
        1 => localities.prop_map(|list| {
            // An address is in one place, and no priority is skipped.
            let mut seen = BTreeSet::new();
            let mut known: Vec<u32> = list.iter().map(|it| it.0).collect();
            known.sort_unstable();
            known.dedup();
            let place = |priority| known.iter().position(|it| *it == priority).unwrap_or_default();
            let list = list.into_iter().map(|(priority, weight, ports)| {
                let ports = ports.into_iter().filter(|port| seen.insert(*port)).collect();
                (u32::try_from(place(priority)).expect("few"), weight, ports)
            });
            Step::Update(list.collect())
        }),
        6 => (any::<prop::sample::Index>(), any::<bool>())
            .prop_map(|(which, is_well)| Step::Connection(which, is_well)),
        3 => (0..40_u64).prop_map(Step::Wait),
    ]
}

/// How a connection is, to whoever makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    Trying,
    There,
    /// It failed or was lost, and has not been asked for again.
    Gone,
}

proptest! {
    /// Calls go to connections that are there, of the endpoints that are known; none is made twice, none is
    /// left over, and time never stands still.
    #[test]
    fn a_balancer_is_consistent_whatever_happens(
        steps in prop::collection::vec(step(), 1..60), seed: u64,
    ) {
        let mut balancer = Balancer::new(BalancerTimes::default(), seed);
        let (mut now, mut random) = (Time::ZERO, Random::new(seed));
        let mut made: BTreeMap<ConnectionId, (u16, Made)> = BTreeMap::new();
        let mut known: BTreeSet<u16> = BTreeSet::new();
        let mut picker = None;
        for step in steps {
            match step {
                Step::Update(list) => {
                    let list: Vec<(u32, u32, &[u32])> =
                        list.iter().map(|(p, w, ports)| (*p, *w, ports.as_slice())).collect();
                    known = list.iter().flat_map(|it| it.2).map(|port| *port as u16).collect();
                    let endpoints = judged_endpoints(&schema(&list));
                    balancer.update(&[(&a_cluster(), &endpoints)], now).expect("a policy");
                }
                Step::Connection(which, is_well) => {
                    let open: Vec<_> = made.iter().filter(|it| it.1.1 != Made::Gone).collect();
                    if open.is_empty() {
                        continue;
                    }
                    let (&id, &(port, is)) = open[which.index(open.len())];
                    let (event, then) = match (is, is_well) {
                        (Made::Trying, true) => (ConnectionEvent::Connected, Made::There),
                        (Made::There, true) => continue,
                        (Made::There, false) => (ConnectionEvent::Closed, Made::Gone),
                        _ => (ConnectionEvent::Failed("refused".into()), Made::Gone),
                    };
                    made.insert(id, (port, then));
                    balancer.handle_connection(id, event, now);
                }
                Step::Wait(seconds) => now = now.after(Duration::from_secs(seconds)),
            }
            balancer.handle_timeout(now);
            while let Some(output) = balancer.poll_output() {
                match output {
                    BalancerOutput::Connect(id, addresses) => {
                        let before = made.insert(id, (addresses[0].port, Made::Trying));
                        prop_assert!(before.is_none_or(|it| it.1 == Made::Gone), "{before:?}");
                    }
                    BalancerOutput::Disconnect(id) => {
                        prop_assert!(made.remove(&id).is_some());
                    }
                    BalancerOutput::Pick(next) => picker = Some(next),
                    other => panic!("{other:?}"),
                }
            }
            prop_assert!(balancer.poll_timeout().is_none_or(|due| due > now), "nothing is due");
            // One that is not known any more serves until others can.
            for (port, is) in made.values() {
                prop_assert!(known.contains(port) || *is == Made::There, "{port} is {is:?}");
            }
            let ports: BTreeSet<u16> = made.values().map(|it| it.0).collect();
            prop_assert_eq!(ports.len(), made.len(), "one connection for each endpoint");
            let picked = picker.as_ref().map(|picker| picker.pick(&mut random));
            if let Some(EndpointPick::Endpoint(id, _)) = picked {
                prop_assert_eq!(made.get(&id).map(|it| it.1), Some(Made::There));
            }
        }
    }
}
