//! The client between several servers, in both variants of the protocol, one step at a time.
//!
//! Servers keep to the protocol: they fold the requests, send what differs from what they believe the
//! client has, and answer every subscription. Whatever happened before, once the servers work again all
//! agree.

mod client_support;

use proptest::{prelude::*, test_runner::TestCaseError};
use xds_core::{
    client::{DataErrorPolicy, ReadGate, Streams},
    service::Variant,
};

use client_support::fleet::{Servers, Setup, World, step};

fn setup(variant: Variant, servers: Servers) -> impl Strategy<Value = Setup> {
    let policies = [DataErrorPolicy::KeepCached, DataErrorPolicy::DropCached];
    let streams = [Streams::Aggregated, Streams::PerType];
    let gates = [ReadGate::Notices, ReadGate::Off];
    let choices = (
        proptest::sample::select(streams.to_vec()),
        proptest::sample::select(policies.to_vec()),
        proptest::sample::select(gates.to_vec()),
    );
    choices.prop_map(move |(streams, data_errors, read_gate)| Setup {
        variant,
        streams,
        servers,
        data_errors,
        read_gate,
    })
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_incremental_server_is_believed(
        setup in setup(Variant::Incremental, Servers::One),
        steps in proptest::collection::vec(step::legal(), 0..70),
    ) {
        walk(setup, &steps)?;
    }

    #[test]
    fn one_server_of_the_whole_state_is_believed(
        setup in setup(Variant::StateOfTheWorld, Servers::One),
        steps in proptest::collection::vec(step::legal(), 0..70),
    ) {
        walk(setup, &steps)?;
    }

    #[test]
    fn the_preferred_incremental_server_is_believed(
        setup in setup(Variant::Incremental, Servers::Fallback),
        steps in proptest::collection::vec(step::legal(), 0..70),
    ) {
        walk(setup, &steps)?;
    }

    #[test]
    fn the_preferred_server_of_the_whole_state_is_believed(
        setup in setup(Variant::StateOfTheWorld, Servers::Fallback),
        steps in proptest::collection::vec(step::legal(), 0..70),
    ) {
        walk(setup, &steps)?;
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
        let is_kept = |step: &step::Step| !matches!(step, step::Step::Delete { .. });
        let steps: Vec<_> = steps.into_iter().filter(is_kept).map(step::Step::of_endpoints).collect();
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
        };
        let steps = [
            step::Step::Watch { kind: 0, name: None },
            step::Step::Rest,
            step::Step::Push { nth: 0, kind: 0 },
            step::Step::Rest,
            step::Step::Unwatch(0),
            step::Step::Put { server: 0, kind: 0, name: 0, text: 1 },
            step::Step::Push { nth: 0, kind: 0 },
            step::Step::Watch { kind: 0, name: None },
        ];
        let walked = walk(setup, &steps);
        assert!(walked.is_ok(), "{variant:?}: {:?}", walked.err());
    }
}
