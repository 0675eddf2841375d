//! Rule 3 of the contract: the time at which outputs are polled changes how messages coalesce, but
//! never the final state of the client and a conforming server. Tested against this crate's server
//! and against a test server that supports both variants and stream layouts and checks each
//! request.

use std::collections::BTreeMap;

use proptest::{prelude::*, test_runner::TestCaseError};
use xds_core::{
    client::{DataErrorPolicy, Streams},
    service::Variant,
};

use crate::client_support::{
    TYPES,
    late::{
        Pair, Step,
        far_side::{CheckingServer, FarSide, OwnServer},
    },
};

/// Policy, protocol variant and stream layout of a run.
#[derive(Clone, Copy, Debug)]
struct Setup {
    policy: DataErrorPolicy,
    variant: Variant,
    streams: Streams,
}

fn setup(variants: &'static [Variant]) -> impl Strategy<Value = Setup> {
    let policies = &[DataErrorPolicy::KeepCached, DataErrorPolicy::DropCached];
    let streams = &[Streams::Aggregated, Streams::PerType];
    let choices = (
        proptest::sample::select(&policies[..]),
        proptest::sample::select(variants),
        proptest::sample::select(&streams[..]),
    );
    choices.prop_map(|(policy, variant, streams)| Setup { policy, variant, streams })
}

fn step() -> impl Strategy<Value = Step> {
    let kind = 0..TYPES.len();
    prop_oneof![
        6 => (kind.clone(), proptest::option::weighted(0.8, 0..5u8))
            .prop_map(|(kind, name)| Step::Watch { kind, name }),
        6 => (0..8usize).prop_map(Step::Unwatch),
        // Valid texts only: a rejected one leaves the previous value in the cache.
        6 => (kind.clone(), 0..5u8, 0..3u8)
            .prop_map(|(kind, name, text)| Step::Set { kind, name, text }),
        6 => (kind, 0..5u8).prop_map(|(kind, name)| Step::Remove { kind, name }),
        1 => Just(Step::Cut),
    ]
}

/// Whether the step's result depends on whether the client ever had the resource. Deleted resources
/// may stay in use, and so do resources missing from a partial state-of-the-world response.
fn leaves_a_trace(step: &Step, setup: Setup) -> bool {
    let drops = setup.policy == DataErrorPolicy::DropCached;
    matches!(step, Step::Remove { kind, .. }
        if !drops || (setup.variant == Variant::StateOfTheWorld && *kind != 0))
}

/// Drops removals if streams are cut: the server does not answer names it does not have, so a
/// client that reconnects with names only does not learn of removals.
// M39
fn without_losses_unheard_of(mut steps: Vec<Step>) -> Vec<Step> {
    if steps.iter().any(|step| matches!(step, Step::Cut)) {
        steps.retain(|step| !matches!(step, Step::Remove { .. }));
    }
    steps
}

/// Takes the steps and drains all outputs after those that `drains` selects. Returns the final
/// value of every live watch.
fn run<F: FarSide>(
    steps: &[Step],
    setup: Setup,
    drains: impl Fn(usize) -> bool,
) -> Result<BTreeMap<(usize, String), Vec<u8>>, TestCaseError> {
    let mut pair = Pair::<F>::new(setup.policy, setup.variant, setup.streams);
    for (turn, step) in steps.iter().enumerate() {
        if !leaves_a_trace(step, setup) {
            pair.take(step);
        }
        if drains(turn) {
            pair.exchange()?;
        }
    }
    pair.settle()?;
    Ok(pair.end_state())
}

/// Checks that runs that differ only in the time of draining end with the same state.
fn end_equal<F: FarSide>(steps: &[Step], setup: Setup) -> Result<(), TestCaseError> {
    let eager = run::<F>(steps, setup, |_| true)?;
    prop_assert_eq!(&eager, &run::<F>(steps, setup, |_| false)?);
    prop_assert_eq!(&eager, &run::<F>(steps, setup, |turn| turn % 3 == 0)?);
    prop_assert_eq!(&eager, &run::<F>(steps, setup, |turn| turn % 7 > 3)?);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn late_drain_converges_to_same_state_with_own_server(
        setup in setup(&[Variant::StateOfTheWorld]),
        steps in proptest::collection::vec(step(), 0..40),
    ) {
        end_equal::<OwnServer>(&without_losses_unheard_of(steps), setup)?;
    }

    #[test]
    fn late_drain_converges_to_same_state_in_both_variants(
        setup in setup(&[Variant::Incremental, Variant::StateOfTheWorld]),
        steps in proptest::collection::vec(step(), 0..40),
    ) {
        end_equal::<CheckingServer>(&steps, setup)?;
    }
}
