//! Many watches added to a running client in one go: one request, and a price for each that does not
//! depend on how many there are.

use std::{hint::black_box, time::Duration};

use criterion::Criterion;
use prost::Message as _;
use xds_benches::{
    frames,
    ratio::{Ratios, is_test_run},
    subscribed::Subscribed,
};
use xds_core::types;

const FEW: usize = 1_000;
const MANY: usize = 100_000;
/// As many times few as many are.
const FEW_TIMES: &str = "1,000 watches, 100 times";
const MANY_AT_ONCE: &str = "100,000 watches";
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
    // The client has one watch already: these are added in mid-stream.
    let names: Vec<String> = (1..=MANY).map(frames::name).collect();
    let (few, rest) = names.split_at(FEW);
    let times = if is_test_run() { 1 } else { rest.len() / FEW + 1 };
    ratios.measure(
        &mut group,
        FEW_TIMES,
        || (0..times).map(|_| Subscribed::by_name(1)).collect::<Vec<_>>(),
        |mut clients| {
            for client in &mut clients {
                assert_eq!(client.watch(few), 1, "one request");
            }
            clients
        },
    );
    ratios.measure(
        &mut group,
        MANY_AT_ONCE,
        || Subscribed::by_name(1),
        |mut client| {
            assert_eq!(client.watch(&names), 1, "one request");
            client
        },
    );
    ratios.measure(&mut group, NAMES_REQUEST, || (), |()| black_box(encode(&names)));
    group.finish();

    println!();
    ratios.print(MANY_AT_ONCE, FEW_TIMES, None);
    ratios.print(MANY_AT_ONCE, NAMES_REQUEST, None);
}

/// What prost takes for the request alone.
fn encode(names: &[String]) -> Vec<u8> {
    xds_core::proto::DiscoveryRequest {
        resource_names: names.to_vec(),
        type_url: types::CLUSTER.into(),
        ..Default::default()
    }
    .encode_to_vec()
}
