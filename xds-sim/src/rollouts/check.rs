//! Runs of many seeds, and shrinking of the first that breaks a rule.

use core::{fmt, ops::Range};

use super::world::RolloutWorld;
use crate::{
    check::shrink::{Effort, Progress, smallest},
    tape::{Choices, Span, Tape},
    trace::Violation,
};

/// Number of lines in the text of a failure.
const LINES_SHOWN: usize = 120;

/// Result of one run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RolloutOutcome {
    /// Seed, if the run was made from one.
    pub seed: Option<u64>,
    /// Hash of all events. Equal runs have equal hashes.
    pub hash: u64,
    /// Number of events.
    pub events: u64,
    /// Values chosen in the run.
    pub tape: Tape,
    /// Groups of choices that belong together.
    pub spans: Vec<Span>,
    /// Numbers of rollouts that completed, and that were rolled back.
    pub ended: [u64; 2],
    /// Rule that was broken, if any.
    pub violation: Option<Violation>,
    /// Events of the run, one line each, if they were recorded.
    pub log: Vec<String>,
}

/// The rule that was broken, the tape, and the last events.
impl fmt::Display for RolloutOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(violation) = &self.violation {
            writeln!(f, "{}: {}\n{}", violation.invariant, violation.rule, violation.what)?;
        }
        if let Some(seed) = self.seed {
            writeln!(f, "seed: {seed}")?;
        }
        writeln!(f, "tape: {}", self.tape)?;
        let shown = self.log.len().saturating_sub(LINES_SHOWN);
        self.log.iter().skip(shown).try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// Makes the run of a seed.
#[must_use]
pub fn run_seed(seed: u64, keeps_log: bool) -> RolloutOutcome {
    let mut outcome = run(Choices::from_seed(seed), keeps_log);
    outcome.seed = Some(seed);
    outcome
}

/// Makes the run of a tape, and records its events.
#[must_use]
pub fn replay(tape: &Tape) -> RolloutOutcome {
    run(Choices::from_tape(tape), true)
}

fn run(choices: Choices, keeps_log: bool) -> RolloutOutcome {
    let mut world = RolloutWorld::new(choices, keeps_log);
    world.storm();
    let hash = world.hash.finalize();
    let hash = hash.as_bytes().first_chunk().copied().unwrap_or_default();
    RolloutOutcome {
        seed: None,
        hash: u64::from_le_bytes(hash),
        events: world.events,
        tape: world.choices.to_tape(),
        spans: world.choices.spans().to_vec(),
        ended: world.ended,
        violation: world.violation,
        log: world.lines.unwrap_or_default(),
    }
}

/// Searches for the smallest run that breaks the same rule as a failed run.
pub fn shrink(
    failure: &RolloutOutcome,
    effort: Effort,
    progress: &mut dyn FnMut(Progress),
) -> RolloutOutcome {
    let Some(violation) = &failure.violation else { return failure.clone() };
    let breaks = |tape: &Tape| {
        let outcome = run(Choices::from_tape(tape), false);
        let is_it = outcome.violation.as_ref()?.invariant == violation.invariant;
        is_it.then_some((outcome.tape, outcome.spans))
    };
    let tape = smallest(&failure.tape, &failure.spans, effort, &breaks, progress);
    let shrunk = replay(&tape);
    if shrunk.violation.is_some() { shrunk } else { failure.clone() }
}

/// Result of many runs in which no rule was broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RolloutSummary {
    /// Number of runs.
    pub runs: u64,
    /// Number of events of all runs.
    pub events: u64,
    /// Combined hash of all runs.
    pub hash: u64,
    /// Numbers of rollouts that completed, and that were rolled back.
    pub ended: [u64; 2],
}

/// Makes the runs of many seeds, for use in tests.
///
/// # Panics
///
/// Panics if a run breaks a rule. The message has the rule, the smallest run found that breaks it,
/// its tape, and its last events.
#[must_use]
pub fn check(seeds: Range<u64>) -> RolloutSummary {
    let mut summary = RolloutSummary::default();
    for seed in seeds {
        let outcome = run_seed(seed, false);
        if outcome.violation.is_some() {
            let smallest = shrink(&outcome, Effort::default(), &mut |_| ());
            panic!("seed {seed} breaks a rule:\n{smallest}");
        }
        summary.runs += 1;
        summary.events += outcome.events;
        summary.hash = summary.hash.rotate_left(1) ^ outcome.hash;
        summary.ended[0] += outcome.ended[0];
        summary.ended[1] += outcome.ended[1];
    }
    summary
}
