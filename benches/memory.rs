//! Memory of a client for a response, in allocated bytes.
//!
//! No times are measured, so there are no statistics: each number is one difference of a counter.

use std::collections::HashMap;

use bytes::Bytes;
use peak_alloc::PeakAlloc;
use xds_benches::{
    frames::{self, CLUSTERS, Clusters},
    ratio::{is_test_run, print_ratio},
    subscribed::Subscribed,
};
use xds_core::{client::OpaqueType, proto, service::Variant, types};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

fn main() {
    let count = if is_test_run() { 1_000 } else { CLUSTERS };
    let clusters = Clusters::new(count);
    let payload = clusters.payload();
    let frame_len = clusters.response(1, None).len();
    println!("{count} clusters: a frame of {frame_len} bytes, {payload} of them payload");

    let baseline = measure(|| keep_the_bytes(&clusters.response(1, None)));
    let all = measure(|| {
        let types = OpaqueType::new(types::CLUSTER);
        let mut client = Subscribed::to_everything(Variant::StateOfTheWorld, types);
        assert_eq!(client.receive(&clusters.response(1, None)), count);
        client
    });
    let named = measure(|| {
        let mut client = Subscribed::by_name(count);
        assert_eq!(client.receive(&clusters.response(1, None)), count);
        client
    });
    // Half of the resources change afterwards, one by one: no memory of old frames may remain.
    let worn = measure(|| {
        let types = OpaqueType::new(types::CLUSTER);
        let mut client = Subscribed::to_everything(Variant::StateOfTheWorld, types);
        client.receive(&clusters.response(1, None));
        client.receive(&clusters.response_with_every_second_changed(2));
        client
    });

    for (what, held) in [
        ("keep the bytes", baseline),
        ("wildcard", all),
        ("wildcard, half of it changed since", worn),
        ("named watches", named),
    ] {
        println!("{what}: {} bytes for each resource", held.live / count);
    }
    println!();
    let per = |held: usize, of: usize| held as f64 / of as f64;
    print_ratio("live memory, wildcard", "the frame", per(all.live, frame_len), Some(1.3));
    print_ratio("live memory, named watches", "the frame", per(named.live, frame_len), Some(1.8));
    print_ratio("live memory, half changed", "the frame", per(worn.live, frame_len), None);
    print_ratio("live memory, wildcard", "the payload", per(all.live, payload), None);
    print_ratio("live memory, named watches", "the payload", per(named.live, payload), None);
    print_ratio("live memory, wildcard", "keep the bytes", per(all.live, baseline.live), None);
    print_ratio(
        "live memory, named watches",
        "keep the bytes",
        per(named.live, baseline.live),
        None,
    );
    print_ratio("peak memory, wildcard", "the frame", per(all.peak, frame_len), None);
}

#[derive(Clone, Copy)]
struct Held {
    /// Bytes that remain allocated after the caller has dropped the frames.
    live: usize,
    /// Maximum of allocated bytes, including the frame.
    peak: usize,
}

fn measure<T>(make: impl FnOnce() -> T) -> Held {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let made = make();
    let held =
        Held { live: ALLOCATOR.current_usage() - before, peak: ALLOCATOR.peak_usage() - before };
    drop(made);
    held
}

/// Minimal memory of a client without subscriptions, versions and errors: a map from names to
/// copies of the resources.
fn keep_the_bytes(frame: &Bytes) -> HashMap<String, Bytes> {
    let response: proto::DiscoveryResponse =
        prost::Message::decode(frame.clone()).expect("our own frame");
    let resources = response.resources.iter().enumerate();
    resources
        .map(|(index, any)| (frames::name(index), Bytes::copy_from_slice(&any.value)))
        .collect()
}
