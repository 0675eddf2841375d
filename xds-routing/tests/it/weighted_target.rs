//! `weighted_target_experimental` in virtual time.

use std::{collections::BTreeMap, time::Duration};

use xds_core::Time;
use xds_routing::{
    Random,
    lb::{
        ChildChange,
        ConnectivityState::{self, *},
        Pick, Target, WeightedTarget,
    },
};

type Policy = WeightedTarget<&'static str>;

fn targets(list: &[(&str, u32)]) -> BTreeMap<String, Target<u32>> {
    list.iter().map(|&(name, weight)| (name.into(), Target::new(weight, weight))).collect()
}

fn with(list: &[(&'static str, u32, ConnectivityState)]) -> Policy {
    let mut policy = Policy::default();
    let weights: Vec<_> = list.iter().map(|&(name, weight, _)| (name, weight)).collect();
    let _ = policy.update(targets(&weights), Time::ZERO);
    for &(name, _, state) in list {
        policy.child_changed(name, state, name);
    }
    policy
}

fn shares(policy: &Policy, seed: u64) -> BTreeMap<&'static str, u32> {
    let mut random = Random::new(seed);
    let mut counts = BTreeMap::new();
    for _ in 0..10_000 {
        if let Pick::Child(picker) = policy.pick(&mut random) {
            *counts.entry(*picker).or_default() += 1;
        }
    }
    counts
}

fn is_about(count: u32, share: f64) -> bool {
    let mean = 10_000.0 * share;
    (f64::from(count) - mean).abs() < 4.0 * (mean * (1.0 - share)).sqrt()
}

#[test]
fn calls_are_split_by_weight_among_ready_children() {
    let policy = with(&[
        ("a", 3, Ready),
        ("b", 1, Ready),
        ("c", 96, Connecting),
        ("d", 9, TransientFailure),
    ]);
    for seed in 0..5 {
        let shares = shares(&policy, seed);
        assert_eq!(shares.keys().copied().collect::<Vec<_>>(), ["a", "b"]);
        assert!(is_about(shares["a"], 0.75), "{shares:?}");
    }
    // Equal seeds give equal picks.
    assert_eq!(shares(&policy, 7), shares(&policy, 7));
    println!("covers: S2.007 S2.011 S2.012 S2.014 S2.017");
}

#[test]
fn weighted_target_state_aggregates_the_states_of_all_children() {
    let state = |states: &[ConnectivityState]| {
        let names = ["a", "b", "c"];
        let list: Vec<_> =
            names.into_iter().zip(states).map(|(name, &state)| (name, 1, state)).collect();
        with(&list).state()
    };
    assert_eq!(state(&[TransientFailure, Connecting, Ready]), Ready);
    assert_eq!(state(&[TransientFailure, Idle, Connecting]), Connecting);
    assert_eq!(state(&[TransientFailure, Idle, TransientFailure]), Idle);
    assert_eq!(state(&[TransientFailure, TransientFailure]), TransientFailure);

    let mut random = Random::new(0);
    assert_eq!(with(&[("a", 1, Connecting)]).pick(&mut random), Pick::Queue);
    assert_eq!(with(&[("a", 1, Idle)]).pick(&mut random), Pick::Wake);
    assert_eq!(with(&[("a", 1, TransientFailure)]).pick(&mut random), Pick::Child(&"a"));
    assert_eq!(Policy::default().pick(&mut random), Pick::NoChildren);

    // Reconnection does not delay calls.
    let mut failing = with(&[("a", 1, TransientFailure)]);
    failing.child_changed("a", Connecting, "a");
    assert_eq!(failing.state(), TransientFailure);
    failing.child_changed("a", Ready, "a");
    assert_eq!(failing.state(), Ready);
    println!("covers: S2.016");
}

#[test]
fn removed_children_are_retained_by_name_for_some_minutes() {
    let at = |minutes: u64| Time::ZERO.after(Duration::from_secs(60 * minutes));
    let mut policy = Policy::default();
    let create = |name: &str, config| ChildChange::Create(name.into(), config);
    let update = |name: &str, config| ChildChange::Update(name.into(), config);
    assert_eq!(
        policy.update(targets(&[("a", 1), ("b", 2)]), at(0)),
        [create("a", 1), create("b", 2)]
    );
    policy.child_changed("a", Ready, "a");
    policy.child_changed("b", Ready, "b");
    assert_eq!(policy.update(targets(&[("b", 5)]), at(1)), [update("b", 5)]);
    // A removed child gets no calls and does not affect the state.
    assert_eq!(shares(&policy, 0).keys().copied().collect::<Vec<_>>(), ["b"]);
    policy.child_changed("b", Idle, "b");
    assert_eq!(policy.state(), Idle);

    // It returns in time and is restored.
    assert_eq!(policy.poll_timeout(), Some(at(16)));
    assert!(policy.handle_timeout(at(15)).is_empty());
    assert_eq!(
        policy.update(targets(&[("a", 3), ("b", 5)]), at(15)),
        [update("a", 3), update("b", 5)]
    );
    assert_eq!((policy.state(), policy.poll_timeout()), (Ready, None));

    // It does not return in time and is closed.
    assert_eq!(policy.update(targets(&[("b", 5)]), at(20)), [update("b", 5)]);
    assert_eq!(policy.handle_timeout(at(35)), ["a"]);
    assert_eq!(policy.update(targets(&[("a", 1)]), at(35)), [create("a", 1)]);

    let mut at_once = WeightedTarget::<&str>::new(Duration::ZERO);
    let _ = at_once.update(targets(&[("a", 1)]), at(0));
    assert_eq!(at_once.update(targets(&[]), at(0)), [ChildChange::Close("a".into())]);
    println!("covers: S2.009 S2.010 S2.018");
}
