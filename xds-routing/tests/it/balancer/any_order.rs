//! Property test of the balancer's invariants under random events.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proptest::prelude::*;
use xds_core::Time;
use xds_routing::{
    Random, Rules,
    balancer::{
        Balancer, BalancerOutput, BalancerTimes, CallOutcome, ConnectionEvent, ConnectionId,
        EndpointPick, PickArguments, PickAttempt, Picker, SessionPick, Source,
    },
    cluster::Cluster,
    endpoint::ClusterLoadAssignment,
    proto::envoy::config::cluster::v3::{self as cds, cluster::LbPolicy},
};

use crate::{
    balancer::rig::{cluster_schema, connected_to, judged_endpoints, schema},
    support::number,
};

/// Priority, weight and ports of a locality.
type Locality = (u32, u32, Vec<u32>);

#[derive(Clone, Debug)]
enum Step {
    /// Members by number, in order, with their localities.
    Update(Vec<(usize, Vec<Locality>)>),
    /// The next event of one of the connections: success or failure.
    Connection(prop::sample::Index, bool),
    /// A call of a session whose cookie names this port.
    Session(u16),
    Wait(u64),
}

fn localities() -> impl Strategy<Value = Vec<Locality>> {
    let ports = prop::collection::btree_set(1..12_u32, 0..4);
    let localities = prop::collection::vec((0..3_u32, 1..5_u32, ports), 0..5);
    localities.prop_map(|list| {
        // An address is in one locality of a cluster only, and priorities are contiguous.
        let mut seen = BTreeSet::new();
        let mut known: Vec<u32> = list.iter().map(|it| it.0).collect();
        known.sort_unstable();
        known.dedup();
        let place = |priority| known.iter().position(|it| *it == priority).unwrap_or_default();
        let list = list.into_iter().map(|(priority, weight, ports)| {
            let ports = ports.into_iter().filter(|port| seen.insert(*port)).collect();
            (u32::try_from(place(priority)).expect("few"), weight, ports)
        });
        list.collect()
    })
}

fn step() -> impl Strategy<Value = Step> {
    let order = Just([0, 1, 2]).prop_shuffle();
    let members = (order, prop::collection::vec(localities(), 0..=3));
    prop_oneof![
        1 => members.prop_map(|(order, lists)| Step::Update(order.into_iter().zip(lists).collect())),
        6 => (any::<prop::sample::Index>(), any::<bool>())
            .prop_map(|(which, is_well)| Step::Connection(which, is_well)),
        3 => (0..40_u64).prop_map(Step::Wait),
        3 => (0..8_u16).prop_map(Step::Session),
    ]
}

/// State of a connection, as its owner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    Trying,
    There,
    /// Failed or lost, and the balancer has not requested it again.
    Gone,
}

fn endpoints(localities: &[Locality]) -> ClusterLoadAssignment {
    let list: Vec<(u32, u32, &[u32])> =
        localities.iter().map(|(p, w, ports)| (*p, *w, ports.as_slice())).collect();
    judged_endpoints(&schema(&list))
}

/// Returns clusters with different policies, two of them with outlier detection.
fn clusters() -> [Cluster; 3] {
    let policies = [LbPolicy::RoundRobin, LbPolicy::RingHash, LbPolicy::LeastRequest];
    let outliers = cds::OutlierDetection {
        enforcing_failure_percentage: number(100),
        failure_percentage_minimum_hosts: number(1),
        failure_percentage_request_volume: number(1),
        max_ejection_percent: number(100),
        ..cds::OutlierDetection::default()
    };
    let outliers = [Some(outliers), Some(outliers), None];
    let mut all = ["a", "b", "c"].map(cluster_schema);
    for ((schema, policy), outliers) in all.iter_mut().zip(policies).zip(outliers) {
        schema.lb_policy = policy as i32;
        schema.outlier_detection = outliers;
    }
    all.map(|schema| Cluster::from_schema(&schema, &Rules::default()).expect("a cluster"))
}

/// Picks an endpoint for a call of a session whose cookie names this port.
fn pick_session<'a>(
    picker: &'a Picker,
    port: u16,
    now: Time,
    random: &mut Random,
) -> EndpointPick<'a> {
    let address = format!("10.0.0.1:{port}");
    let mut arguments = PickArguments::new(PickAttempt::First);
    arguments.session = Some(SessionPick::new(&address, now));
    picker.pick_for(&arguments, random)
}

proptest! {
    /// Calls go to established connections. No endpoint has two connections, connections of removed
    /// endpoints exist only while they serve, and no timeout is overdue.
    #[test]
    fn balancer_invariants_hold_for_any_sequence_of_events(
        steps in prop::collection::vec(step(), 1..60), seed: u64,
    ) {
        let mut balancer = Balancer::new(BalancerTimes::default(), seed);
        let (mut now, mut random) = (Time::ZERO, Random::new(seed));
        let mut made: BTreeMap<ConnectionId, (u16, Made)> = BTreeMap::new();
        let mut known: BTreeSet<u16> = BTreeSet::new();
        let mut picker: Option<Picker> = None;
        let clusters = clusters();
        for step in steps {
            let mut requested = None;
            match step {
                Step::Update(list) => {
                    let all = list.iter().flat_map(|(_, localities)| localities);
                    known = all.flat_map(|it| &it.2).map(|port| *port as u16).collect();
                    let endpoints: Vec<_> = list.iter().map(|(_, it)| endpoints(it)).collect();
                    let sources = list.iter().zip(&endpoints);
                    let sources = sources.map(|((at, _), it)| Source::new(&clusters[*at], it));
                    balancer.update(&sources.collect::<Vec<_>>(), now);
                }
                Step::Connection(which, is_well) => {
                    let open: Vec<_> = made.iter().filter(|it| it.1.1 != Made::Gone).collect();
                    if open.is_empty() {
                        continue;
                    }
                    let (&id, &(port, is)) = open[which.index(open.len())];
                    let (event, then) = match (is, is_well) {
                        (Made::Trying, true) => (connected_to(port), Made::There),
                        (Made::There, true) => continue,
                        (Made::There, false) => (ConnectionEvent::Closed, Made::Gone),
                        _ => (ConnectionEvent::Failed("refused".into()), Made::Gone),
                    };
                    made.insert(id, (port, then));
                    balancer.handle_connection(id, event, now);
                }
                Step::Session(port) => {
                    let picked = picker.as_ref().map(|it| pick_session(it, port, now, &mut random));
                    if let Some(EndpointPick::Request(request)) = picked {
                        balancer.handle_session(&request, now);
                        requested = Some(request);
                    }
                }
                Step::Wait(seconds) => now = now.after(Duration::from_secs(seconds)),
            }
            balancer.handle_timeout(now);
            while let Some(output) = balancer.poll_output() {
                match output {
                    BalancerOutput::Connect(id, _, addresses) => {
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
            // A removed endpoint serves until others can.
            for (port, is) in made.values() {
                prop_assert!(known.contains(port) || *is == Made::There, "{port} is {is:?}");
            }
            let ports: BTreeSet<u16> = made.values().map(|it| it.0).collect();
            prop_assert_eq!(ports.len(), made.len(), "one connection for each endpoint");
            for port in 0..8_u16 {
                let picked = picker.as_ref().map(|it| pick_session(it, port, now, &mut random));
                if let Some(EndpointPick::Request(request)) = &picked {
                    prop_assert_ne!(requested.as_ref(), Some(request), "it was handled");
                }
                let Some(EndpointPick::Endpoint(id, permit)) = picked else { continue };
                let (to, is) = made[&id];
                prop_assert_eq!(is, Made::There);
                // Without addresses, the endpoint was removed and serves until others can.
                let (stated, expected) = (permit.session_addresses(), format!("10.0.0.1:{to}"));
                prop_assert!(stated.is_none_or(|it| it == expected));
            }
            for _ in 0..20 {
                let picked = picker.as_ref().map(|picker| picker.pick(&mut random));
                let Some(EndpointPick::Endpoint(id, mut permit)) = picked else { continue };
                let (port, is) = made[&id];
                prop_assert_eq!(is, Made::There);
                permit.set_outcome(match port % 3 {
                    0 => CallOutcome::Failure,
                    _ => CallOutcome::Success,
                });
            }
        }
    }
}
