//! An incremental response that changes one of N resources. The cost must not depend on N.
//!
//! Measured twice: with the same resource in every response, and with resources spread over all N,
//! so that few accesses hit the processor's cache. A plain map from names to bytes that is changed
//! in the same way shows the cost of the cache misses alone.

use std::{collections::HashMap, time::Duration};

use bytes::Bytes;
use criterion::Criterion;
use xds_benches::{
    endpoints, frames,
    ratio::{Ratios, is_test_run},
    subscribed::Subscribed,
};
use xds_core::{client::OpaqueType, service::Variant, types};

/// Number of resources, and the names of the measurements: changing resources, the same resource,
/// and the plain map.
const SIZES: [(usize, &str, &str, &str); 4] = [
    (1_000, "one of 1,000", "the same of 1,000", "map of 1,000"),
    (10_000, "one of 10,000", "the same of 10,000", "map of 10,000"),
    (100_000, "one of 100,000", "the same of 100,000", "map of 100,000"),
    (1_000_000, "one of 1,000,000", "the same of 1,000,000", "map of 1,000,000"),
];
/// Number of responses per round; a single one is too short for the clock.
const ROUND: usize = 100;
/// Step between resources, coprime to all sizes, so that all resources are reached.
const STEP: usize = 7_919;

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .without_plots()
        .configure_from_args();
    let mut ratios = Ratios::default();
    let mut group = criterion.benchmark_group("delta");
    let largest = if is_test_run() { 10_000 } else { usize::MAX };
    for (count, any, same, map) in SIZES.into_iter().filter(|&(count, ..)| count <= largest) {
        let endpoint_type = OpaqueType::new(types::CLUSTER_LOAD_ASSIGNMENT);
        let mut client = Subscribed::to_everything(Variant::Incremental, endpoint_type);
        let told: usize = endpoints::first(count).map(|frame| client.receive(&frame)).sum();
        assert_eq!(told, count, "everything is there");
        for (name, step) in [(any, STEP), (same, 0)] {
            let mut walk = Walk::new(count, step);
            ratios.measure(
                &mut group,
                name,
                || walk.next_round(endpoints::changed),
                |frames| {
                    for frame in &frames {
                        assert_eq!(client.receive(frame), 1, "one resource has changed");
                    }
                },
            );
        }
        drop(client);

        let entry = |index, version| (frames::name(index), endpoints::changed(index, version));
        let mut entries: HashMap<String, Bytes> = (0..count).map(|index| entry(index, 1)).collect();
        let mut walk = Walk::new(count, STEP);
        ratios.measure(
            &mut group,
            map,
            || walk.next_round(entry),
            |round| {
                for (name, bytes) in round {
                    entries.insert(name, bytes);
                }
            },
        );
    }
    group.finish();

    println!();
    let [(_, any_few, same_few, map_few), larger @ ..] = SIZES;
    for (count, any, same, map) in larger {
        let aim = (count == 1_000_000).then_some(2.0);
        ratios.print(same, same_few, aim);
        ratios.print(any, any_few, aim);
        ratios.print(map, map_few, None);
    }
}

/// Walk over the resources, with a new version at each step.
struct Walk {
    count: usize,
    step: usize,
    index: usize,
    version: u16,
}

impl Walk {
    fn new(count: usize, step: usize) -> Self {
        Self { count, step, index: 0, version: 1 }
    }

    fn next_round<T>(&mut self, make: impl Fn(usize, u16) -> T) -> Vec<T> {
        let mut next = || {
            self.index = (self.index + self.step) % self.count;
            // Never version 1, which every resource had at first.
            self.version = self.version.checked_add(1).unwrap_or(2);
            make(self.index, self.version)
        };
        (0..ROUND).map(|_| next()).collect()
    }
}
