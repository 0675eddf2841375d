//! Rule 3 of the contract: when outputs are taken changes how messages coalesce, never where a client
//! and a conforming server end. Of our server, and of one that is made for tests, which speaks both variants
//! of the protocol over streams of either form and looks at every request.

mod client_support;

use std::collections::BTreeMap;

use proptest::{prelude::*, test_runner::TestCaseError};
use xds_core::{
    client::{DataErrorPolicy, Streams},
    service::Variant,
};

use client_support::{
    TYPES,
    late::{
        Pair, Step,
        far_side::{FarSide, Ours, Watchful},
    },
};

/// What the two speak.
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
        // Only texts that are accepted: a rejected one leaves behind what came before it.
        6 => (kind.clone(), 0..5u8, 0..3u8)
            .prop_map(|(kind, name, text)| Step::Set { kind, name, text }),
        6 => (kind, 0..5u8).prop_map(|(kind, name)| Step::Remove { kind, name }),
        1 => Just(Step::Cut),
    ]
}

/// Whether what becomes of the step depends on whether the client ever had the resource: what is deleted
/// may stay in use, and of the whole state, whatever is left out of a response that need not be complete
/// does.
fn leaves_a_trace(step: &Step, setup: Setup) -> bool {
    let drops = setup.policy == DataErrorPolicy::DropCached;
    matches!(step, Step::Remove { kind, .. }
        if !drops || (setup.variant == Variant::StateOfTheWorld && *kind != 0))
}

/// Our server leaves names unanswered that it does not have (M39), so that whoever comes back with names alone
/// does not hear that a resource is gone.
fn without_losses_unheard_of(mut steps: Vec<Step>) -> Vec<Step> {
    if steps.iter().any(|step| matches!(step, Step::Cut)) {
        steps.retain(|step| !matches!(step, Step::Remove { .. }));
    }
    steps
}

/// Takes the steps, and everything there is to take after those that `drains` picks. Returns what every
/// live watch holds in the end.
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

/// Runs that differ only in when outputs are taken end equal, once all is taken and a conforming server
/// has answered.
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
    fn draining_late_changes_nothing_in_the_end(
        setup in setup(&[Variant::StateOfTheWorld]),
        steps in proptest::collection::vec(step(), 0..40),
    ) {
        end_equal::<Ours>(&without_losses_unheard_of(steps), setup)?;
    }

    #[test]
    fn draining_late_changes_nothing_in_the_end_of_either_variant(
        setup in setup(&[Variant::Incremental, Variant::StateOfTheWorld]),
        steps in proptest::collection::vec(step(), 0..40),
    ) {
        end_equal::<Watchful>(&steps, setup)?;
    }
}
