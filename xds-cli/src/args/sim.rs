//! What can be said of simulations.

use std::{num::NonZeroUsize, path::PathBuf, sync::Arc, time::Duration};

use clap::{Args, Subcommand};
use xds_sim::{
    Config, Options, Tape,
    check::number_of,
    options::{Actions, Faults, Lies},
};

use crate::output::complain;

/// Simulate clients and management servers in virtual time, and judge what they do.
///
/// Each seed is a run: some clients and servers of this project, a network, and whatever may go wrong
/// between them, judged at every step by the rules of the protocol. A seed gives the same run on every
/// machine.
#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    /// Make many runs, until one breaks a rule.
    ///
    /// That one is made smaller and told with its last events and a test in Rust, and the exit code is 1.
    /// An interrupt ends it when the runs under way are over, tells what they came to, and the exit code is 130; the
    /// next interrupt ends it at once.
    ///
    /// The exit code is 1 also if 8,000 runs or more never come to a situation that they should come to, or if something
    /// that can go wrong takes effect in none of them; but not with --options or --unjudged.
    Run(RunArgs),
    /// Make one run again and show what happens in it.
    Replay(ReplayArgs),
    /// Make a run that breaks a rule as small as it can be.
    Shrink(ShrinkArgs),
    /// List what can be said of runs in --options.
    Options,
}

#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// How many runs to make.
    #[arg(long, value_name = "N", default_value = "1_000", value_parser = parse_count)]
    pub(crate) seeds: u64,

    /// For how many minutes to make runs instead: as many as there is time for.
    #[arg(long, value_name = "MINUTES", conflicts_with = "seeds", value_parser = parse_minutes)]
    pub(crate) minutes: Option<Duration>,

    /// The seed of the first one; the others have the next ones.
    #[arg(long, value_name = "SEED", default_value = "0", value_parser = parse_number)]
    pub(crate) seed: u64,

    /// Where to put the timeline of what broke a rule: with it go the events as NDJSON, the report and a test
    /// in Rust.
    #[arg(long, value_name = "DIR")]
    pub(crate) html: Option<PathBuf>,

    /// Go on after a run that breaks a rule, and list all of them in the end.
    ///
    /// Of each the report is written as soon as it is there. The exit code is 1 if there is any.
    #[arg(long)]
    pub(crate) keep_going: bool,

    /// How many runs to make beside each other; without it as many as there are processors.
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,

    /// Judge nothing: how fast are the cores alone?
    #[arg(long)]
    pub(crate) unjudged: bool,

    #[command(flatten)]
    pub(crate) fixed: Fixed,
}

/// What kind of run it is.
#[derive(Args, Debug, Default)]
pub(crate) struct Fixed {
    /// Do not draw the options of a run, but take these, as they are printed; what is left out is as tame as
    /// can be. `xds sim options` lists them.
    ///
    /// An example is "clients=2 faults={reset,lag}". Where actions, faults or lies are named, there are 20
    /// operations unless it is said how many; but with --tape all is taken as it is printed.
    #[arg(long, value_name = "LINE", value_parser = parse_options)]
    pub(crate) options: Option<Line>,
}

/// Options as somebody wrote them.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    options: Options,
    text: String,
}

/// What goes wrong does so between operations, of which there are none by default.
const OPERATIONS: u32 = 20;

impl Line {
    fn names(&self, key: &str) -> bool {
        self.text.split_whitespace().any(|word| word.split_once('=').is_some_and(|it| it.0 == key))
    }

    /// For whoever wants that to happen which is named.
    fn with_operations(mut self) -> Self {
        let Options { actions, faults, lies, .. } = self.options;
        let is_anything_named =
            (actions, faults, lies) != (Actions::NONE, Faults::NONE, Lies::NONE);
        if is_anything_named && !self.names("operations") {
            self.options.operations = OPERATIONS;
        }
        self
    }

    /// What is named and does not go together with the rest, and what it is then.
    fn changed(&self) -> Vec<String> {
        let (named, fitting) =
            (self.options.to_string(), self.options.clone().fitting().to_string());
        let words = named.split_whitespace().zip(fitting.split_whitespace());
        let changed = words.filter(|(named, fitting)| {
            let key = named.split_once('=').map_or(*named, |it| it.0);
            named != fitting && self.names(key)
        });
        changed.map(|(named, fitting)| format!("{named} becomes {fitting}")).collect()
    }
}

impl Fixed {
    /// How runs are made with them. A tape belongs to options just as they were printed.
    pub(crate) fn config(self, has_tape: bool) -> Config {
        let Some(line) = self.options else { return Config::default() };
        let changed = line.changed();
        if !changed.is_empty() {
            let changed = changed.join(", ");
            complain(&format!("xds: not all of these options go together: {changed}"));
        }
        let line = if has_tape { line } else { line.with_operations() };
        Config::default().with_fixed_options(line.options)
    }
}

/// Which run.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct Source {
    /// The run of this seed.
    #[arg(long, value_name = "SEED", value_parser = parse_number)]
    pub(crate) seed: Option<u64>,

    /// The run of this tape, as a report of a failure has it.
    #[arg(long, value_name = "TAPE", value_parser = parse_tape)]
    pub(crate) tape: Option<Arc<Tape>>,
}

#[derive(Args, Debug)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    pub(crate) source: Source,

    #[command(flatten)]
    pub(crate) fixed: Fixed,

    #[command(flatten)]
    pub(crate) form: Form,

    /// How many of the last events a diagram has.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) last: usize,
}

/// How to show a run.
#[derive(Args, Debug)]
#[group(multiple = false)]
pub(crate) struct Form {
    /// As a timeline in this file, for a browser.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// As one JSON object for each event.
    #[arg(long)]
    pub(crate) ndjson: bool,

    /// As a diagram of characters (the default).
    #[arg(long)]
    pub(crate) text: bool,

    /// As a Mermaid sequence diagram.
    #[arg(long)]
    pub(crate) mermaid: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ShrinkArgs {
    #[command(flatten)]
    pub(crate) source: Source,

    #[command(flatten)]
    pub(crate) fixed: Fixed,

    /// How many runs to make for it at most.
    #[arg(long, value_name = "N", default_value = "2_000", value_parser = parse_number)]
    pub(crate) tries: u64,

    /// Where to put the timeline, as for `xds sim run`.
    #[arg(long, value_name = "DIR")]
    pub(crate) html: Option<PathBuf>,
}

fn parse_minutes(text: &str) -> Result<Duration, String> {
    let minutes: f64 = text.parse().map_err(|_| format!("{text:?} is no number of minutes"))?;
    let time = Duration::try_from_secs_f64(minutes * 60.0).ok();
    time.filter(|time| !time.is_zero()).ok_or_else(|| "it has to be a time".into())
}

/// A number as `XDS_SIM_SEED` takes it.
fn parse_number(text: &str) -> Result<u64, String> {
    number_of(text).ok_or_else(|| "it is no number such as 7, 1_000 or 0x5eed".into())
}

fn parse_count(text: &str) -> Result<u64, String> {
    let number = parse_number(text)?;
    if number > 0 { Ok(number) } else { Err("there has to be one at least".into()) }
}

fn parse_options(text: &str) -> Result<Line, String> {
    match text.parse() {
        Ok(options) => Ok(Line { options, text: text.into() }),
        Err(why) => Err(why.to_string()),
    }
}

fn parse_tape(text: &str) -> Result<Arc<Tape>, String> {
    text.parse().map(Arc::new).map_err(|why| format!("this is no tape: {why}"))
}
