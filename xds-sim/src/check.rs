//! Making runs, one by one or many, and saying what went wrong in one.

use std::{
    any::{Any, TypeId},
    env, fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::{
    options::Options,
    shrink::{Effort, shrink},
    situations::Situations,
    storm::storm,
    tape::{Choices, Span, Tape},
    trace::{Keep, Trace, Violation},
    world::{Application, ControlPlane, World},
};

/// What is made anew for each client or server of a run: it is given the position.
type Make<T> = Arc<dyn Fn(usize) -> Box<T> + Send + Sync>;

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
    scenario: Scenario,
    /// Which function the scenario is.
    scenario_type: TypeId,
    fixed: Option<Options>,
    adjust: Option<Adjust>,
    pub(crate) control_plane: Option<Make<dyn ControlPlane>>,
    pub(crate) application: Option<Make<dyn Application>>,
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
    /// each server of a run and after each restart.
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

    /// What it takes to have one of the runs again.
    fn remake(&self) -> Remake {
        let is_own = self.scenario_type != type_of(&storm)
            || self.control_plane.is_some()
            || self.application.is_some();
        match self.fixed.is_some() || self.adjust.is_some() {
            _ if is_own => Remake::Config,
            true => Remake::Options,
            false => Remake::Tape,
        }
    }

    /// What the environment says of the runs: `XDS_SIM_SEED` is the first seed, `XDS_SIM_RUNS` how many
    /// runs there are. What is not a number is passed over.
    #[must_use]
    pub fn with_environment(mut self) -> Self {
        let number = |name| env::var(name).ok().and_then(|text| text.trim().parse().ok());
        self.runs = number("XDS_SIM_RUNS").unwrap_or(self.runs);
        if let Some(seed) = number("XDS_SIM_SEED") {
            self.first_seed = seed;
            self.runs = number("XDS_SIM_RUNS").unwrap_or(1);
        }
        self
    }

    /// The options of a run, which may be the first answers of its tape.
    pub(crate) fn options(&self, choices: &mut Choices) -> Options {
        let mut options = match &self.fixed {
            Some(fixed) => fixed.clone(),
            None => Options::draw(choices),
        };
        if let Some(adjust) = &self.adjust {
            adjust(&mut options);
        }
        options
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

/// A run that was made.
struct Ran {
    outcome: Outcome,
    trace: Trace,
    /// Its choices, if it went wrong.
    broken: Option<Tape>,
}

fn run(mut choices: Choices, seed: Option<u64>, config: &Config, keep: Keep) -> Ran {
    let options = config.options(&mut choices);
    let drawn = choices.taken().len();
    let mut world = World::new(options, choices, config, keep);
    let scenario = catch_unwind(AssertUnwindSafe(|| {
        (config.scenario)(&mut world);
    }));
    if let Err(panic) = scenario {
        world.note_panic(&text_of(panic.as_ref()));
    }
    let ended = world.end();
    let mut trace = ended.trace;
    trace.header.seed = seed;
    let tape = ended.choices.to_tape();
    if ended.violation.is_some() || seed.is_none() {
        trace.header.tape = Some(tape.to_string());
    }
    let broken = ended.violation.is_some().then(|| tape.clone());
    let failure = ended.violation.zip(broken.clone()).map(|(violation, tape)| Failure {
        seed,
        options: ended.options.clone(),
        violation,
        tape,
        spans: ended.choices.spans().to_vec(),
        drawn,
        remake: config.remake(),
        trace: trace.clone(),
    });
    let outcome = Outcome {
        seed,
        options: ended.options,
        events: ended.events,
        hash: ended.hash,
        tape,
        situations: ended.situations,
        violation: failure,
    };
    Ran { outcome, trace, broken }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".into())
}

/// Makes many runs of a scenario: for tests. `XDS_SIM_SEED`, `XDS_SIM_RUNS` and `XDS_SIM_TAPE` in the
/// environment choose other runs than the configuration says.
///
/// # Panics
///
/// If a rule is broken in one of them, or the scenario panics: with the seed, the options, the rule, and the
/// smallest run that breaks it.
pub fn check(config: &Config, scenario: impl Fn(&mut World) + Send + Sync + 'static) -> Report {
    let scenario_type = type_of(&scenario);
    let config = Config { scenario_type, scenario: Arc::new(scenario), ..config.clone() };
    let config = config.with_environment();
    let mut report = Report::default();
    if let Ok(text) = env::var("XDS_SIM_TAPE") {
        let tape = text.parse().unwrap_or_else(|error| panic!("XDS_SIM_TAPE: {error}"));
        report.add(replay(&tape, &config), &config);
        return report;
    }
    for seed in config.first_seed..config.first_seed.saturating_add(config.runs) {
        report.add(run_seed(seed, &config), &config);
    }
    report
}

impl Report {
    fn add(&mut self, outcome: Outcome, config: &Config) {
        if let Some(failure) = outcome.violation {
            let mut tries = 0;
            let smallest = shrink(&failure, config, &mut |progress| tries = progress.tries);
            let text = smallest.to_text(Some((&failure, tries)));
            panic!("{text}\nas a test:\n\n{}", smallest.to_test());
        }
        self.runs += 1;
        self.events += outcome.events;
        self.situations.add(&outcome.situations);
    }
}
