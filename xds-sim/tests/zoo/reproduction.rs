//! Generated tests fail while the bug exists, and pass when it is fixed.

use xds_core::zoo::{Bug, activate};
use xds_sim::{Config, Options, Tape, replay, run_seed, shrink};

/// Bug from which `generated.rs` was made. It is found soon, and its run is short.
const BUG: Bug = Bug::VersionOfRejected;

/// Returns the value of a string constant.
fn constant(source: &str, name: &str) -> String {
    let (_, rest) = source.split_once(&format!("const {name}: &str =")).expect("the constant");
    let (literal, _) = rest.split_once(";\n").expect("its end");
    literal.trim().trim_matches('"').split("\\\n").map(str::trim_start).collect()
}

/// Returns the source without the parts that depend on the run, which may be of an older version.
fn frame(source: &str) -> String {
    let source = source.replace("\r\n", "\n");
    let (_, code) = source.split_once("\nuse ").expect("code after the comment");
    let (start, rest) = code.split_once("const OPTIONS: &str =").expect("options");
    let (_, between) = rest.split_once(";\n").expect("the end of the options");
    let (between, rest) = between.split_once("const TAPE: &str =").expect("a tape");
    let (_, end) = rest.split_once(";\n").expect("the end of the tape");
    let name = |line: &str| line.starts_with("fn ic");
    let lines = format!("{start}{between}{end}");
    lines.lines().filter(|line| !name(line)).collect::<Vec<_>>().join("\n")
}

/// Returns the rule that the run of the checked-in test breaks.
fn broken_by_generated(source: &str) -> Option<&'static str> {
    let options: Options = constant(source, "OPTIONS").parse().expect("options");
    let tape: Tape = constant(source, "TAPE").parse().expect("a tape");
    let outcome = replay(&tape, &Config::default().with_fixed_options(options));
    outcome.violation.map(|failure| failure.violation.invariant)
}

#[test]
fn generated_test_fails_while_the_bug_exists() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/generated.rs");
    let there = || std::fs::read_to_string(file).expect("a file of the checkout");
    let config = Config::default();
    let _bugs = crate::lock_bugs();
    activate(Some(BUG));
    let found = (0..200).find_map(|seed| run_seed(seed, &config).violation);
    let found = found.expect("the bug is found within 200 seeds");
    let mut smallest = shrink(&found, &config, &mut |_| ());
    smallest.seed = found.seed;
    let source = smallest.to_test();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(file, &source).expect("the checkout can be written");
    }
    let there = there();
    let loose = broken_by_generated(&there);
    activate(None);
    assert_eq!(frame(&source), frame(&there), "UPDATE=1 renews tests/it/generated.rs");
    assert!(loose.is_some(), "the bug is loose, and its test does not fail");
    assert_eq!(broken_by_generated(&there), None, "and passes without it");
}
