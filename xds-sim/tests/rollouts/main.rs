//! Storms of rollouts, and deliberate bugs that they find. A binary of its own, because the bugs are
//! switches of the process.

use std::{
    env,
    fmt::Write as _,
    fs,
    sync::{Mutex, MutexGuard, PoisonError},
};

use xds_core::zoo::{Bug, activate};
use xds_sim::rollouts::{check, replay, run_seed};

/// Bugs with their descriptions, and the maximum number of runs, from seed 0, until a rule finds each.
const EXHIBITS: [(Bug, &str, u64); 6] = [
    (Bug::NewClientsStable, "clients that connect see the stable views", 1_000),
    (Bug::HaltMovesOn, "a halt moves the cohort of the next step", 1_000),
    (Bug::CandidateKept, "candidate views stay after the end", 1_000),
    (Bug::RollbackNotRepeated, "a rollback is forgotten after a conflict", 10_000),
    (Bug::NewerRolloutIgnored, "a newer rollout of another replica is not noticed", 5_000),
    (Bug::CompletedChangeIsOlder, "a completed change undoes what was applied meanwhile", 1_000),
];

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn storms_of_rollouts_break_no_rule() {
    let _alone = alone();
    let runs = env::var("XDS_SIM_RUNS").ok().and_then(|it| it.parse().ok()).unwrap_or(500);
    let first = env::var("XDS_SIM_SEED").ok().and_then(|it| it.parse().ok()).unwrap_or(0);
    let summary = check(first..first + runs);
    println!("{summary:?}");
    assert!(summary.ended.iter().all(|it| *it > 0), "{summary:?}");
}

#[test]
fn equal_seeds_make_equal_runs() {
    let _alone = alone();
    for seed in 0..20 {
        let run = run_seed(seed, false);
        assert_eq!(run.hash, run_seed(seed, true).hash);
        assert_eq!(run.hash, replay(&run.tape).hash);
    }
}

/// `XDS_SIM_ZOO=1` writes the result to `docs/ROLLOUT_ZOO.md`.
#[test]
fn every_bug_of_rollouts_is_found() {
    let _alone = alone();
    let mut table = String::from("| bug | runs | limit | rule |\n|---|--:|--:|---|\n");
    let mut missed = Vec::new();
    for (bug, what, limit) in EXHIBITS {
        activate(Some(bug));
        let found = (0..limit).find_map(|seed| {
            let violation = run_seed(seed, false).violation?;
            Some((seed + 1, violation.invariant))
        });
        activate(None);
        match found {
            Some((runs, rule)) => {
                writeln!(table, "| {what} | {runs} | {limit} | {rule} |").expect("a text");
            }
            None => missed.push(what),
        }
    }
    println!("{table}");
    assert!(missed.is_empty(), "not found: {missed:?}");
    if env::var_os("XDS_SIM_ZOO").is_some() {
        let text = format!(
            "# Bugs of rollouts that the simulation finds\n\nEach bug is put into the state machine of \
             rollouts or into its driver, one at a time, and storms run from seed 0 until a rule is \
             broken. Written by `XDS_SIM_ZOO=1 cargo test -p xds-sim --test rollouts every_bug`.\n\n{table}"
        );
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/ROLLOUT_ZOO.md");
        fs::write(file, text).expect("docs can be written");
    }
}
