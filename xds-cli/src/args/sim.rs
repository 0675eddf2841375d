//! What can be said of simulations.

use std::{num::NonZeroUsize, path::PathBuf, sync::Arc, time::Duration};

use clap::{Args, Subcommand};
use xds_sim::{Config, Options, Tape};

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
    /// It is 1 also if 8,000 runs or more never come to a situation that they should come to.
    Run(RunArgs),
    /// Make one run again and show what happens in it.
    Replay(ReplayArgs),
    /// Make a run that breaks a rule as small as it can be.
    Shrink(ShrinkArgs),
}

#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// How many runs to make.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seeds: u64,

    /// For how many minutes to make runs instead: as many as there is time for.
    #[arg(long, value_name = "MINUTES", conflicts_with = "seeds", value_parser = parse_minutes)]
    pub(crate) minutes: Option<Duration>,

    /// The seed of the first one; the others have the next ones.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub(crate) seed: u64,

    /// Where to put the timeline of what broke a rule: with it go the events as NDJSON, the report and a test
    /// in Rust.
    #[arg(long, value_name = "DIR")]
    pub(crate) html: Option<PathBuf>,

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
    /// can be.
    #[arg(long, value_name = "LINE")]
    pub(crate) options: Option<Options>,
}

impl Fixed {
    /// How runs are made with them.
    pub(crate) fn config(self) -> Config {
        match self.options {
            Some(options) => Config::default().with_fixed_options(options),
            None => Config::default(),
        }
    }
}

/// Which run.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct Source {
    /// The run of this seed.
    #[arg(long, value_name = "SEED")]
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
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    pub(crate) tries: usize,

    /// Where to put the timeline, as for `xds sim run`.
    #[arg(long, value_name = "DIR")]
    pub(crate) html: Option<PathBuf>,
}

fn parse_minutes(text: &str) -> Result<Duration, String> {
    let minutes: f64 = text.parse().map_err(|_| format!("{text:?} is no number of minutes"))?;
    let time = Duration::try_from_secs_f64(minutes * 60.0).ok();
    time.filter(|time| !time.is_zero()).ok_or_else(|| "it has to be a time".into())
}

fn parse_tape(text: &str) -> Result<Arc<Tape>, String> {
    text.parse().map(Arc::new).map_err(|why| format!("this is no tape: {why}"))
}
