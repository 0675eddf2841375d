//! Making runs, one by one or many, and saying what went wrong in one.

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

/// What is made anew for each client or server of a run: it is given the position.
type Make<T> = Arc<dyn Fn(usize) -> Box<T> + Send + Sync>;

/// What makes a judge for runs of a kind.
type Judges = Arc<dyn Fn(&Options) -> Box<dyn Oracle> + Send + Sync>;

type Scenario = Arc<dyn Fn(&mut World) + Send + Sync>;
type Adjust = Arc<dyn Fn(&mut Options) + Send + Sync>;

/// How runs are made.
#[derive(Clone)]
pub struct Config {
    /// The seed of the first run; each further run has the next one.
    pub first_seed: u64,
    /// How many runs [`check`] makes.
    pub runs: u64,
    /// Whether runs are judged.
    pub judge: Judge,
    /// How hard [`check`] tries to make a failure small.
    pub effort: Effort,
    pub(crate) scenario: Scenario,
    /// Which function the scenario is.
    scenario_type: TypeId,
    fixed: Option<Options>,
    adjust: Option<Adjust>,
    pub(crate) control_plane: Option<Make<dyn ControlPlane>>,
    pub(crate) application: Option<Make<dyn Application>>,
    pub(crate) oracles: Vec<Judges>,
    situations: Vec<&'static str>,
}

/// What it takes to have a run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remake {
    /// Its tape: it is a [storm](storm()) that drew its options.
    Tape,
    /// Its options and what follows them on the tape: it is a storm whose options the [`Config`] says.
    Options,
    /// The [`Config`] as well: it has a scenario, a control plane or an application of the user's own.
    Config,
}

/// Whether runs are judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Judge {
    /// By all [oracles](crate::oracle).
    #[default]
    Everything,
    /// By none: for measuring what the cores and the world cost alone.
    Nothing,
}

/// A thousand [storms](storm()) from seed zero on.
impl Default for Config {
    fn default() -> Self {
        Self::new(storm)
    }
}

impl Config {
    /// A thousand runs of this scenario from seed zero on.
    #[must_use]
    pub fn new(scenario: impl Fn(&mut World) + Send + Sync + 'static) -> Self {
        Self {
            first_seed: 0,
            runs: 1_000,
            judge: Judge::Everything,
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

    /// Changes the options that a seed leads to, before the run begins.
    #[must_use]
    pub fn with_options(mut self, adjust: impl Fn(&mut Options) + Send + Sync + 'static) -> Self {
        self.adjust = Some(Arc::new(adjust));
        self
    }

    /// All runs have these options, and none is drawn: the tape of such a run has what comes after them, and stays
    /// the same run when this crate has more options one day. Options are read from the line in which they
    /// are printed, too.
    #[must_use]
    pub fn with_fixed_options(mut self, options: Options) -> Self {
        self.fixed = Some(options);
        self
    }

    /// Chooses how many runs there are.
    #[must_use]
    pub fn with_runs(mut self, runs: u64) -> Self {
        self.runs = runs;
        self
    }

    /// Puts a control plane of the caller's in the place of our management server. It is made anew for
    /// each server of a run and after each restart. All clients speak one variant with it, unless the options are
    /// [adjusted](Self::with_options) to have a [mixture](crate::options::Mixture).
    #[must_use]
    pub fn with_control_plane(
        mut self,
        make: impl Fn(usize) -> Box<dyn ControlPlane> + Send + Sync + 'static,
    ) -> Self {
        self.control_plane = Some(Arc::new(make));
        self
    }

    /// Lets an application of the caller's hear what the watches of each client are told.
    #[must_use]
    pub fn with_application(
        mut self,
        make: impl Fn(usize) -> Box<dyn Application> + Send + Sync + 'static,
    ) -> Self {
        self.application = Some(Arc::new(make));
        self
    }

    /// Lets an oracle of the caller's judge runs beside ours. It is made anew for each run, of which it is told the
    /// options.
    ///
    /// ```
    /// use xds_sim::{
    ///     Config, World, check,
    ///     options::{Streams, Transport},
    ///     oracle::{Event, Oracle, Report, Rule},
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
    ///     fn on_event(&mut self, event: &Event<'_>, world: &World, report: &mut Report) {
    ///         let Event::Opened { link } = event else { return };
    ///         let client = world.link(*link).client;
    ///         let streams = world.links(client).count();
    ///         report.ensure(streams <= 3, FEW, || format!("client-{client} has {streams}"));
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

    /// Says that the runs have to come to a situation, at least one of them once: one that is counted with
    /// [`sometimes`](crate::sometimes()), or one of [ours](crate::Situation::as_str). [`check`] fails if they
    /// do not, unless the environment has it make other runs.
    #[must_use]
    pub fn with_situation(mut self, name: &'static str) -> Self {
        self.situations.push(name);
        self
    }

    /// The same for runs of this scenario.
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

    /// What it takes to have one of the runs again.
    pub(crate) fn remake(&self) -> Remake {
        let is_own = self.scenario_type != type_of(&storm)
            || self.control_plane.is_some()
            || self.application.is_some()
            || !self.oracles.is_empty();
        match self.fixed.is_some() || self.adjust.is_some() {
            _ if is_own => Remake::Config,
            true => Remake::Options,
            false => Remake::Tape,
        }
    }

    /// What the environment says of the runs: `XDS_SIM_SEED` is the first seed, `XDS_SIM_RUNS` how many
    /// runs there are; a number may be hexadecimal, as `0x5eed`.
    ///
    /// # Panics
    ///
    /// If one of them is no number: other runs than the ones that were meant would say nothing.
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

    /// The options of a run, which may be the first answers of its tape.
    ///
    /// # Panics
    ///
    /// If the caller has changed them to what is [no run](Options::check).
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

/// A number as people write it: `24301`, `24_301` or `0x5eed`.
#[must_use]
pub fn number_of(text: &str) -> Option<u64> {
    let text = text.trim().replace('_', "");
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Functions and closures have a type each.
fn type_of<T: 'static>(_: &T) -> TypeId {
    TypeId::of::<T>()
}

impl Failure {
    /// The choices without those that made the options: the same run where the [options are
    /// fixed](Config::with_fixed_options), also when this crate has more of them to draw one day.
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
            .field("judge", &self.judge)
            .field("effort", &self.effort)
            .finish_non_exhaustive()
    }
}

/// What came of one run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The seed, if the run was made from one.
    pub seed: Option<u64>,
    /// What kind of run it was.
    pub options: Options,
    /// How many messages were delivered and timers fired.
    pub events: u64,
    /// The hash over all that happened: equal for equal runs.
    pub hash: u64,
    /// The choices of the run.
    pub tape: Tape,
    /// The same with what was to be chosen.
    pub choices: Vec<Choice>,
    /// What shows that the tape that was played was recorded from another run, if anything does: then nothing is
    /// known of that one. A tape that ends early is as good as any, as shrunk ones do; so is one of which something is
    /// left when a rule is broken.
    pub drift: Option<Drift>,
    /// What the run came to.
    pub situations: Situations,
    /// What went wrong, if anything did.
    pub violation: Option<Failure>,
}

/// A run in which a rule was broken, with all that is needed to have it again.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// The seed, if the run was made from one and not made smaller since.
    pub seed: Option<u64>,
    /// What kind of run it was.
    pub options: Options,
    /// The rule that was broken.
    pub violation: Violation,
    /// The choices of the run.
    pub tape: Tape,
    /// Which of the choices belong together.
    pub spans: Vec<Span>,
    /// With how many of the choices the options were drawn, which come first.
    pub drawn: usize,
    /// What it takes to have the run again.
    pub remake: Remake,
    /// What happened.
    pub trace: Trace,
}

/// What came of many runs in which nothing went wrong.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// How many runs there were.
    pub runs: u64,
    /// How many messages were delivered and timers fired, in all of them.
    pub events: u64,
    /// What the runs came to.
    pub situations: Situations,
}

/// The newest events of a failed run that are kept, which is all of them but in endless runs.
const EVENTS_KEPT: usize = 100_000;

/// Makes the run of a seed. If it goes wrong it is made again to take down what happens.
#[must_use]
pub fn run_seed(seed: u64, config: &Config) -> Outcome {
    let ran = run(Choices::from_seed(seed), Some(seed), config, Keep::Hash);
    match ran.broken {
        None => ran.outcome,
        Some(broken) => explain(broken, Some(seed), config).unwrap_or(ran.outcome),
    }
}

/// Makes the run of a seed and takes down what happens, whether it goes wrong or not.
#[must_use]
pub fn record_seed(seed: u64, config: &Config) -> (Outcome, Trace) {
    let ran = run(Choices::from_seed(seed), Some(seed), config, Keep::Newest(EVENTS_KEPT));
    (ran.outcome, ran.trace)
}

/// Makes the run of a tape and takes down what happens, whether it goes wrong or not.
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

/// The same run once more, with its events.
fn explain(tape: Tape, seed: Option<u64>, config: &Config) -> Option<Outcome> {
    let mut outcome = replay(&tape, config);
    outcome.seed = seed;
    let failure = outcome.violation.as_mut()?;
    failure.seed = seed;
    failure.trace.header.seed = seed;
    Some(outcome)
}

/// Whether a run of this tape breaks the rule, and if so, the choices it then made.
pub(crate) fn breaks(tape: &Tape, invariant: &str, config: &Config) -> Option<(Tape, Vec<Span>)> {
    let ran = run(Choices::from_tape(tape), None, config, Keep::Nothing);
    let failure = ran.outcome.violation?;
    (failure.violation.invariant == invariant).then_some((failure.tape, failure.spans))
}

/// Makes many runs of a scenario: for tests. `XDS_SIM_SEED`, `XDS_SIM_RUNS` and `XDS_SIM_TAPE` in the
/// environment choose other runs than the configuration says.
///
/// # Panics
///
/// If none of them comes to a [situation](Config::with_situation) that they have to come to. If a rule is broken in
/// one of them, or somebody panics: with the seed, the options, the rule, and the smallest run
/// that breaks it. If the configuration was [made for another scenario](Config::new), or the environment says what is
/// no number, no tape, or a tape of [another run](Outcome::drift).
pub fn check(config: &Config, scenario: impl Fn(&mut World) + Send + Sync + 'static) -> Report {
    let config = config.of_scenario(scenario);
    let runs = config.runs;
    let config = config.with_environment();
    if let Some(report) = of_environment(&config) {
        return report;
    }
    let mut report = Report::default();
    for seed in config.first_seed..config.first_seed.saturating_add(config.runs) {
        report.add(run_seed(seed, &config), &config);
    }
    let situations = config.situations.iter();
    let missing: Vec<_> = situations.filter(|it| report.situations.hits_of(it) == 0).collect();
    assert!(
        missing.is_empty() || config.runs < runs,
        "{} runs never came to what they have to come to: {missing:?}",
        report.runs
    );
    report
}

/// The run of `XDS_SIM_TAPE` in the environment, if that says one: then no other is made.
///
/// # Panics
///
/// If it breaks a rule, or is another run by now.
pub(crate) fn of_environment(config: &Config) -> Option<Report> {
    let text = env::var("XDS_SIM_TAPE").ok()?;
    let tape = text.parse().unwrap_or_else(|error| panic!("XDS_SIM_TAPE: {error}"));
    let outcome = replay(&tape, config);
    let drift = outcome.drift;
    let mut report = Report::default();
    report.add(outcome, config);
    if let Some(drift) = drift {
        panic!("XDS_SIM_TAPE: {drift}; this one breaks no rule");
    }
    Some(report)
}

impl Report {
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
