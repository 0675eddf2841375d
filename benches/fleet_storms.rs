//! Storms at a management server over gRPC on loopback: a thousand clients reject, reconnect, or
//! are served in parallel with one that does not read. As in `fleet.rs`, one thread runs
//! everything, and the baseline is bare tonic that sends the same bytes.

mod fleets;
mod wire;

use std::collections::BTreeMap;

use bytes::Bytes;
use criterion::{BenchmarkGroup, measurement::WallTime};
use prost::Message as _;
use tokio::runtime::Runtime;
use xds_benches::{frames, ratio::Ratios};
use xds_core::proto::DeltaDiscoveryResponse;

use self::{
    fleets::{Answer, Bare, CONNECTIONS, FirstRequest, Fleet, Ours, connect, subscription},
    wire::{DELTA_AGGREGATED, FrameClient},
};

type Group<'a> = BenchmarkGroup<'a, WallTime>;

const RESOURCES: usize = 1_000;

const ACCEPTED: &str = "a change, accepted by all";
const REJECTED: &str = "a change, rejected by all";
const BARE_ACCEPTED: &str = "bare tonic, the same bytes and ACKs";
const BARE_REJECTED: &str = "bare tonic, the same bytes and NACKs";
const RETURNED: &str = "all come back with 1,000 versions each, one outdated";
const BARE_RETURNED: &str = "bare tonic, the same requests and responses";
const BESIDE_ONE: &str = "a change for all, one more never reads";

fn main() {
    let (mut criterion, runtime, clients) = fleets::stage();
    println!("{clients} streams over {CONNECTIONS} connections, {RESOURCES} resources");

    let mut ratios = Ratios::default();
    let mut group = criterion.benchmark_group("fleet storms");
    measure_rejections(&mut ratios, &mut group, &runtime, clients);
    measure_slow_reader(&mut ratios, &mut group, &runtime, clients);
    measure_returns(&mut ratios, &mut group, &runtime, clients);
    group.finish();

    println!();
    ratios.print(REJECTED, ACCEPTED, None);
    ratios.print(ACCEPTED, BARE_ACCEPTED, None);
    ratios.print(REJECTED, BARE_REJECTED, None);
    ratios.print(RETURNED, BARE_RETURNED, None);
    ratios.print(BESIDE_ONE, ACCEPTED, None);
}

fn measure_rejections(
    ratios: &mut Ratios,
    group: &mut Group<'_>,
    runtime: &Runtime,
    clients: usize,
) {
    let mut ours = runtime.block_on(Ours::open(RESOURCES, clients));
    let mut last = Bytes::new();
    ratios.measure(group, ACCEPTED, || (), |()| last = runtime.block_on(ours.round()));
    let mut nacks = 0;
    ratios.measure(
        group,
        REJECTED,
        || (),
        |()| {
            runtime.block_on(async {
                ours.change().await;
                ours.fleet.answer(&Answer::Nack).await;
                nacks += clients as u64;
                ours.until(|stats| stats.nacks >= nacks).await;
            });
        },
    );
    // A rejection is not answered with another response.
    let stats = runtime.block_on(ours.stats());
    assert_eq!(stats.responses, stats.acks + stats.nacks);
    drop(ours);

    let mut bare = runtime.block_on(Bare::open(clients));
    for (name, answer_kind) in [(BARE_ACCEPTED, Answer::Ack), (BARE_REJECTED, Answer::Nack)] {
        ratios.measure(group, name, || (), |()| runtime.block_on(bare.round(&last, &answer_kind)));
    }
}

fn measure_slow_reader(
    ratios: &mut Ratios,
    group: &mut Group<'_>,
    runtime: &Runtime,
    clients: usize,
) {
    let mut ours = runtime.block_on(Ours::open(RESOURCES, clients));
    // The slow client has its own connection, which is all it can block. It has ACKed once.
    let slow = runtime.block_on(async {
        let channels = connect(ours.address, 1).await;
        Fleet::open(&channels, 1, FirstRequest::Everything).await
    });
    let mut acks = 2 * clients as u64 + 1;
    ratios.measure(
        group,
        BESIDE_ONE,
        || (),
        |()| {
            runtime.block_on(async {
                ours.change().await;
                ours.fleet.answer(&Answer::Ack).await;
                ours.until(|stats| stats.acks >= acks).await;
                acks += clients as u64;
            });
        },
    );
    drop(slow);
}

fn measure_returns(ratios: &mut Ratios, group: &mut Group<'_>, runtime: &Runtime, clients: usize) {
    let mut ours = runtime.block_on(Ours::start(RESOURCES));
    let (first, frame) = runtime.block_on(async {
        let mut held = versions_of_everything(&ours).await;
        held.insert(frames::name(0), "outdated".into());
        let mut request = subscription(0);
        request.initial_resource_versions = held.into_iter().collect();
        let first = Bytes::from(request.encode_to_vec());
        let mut one = Fleet::storm(&ours.channels, 1, &first).await;
        let frame = one.answer(&Answer::Ack).await;
        ours.until(|stats| stats.acks >= 1).await;
        (first, frame)
    });
    let response = DeltaDiscoveryResponse::decode(frame.clone()).expect("a response");
    assert_eq!(response.resources.len(), 1, "what it lacks");

    let acks = core::cell::Cell::new(1);
    let fleet = core::cell::RefCell::new(Fleet(Vec::new()));
    let disconnect_all = || {
        fleet.borrow_mut().0.clear();
        runtime.block_on(ours.until(|stats| stats.streams == 0));
    };
    ratios.measure(group, RETURNED, disconnect_all, |()| {
        runtime.block_on(async {
            let mut all = Fleet::storm(&ours.channels, clients, &first).await;
            all.answer(&Answer::Ack).await;
            acks.set(acks.get() + clients as u64);
            ours.until(|stats| stats.acks >= acks.get()).await;
            fleet.replace(all);
        });
    });
    drop(fleet);
    ours.fleet.0.clear();

    let bare = core::cell::RefCell::new(runtime.block_on(Bare::start()));
    let disconnect_all = || {
        bare.borrow_mut().disconnect_all();
        // The server must notice that the clients are gone.
        runtime.block_on(async {
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
            }
        });
    };
    ratios.measure(group, BARE_RETURNED, disconnect_all, |()| {
        runtime.block_on(bare.borrow_mut().storm(clients, &first, &frame));
    });
}

/// Returns name and version of each resource, as a client receives them.
async fn versions_of_everything(ours: &Ours) -> BTreeMap<String, String> {
    let first = subscription(0).encode_to_vec().into();
    let channel = ours.channels[0].clone();
    let mut client = FrameClient::call(channel, DELTA_AGGREGATED, first).await;
    let response = DeltaDiscoveryResponse::decode(client.frame().await).expect("a response");
    assert_eq!(response.resources.len(), RESOURCES);
    response.resources.into_iter().map(|it| (it.name, it.version)).collect()
}
