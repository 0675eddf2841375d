//! Storms: random runs, judged by everything.

use std::time::Instant;

use xds_sim::{Config, Situations, check, storm};

/// How many seeds are tried.
const RUNS: u64 = Situations::ENOUGH_RUNS;

/// Thousands of seeds, none of which breaks a rule.
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
        return; // One run, or some, show little.
    }
    let missing: Vec<_> = report.situations.missing().collect();
    assert!(missing.is_empty(), "never reached: {missing:?}");
    let missing: Vec<_> = report.situations.effects().missing().collect();
    assert!(missing.is_empty(), "never took effect: {missing:?}");
    println!(
        "covers: IC1 IC2 IC3 IC4 IC5 IC6 IC7 IC8 IC9 IC10 IC11 IC13 IC14 IC15 IC16 IC17 IC18 IC19 IC20"
    );
    println!(
        "covers: IC21 IC22 IC24 IC25 IC26 IC27 IC28 IC29 IC30 IC31 IC32 IC33 IC35 IC36 IC38 IC39 IC40"
    );
    println!(
        "covers: IS1 IS4 IS5 IS7 IS8 IS9 IS11 IS15 IS16 IS17 IS23 IS24 IS27 IS28 IS30 IL1 IL2 IL3 IL5 IL7"
    );
}
