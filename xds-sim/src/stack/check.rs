//! Runs of a scenario on a stage with many seeds, and shrinking of the first that fails.

use core::{fmt, ops::Range};
use std::env;

use xds_core::Time;

use super::Stage;
use crate::{
    check::{
        number_of,
        shrink::{Effort, Progress, smallest},
    },
    tape::{Choice, Choices, Drift, Span, Tape},
    trace::{Keep, Trace},
};

/// Scenario on a stage. It draws what it does from the stage's choices.
pub trait StackScenario: Sync {
    /// Runs the scenario.
    fn play(&self, stage: &Stage) -> impl Future<Output = ()>;
}

impl<F: AsyncFn(&Stage) + Sync> StackScenario for F {
    async fn play(&self, stage: &Stage) {
        self(stage).await;
    }
}

/// Result of one run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StackOutcome {
    /// Seed, if the run was made from one.
    pub seed: Option<u64>,
    /// Hash of all events. Equal runs have equal hashes.
    pub hash: u64,
    /// Number of events.
    pub events: u64,
    /// Number of times that a task was polled.
    pub polls: u64,
    /// Virtual time at the end of the run.
    pub ended: Time,
    /// Choices of the run, in order.
    pub choices: Vec<Choice>,
    /// Values chosen in the run.
    pub tape: Tape,
    /// Whether the tape that the run was made from belongs to another run.
    pub drift: Option<Drift>,
    /// Groups of choices that belong together.
    pub spans: Vec<Span>,
    /// Events of the run, and the violation if a rule was broken.
    pub trace: Trace,
}

/// Number of newest events kept of a failed run.
const EVENTS_KEPT: usize = 100_000;

/// Number of events in the text of a failure.
const EVENTS_SHOWN: usize = 120;

impl StackOutcome {
    /// Whether a rule was broken.
    #[must_use]
    pub const fn is_failure(&self) -> bool {
        self.trace.violation.is_some()
    }
}

/// The rule that was broken, the tape, and the last events.
impl fmt::Display for StackOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(violation) = &self.trace.violation {
            writeln!(f, "{}: {}", violation.invariant, violation.rule)?;
            writeln!(f, "{}", violation.what)?;
        }
        if let Some(seed) = self.seed {
            writeln!(f, "seed: {seed}")?;
        }
        writeln!(f, "tape: {}", self.tape)?;
        for line in &self.trace.header.options {
            writeln!(f, "{line}")?;
        }
        f.write_str(&self.trace.to_text(EVENTS_SHOWN))
    }
}

/// Makes the run of a seed.
pub fn run_seed(seed: u64, scenario: &impl StackScenario, keep: Keep) -> StackOutcome {
    let mut outcome = run(Choices::from_seed(seed), scenario, keep);
    outcome.seed = Some(seed);
    outcome
}

/// Makes the run of a tape and records its events.
pub fn replay(tape: &Tape, scenario: &impl StackScenario) -> StackOutcome {
    run(Choices::from_tape(tape), scenario, Keep::Newest(EVENTS_KEPT))
}

fn run(choices: Choices, scenario: &impl StackScenario, keep: Keep) -> StackOutcome {
    let report = Stage::run_with(choices, keep, async |stage: &Stage| scenario.play(stage).await);
    StackOutcome {
        seed: None,
        hash: report.trace.header.hash,
        events: report.events,
        polls: report.polls,
        ended: report.ended,
        drift: report.choices.drift(),
        tape: report.choices.to_tape(),
        spans: report.choices.spans().to_vec(),
        choices: report.choices.into_taken(),
        trace: report.trace,
    }
}

/// Searches for the smallest run that breaks the same rule as a failed run.
pub fn shrink(
    failure: &StackOutcome,
    scenario: &impl StackScenario,
    effort: Effort,
    progress: &mut dyn FnMut(Progress),
) -> StackOutcome {
    let Some(violation) = &failure.trace.violation else { return failure.clone() };
    let breaks = |tape: &Tape| {
        let outcome = run(Choices::from_tape(tape), scenario, Keep::Nothing);
        let broken = outcome.trace.violation.as_ref()?;
        (broken.invariant == violation.invariant).then_some((outcome.tape, outcome.spans))
    };
    let tape = smallest(&failure.tape, &failure.spans, effort, &breaks, progress);
    let shrunk = replay(&tape, scenario);
    if shrunk.is_failure() { shrunk } else { failure.clone() }
}

/// Result of many runs in which no rule was broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StackSummary {
    /// Number of runs.
    pub runs: u64,
    /// Number of events of all runs.
    pub events: u64,
    /// Number of polls of all runs.
    pub polls: u64,
    /// Combined hash of all runs.
    pub hash: u64,
}

/// Makes the runs of many seeds, for use in tests.
///
/// `XDS_SIM_SEED`, `XDS_SIM_RUNS` and `XDS_SIM_TAPE` in the environment override the seeds.
///
/// # Panics
///
/// Panics if a run breaks a rule. The message has the rule, the smallest run found that breaks it,
/// its tape, and its last events.
pub fn check(seeds: Range<u64>, scenario: &impl StackScenario) -> StackSummary {
    if let Ok(text) = env::var("XDS_SIM_TAPE") {
        let tape = text.parse().unwrap_or_else(|error| panic!("XDS_SIM_TAPE: {error}"));
        let outcome = replay(&tape, scenario);
        assert!(!outcome.is_failure(), "{outcome}");
        return StackSummary::default().with(&outcome);
    }
    let number = |name| env::var(name).ok().and_then(|text| number_of(&text));
    let first = number("XDS_SIM_SEED").unwrap_or(seeds.start);
    let default = if number("XDS_SIM_SEED").is_some() { 1 } else { seeds.end - seeds.start };
    let runs = number("XDS_SIM_RUNS").unwrap_or(default);
    let mut summary = StackSummary::default();
    for seed in first..first.saturating_add(runs) {
        let outcome = run_seed(seed, scenario, Keep::Hash);
        if outcome.is_failure() {
            let mut tries = 0;
            let smallest =
                shrink(&outcome, scenario, Effort::default(), &mut |it| tries = it.tries);
            let (before, after) = (outcome.tape.values().len(), smallest.tape.values().len());
            panic!(
                "seed {seed} breaks a rule; shrunk from {before} to {after} choices with {tries} \
                 runs:\n{smallest}"
            );
        }
        summary = summary.with(&outcome);
    }
    summary
}

impl StackSummary {
    fn with(self, outcome: &StackOutcome) -> Self {
        Self {
            runs: self.runs + 1,
            events: self.events + outcome.events,
            polls: self.polls + outcome.polls,
            hash: self.hash.rotate_left(1) ^ outcome.hash,
        }
    }
}
