//! Runs of many seeds, and shrinking of the first that breaks a rule.

use core::{fmt, ops::Range};

use super::{
    bug::ReplicaBug, options::ReplicaOptions, situations::ReplicaSituations, world::ReplicaWorld,
};
use crate::{
    check::{
        environment::{Selection, command, require_no_drift, select},
        repeat::is_same_bug,
        shrink::{Effort, Progress, smallest},
    },
    tape::{Choices, Drift, Span, Tape},
    trace::Violation,
};

/// Number of lines in the text of a failure.
const LINES_SHOWN: usize = 120;

/// Result of one run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReplicaOutcome {
    /// Seed, if the run was made from one.
    pub seed: Option<u64>,
    /// Options that the run has drawn.
    pub options: ReplicaOptions,
    /// Hash of all events. Equal runs have equal hashes.
    pub hash: u64,
    /// Number of events.
    pub events: u64,
    /// Values chosen in the run.
    pub tape: Tape,
    /// Whether the tape that the run was made from belongs to another run.
    pub drift: Option<Drift>,
    /// Groups of choices that belong together.
    pub spans: Vec<Span>,
    /// Situations that the run has reached.
    pub situations: ReplicaSituations,
    /// Rule that was broken, if any.
    pub violation: Option<Violation>,
    /// Events of the run, one line each, if they were recorded.
    pub log: Vec<String>,
}

/// The rule that was broken, the tape, and the last events.
impl fmt::Display for ReplicaOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(violation) = &self.violation {
            writeln!(f, "{}: {}", violation.invariant, violation.rule)?;
            writeln!(f, "{}", violation.what)?;
        }
        if let Some(seed) = self.seed {
            writeln!(f, "seed: {seed}")?;
        }
        writeln!(f, "tape: {}", self.tape)?;
        for line in self.log.iter().skip(self.log.len().saturating_sub(LINES_SHOWN)) {
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}

/// Makes the run of a seed, with a deliberate bug in the replicas or none.
#[must_use]
pub fn run_seed(seed: u64, bug: Option<ReplicaBug>, keeps_log: bool) -> ReplicaOutcome {
    let mut outcome = run(Choices::from_seed(seed), bug, keeps_log);
    outcome.seed = Some(seed);
    outcome
}

/// Makes the run of a tape, and records its events.
#[must_use]
pub fn replay(tape: &Tape, bug: Option<ReplicaBug>) -> ReplicaOutcome {
    run(Choices::from_tape(tape), bug, true)
}

fn run(choices: Choices, bug: Option<ReplicaBug>, keeps_log: bool) -> ReplicaOutcome {
    let mut world = ReplicaWorld::new(choices, keeps_log, bug);
    let options = world.options;
    world.storm();
    let hash = world.log.hash.finalize();
    let hash = hash.as_bytes().first_chunk().copied().unwrap_or_default();
    ReplicaOutcome {
        seed: None,
        options,
        hash: u64::from_le_bytes(hash),
        events: world.events,
        tape: world.choices.to_tape(),
        drift: world.choices.drift(),
        spans: world.choices.spans().to_vec(),
        situations: world.situations,
        violation: world.violation,
        log: world.log.lines.unwrap_or_default(),
    }
}

/// Searches for the smallest run that breaks the same rule as a failed run.
pub fn shrink(
    failure: &ReplicaOutcome,
    bug: Option<ReplicaBug>,
    effort: Effort,
    progress: &mut dyn FnMut(Progress),
) -> ReplicaOutcome {
    let Some(violation) = &failure.violation else { return failure.clone() };
    let breaks = |tape: &Tape| {
        let outcome = run(Choices::from_tape(tape), bug, false);
        let is_it = is_same_bug(outcome.violation.as_ref()?, violation);
        is_it.then_some((outcome.tape, outcome.spans))
    };
    let tape = smallest(&failure.tape, &failure.spans, effort, &breaks, progress);
    let shrunk = replay(&tape, bug);
    if shrunk.violation.is_some() { shrunk } else { failure.clone() }
}

/// Result of many runs in which no rule was broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplicaSummary {
    /// Number of runs.
    pub runs: u64,
    /// Number of events of all runs.
    pub events: u64,
    /// Combined hash of all runs.
    pub hash: u64,
    /// Situations that the runs have reached.
    pub situations: ReplicaSituations,
}

/// Makes the runs of many seeds, for use in tests.
///
/// `XDS_SIM_SEED`, `XDS_SIM_RUNS` and `XDS_SIM_TAPE` in the environment override the seeds.
///
/// # Panics
///
/// Panics if a run breaks a rule. The message has the rule, the smallest run found that breaks it,
/// its tape, and its last events. Panics if `seeds` is empty, and if the environment has an invalid
/// number or tape, or a tape of another run.
pub fn check(seeds: Range<u64>, bug: Option<ReplicaBug>) -> ReplicaSummary {
    let seeds = match select(seeds) {
        Selection::Seeds(seeds) => seeds,
        Selection::Tape(tape) => {
            let outcome = replay(&tape, bug);
            assert!(outcome.violation.is_none(), "{outcome}");
            require_no_drift(outcome.drift);
            return ReplicaSummary::default().with(&outcome);
        }
    };
    let mut summary = ReplicaSummary::default();
    for seed in seeds {
        let outcome = run_seed(seed, bug, false);
        if outcome.violation.is_some() {
            let mut tries = 0;
            let smallest = shrink(&outcome, bug, Effort::default(), &mut |it| tries = it.tries);
            let (before, after) = (outcome.tape.values().len(), smallest.tape.values().len());
            panic!(
                "seed {seed} breaks a rule; shrunk from {before} to {after} choices with {tries} \
                 runs:\n{smallest}again: {}\n",
                command("XDS_SIM_TAPE", &smallest.tape)
            );
        }
        summary = summary.with(&outcome);
    }
    summary
}

impl ReplicaSummary {
    fn with(mut self, outcome: &ReplicaOutcome) -> Self {
        self.runs += 1;
        self.events += outcome.events;
        self.hash = self.hash.rotate_left(1) ^ outcome.hash;
        self.situations.add(&outcome.situations);
        self
    }
}
