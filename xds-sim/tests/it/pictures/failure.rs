//! Tests of the report of a failed run, and of the test generated from it.

use xds_sim::{Config, Failure, replay, run_seed};

/// Seed of the storm.
const SEED: u64 = 4;

/// Returns a failure of the scenario itself, so that the same choices as a plain storm succeed.
fn failure() -> Failure {
    let config = Config::new(|world| {
        xds_sim::storm(world);
        world.fail("MINE", "Nobody comes to the end of this scenario.", "it has come\nto the end");
    });
    run_seed(SEED, &config).violation.expect("it always fails")
}

#[test]
fn failure_text_states_the_rule_and_how_to_repeat_the_run() {
    let failure = failure();
    let text = failure.to_text(Some((&failure, 212)));
    let lines = [
        "seed 4  xds-sim 0.1.0  xds-core 0.1.0".into(),
        format!("options: {}", failure.options),
        "  rule: Nobody comes to the end of this scenario.".into(),
        "  what: it has come\\u{a}to the end".into(),
        format!(
            "   or: XDS_SIM_TAPE={} cargo test {} -- --exact",
            failure.tape,
            "pictures::failure::failure_text_states_the_rule_and_how_to_repeat_the_run"
        ),
    ];
    for line in lines {
        assert!(text.lines().any(|it| it == line), "{line}\n{text}");
    }
    assert!(text.contains("VIOLATION MINE at t="), "{text}");
    assert!(text.contains("choices in 212 tries"), "{text}");
    let shown = text.lines().filter(|line| line.trim_start().starts_with(|c: char| c.is_numeric()));
    assert!((20..=31).contains(&shown.count()), "the last events and the violation\n{text}");
}

#[test]
fn same_choices_without_the_scenario_break_no_rule() {
    let failure = failure();
    assert!(replay(&failure.tape, &Config::default()).violation.is_none());
    let config = Config::default().with_fixed_options(failure.options.clone());
    let fixed = replay(&failure.tape_after_options(), &config);
    assert_eq!(fixed.hash, replay(&failure.tape, &Config::default()).hash);
}
