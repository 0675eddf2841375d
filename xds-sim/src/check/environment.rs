//! Runs of a test that environment variables select, and the commands that repeat them.

use core::{fmt::Display, ops::Range};
use std::{env, thread};

use super::number_of;
use crate::tape::{Drift, Tape};

/// Runs that a test makes.
#[cfg(any(feature = "replicas", feature = "stack"))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// The run of a tape.
    Tape(Tape),
    /// The runs of these seeds.
    Seeds(Range<u64>),
}

/// Returns the runs that the environment selects instead of those of `seeds`. `XDS_SIM_TAPE` is one
/// run. `XDS_SIM_SEED` sets the first seed, `XDS_SIM_RUNS` the number of runs. If only the seed is
/// set, there is one run. Numbers may be hexadecimal, such as `0x5eed`.
///
/// # Panics
///
/// Panics if a variable has an invalid value, because the result would be about unintended runs,
/// and if `seeds` is empty.
#[cfg(any(feature = "replicas", feature = "stack"))]
pub(crate) fn select(seeds: Range<u64>) -> Selection {
    require_runs(&seeds, "");
    tape().map_or_else(|| Selection::Seeds(select_seeds(seeds)), Selection::Tape)
}

/// Requires that the range is not empty, because a test without runs would pass.
fn require_runs(seeds: &Range<u64>, source: &str) {
    assert!(
        seeds.start < seeds.end,
        "no run: the range of seeds {}..{}{source} is {}",
        seeds.start,
        seeds.end,
        if seeds.start == seeds.end { "empty" } else { "reversed" }
    );
}

/// Returns the seeds that the environment selects instead of `seeds`.
///
/// # Panics
///
/// Panics if there are none, or if a variable has an invalid value.
pub(super) fn select_seeds(seeds: Range<u64>) -> Range<u64> {
    require_runs(&seeds, "");
    let (seed, runs) = (number("XDS_SIM_SEED"), number("XDS_SIM_RUNS"));
    let first = seed.unwrap_or(seeds.start);
    let default = if seed.is_some() { 1 } else { seeds.end - seeds.start };
    let selected = first..first.saturating_add(runs.unwrap_or(default));
    require_runs(&selected, " from XDS_SIM_SEED and XDS_SIM_RUNS");
    selected
}

/// Returns the tape of `XDS_SIM_TAPE`.
pub(super) fn tape() -> Option<Tape> {
    let text = env::var("XDS_SIM_TAPE").ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("XDS_SIM_TAPE: {error}")))
}

/// Requires that the tape of `XDS_SIM_TAPE`, whose run breaks no rule, belongs to this run.
pub(crate) fn require_no_drift(drift: Option<Drift>) {
    if let Some(drift) = drift {
        panic!("XDS_SIM_TAPE: {drift}; this run breaks no rule");
    }
}

/// Whether `XDS_SIM_TWICE` requires that each run is made twice.
pub(crate) fn is_twice() -> bool {
    env::var_os("XDS_SIM_TWICE").is_some_and(|value| !value.is_empty() && value != "0")
}

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(number_of(&text).unwrap_or_else(|| panic!("{name}={text} is not a number")))
}

/// Returns the name of the test that calls this. A test has a thread that is named after it.
pub(crate) fn name_of_test() -> Option<String> {
    let current = thread::current();
    current.name().filter(|name| *name != "main").map(Into::into)
}

/// Formats the command that repeats a run of this test.
pub(crate) fn command(variable: &str, value: &dyn Display) -> String {
    let test = name_of_test();
    let test = test.as_deref().unwrap_or("NAME_OF_THE_TEST");
    format!("{variable}={value} cargo test {test} -- --exact")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_names_the_running_test() {
        let name = "check::environment::tests::command_names_the_running_test";
        let expected = format!("XDS_SIM_SEED=7 cargo test {name} -- --exact");
        assert_eq!(command("XDS_SIM_SEED", &7), expected);
    }

    #[cfg(any(feature = "replicas", feature = "stack"))]
    #[test]
    #[should_panic(expected = "the range of seeds 10..5 is reversed")]
    fn reversed_range_of_seeds_panics() {
        #[expect(clippy::reversed_empty_ranges, reason = "it is what is tested")]
        let _ = select(10..5);
    }

    #[cfg(any(feature = "replicas", feature = "stack"))]
    #[test]
    #[should_panic(expected = "the range of seeds 5..5 is empty")]
    fn empty_range_of_seeds_panics() {
        let _ = select(5..5);
    }
}
