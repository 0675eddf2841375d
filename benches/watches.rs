//! Many watches added to a running client at once: one request, and a cost per watch that does not
//! depend on the number of watches.

use std::{hint::black_box, time::Duration};

use criterion::Criterion;
use prost::Message as _;
use xds_benches::{
    frames,
    ratio::{Ratios, is_test_run},
    subscribed::Subscribed,
};
use xds_core::types;

const MANY: usize = 100_000;
/// Batches that add up to the same number of watches: watches per client, and the name
/// of the measurement.
const BATCHES: [(usize, &str); 3] = [
    (1_000, "1,000 watches, 100 times"),
    (10_000, "10,000 watches, 10 times"),
    (MANY, "100,000 watches"),
];
const NAMES_REQUEST: &str = "encoding the request with 100,000 names";

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(2))
        .without_plots()
        .configure_from_args();
    let mut ratios = Ratios::default();
    let mut group = criterion.benchmark_group("watches");
    // Each client has one watch already, so these are added to an open stream.
    let names: Vec<String> = (1..=MANY).map(frames::name).collect();
    for (size, name) in BATCHES {
        let clients = if is_test_run() { 1 } else { MANY / size };
        ratios.measure(
            &mut group,
            name,
            || (0..clients).map(|_| Subscribed::by_name(1)).collect::<Vec<_>>(),
            |mut clients| {
                for client in &mut clients {
                    let names = names.get(..size).expect("no batch is larger than all");
                    assert_eq!(client.watch(names), 1, "one request");
                }
                clients
            },
        );
    }
    ratios.measure(&mut group, NAMES_REQUEST, || (), |()| black_box(encode(&names)));
    group.finish();

    println!();
    let [few, some, many] = BATCHES.map(|(_, name)| name);
    ratios.print(some, few, None);
    ratios.print(many, some, None);
    ratios.print(many, few, None);
    ratios.print(many, NAMES_REQUEST, None);
}

/// Encodes the request with these names, using prost.
fn encode(names: &[String]) -> Vec<u8> {
    xds_core::proto::DiscoveryRequest {
        resource_names: names.to_vec(),
        type_url: types::CLUSTER.into(),
        ..Default::default()
    }
    .encode_to_vec()
}
