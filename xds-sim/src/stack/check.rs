//! Runs of a scenario on a stage with many seeds, and shrinking of the first that fails.

use core::{
    fmt::{self, Write as _},
    ops::Range,
};
use std::collections::BTreeMap;

use xds_core::Time;

use super::{Stage, StageReport, play::TOKIO_BUSY};
use crate::{
    check::{
        environment::{Selection, command, is_twice, require_no_drift, select},
        files,
        repeat::{RunFingerprint, difference, is_same_bug},
        shrink::{Effort, Progress, smallest},
    },
    tape::{Choice, Choices, Drift, Span, Tape},
    trace::{Keep, Trace},
};

/// Scenario on a stage. It draws what it does from the stage's choices.
pub trait StackScenario: Sync {
    /// Runs the scenario.
    fn play(&self, stage: &Stage) -> impl Future<Output = ()>;

    /// Situations, counted with [`sometimes`](crate::sometimes()), that at least one of the runs of
    /// [`check`] must reach.
    fn situations(&self) -> &[&'static str] {
        &[]
    }
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
    /// Number of faults that changed something.
    pub faults: u64,
    /// Situations counted with [`sometimes`](crate::sometimes()).
    pub situations: BTreeMap<&'static str, u64>,
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

/// Number of newest events in the text of a failure, besides faults and notes.
const EVENTS_SHOWN: usize = 40;

impl StackOutcome {
    pub(super) fn of(mut report: StageReport) -> Self {
        report.trace.header.tape = Some(report.choices.to_tape().to_string());
        // A run that breaks a rule stops early and leaves the rest of the tape unused.
        let is_failure = report.trace.violation.is_some();
        let drift = report.choices.drift();
        let drift = drift.filter(|it| !is_failure || !matches!(it, Drift::TooLong { .. }));
        Self {
            seed: None,
            hash: report.trace.header.hash,
            events: report.events,
            polls: report.polls,
            ended: report.ended,
            faults: report.faults,
            situations: report.situations,
            drift,
            tape: report.choices.to_tape(),
            spans: report.choices.spans().to_vec(),
            choices: report.choices.into_taken(),
            trace: report.trace,
        }
    }

    fn fingerprint(&self) -> RunFingerprint<'_> {
        RunFingerprint { hash: self.hash, violation: self.trace.violation.as_ref() }
    }

    /// Whether a rule was broken.
    #[must_use]
    pub const fn is_failure(&self) -> bool {
        self.trace.violation.is_some()
    }
}

/// The rule that was broken, the tape, and the [excerpt](Trace::to_excerpt) of the events.
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
        f.write_str(&self.trace.to_excerpt(EVENTS_SHOWN))
    }
}

/// Makes the run of a seed.
///
/// ```
/// use xds_core::types::CLUSTER;
/// use xds_sim::{Toy, app, stack::check::{replay, run_seed}, trace::Keep};
///
/// let app = app(|client| async move {
///     let mut watch = client.watch_untyped(CLUSTER, "web");
///     let _ = watch.next().await;
/// });
/// let app = app.with_resource(CLUSTER, "web", Toy::bytes("web", "content"));
/// let outcome = run_seed(7, &app, Keep::All);
/// assert!(!outcome.is_failure(), "{outcome}");
/// assert!(outcome.trace.to_html().contains("application"));
/// assert_eq!(replay(&outcome.tape, &app).hash, outcome.hash);
/// ```
pub fn run_seed(seed: u64, scenario: &impl StackScenario, keep: Keep) -> StackOutcome {
    let mut outcome = run(Choices::from_seed(seed), scenario, keep);
    outcome.seed = Some(seed);
    outcome.trace.header.seed = Some(seed);
    outcome
}

/// Makes the run of a tape and records its events.
pub fn replay(tape: &Tape, scenario: &impl StackScenario) -> StackOutcome {
    run(Choices::from_tape(tape), scenario, Keep::Newest(EVENTS_KEPT))
}

fn run(choices: Choices, scenario: &impl StackScenario, keep: Keep) -> StackOutcome {
    StackOutcome::of(Stage::record(choices, keep, async |stage: &Stage| scenario.play(stage).await))
}

/// Searches for the smallest run that breaks the same rule as a failed run, and panics at the same
/// location if the failure is a panic.
pub fn shrink(
    failure: &StackOutcome,
    scenario: &impl StackScenario,
    effort: Effort,
    progress: &mut dyn FnMut(Progress),
) -> StackOutcome {
    let Some(violation) = &failure.trace.violation else { return failure.clone() };
    if violation.what == TOKIO_BUSY {
        // Each try would take seconds of real time.
        return failure.clone();
    }
    let breaks = |tape: &Tape| {
        let outcome = run(Choices::from_tape(tape), scenario, Keep::Nothing);
        let broken = outcome.trace.violation.as_ref()?;
        is_same_bug(broken, violation).then_some((outcome.tape, outcome.spans))
    };
    let tape = smallest(&failure.tape, &failure.spans, effort, &breaks, progress);
    let shrunk = replay(&tape, scenario);
    if shrunk.is_failure() { shrunk } else { failure.clone() }
}

/// Result of many runs in which no rule was broken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// Number of faults of all runs that changed something.
    pub faults: u64,
    /// Situations of all runs, counted with [`sometimes`](crate::sometimes()).
    pub situations: BTreeMap<&'static str, u64>,
}

/// Makes the runs of many seeds, for use in tests. It makes a runtime for each run, so it cannot be
/// called in a runtime, such as that of `#[tokio::test]`.
///
/// `XDS_SIM_SEED`, `XDS_SIM_RUNS` and `XDS_SIM_TAPE` in the environment override the seeds. With
/// `XDS_SIM_TWICE=1`, each seed has to give the same run twice. The timeline of a failed run is
/// written to the directory `XDS_SIM_HTML`, by default to `target/xds-sim`.
///
/// [`run_seed`] and [`replay`] make one run without the environment, and
/// [`Trace::to_html`] returns its timeline.
///
/// # Panics
///
/// - If a run breaks a rule, or code panics in it. The message has the rule, the smallest run found
///   that breaks it, its tape, an excerpt of its events, and the commands that repeat it.
/// - If a run that breaks a rule cannot be repeated. The message has the second run.
/// - If no run reaches a [required situation](StackScenario::situations), unless the environment
///   selects fewer runs.
/// - If `seeds` is empty or reversed.
/// - If the environment has an invalid number or tape, or a tape of [another
///   run](StackOutcome::drift).
pub fn check(seeds: Range<u64>, scenario: &impl StackScenario) -> StackSummary {
    let required = seeds.end.saturating_sub(seeds.start);
    let seeds = match select(seeds) {
        Selection::Seeds(seeds) => seeds,
        Selection::Tape(tape) => {
            let outcome = replay(&tape, scenario);
            if outcome.is_failure() {
                fail(&format!("the run of XDS_SIM_TAPE breaks a rule:\n{outcome}"), &outcome, None);
            }
            require_no_drift(outcome.drift);
            return StackSummary::default().with(&outcome);
        }
    };
    let mut summary = StackSummary::default();
    for seed in seeds {
        let outcome = run_seed(seed, scenario, Keep::Hash);
        if outcome.is_failure() || is_twice() {
            let recorded = run_seed(seed, scenario, Keep::Newest(EVENTS_KEPT));
            if let Some(report) = difference(seed, outcome.fingerprint(), recorded.fingerprint()) {
                fail(&format!("{report}\n{recorded}"), &recorded, Some(seed));
            }
            if recorded.is_failure() {
                shrink_and_fail(seed, &recorded, scenario);
            }
        }
        summary = summary.with(&outcome);
    }
    let is_missing = |it: &&&str| !summary.situations.contains_key(**it);
    let missing: Vec<_> = scenario.situations().iter().filter(is_missing).collect();
    assert!(
        missing.is_empty() || summary.runs < required,
        "{} runs never reached the required situations: {missing:?}",
        summary.runs
    );
    summary
}

fn shrink_and_fail(seed: u64, found: &StackOutcome, scenario: &impl StackScenario) -> ! {
    let mut tries = 0;
    let smallest = shrink(found, scenario, Effort::default(), &mut |it| tries = it.tries);
    let (before, after) = (found.tape.values().len(), smallest.tape.values().len());
    let what = |outcome: &StackOutcome| outcome.trace.violation.as_ref().map(|it| it.what.clone());
    let first = what(found).filter(|first| what(&smallest).as_ref() != Some(first));
    let first = first.map(|what| format!("before it was shrunk: {what}\n")).unwrap_or_default();
    let shrunk = match tries {
        0 => String::new(),
        _ => format!("; shrunk from {before} to {after} choices with {tries} runs"),
    };
    let text = format!("seed {seed} breaks a rule{shrunk}:\n{first}{smallest}");
    fail(&text, &smallest, Some(seed));
}

/// Panics with the text, the commands that repeat the run, and the files with its timeline.
fn fail(text: &str, outcome: &StackOutcome, seed: Option<u64>) -> ! {
    let mut text = format!("{text}again: {}\n", command("XDS_SIM_TAPE", &outcome.tape));
    if let Some(seed) = seed {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "whole: {}", command("XDS_SIM_SEED", &seed));
    }
    let files = files::write(&outcome.trace, &text).map(|line| line + "\n").unwrap_or_default();
    panic!("{text}{files}");
}

impl StackSummary {
    fn with(mut self, outcome: &StackOutcome) -> Self {
        self.runs += 1;
        self.events += outcome.events;
        self.polls += outcome.polls;
        self.hash = self.hash.rotate_left(1) ^ outcome.hash;
        self.faults += outcome.faults;
        for (name, hits) in &outcome.situations {
            *self.situations.entry(name).or_default() += hits;
        }
        self
    }
}
