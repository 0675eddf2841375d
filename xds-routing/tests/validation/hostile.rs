//! Whatever bytes come.

use prost::Message as _;
use xds_routing::{Rules, cluster::Cluster, endpoint::ClusterLoadAssignment, listener::Listener};

use crate::{
    clusters::eds,
    endpoints::{assignment, endpoint, locality},
    support::*,
};

/// Whatever bytes come, there is an answer.
#[test]
fn garbage_is_rejected_without_a_panic() {
    use proptest::prelude::*;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let seeds = [
        api_listener("l", &manager(rds("r"))).encode_to_vec(),
        eds("c").encode_to_vec(),
        assignment(vec![locality(0, 1, vec![endpoint("::1", 1)])]).encode_to_vec(),
        table(vec![route(safe_regex("a+"), weighted(&[("a", 1)]))]).encode_to_vec(),
    ];
    let edits = proptest::collection::vec((any_index(), any_byte()), 0..8);
    let strategy = (0..seeds.len(), edits, any_index());
    runner
        .run(&strategy, |(seed, edits, end)| {
            let mut bytes = seeds[seed].clone();
            for (place, byte) in edits {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            bytes.truncate(end.index(bytes.len() * 4).min(bytes.len()));
            let (bytes, rules) = (bytes::Bytes::from(bytes), Rules::default());
            let _ = Listener::from_bytes(&bytes, &rules);
            let _ = Cluster::from_bytes(&bytes, &rules);
            let _ = ClusterLoadAssignment::from_bytes(&bytes, &rules);
            let _ = xds_routing::route::RouteConfiguration::from_bytes(&bytes, &rules);
            Ok(())
        })
        .unwrap();

    fn any_index() -> impl Strategy<Value = proptest::sample::Index> {
        any::<proptest::sample::Index>()
    }
    fn any_byte() -> impl Strategy<Value = u8> {
        any::<u8>()
    }
}
