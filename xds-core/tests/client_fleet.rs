//! The client between several servers, in both variants of the protocol, one step at a time.
//!
//! | invariant | asserted in |
//! |---|---|
//! | IC1 to IC3 | `peer.rs`, `match_answer`; `talk.rs`, `deliver`: which of the two, and the version |
//! | IC4, IC12 | `peer.rs`: the newest nonce, spontaneous incremental requests without one |
//! | IC5, IC6, IC9, IC11 | `peer.rs`, `read_sotw` and `read_delta` |
//! | IC7, B06 | `versions.rs`; between servers, none may be stated where another one has spoken since |
//! | IC8 | `talk.rs`, `stated`: exact for one server; between several, names and origins |
//! | IC10 | `rest.rs`, `has_converged` |
//! | IC13, IC15 | `rest.rs`, `holds_at_every_moment`; `talk.rs`, `was_sent` and `is_taken_as_it_should` |
//! | IC14, IC16, IC28 | `watcher.rs`; of order, `is_in_use`: what is told is what is held at that moment |
//! | IC17 | `client_contract.rs`, `names_that_come_twice_are_rejected` |
//! | IC18 to IC23, IC31 | `oracle.rs`: the cache after each response, from the one before |
//! | IC24, IC25, IC33, IC38 | `clock.rs`: not early, not late; of a TTL that a server behind the preferred one gave, only that it ends |
//! | IC26 | `clock.rs`, `may_open`: not early; `reliance.rs`: not late, at rest; jitter is in `backoff.rs` |
//! | IC27 | `talk.rs`, `is_known_trouble`; `reliance.rs`: all are told, unless the client may have turned; `watcher.rs`: once |
//! | IC29 | `clock.rs`, `may_open`; `reliance.rs`; `talk.rs`, `is_known_trouble`: of no server while one behind it may answer |
//! | IC30 | `clock.rs`, `may_open`; `reliance.rs`; `talk.rs`, `forge` |
//! | IC32 | `told.rs`, and `watcher.rs` against the cache whenever all is at rest |
//! | IC34 | `talk.rs`, `deliver`; `rest.rs`; of a wildcard watch, for new values |
//! | IC35 | `clock.rs`, `drain`; entries in `lies_do_no_harm_and_runs_repeat_themselves` |
//! | IC36, IC37 | `talk.rs`, `forge`, also of a type that nobody registered; `client_contract.rs`; `lies_do_no_harm_and_runs_repeat_themselves` |
//! | IC39 | `rest.rs`, `shut_down`; that each watch gets a final event is for who holds it (`xds-handle`) |
//! | IC40 | `peer.rs`: each request says something that the server does not know |
//! | D6 | `idle.rs`: streams that nobody wants anything of, of one server |
//!
//! Verdicts from outside (`outside.rs`) come at once; those that come late, and aliases, are in protocol
//! scripts only.
//!
//! Servers keep to the protocol: they fold the requests, send what differs from what they believe the
//! client has, and answer every subscription. Whatever happened before, once the servers work again all
//! agree.

mod client_support;

use std::{collections::BTreeSet, ops::Range, time::Duration};

use proptest::{
    prelude::*,
    strategy::ValueTree as _,
    test_runner::{TestCaseError, TestRunner},
};
use xds_core::{
    client::{DataErrorPolicy, ReadGate, ServerFeature, ServerFeatures, Streams, Verdict},
    service::Variant,
};

use client_support::fleet::{
    World,
    reach::Situation,
    setup::{Servers, Setup},
    step,
};

fn setup(variant: Variant, servers: Servers) -> impl Strategy<Value = Setup> {
    let policies = [DataErrorPolicy::KeepCached, DataErrorPolicy::DropCached];
    let streams = [Streams::Aggregated, Streams::PerType];
    let gates = [ReadGate::Notices, ReadGate::Off];
    let choices = (
        proptest::sample::select(streams.to_vec()),
        proptest::sample::select(policies.to_vec()),
        proptest::sample::select(gates.to_vec()),
        proptest::bool::weighted(0.2),
        proptest::bool::weighted(0.2),
        proptest::sample::select(vec![Verdict::Validation, Verdict::External]),
        proptest::sample::select(vec![0, 3, 30]).prop_map(Duration::from_secs),
    );
    choices.prop_map(
        move |(streams, data_errors, read_gate, fails, is_transient, verdict, idle_close)| Setup {
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
            read_gate,
            verdict,
            idle_close,
        },
    )
}

/// Takes the steps and lets everything work again; a failure comes with what led to it.
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

/// The same, and then the client is shut down.
fn walk_to_the_end(setup: Setup, steps: &[step::Step]) -> Result<(), TestCaseError> {
    let mut world = walk(setup, steps)?;
    let ended = world.shut_down();
    ended.map_err(|why| TestCaseError::fail(format!("{why}, after {:#?}", world.trace)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_incremental_server_is_believed(
        setup in setup(Variant::Incremental, Servers::One),
        steps in proptest::collection::vec(step::legal(), 0..70),
    ) {
        walk_to_the_end(setup, &steps)?;
    }

    #[test]
    fn one_server_of_the_whole_state_is_believed(
        setup in setup(Variant::StateOfTheWorld, Servers::One),
        steps in proptest::collection::vec(step::legal(), 0..70),
    ) {
        walk_to_the_end(setup, &steps)?;
    }

    #[test]
    fn the_preferred_incremental_server_is_believed(
        setup in setup(Variant::Incremental, Servers::Fallback),
        steps in proptest::collection::vec(step::legal(), 0..70),
    ) {
        walk_to_the_end(setup, &steps)?;
    }

    #[test]
    fn the_preferred_server_of_the_whole_state_is_believed(
        setup in setup(Variant::StateOfTheWorld, Servers::Fallback),
        steps in proptest::collection::vec(step::legal(), 0..70),
    ) {
        walk_to_the_end(setup, &steps)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Rules 2, 4, 6 and 7 between servers, some of which lie: nothing panics, answers keep their order,
    /// what is held stays bounded, and a second run says the same.
    #[test]
    fn lies_do_no_harm_and_runs_repeat_themselves(
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

    /// Where nothing is deleted, both variants end with the same (IL4).
    #[test]
    fn both_variants_end_equal(
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

/// Walks come to what is rare. The rarest is met in about one of two hundred walks, so ten thousand without
/// it are beyond all chance; mostly a tenth of them is enough.
#[test]
fn walks_come_to_what_is_rare() {
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

/// While a subscription to everything has ended but nobody has told the server, it goes on sending what
/// changes, once. Whoever takes the subscription up again in that time has not missed it (IC15, IL1).
#[test]
fn a_wildcard_taken_up_again_has_missed_nothing() {
    for variant in [Variant::StateOfTheWorld, Variant::Incremental] {
        let setup = Setup {
            variant,
            streams: Streams::Aggregated,
            servers: Servers::One,
            data_errors: DataErrorPolicy::KeepCached,
            read_gate: ReadGate::Off,
            features: ServerFeatures::NONE,
            verdict: Verdict::Validation,
            idle_close: Duration::from_secs(30),
        };
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
        let walked = walk(setup, &steps);
        assert!(walked.is_ok(), "{variant:?}: {:?}", walked.err());
    }
}
