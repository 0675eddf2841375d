//! Entry points that make one run or many runs and report failures.

use std::{any::TypeId, env, fmt, sync::Arc};

use crate::{
    options::{Mixture, Options},
    oracle::Oracle,
    run::run,
    shrink::{Effort, shrink},
    situations::Situations,
    storm::storm,
    tape::{Choice, Choices, Drift, Span, Tape},
    trace::{Keep, Trace, Violation},
    world::{Application, ControlPlane, World},
};

/// Constructor called once for each client or server of a run, with its index.
type Factory<T> = Arc<dyn Fn(usize) -> Box<T> + Send + Sync>;

/// Constructor of an oracle, called once per run with the options of the run.
type OracleFactory = Arc<dyn Fn(&Options) -> Box<dyn Oracle> + Send + Sync>;

type Scenario = Arc<dyn Fn(&mut World) + Send + Sync>;
type Adjust = Arc<dyn Fn(&mut Options) + Send + Sync>;

/// Configuration of one or more simulation runs.
#[derive(Clone)]
pub struct Config {
    /// Seed of the first run. Each further run uses the next seed. Default: 0.
    pub first_seed: u64,
    /// Number of runs that [`check`] makes. Default: 1,000.
    pub runs: u64,
    /// Whether oracles check the runs. Default: all of them.
    pub oracle_mode: OracleMode,
    /// Limit on the work that [`check`] spends on shrinking a failure.
    pub effort: Effort,
    pub(crate) scenario: Scenario,
    /// Type of the scenario function, which distinguishes a storm from a user-defined scenario.
    scenario_type: TypeId,
    fixed: Option<Options>,
    adjust: Option<Adjust>,
    pub(crate) control_plane: Option<Factory<dyn ControlPlane>>,
    pub(crate) application: Option<Factory<dyn Application>>,
    pub(crate) oracles: Vec<OracleFactory>,
    situations: Vec<&'static str>,
}

/// Inputs needed to reproduce a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reproduction {
    /// The tape. The run is a [storm](storm()) that drew its options from the tape.
    Tape,
    /// The options and the rest of the tape. The run is a storm whose options the [`Config`] sets.
    Options,
    /// The [`Config`] and the tape. The run has a user-defined scenario, control plane, application
    /// or oracle.
    Config,
}

/// Whether oracles check a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OracleMode {
    /// All [oracles](crate::oracle) check the run.
    #[default]
    On,
    /// No oracle checks the run. For measuring the cost of the cores and of the world alone.
    Off,
}

/// A thousand [storms](storm()), starting with seed 0.
impl Default for Config {
    fn default() -> Self {
        Self::new(storm)
    }
}

impl Config {
    /// Creates a configuration for a thousand runs of a scenario, starting with seed 0.
    #[must_use]
    pub fn new(scenario: impl Fn(&mut World) + Send + Sync + 'static) -> Self {
        Self {
            first_seed: 0,
            runs: 1_000,
            oracle_mode: OracleMode::On,
            effort: Effort::default(),
            scenario_type: type_of(&scenario),
            scenario: Arc::new(scenario),
            fixed: None,
            adjust: None,
            control_plane: None,
            application: None,
            oracles: Vec::new(),
            situations: Vec::new(),
        }
    }

    /// Changes the options drawn from the seed before each run begins.
    #[must_use]
    pub fn with_options(mut self, adjust: impl Fn(&mut Options) + Send + Sync + 'static) -> Self {
        self.adjust = Some(Arc::new(adjust));
        self
    }

    /// Sets the options of all runs, so that none are drawn.
    ///
    /// The tape of such a run starts after the options, so it stays valid when later versions of
    /// this crate add options. [`Options`] can also be parsed from the line in which they are
    /// printed.
    #[must_use]
    pub fn with_fixed_options(mut self, options: Options) -> Self {
        self.fixed = Some(options);
        self
    }

    /// Sets the number of runs.
    #[must_use]
    pub fn with_runs(mut self, runs: u64) -> Self {
        self.runs = runs;
        self
    }

    /// Replaces this project's management server with a user-defined control plane.
    ///
    /// A new instance is made for each server of a run, and after each restart. All clients use the
    /// same variant of the protocol with it, unless [`with_options`](Self::with_options) sets a
    /// [mixture](crate::options::Mixture).
    #[must_use]
    pub fn with_control_plane(
        mut self,
        make: impl Fn(usize) -> Box<dyn ControlPlane> + Send + Sync + 'static,
    ) -> Self {
        self.control_plane = Some(Arc::new(make));
        self
    }

    /// Adds a user-defined application that receives the notifications of each client's watches.
    #[must_use]
    pub fn with_application(
        mut self,
        make: impl Fn(usize) -> Box<dyn Application> + Send + Sync + 'static,
    ) -> Self {
        self.application = Some(Arc::new(make));
        self
    }

    /// Adds a user-defined oracle. A new instance is made for each run, from the options of the
    /// run.
    ///
    /// ```
    /// use xds_sim::{
    ///     Config, World, check,
    ///     options::{Streams, Transport},
    ///     oracle::{Event, Oracle, Summary, Rule},
    ///     sometimes, storm,
    /// };
    ///
    /// const FEW: Rule = Rule::new("few-streams", "a client has three streams at a time, at most");
    ///
    /// struct FewStreams;
    ///
    /// impl Oracle for FewStreams {
    ///     fn rules(&self) -> &'static [Rule] {
    ///         &[FEW]
    ///     }
    ///
    ///     fn on_event(&mut self, event: &Event<'_>, world: &World, summary: &mut Summary) {
    ///         let Event::Opened { link } = event else { return };
    ///         let client = world.link(*link).client;
    ///         let streams = world.links(client).count();
    ///         summary.ensure(streams <= 3, FEW, || format!("client-{client} has {streams}"));
    ///         if streams > 1 {
    ///             sometimes("a client has several streams");
    ///         }
    ///     }
    /// }
    ///
    /// let config = Config::default()
    ///     .with_runs(100)
    ///     .with_options(|it| {
    ///         (it.transport, it.streams) = (Transport::Streams, Streams::Aggregated);
    ///     })
    ///     .with_oracle(|_| Box::new(FewStreams))
    ///     .with_situation("a client has several streams");
    /// check(&config, storm);
    /// ```
    #[must_use]
    pub fn with_oracle(
        mut self,
        make: impl Fn(&Options) -> Box<dyn Oracle> + Send + Sync + 'static,
    ) -> Self {
        self.oracles.push(Arc::new(make));
        self
    }

    /// Requires that at least one of the runs reaches a situation.
    ///
    /// The situation is one counted with [`sometimes`](crate::sometimes()) or a [predefined
    /// one](crate::Situation::as_str). [`check`] fails if no run reaches it, unless the environment
    /// selects other runs.
    #[must_use]
    pub fn with_situation(mut self, name: &'static str) -> Self {
        self.situations.push(name);
        self
    }

    /// Returns the configuration with this scenario.
    pub(crate) fn of_scenario(
        &self,
        scenario: impl Fn(&mut World) + Send + Sync + 'static,
    ) -> Self {
        let scenario_type = type_of(&scenario);
        assert!(
            [scenario_type, type_of(&storm)].contains(&self.scenario_type),
            "the configuration has a scenario of its own, and another one is given: Config::default() has none to lose"
        );
        Self { scenario_type, scenario: Arc::new(scenario), ..self.clone() }
    }

    /// Returns the inputs needed to reproduce one of the runs.
    pub(crate) fn reproduction(&self) -> Reproduction {
        let is_own = self.scenario_type != type_of(&storm)
            || self.control_plane.is_some()
            || self.application.is_some()
            || !self.oracles.is_empty();
        match self.fixed.is_some() || self.adjust.is_some() {
            _ if is_own => Reproduction::Config,
            true => Reproduction::Options,
            false => Reproduction::Tape,
        }
    }

    /// Applies the environment: `XDS_SIM_SEED` sets the first seed, `XDS_SIM_RUNS` the number of
    /// runs. If only the seed is set, there is one run. Numbers may be hexadecimal, such as
    /// `0x5eed`.
    ///
    /// # Panics
    ///
    /// If one of the variables is not a number, because the result would be about unintended runs.
    #[must_use]
    pub fn with_environment(mut self) -> Self {
        let number = |name| {
            let text = env::var(name).ok()?;
            Some(number_of(&text).unwrap_or_else(|| panic!("{name}={text} is no number")))
        };
        self.runs = number("XDS_SIM_RUNS").unwrap_or(self.runs);
        if let Some(seed) = number("XDS_SIM_SEED") {
            self.first_seed = seed;
            self.runs = number("XDS_SIM_RUNS").unwrap_or(1);
        }
        self
    }

    /// Returns the options of a run. They are drawn from the start of the tape unless they are
    /// fixed.
    ///
    /// # Panics
    ///
    /// If the caller's changes made the options [invalid](Options::check).
    pub(crate) fn options(&self, choices: &mut Choices) -> Options {
        let mut options = match &self.fixed {
            Some(fixed) => fixed.clone(),
            None => Options::draw(choices),
        };
        if self.control_plane.is_some() && self.fixed.is_none() {
            options.mixture = Mixture::Alike;
        }
        if let Some(adjust) = &self.adjust {
            adjust(&mut options);
        }
        if let Err(error) = options.check() {
            panic!("{error}");
        }
        options
    }
}

/// Parses a number such as `24301`, `24_301` or `0x5eed`.
#[must_use]
pub fn number_of(text: &str) -> Option<u64> {
    let text = text.trim().replace('_', "");
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Returns the unique type of a function or closure.
fn type_of<T: 'static>(_: &T) -> TypeId {
    TypeId::of::<T>()
}

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

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("first_seed", &self.first_seed)
            .field("runs", &self.runs)
            .field("oracle_mode", &self.oracle_mode)
            .field("effort", &self.effort)
            .finish_non_exhaustive()
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

/// Returns the choices of the run of a tape, if it breaks the rule `invariant`.
pub(crate) fn breaks(tape: &Tape, invariant: &str, config: &Config) -> Option<(Tape, Vec<Span>)> {
    let ran = run(Choices::from_tape(tape), None, config, Keep::Nothing);
    let failure = ran.outcome.violation?;
    (failure.violation.invariant == invariant).then_some((failure.tape, failure.spans))
}

/// Makes many runs of a scenario, for use in tests.
///
/// `XDS_SIM_SEED`, `XDS_SIM_RUNS` and `XDS_SIM_TAPE` in the environment override the runs of the
/// configuration.
///
/// # Panics
///
/// - If a run breaks a rule, or code panics in it. The message has the seed, the options, the rule
///   and the smallest run found that breaks it.
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
        summary.add(run_seed(seed, &config), &config);
    }
    let situations = config.situations.iter();
    let missing: Vec<_> = situations.filter(|it| summary.situations.hits_of(it) == 0).collect();
    assert!(
        missing.is_empty() || config.runs < runs,
        "{} runs never came to what they have to come to: {missing:?}",
        summary.runs
    );
    summary
}

/// Makes only the run of `XDS_SIM_TAPE`, if the environment has it.
///
/// # Panics
///
/// If the run breaks a rule or the tape has drifted.
pub(crate) fn of_environment(config: &Config) -> Option<Summary> {
    let text = env::var("XDS_SIM_TAPE").ok()?;
    let tape = text.parse().unwrap_or_else(|error| panic!("XDS_SIM_TAPE: {error}"));
    let outcome = replay(&tape, config);
    let drift = outcome.drift;
    let mut summary = Summary::default();
    summary.add(outcome, config);
    if let Some(drift) = drift {
        panic!("XDS_SIM_TAPE: {drift}; this one breaks no rule");
    }
    Some(summary)
}

impl Summary {
    pub(crate) fn add(&mut self, outcome: Outcome, config: &Config) {
        if let Some(failure) = outcome.violation {
            let mut tries = 0;
            let smallest = shrink(&failure, config, &mut |progress| tries = progress.tries);
            let drift = outcome.drift.map(|drift| format!("{drift}\n")).unwrap_or_default();
            let text = smallest.to_text(Some((&failure, tries)));
            panic!("{drift}{text}\nas a test:\n\n{}", smallest.to_test());
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
    fn seeds_are_numbers_as_people_write_them() {
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
