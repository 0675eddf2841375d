//! The client with several servers, in both protocol variants, one step at a time.
//!
//! Servers follow the protocol: they apply the requests, send whatever differs from what they
//! believe the client has, and answer every subscription. After any history, once the servers work
//! again, all sides agree. External verdicts (`external_verdicts.rs`) arrive at once here; late verdicts and
//! aliases are covered by the protocol scripts only.
// Where each invariant is asserted:
//
// | invariant | asserted in |
// |---|---|
// | IC1 to IC3 | `peer.rs`, `match_answer`; `exchange.rs`, `deliver`: ACK or NACK, and the version |
// | IC4, IC12 | `peer.rs`: the newest nonce; no nonce in spontaneous incremental requests |
// | IC5, IC6, IC9, IC11 | `peer.rs`, `read_sotw` and `read_delta` |
// | IC7, B06 | `versions.rs`; with several servers, no version once another server has responded |
// | IC8 | `exchange.rs`, `stated`: exact for one server; for several, names and origins |
// | IC10 | `rest.rs`, `has_converged` |
// | IC13, IC15 | `rest.rs`, `holds_at_every_moment`; `exchange.rs`, `was_sent` and `is_taken_as_it_should` |
// | IC14, IC16, IC28 | `watcher.rs`; order: `is_in_use`, the reported value is the cached one |
// | IC17 | `client_contract.rs`, `duplicate_names_in_response_are_nacked` |
// | IC18 to IC23, IC31 | `oracle.rs`: the cache after each response, from the previous cache |
// | IC24, IC25, IC33, IC38 | `clock.rs`: not early, not late; a TTL from a lower-priority server only has to end |
// | IC26 | `clock.rs`, `may_open`: not early; `active_server.rs`: not late, at rest; jitter is in `backoff.rs` |
// | IC27 | `exchange.rs`, `is_known_trouble`; `active_server.rs`: every watcher is notified unless the client may have failed over; `watcher.rs`: once |
// | IC29 | `clock.rs`, `may_open`; `active_server.rs`; `exchange.rs`, `is_known_trouble`: no server's error while a lower-priority one may answer |
// | IC30 | `clock.rs`, `may_open`; `active_server.rs`; `exchange.rs`, `forge` |
// | IC32 | `reported.rs`, and `watcher.rs` against the cache at rest |
// | IC34 | `exchange.rs`, `deliver`; `rest.rs`; for a wildcard watch, of new values |
// | IC35 | `clock.rs`, `drain`; entries in `hostile_servers_leave_client_bounded_and_runs_reproducible` |
// | IC36, IC37 | `exchange.rs`, `forge`, including an unregistered type; `client_contract.rs`; `hostile_servers_leave_client_bounded_and_runs_reproducible` |
// | IC39 | `rest.rs`, `shut_down`; the final event of each watch is the responsibility of `xds-handle` |
// | IC40 | `peer.rs`: each request carries information new to the server |
// | D6 | `idle.rs`: unused streams of one server |

use std::{collections::BTreeSet, ops::Range, time::Duration};

use proptest::{
    prelude::*,
    strategy::ValueTree as _,
    test_runner::{TestCaseError, TestRunner},
};
use xds_core::{
    client::{DataErrorPolicy, FlowControl, ServerFeature, ServerFeatures, Streams, VerdictSource},
    service::Variant,
};

use crate::client_support::fleet::{
    World,
    setup::{Servers, Setup},
    situations::Situation,
    step,
};

fn setup(variant: Variant, servers: Servers) -> impl Strategy<Value = Setup> {
    let policies = [DataErrorPolicy::KeepCached, DataErrorPolicy::DropCached];
    let streams = [Streams::Aggregated, Streams::PerType];
    let gates = [FlowControl::On, FlowControl::Off];
    let choices = (
        proptest::sample::select(streams.to_vec()),
        proptest::sample::select(policies.to_vec()),
        proptest::sample::select(gates.to_vec()),
        proptest::bool::weighted(0.2),
        proptest::bool::weighted(0.2),
        proptest::sample::select(vec![VerdictSource::Validation, VerdictSource::External]),
        proptest::sample::select(vec![0, 3, 30]).prop_map(Duration::from_secs),
    );
    choices.prop_map(
        move |(streams, data_errors, flow_control, fails, is_transient, verdict, idle_timeout)| {
            Setup {
                features: [
                    fails.then_some(ServerFeature::FailOnDataErrors),
                    is_transient.then_some(ServerFeature::ResourceTimerIsTransientError),
                ]
                .into_iter()
                .flatten()
                .collect(),
                variant,
                streams,
                servers,
                data_errors,
                flow_control,
                verdict,
                idle_timeout,
            }
        },
    )
}

/// Takes the steps, heals every server and checks convergence. A failure includes the trace.
fn walk(setup: Setup, steps: &[step::Step]) -> Result<World, TestCaseError> {
    let mut world = World::new(setup);
    let walked = steps
        .iter()
        .try_for_each(|step| world.take(step))
        .and_then(|()| world.heal())
        .and_then(|()| world.has_converged());
    match walked {
        Ok(()) => Ok(world),
        Err(why) => Err(TestCaseError::fail(format!("{why}, after {:#?}", world.trace))),
    }
}

/// Runs [`walk`] and then shuts the client down.
fn walk_to_the_end(setup: Setup, steps: &[step::Step]) -> Result<(), TestCaseError> {
    let mut world = walk(setup, steps)?;
    let ended = world.shut_down();
    ended.map_err(|why| TestCaseError::fail(format!("{why}, after {:#?}", world.trace)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn client_converges_with_one_incremental_server(
        setup in setup(Variant::Incremental, Servers::One),
        steps in proptest::collection::vec(step::legal(), 0..70),
    ) {
        walk_to_the_end(setup, &steps)?;
    }

    #[test]
    fn client_converges_with_one_sotw_server(
        setup in setup(Variant::StateOfTheWorld, Servers::One),
        steps in proptest::collection::vec(step::legal(), 0..70),
    ) {
        walk_to_the_end(setup, &steps)?;
    }

    #[test]
    fn client_converges_with_primary_and_fallback_incremental_servers(
        setup in setup(Variant::Incremental, Servers::Fallback),
        steps in proptest::collection::vec(step::legal(), 0..70),
    ) {
        walk_to_the_end(setup, &steps)?;
    }

    #[test]
    fn client_converges_with_primary_and_fallback_sotw_servers(
        setup in setup(Variant::StateOfTheWorld, Servers::Fallback),
        steps in proptest::collection::vec(step::legal(), 0..70),
    ) {
        walk_to_the_end(setup, &steps)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Rules 2, 4, 6 and 7 with several servers, some of them lying: nothing panics, responses are
    /// answered in order, the cache stays bounded, and a second run produces the same trace.
    #[test]
    fn hostile_servers_leave_client_bounded_and_runs_reproducible(
        setup in prop_oneof![
            setup(Variant::Incremental, Servers::Fallback),
            setup(Variant::StateOfTheWorld, Servers::Fallback),
        ],
        is_per_type in any::<bool>(),
        steps in proptest::collection::vec(step::hostile(), 0..70),
    ) {
        let streams = if is_per_type { Streams::PerType } else { setup.streams };
        let run = || {
            let mut world = World::new(Setup { streams, ..setup });
            let taken = steps.iter().try_for_each(|step| world.take(step));
            (taken.map_err(|why| why.to_string()), format!("{:?}", world.trace), world)
        };
        let ((taken, trace, world), (_, again, _)) = (run(), run());
        prop_assert!(taken.is_ok(), "{:?}, after {:#?}", taken, world.trace);
        prop_assert_eq!(trace, again);
        let held = world.client.status().count();
        prop_assert!(held <= 2 * (4 + 2), "rule 6: {} entries", held);
    }

    /// Without deletions, both variants end with the same state.
    // IL4
    #[test]
    fn sotw_and_incremental_end_with_same_resources(
        setup in setup(Variant::Incremental, Servers::One),
        steps in proptest::collection::vec(step::legal(), 0..70),
    ) {
        let steps: Vec<_> = steps
            .into_iter()
            .filter_map(step::Step::without_endings)
            .map(step::Step::of_endpoints)
            .collect();
        let ends = [Variant::Incremental, Variant::StateOfTheWorld].map(|variant| {
            let world = walk(Setup { variant, ..setup }, &steps)?;
            let views = world.watchers.iter().map(|watcher| {
                let plain = watcher.believes().filter(|(name, _)| !name.starts_with("xdstp:"));
                plain.map(|(name, bytes)| (name.to_owned(), bytes.clone())).collect::<Vec<_>>()
            });
            Ok::<_, TestCaseError>(views.collect::<Vec<_>>())
        });
        let [incremental, whole] = ends;
        prop_assert_eq!(incremental?, whole?);
    }
}

/// Random walks reach every rare situation. The rarest occurs in about one of 200 walks, so 10,000
/// walks without it are practically impossible; usually a tenth suffices.
#[test]
fn random_walks_reach_every_rare_situation() {
    const WALKS: Range<usize> = 500..10_000;
    let places = [Servers::One, Servers::Fallback];
    let variants = [Variant::Incremental, Variant::StateOfTheWorld];
    let setups =
        variants.into_iter().flat_map(|variant| places.map(|place| setup(variant, place).boxed()));
    let walks =
        (proptest::strategy::Union::new(setups), proptest::collection::vec(step::legal(), 70));
    let mut runner = TestRunner::default();
    let mut missing: BTreeSet<Situation> = Situation::ALL.into();
    for done in 0..WALKS.end {
        let (setup, steps) = walks.new_tree(&mut runner).expect("no filter").current();
        let world = walk(setup, &steps).expect("a walk without fault");
        missing.retain(|situation| !world.reached.situations.contains(situation));
        if missing.is_empty() && done >= WALKS.start {
            break;
        }
    }
    assert!(missing.is_empty(), "never reached: {missing:?}");
    println!("covers: IC1 IC2 IC3 IC4 IC5 IC6 IC7 IC8 IC9 IC10 IC11 IC12 IC13 IC14 IC15 IC18");
    println!("covers: IC19 IC20 IC21 IC22 IC23 IC24 IC25 IC26 IC27 IC28 IC29 IC30 IC31 IC32");
    println!("covers: IC33 IC34 IC35 IC38 IC40 IL1 IL2");
}

/// After the last wildcard watch ends and before the unsubscription is sent, the server still sends
/// each change once. A wildcard watch that starts in that interval misses none of them.
// IC15 IL1
#[test]
fn wildcard_rewatched_before_unsubscribe_is_sent_misses_no_change() {
    for variant in [Variant::StateOfTheWorld, Variant::Incremental] {
        let steps = [
            step::Step::Watch { kind: 0, name: None },
            step::Step::Rest,
            step::Step::Push { nth: 0, kind: 0 },
            step::Step::Rest,
            step::Step::Unwatch(0),
            step::Step::Put { server: 0, kind: 0, name: 0, text: 1, ttl: None },
            step::Step::Push { nth: 0, kind: 0 },
            step::Step::Watch { kind: 0, name: None },
        ];
        let walked = walk(plain(variant), &steps);
        assert!(walked.is_ok(), "{variant:?}: {:?}", walked.err());
    }
}

/// The setup of walks with a single server and a single stream.
fn plain(variant: Variant) -> Setup {
    Setup {
        variant,
        streams: Streams::Aggregated,
        servers: Servers::One,
        data_errors: DataErrorPolicy::KeepCached,
        flow_control: FlowControl::Off,
        features: ServerFeatures::NONE,
        verdict: VerdictSource::Validation,
        idle_timeout: Duration::from_secs(30),
    }
}

/// A resource is rejected, and removed by the server before the client's next stream. The client
/// states no version of it, so the server does not report the removal.
// IC8 IL4
#[test]
fn rejected_resource_removed_between_streams_ends() {
    let steps = [
        step::Step::Watch { kind: 0, name: None },
        step::Step::Rest,
        step::Step::Put { server: 0, kind: 0, name: 0, text: 3, ttl: None },
        step::Step::Push { nth: 0, kind: 0 },
        step::Step::Close(0),
        step::Step::Delete { server: 0, kind: 0, name: 0 },
    ];
    let walked = walk(plain(Variant::Incremental), &steps);
    let world = walked.unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(world.client.status().count(), 0);
}

/// A server recovers on a silent stream before a new subscription is sent. The watcher has no value
/// and is not notified of the recovery, and then the stream fails.
// X16 IC27
#[test]
fn failure_after_recovery_without_notice_is_reported_again() {
    for variant in [Variant::StateOfTheWorld, Variant::Incremental] {
        let steps = [
            step::Step::Watch { kind: 0, name: Some(1) },
            step::Step::Rest,
            step::Step::Close(0),
            step::Step::Sleep { millis: 2_000 },
            step::Step::Rest,
            step::Step::Watch { kind: 0, name: Some(0) },
            step::Step::Sleep { millis: 16_000 },
            step::Step::Close(0),
            step::Step::TakeOutput,
            step::Step::TakeOutput,
        ];
        let mut world = World::new(plain(variant));
        let walked = steps.iter().try_for_each(|step| world.take(step));
        assert!(walked.is_ok(), "{variant:?}: {walked:?}");
        let of_r0 = |step: &String| step.contains("Unavailable") && step.contains("\"r0\"");
        let trace: Vec<_> = world.trace.iter().map(|step| format!("{step:?}")).collect();
        assert_eq!(trace.iter().filter(|step| of_r0(step)).count(), 2, "{variant:?}: {trace:#?}");
    }
}
