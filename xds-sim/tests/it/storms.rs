//! Storms: random runs with all oracles.

use std::time::Instant;

use xds_sim::{Config, Situations, check, storm};

/// Number of seeds.
const RUNS: u64 = Situations::ENOUGH_RUNS;

/// Makes thousands of runs, none of which breaks a rule.
#[test]
fn storms_break_no_rule() {
    let started = Instant::now();
    let report = check(&Config::default().with_runs(RUNS), storm);
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{} runs, {} events, {:.0} events per second",
        report.runs,
        report.events,
        report.events as f64 / seconds
    );
    for (situation, hits) in report.situations.iter() {
        println!("{hits:>8} {situation}");
    }
    for (kind, hits) in report.situations.effects().iter() {
        println!("{hits:>8} {kind}");
    }
    if report.runs < RUNS {
        return; // A few runs may miss situations.
    }
    let missing: Vec<_> = report.situations.missing().collect();
    assert!(missing.is_empty(), "never reached: {missing:?}");
    let missing: Vec<_> = report.situations.effects().missing().collect();
    assert!(missing.is_empty(), "never took effect: {missing:?}");
}
