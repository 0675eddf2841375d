//! The client's hot path: a large response, received for the first time or with one change.
//!
//! Baselines, on the same frame in the same run: a full prost decode whose result is dropped or
//! kept, and a copy into memory that has been touched before.

use std::{hint::black_box, time::Duration};

use bytes::Bytes;
use criterion::Criterion;
use envoy_types::pb::envoy::{
    config::cluster::v3::Cluster, service::discovery::v3::DiscoveryResponse,
};
use prost::Message as _;
use xds_benches::{
    decoded::DecodedCluster,
    frames::{self, CLUSTERS, Clusters},
    ratio::Ratios,
    subscribed::Subscribed,
};
use xds_core::{
    client::{OpaqueType, ResourceType},
    service::Variant,
    types,
};

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .without_plots()
        .configure_from_args();
    let mut ratios = Ratios::default();
    let clusters = Clusters::new(CLUSTERS);
    let first = clusters.response(1, None);
    let changes = [2, 3].map(|version| clusters.response(version, Some(CLUSTERS / 2)));
    println!("{CLUSTERS} clusters, {} bytes each on average", first.len() / CLUSTERS);

    let mut group = criterion.benchmark_group("client");
    ratios.measure(&mut group, DECODE_AND_DROP, || (), |()| decode(&first, drop));
    ratios.measure(
        &mut group,
        DECODE_AND_KEEP,
        || (),
        |()| {
            let mut kept = Vec::with_capacity(CLUSTERS);
            decode(&first, |cluster| kept.push(cluster));
            kept
        },
    );
    let mut touched = vec![1u8; first.len()];
    ratios.measure(&mut group, MEMCPY, || (), |()| black_box(&mut touched).copy_from_slice(&first));

    ratios.measure(
        &mut group,
        FIRST_LOAD,
        || to_everything(OpaqueType::new(types::CLUSTER)),
        |mut client| {
            client.receive(&first);
            client
        },
    );
    ratios.measure(
        &mut group,
        FIRST_LOAD_DECODED,
        || to_everything(DecodedCluster::default()),
        |mut client| {
            client.receive(&first);
            client
        },
    );

    let mut wildcard = to_everything(OpaqueType::new(types::CLUSTER));
    wildcard.receive(&first);
    let mut turn = changes.iter().cycle();
    ratios.measure(
        &mut group,
        ONE_CHANGED,
        || (),
        |()| {
            turn.next().into_iter().for_each(|frame| assert_eq!(wildcard.receive(frame), 1));
        },
    );

    let mut named = Subscribed::by_name(CLUSTERS);
    named.receive(&first);
    let mut turn = changes.iter().cycle();
    ratios.measure(
        &mut group,
        ONE_CHANGED_NAMED,
        || (),
        |()| {
            turn.next().into_iter().for_each(|frame| assert_eq!(named.receive(frame), 1));
        },
    );
    ratios.measure(&mut group, NAMES_REQUEST, || (), |()| named_request());
    group.finish();

    println!();
    ratios.print(ONE_CHANGED, DECODE_AND_DROP, Some(0.1));
    ratios.print(ONE_CHANGED, MEMCPY, Some(4.0));
    ratios.print(ONE_CHANGED_NAMED, DECODE_AND_DROP, None);
    ratios.print(ONE_CHANGED_NAMED, MEMCPY, None);
    ratios.print(NAMES_REQUEST, MEMCPY, None);
    ratios.print(FIRST_LOAD, DECODE_AND_DROP, Some(0.25));
    ratios.print(FIRST_LOAD, MEMCPY, None);
    ratios.print(FIRST_LOAD_DECODED, DECODE_AND_KEEP, Some(1.2));
}

const DECODE_AND_DROP: &str = "decode and drop";
const DECODE_AND_KEEP: &str = "decode and keep";
const MEMCPY: &str = "memcpy";
const FIRST_LOAD: &str = "first load";
const FIRST_LOAD_DECODED: &str = "first load, all decoded";
const ONE_CHANGED: &str = "one changed";
const ONE_CHANGED_NAMED: &str = "one changed, named watches";
const NAMES_REQUEST: &str = "encoding the request with all names";

fn to_everything(resource_type: impl ResourceType + 'static) -> Subscribed {
    Subscribed::to_everything(Variant::StateOfTheWorld, resource_type)
}

/// Decodes the response and each of its clusters.
fn decode(frame: &Bytes, mut take: impl FnMut(Cluster)) {
    let response = DiscoveryResponse::decode(&**frame).expect("our own frame");
    for any in &response.resources {
        take(Cluster::decode(&*any.value).expect("our own cluster"));
    }
}

/// Encodes the request that named watches send with every ACK, using prost.
fn named_request() -> Vec<u8> {
    xds_core::proto::DiscoveryRequest {
        resource_names: (0..CLUSTERS).map(frames::name).collect(),
        type_url: types::CLUSTER.into(),
        ..Default::default()
    }
    .encode_to_vec()
}
