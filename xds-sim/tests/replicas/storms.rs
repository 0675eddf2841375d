//! Storms of replicas.

use xds_sim::replicas::{
    ReplicaSituation,
    check::{check, run_seed},
};

/// Number of seeds, of which each situation is reached by some.
const SEEDS: u64 = 2_000;

#[test]
fn storms_break_no_rule_and_reach_every_situation() {
    let _alone = crate::alone();
    let summary = check(0..SEEDS, None);
    if summary.runs < SEEDS {
        return;
    }
    let missing: Vec<_> = summary.situations.missing().map(ReplicaSituation::as_str).collect();
    assert!(missing.is_empty(), "never reached: {missing:?}{}", summary.situations.to_text());
}

#[test]
fn same_seed_gives_the_same_run() {
    let _alone = crate::alone();
    for seed in 0..20 {
        let (one, other) = (run_seed(seed, None, false), run_seed(seed, None, true));
        assert_eq!((one.hash, one.events), (other.hash, other.events));
        assert_eq!(one.drift, None);
    }
}
