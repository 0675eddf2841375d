//! Storms: random runs, judged by everything.

use std::time::Instant;

use xds_sim::{Config, check, storm};

/// Thousands of seeds, none of which breaks a rule.
#[test]
fn storms_break_no_rule() {
    let started = Instant::now();
    let report = check(&Config::default().with_runs(3_000), storm);
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
}
