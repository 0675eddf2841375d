//! Configuration of runs.

use std::{any::TypeId, fmt, sync::Arc};

use super::{environment::select_seeds, shrink::Effort};
use crate::{
    options::{Mixture, Options},
    oracle::{self, Oracle},
    storm::storm,
    tape::Choices,
    world::{
        Application, ControlPlane, Participants, World,
        actor::{Actor, act_as},
    },
};

/// Constructor of an oracle, called once per run with the options of the run.
type OracleFactory = Arc<dyn Fn(&Options) -> Box<dyn Oracle> + Send + Sync>;

type Scenario = Arc<dyn Fn(&mut World) + Send + Sync>;

type Adjust = Arc<dyn Fn(&mut Options) + Send + Sync>;

/// Configuration of one or more simulation runs.
#[derive(Clone)]
pub struct Config {
    /// Seed of the first run. Each further run uses the next seed. Default: 0.
    pub first_seed: u64,
    /// Number of runs that [`check`](crate::check()) makes. Default: 1,000.
    pub runs: u64,
    /// Whether oracles check the runs. Default: all of them.
    pub oracle_mode: OracleMode,
    /// Limit on the work that [`check`](crate::check()) spends on shrinking a failure.
    pub effort: Effort,
    pub(crate) scenario: Scenario,
    /// Type of the scenario function, which distinguishes a storm from a user-defined scenario.
    scenario_type: TypeId,
    fixed: Option<Options>,
    adjust: Option<Adjust>,
    pub(crate) participants: Participants,
    pub(crate) oracles: Vec<OracleFactory>,
    pub(super) situations: Vec<&'static str>,
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
            participants: Participants::default(),
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

    /// Sets the options of all runs, instead of drawing them from the seed.
    ///
    /// The tape of such a run starts after the options, so it stays valid when later versions of
    /// this crate add options. [`Options`] can also be parsed from the line that
    /// [`Display`](core::fmt::Display) prints.
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
        self.participants.control_plane = Some(Arc::new(make));
        self
    }

    /// Adds a user-defined application that receives the notifications of each client's watches.
    #[must_use]
    pub fn with_application(
        mut self,
        make: impl Fn(usize) -> Box<dyn Application> + Send + Sync + 'static,
    ) -> Self {
        self.participants.application = Some(Arc::new(make));
        self
    }

    /// Adds a user-defined oracle. A new instance is made for each run, from the options of the
    /// run.
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

    /// Requires that at least one of the runs reaches a situation.
    ///
    /// The situation is one counted with [`sometimes`](crate::sometimes()) or a [predefined
    /// one](crate::Situation::as_str). [`check`](crate::check()) fails if no run reaches it, unless the environment
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
            "the configuration already has a scenario: use Config::default() for another one"
        );
        Self { scenario_type, scenario: Arc::new(scenario), ..self.clone() }
    }

    /// Returns the inputs needed to reproduce one of the runs.
    pub(crate) fn reproduction(&self) -> Reproduction {
        let is_own = self.scenario_type != type_of(&storm)
            || self.participants.control_plane.is_some()
            || self.participants.application.is_some()
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
    /// Panics if one of the variables is not a number, because the result would be about unintended
    /// runs, and if there are no runs.
    #[must_use]
    pub fn with_environment(mut self) -> Self {
        let seeds = select_seeds(self.first_seed..self.first_seed.saturating_add(self.runs));
        (self.first_seed, self.runs) = (seeds.start, seeds.end - seeds.start);
        self
    }

    /// Creates the oracles of a run with these options.
    pub(super) fn oracles(&self, options: &Options) -> Vec<Box<dyn Oracle>> {
        match self.oracle_mode {
            OracleMode::On => {
                let own = self.oracles.iter().map(|make| {
                    let _guard = act_as(Actor::Oracle);
                    make(options)
                });
                oracle::all(options).into_iter().chain(own).collect()
            }
            OracleMode::Off => Vec::new(),
        }
    }

    /// Returns the options of a run. They are drawn from the start of the tape unless they are
    /// fixed.
    ///
    /// # Panics
    ///
    /// Panics if the caller's changes made the options [invalid](Options::check).
    pub(crate) fn options(&self, choices: &mut Choices) -> Options {
        let mut options = match &self.fixed {
            Some(fixed) => fixed.clone(),
            None => Options::draw(choices),
        };
        if self.participants.control_plane.is_some() && self.fixed.is_none() {
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
