//! Storms at a management server: all clients reject, all reconnect, or all are sent everything;
//! and one client that does not read.

use std::{collections::BTreeMap, hint::black_box, time::Duration};

use bytes::Bytes;
use criterion::{BenchmarkGroup, Criterion, measurement::WallTime};
use prost::Message as _;
use xds_benches::{
    endpoints,
    frames::{self, Clusters},
    ratio::{Ratios, is_test_run},
    served::{Answer, FanOut, Served},
    stopwatch::Stopwatch,
};
use xds_core::{
    StreamId,
    proto::{Any, DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryResponse},
    server::{MakeBeforeBreakPolicy, OrderingPolicy},
    service::Variant,
    types,
};

type Group<'a> = BenchmarkGroup<'a, WallTime>;

const PARTS: [&str; 3] = ["update", "fan-out", "answers"];

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .without_plots()
        .configure_from_args();
    let mut ratios = Ratios::default();
    let mut group = criterion.benchmark_group("storms");
    let size = Size::of_this_run();
    measure_full_state(&mut ratios, &mut group, size);
    measure_rejections(&mut ratios, &mut group, size);
    measure_reconnects(&mut ratios, &mut group, size);
    measure_slow_reader(&mut ratios, &mut group, size);
    group.finish();
    if !is_test_run() {
        print(&ratios, size);
    }
}

#[derive(Clone, Copy)]
struct Size {
    clients: usize,
    /// Number of resources of one type.
    resources: usize,
    /// Number of resources that each client states when it reconnects, or rejects.
    held: usize,
    /// Number of reconnecting clients.
    returning: usize,
}

impl Size {
    fn of_this_run() -> Self {
        if is_test_run() {
            Self { clients: 20, resources: 200, held: 100, returning: 20 }
        } else {
            Self { clients: 1_000, resources: 10_000, held: 1_000, returning: 1_000 }
        }
    }
}

const FULL_STATE: &str = "full state, one of all clusters changed";
const FULL_STATE_ALONE: &str = "the same for one client";
const ENCODE: &str = "prost encode of all clusters";

/// State of the world: one changed cluster means a response with all clusters for every client.
fn measure_full_state(ratios: &mut Ratios, group: &mut Group<'_>, size: Size) {
    let clusters = Clusters::new(size.resources);
    for (name, clients) in [(FULL_STATE, size.clients), (FULL_STATE_ALONE, 1)] {
        let all = (0..size.resources).map(|n| (frames::name(n), clusters.encoded(n).clone()));
        let mut served = Served::new(Variant::StateOfTheWorld, types::CLUSTER, all);
        for _ in 0..clients {
            served.connect(&[]);
        }
        served.settle(None);
        let mut turn = 0;
        ratios.measure_parts(group, name, PARTS, || {
            // The bytes of another cluster, and the original ones in the next round.
            turn += 1;
            let bytes = clusters.encoded(turn % 2).clone();
            let change = served.transaction([(frames::name(0), bytes)].into_iter());
            let (taken, sent) = served.round(change, None);
            assert_eq!((sent.responses, sent.resources), (clients, clients * size.resources));
            taken
        });
    }
    let response = DiscoveryResponse {
        type_url: types::CLUSTER.into(),
        resources: (0..size.resources)
            .map(|n| Any { type_url: types::CLUSTER.into(), value: clusters.encoded(n).clone() })
            .collect(),
        ..DiscoveryResponse::default()
    };
    ratios.measure(group, ENCODE, || (), |()| black_box(&response).encode_to_vec());
}

const ACCEPTED: &str = "one change, accepted by all";
const REJECTED: &str = "one change, rejected by all";
const ACCEPTED_BEHIND_ACKS: &str = "one change, accepted by all, types behind each other's ACKs";
const REJECTED_BEHIND_ACKS: &str = "one change, rejected by all, types behind each other's ACKs";
const FIRST_LOAD: &str = "first load of all";
const RECOVERY: &str = "all again after a rejected first load";

fn measure_rejections(ratios: &mut Ratios, group: &mut Group<'_>, size: Size) {
    let gated = || OrderingPolicy::MakeBeforeBreak(MakeBeforeBreakPolicy::default());
    for (name, answer, ordering) in [
        (ACCEPTED, Answer::Ack, OrderingPolicy::default()),
        (REJECTED, Answer::Nack, OrderingPolicy::default()),
        (ACCEPTED_BEHIND_ACKS, Answer::Ack, gated()),
        (REJECTED_BEHIND_ACKS, Answer::Nack, gated()),
    ] {
        let mut served = incremental_in(ordering, size.resources, size.clients);
        served.settle(None);
        let mut version = 1;
        ratios.measure_parts(group, name, PARTS, || {
            version = next_version(version);
            let change = served.transaction([resource(0, version)].into_iter());
            let (taken, sent) = served.round_with(change, answer, None);
            assert_eq!((sent.responses, sent.resources), (size.clients, size.clients));
            taken
        });
    }

    // The rest of a rejected response is sent with the first change; here that is
    // the whole response.
    ratios.measure_parts(group, RECOVERY, [FIRST_LOAD, "change", "again"], || {
        let mut served = incremental(size.held, size.clients);
        let started = Stopwatch::start();
        let first = served.fan_out(None);
        let loaded = started.elapsed();
        let answers = served.answers(Answer::Nack);
        assert_eq!(served.take(answers, None), FanOut::default(), "nothing is sent again");
        let change = served.transaction([resource(0, 2)].into_iter());
        let ([changed, again, _], sent) = served.round(change, None);
        assert_eq!(sent.resources, first.resources, "everything is sent again, once");
        [loaded, changed, again]
    });
}

const RECONNECTS: &str = "all come back with what they have, one resource of it outdated";
const DECODE: &str = "prost decode of their requests";
const DECODE_AND_COMPARE: &str = "prost decode of their requests, compared with a map of versions";

fn measure_reconnects(ratios: &mut Ratios, group: &mut Group<'_>, size: Size) {
    let mut served = incremental(size.held, 0);
    let versions = versions_of_everything(&mut served);
    let mut held = versions.clone();
    held.insert(frames::name(0), "outdated".into());
    let request = served.first_request(&["*".into()], held);
    let mut streams: Vec<StreamId> = Vec::new();
    ratios.measure_parts(group, RECONNECTS, ["requests", "fan-out"], || {
        streams.drain(..).for_each(|stream| served.disconnect(stream));
        served.settle(None);
        let started = Stopwatch::start();
        streams.extend((0..size.returning).map(|_| served.connect_with(request.clone())));
        let requested = started.elapsed();
        let sent = served.fan_out(None);
        let answered = started.elapsed();
        assert_eq!((sent.responses, sent.resources), (size.returning, size.returning));
        served.settle(None);
        [requested, answered - requested]
    });
    let decode = || DeltaDiscoveryRequest::decode(black_box(&request).clone()).expect("our own");
    ratios.measure(
        group,
        DECODE,
        || (),
        |()| (0..size.returning).for_each(|_| drop(black_box(decode()))),
    );
    ratios.measure(
        group,
        DECODE_AND_COMPARE,
        || (),
        |()| {
            let outdated = (0..size.returning).map(|_| {
                let held = decode().initial_resource_versions;
                versions.iter().filter(|&(name, version)| held.get(name) != Some(version)).count()
            });
            assert_eq!(outdated.sum::<usize>(), size.returning);
        },
    );
}

/// Returns name and version of each resource, as a client receives them.
fn versions_of_everything(served: &mut Served) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    let stream = served.connect(&["*".into()]);
    served.send(stream, &mut FanOut::default(), |frame| {
        let response = DeltaDiscoveryResponse::decode(frame.to_bytes()).expect("a response");
        versions.extend(response.resources.into_iter().map(|it| (it.name, it.version)));
    });
    served.disconnect(stream);
    versions
}

const ALL_READ: &str = "another resource changes each time, all read";
const ONE_DOES_NOT: &str = "another resource changes each time, one of them never reads";

fn measure_slow_reader(ratios: &mut Ratios, group: &mut Group<'_>, size: Size) {
    for name in [ALL_READ, ONE_DOES_NOT] {
        let mut served = incremental(size.resources, size.clients);
        let slow = (name == ONE_DOES_NOT).then(|| served.connect(&["*".into()]));
        served.settle(None);
        let (mut version, mut at) = (1, 0);
        ratios.measure_parts(group, name, PARTS, || {
            version = next_version(version);
            at = (at + 7_919) % size.resources;
            let change = served.transaction([resource(at, version)].into_iter());
            let (taken, sent) = served.round(change, slow);
            assert_eq!((sent.responses, sent.resources), (size.clients, size.clients));
            taken
        });
    }
}

/// Creates a server whose clients have subscribed to everything and were sent nothing.
fn incremental(resources: usize, clients: usize) -> Served {
    incremental_in(OrderingPolicy::default(), resources, clients)
}

fn incremental_in(ordering: OrderingPolicy, resources: usize, clients: usize) -> Served {
    let all = (0..resources).map(|index| resource(index, 1));
    let (variant, type_url) = (Variant::Incremental, types::CLUSTER_LOAD_ASSIGNMENT);
    let mut served = Served::ordered(ordering, variant, type_url, all);
    for _ in 0..clients {
        served.connect(&["*".into()]);
    }
    served
}

fn print(ratios: &Ratios, size: Size) {
    let part = |round: &str, part: &str| format!("{round}: {part}");

    println!("\neverybody is sent everything ({} clusters, W={})", size.resources, size.clients);
    let shared = part(FULL_STATE, "fan-out");
    ratios.print(&shared, &part(FULL_STATE_ALONE, "fan-out"), None);
    ratios.print(&part(FULL_STATE_ALONE, "fan-out"), ENCODE, None);
    ratios.print_per(ENCODE, 1, &shared, size.clients, None);

    println!("\neverybody rejects (W={})", size.clients);
    for name in PARTS {
        ratios.print(&part(REJECTED, name), &part(ACCEPTED, name), None);
    }
    for name in PARTS {
        let rejected = part(REJECTED_BEHIND_ACKS, name);
        ratios.print(&rejected, &part(ACCEPTED_BEHIND_ACKS, name), None);
        ratios.print(&rejected, &part(REJECTED, name), None);
    }
    ratios.print(&part(RECOVERY, "again"), &part(RECOVERY, FIRST_LOAD), None);

    println!("\neverybody comes back ({} versions each, W={})", size.held, size.returning);
    for baseline in [DECODE, DECODE_AND_COMPARE] {
        ratios.print(&part(RECONNECTS, "requests"), baseline, None);
    }
    ratios.print(&part(RECONNECTS, "fan-out"), &part(RECONNECTS, "requests"), None);

    println!("\nthe others of one that does not read (W={})", size.clients);
    for name in PARTS {
        ratios.print(&part(ONE_DOES_NOT, name), &part(ALL_READ, name), None);
    }
    for name in PARTS {
        ratios.print_tails(&part(ONE_DOES_NOT, name), &part(ALL_READ, name));
    }
}

fn resource(index: usize, version: u16) -> (String, Bytes) {
    (frames::name(index), endpoints::encoded(index, version))
}

fn next_version(version: u16) -> u16 {
    // Never version 1, which every resource had at first.
    version.checked_add(1).unwrap_or(2)
}
