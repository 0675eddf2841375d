//! What is said of a failed run, and the test that is made of it.

use xds_sim::{Config, Failure, replay, run_seed};

/// The first seed whose storm this is too much for: a failure that is none of the cores'.
const SEED: u64 = 4;

/// A run in which the scenario itself is at fault, so that a storm of the same choices is fine.
fn failure() -> Failure {
    let config = Config::new(|world| {
        xds_sim::storm(world);
        world.fail("MINE", "Nobody comes to the end of this scenario.", "it has come\nto the end");
    });
    run_seed(SEED, &config).violation.expect("it always fails")
}

#[test]
fn a_failure_says_what_was_broken_and_how_to_have_it_again() {
    let failure = failure();
    let text = failure.to_text(Some((&failure, 212)));
    let lines = [
        "seed 4  xds-sim 0.1.0  xds-core 0.1.0".into(),
        format!("options: {}", failure.options),
        "  rule: Nobody comes to the end of this scenario.".into(),
        "  what: it has come\\u{a}to the end".into(),
        format!("again: xds sim replay --tape {}", failure.tape),
        format!("   or: XDS_SIM_TAPE={} cargo test", failure.tape),
        format!(
            "  ever: xds sim replay --options \"{}\" --tape {}",
            failure.options.differences(),
            failure.tape_after_options()
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

/// The checked-in test is what is generated, so compiling it shows that what is generated compiles. Its
/// tape may be of an older version: any tape is a run.
#[test]
fn a_failure_becomes_a_test_that_compiles() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/generated.rs");
    let source = failure().to_test();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(file, &source).expect("the checkout can be written");
    }
    let there = std::fs::read_to_string(file).expect("a file of the checkout");
    let without_run = |source: &str| {
        let (source, run) = source.split_once("const OPTIONS: &str =").expect("options");
        let (_, after) = run.split_once(";\n").expect("an end of the options");
        let source = format!("{source}{after}");
        let (before, tape) = source.split_once("const TAPE: &str =").expect("a tape");
        let (_, after) = tape.split_once(";\n").expect("an end of the tape");
        format!("{before}{after}")
    };
    assert_eq!(without_run(&source), without_run(&there), "UPDATE=1 renews tests/generated.rs");
}

#[test]
fn the_same_choices_are_a_storm_without_fault() {
    let failure = failure();
    assert!(replay(&failure.tape, &Config::default()).violation.is_none());
    let config = Config::default().with_fixed_options(failure.options.clone());
    let fixed = replay(&failure.tape_after_options(), &config);
    assert_eq!(fixed.hash, replay(&failure.tape, &Config::default()).hash);
}
