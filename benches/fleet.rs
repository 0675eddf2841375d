//! A change that is sent to a thousand clients over gRPC on loopback, with their ACKs. The baseline
//! is a bare tonic server that sends the same bytes to all of them and reads their responses.
//!
//! One thread runs server and clients, so times are work. The clients are the same on both sides.

mod fleets;
mod wire;

use bytes::Bytes;
use criterion::{BenchmarkGroup, measurement::WallTime};
use tokio::runtime::Runtime;
use xds_benches::ratio::Ratios;

use self::fleets::{Answer, Bare, CONNECTIONS, Ours};

const RESOURCES: usize = 10_000;
const OURS: &str = "ours";
const BARE: &str = "bare tonic broadcast";
/// Maximum ratio.
const AIM: f64 = 1.5;

fn main() {
    let (mut criterion, runtime, clients) = fleets::stage();
    println!("{clients} streams over {CONNECTIONS} connections, one of {RESOURCES} changes");

    let mut ratios = Ratios::default();
    let mut group = criterion.benchmark_group("fleet");
    let frame = measure_ours(&mut ratios, &mut group, &runtime, clients);
    measure_bare(&mut ratios, &mut group, &runtime, clients, &frame);
    group.finish();

    println!();
    ratios.print(OURS, BARE, Some(AIM));
}

/// Measures the management server, and returns a response as it was sent.
fn measure_ours(
    ratios: &mut Ratios,
    group: &mut BenchmarkGroup<'_, WallTime>,
    runtime: &Runtime,
    clients: usize,
) -> Bytes {
    let mut ours = runtime.block_on(Ours::open(RESOURCES, clients));
    let mut last = Bytes::new();
    ratios.measure(group, OURS, || (), |()| last = runtime.block_on(ours.round()));
    last
}

fn measure_bare(
    ratios: &mut Ratios,
    group: &mut BenchmarkGroup<'_, WallTime>,
    runtime: &Runtime,
    clients: usize,
    frame: &Bytes,
) {
    let mut bare = runtime.block_on(Bare::open(clients));
    ratios.measure(group, BARE, || (), |()| runtime.block_on(bare.round(frame, &Answer::Ack)));
}
