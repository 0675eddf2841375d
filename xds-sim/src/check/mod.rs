//! Entry points that make one run or many runs and report failures.

mod config;
pub(crate) mod environment;
pub mod exhaust;
pub(crate) mod files;
pub(crate) mod repeat;
mod report;
mod run;
pub mod shrink;

pub use self::config::{Config, OracleMode, Reproduction, number_of};
use self::{
    repeat::{RunFingerprint, difference, is_same_bug},
    run::run,
    shrink::shrink,
};
use crate::{
    options::Options,
    situations::Situations,
    tape::{Choice, Choices, Drift, Span, Tape},
    trace::{Keep, Trace, Violation},
    world::World,
};

impl Failure {
    /// Returns the choices made after the options were drawn.
    ///
    /// With [fixed options](Config::with_fixed_options) they reproduce the run, even when a later
    /// version of this crate draws more options.
    #[must_use]
    pub fn tape_after_options(&self) -> Tape {
        Tape::from_values(self.tape.values().iter().skip(self.drawn).copied())
    }
}

/// Result of one run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// Seed, if the run was made from one.
    pub seed: Option<u64>,
    /// Options of the run.
    pub options: Options,
    /// Number of delivered messages and fired timers.
    pub events: u64,
    /// Hash of all events. Equal runs have equal hashes.
    pub hash: u64,
    /// Values chosen in the run.
    pub tape: Tape,
    /// Values chosen in the run, with the question that each one answered.
    pub choices: Vec<Choice>,
    /// Evidence that the replayed tape belongs to a different run. The result then says nothing
    /// about that run.
    ///
    /// A tape that ends early is not drift, because shrunk tapes do. A tape with values left over
    /// is not drift if a rule was broken.
    pub drift: Option<Drift>,
    /// Situations that the run reached.
    pub situations: Situations,
    /// Failure, if a rule was broken.
    pub violation: Option<Failure>,
}

impl Outcome {
    fn fingerprint(&self) -> RunFingerprint<'_> {
        let violation = self.violation.as_ref().map(|failure| &failure.violation);
        RunFingerprint { hash: self.hash, violation }
    }
}

/// A run that broke a rule, with everything needed to reproduce it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// Seed, if the run was made from one and has not been shrunk.
    pub seed: Option<u64>,
    /// Options of the run.
    pub options: Options,
    /// Rule that was broken.
    pub violation: Violation,
    /// Values chosen in the run.
    pub tape: Tape,
    /// Groups of choices that belong together.
    pub spans: Vec<Span>,
    /// Number of choices, at the start of the tape, with which the options were drawn.
    pub drawn: usize,
    /// Inputs needed to reproduce the run.
    pub reproduction: Reproduction,
    /// Events of the run.
    pub trace: Trace,
}

/// Result of many runs in which no rule was broken.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Summary {
    /// Number of runs.
    pub runs: u64,
    /// Number of delivered messages and fired timers in all runs.
    pub events: u64,
    /// Situations that the runs reached.
    pub situations: Situations,
}

/// Number of newest events kept of a failed run. Only endless runs have more.
const EVENTS_KEPT: usize = 100_000;

/// Makes the run of a seed. If it breaks a rule, the run is repeated to record its events.
#[must_use]
pub fn run_seed(seed: u64, config: &Config) -> Outcome {
    let ran = run(Choices::from_seed(seed), Some(seed), config, Keep::Hash);
    match ran.broken {
        None => ran.outcome,
        Some(broken) => explain(broken, Some(seed), config).unwrap_or(ran.outcome),
    }
}

/// Makes the run of a seed and records its events, whether or not it breaks a rule.
#[must_use]
pub fn record_seed(seed: u64, config: &Config) -> (Outcome, Trace) {
    let ran = run(Choices::from_seed(seed), Some(seed), config, Keep::Newest(EVENTS_KEPT));
    (ran.outcome, ran.trace)
}

/// Makes the run of a tape and records its events, whether or not it breaks a rule.
#[must_use]
pub fn record_tape(tape: &Tape, config: &Config) -> (Outcome, Trace) {
    let ran = run(Choices::from_tape(tape), None, config, Keep::Newest(EVENTS_KEPT));
    (ran.outcome, ran.trace)
}

/// Makes the run of a tape.
#[must_use]
pub fn replay(tape: &Tape, config: &Config) -> Outcome {
    record_tape(tape, config).0
}

/// Repeats a failed run and records its events.
fn explain(tape: Tape, seed: Option<u64>, config: &Config) -> Option<Outcome> {
    let mut outcome = replay(&tape, config);
    outcome.seed = seed;
    let failure = outcome.violation.as_mut()?;
    failure.seed = seed;
    failure.trace.header.seed = seed;
    Some(outcome)
}

/// Returns the choices of the run of a tape, if it has the same bug.
pub(crate) fn breaks(tape: &Tape, bug: &Violation, config: &Config) -> Option<(Tape, Vec<Span>)> {
    let ran = run(Choices::from_tape(tape), None, config, Keep::Nothing);
    let failure = ran.outcome.violation?;
    is_same_bug(&failure.violation, bug).then_some((failure.tape, failure.spans))
}

/// Makes many runs of a scenario. Call it in tests.
///
/// `XDS_SIM_SEED`, `XDS_SIM_RUNS` and `XDS_SIM_TAPE` in the environment override the runs of the
/// configuration. With `XDS_SIM_TWICE=1`, each seed has to give the same run twice.
///
/// # Panics
///
/// - If a run breaks a rule, or code panics in it. The message has the seed, the options, the rule
///   and the smallest run found that breaks it.
/// - If a run that breaks a rule cannot be repeated. The message has the second run.
/// - If no run reaches a [required situation](Config::with_situation).
/// - If the configuration was [made for another scenario](Config::new).
/// - If the environment has an invalid number or tape, or a tape of [another run](Outcome::drift).
pub fn check(config: &Config, scenario: impl Fn(&mut World) + Send + Sync + 'static) -> Summary {
    let config = config.of_scenario(scenario);
    let runs = config.runs;
    let config = config.with_environment();
    if let Some(summary) = of_environment(&config) {
        return summary;
    }
    let mut summary = Summary::default();
    for seed in config.first_seed..config.first_seed.saturating_add(config.runs) {
        let outcome = run_seed(seed, &config);
        if outcome.violation.is_some() || environment::is_twice() {
            require_repeatable(seed, &outcome, &config);
        }
        summary.add(outcome, &config);
    }
    let situations = config.situations.iter();
    let missing: Vec<_> = situations.filter(|it| summary.situations.hits_of(it) == 0).collect();
    assert!(
        missing.is_empty() || config.runs < runs,
        "{} runs never reached the required situations: {missing:?}",
        summary.runs
    );
    summary
}

/// Makes only the run of `XDS_SIM_TAPE`, if the environment has it.
///
/// # Panics
///
/// Panics if the run breaks a rule or the tape has drifted.
pub(crate) fn of_environment(config: &Config) -> Option<Summary> {
    let outcome = replay(&environment::tape()?, config);
    let drift = outcome.drift;
    let mut summary = Summary::default();
    summary.add(outcome, config);
    environment::require_no_drift(drift);
    Some(summary)
}

/// Requires that another run of the seed has the same events and the same result.
fn require_repeatable(seed: u64, outcome: &Outcome, config: &Config) {
    let (again, trace) = record_seed(seed, config);
    if let Some(report) = difference(seed, outcome.fingerprint(), again.fingerprint()) {
        panic!("{report}\n{}", trace.to_text(report::LAST_EVENTS));
    }
}

impl Summary {
    pub(crate) fn add(&mut self, outcome: Outcome, config: &Config) {
        if let Some(failure) = outcome.violation {
            let mut tries = 0;
            let smallest = shrink(&failure, config, &mut |progress| tries = progress.tries);
            let drift = outcome.drift.map(|drift| format!("{drift}\n")).unwrap_or_default();
            let text = smallest.to_text(Some((&failure, tries)));
            let files = files::write(&smallest.trace, &text);
            let files = files.map(|line| line + "\n").unwrap_or_default();
            panic!("{drift}{text}{files}\nas a test:\n\n{}", smallest.to_test_of(failure.seed));
        }
        self.runs += 1;
        self.events += outcome.events;
        self.situations.add(&outcome.situations);
    }
}

#[cfg(test)]
mod tests {
    use super::number_of;

    #[test]
    fn seeds_may_be_decimal_hexadecimal_or_have_underscores() {
        for (text, number) in [
            ("7", Some(7)),
            (" 0x5eed ", Some(0x5eed)),
            ("1_000", Some(1_000)),
            ("0x", None),
            ("seven", None),
            ("-1", None),
        ] {
            assert_eq!(number_of(text), number, "{text}");
        }
    }
}
