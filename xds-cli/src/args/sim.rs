//! Arguments of `xds sim`.

use std::{num::NonZeroUsize, path::PathBuf, sync::Arc, time::Duration};

use clap::{Args, Subcommand};
use xds_sim::{
    Config, Options, Tape,
    options::{Actions, Faults, Lies},
};

use super::number::{parse_count, parse_number};
use crate::output::print_to_stderr;

/// Simulate clients and management servers in virtual time and check them against the protocol.
///
/// Each seed is one run: clients and servers of this project and a network between them, with
/// injected faults. Every step is checked against the rules of the protocol. A seed produces the
/// same run on every machine.
#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    /// Run many simulations until one breaks a rule.
    ///
    /// The failing run is made smaller (shrunk) and reported with its last events and a test in
    /// Rust; with --stack or --replicas, with a tape instead of the test. The exit code is then 1.
    ///
    /// The exit code is also 1 if 8,000 runs or more never reach one of the expected
    /// situations, or if one kind of fault has no effect in any of them. This is not checked
    /// with --options or --without-oracles.
    ///
    /// After an interrupt the command finishes the current runs, reports the results and exits with
    /// code 130. A second interrupt stops it at once.
    Run(RunArgs),
    /// Repeat one run and print its events.
    Replay(ReplayArgs),
    /// Find the smallest run that breaks the same rule as a given run.
    Shrink(ShrinkArgs),
    /// List the names that --options accepts.
    Options,
}

#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// Number of runs.
    #[arg(long, value_name = "N", default_value = "1_000", value_parser = parse_count::<u64>)]
    pub(crate) seeds: u64,

    /// Run for this number of minutes instead of a number of seeds.
    #[arg(long, value_name = "MINUTES", conflicts_with = "seeds", value_parser = parse_minutes)]
    pub(crate) minutes: Option<Duration>,

    /// Seed of the first run. The following runs use the next seeds.
    #[arg(long, value_name = "SEED", default_value = "0", value_parser = parse_number::<u64>)]
    pub(crate) seed: u64,

    /// Write the timeline (HTML), the events (NDJSON), the report and a Rust test of a failing run
    /// to this directory. With --stack there is no test.
    #[arg(long, value_name = "DIR")]
    pub(crate) html: Option<PathBuf>,

    /// Continue after a failing run, and list all failing runs at the end.
    ///
    /// The report of each is written at once. The exit code is 1 if a run failed.
    #[arg(long)]
    pub(crate) keep_going: bool,

    /// Number of runs to execute in parallel [default: the number of processors].
    #[arg(long, value_name = "N", value_parser = parse_count::<NonZeroUsize>)]
    pub(crate) jobs: Option<NonZeroUsize>,

    /// Simulate the drivers too: clients and servers with their HTTP/2 and TLS on a simulated network
    /// of byte streams, instead of the protocol alone.
    #[arg(long, conflicts_with_all = ["options", "without_oracles"])]
    pub(crate) stack: bool,

    /// Simulate replicas: servers that follow one source, and clients that move between them.
    #[arg(long, conflicts_with_all = ["options", "without_oracles", "stack", "html"])]
    pub(crate) replicas: bool,

    /// Do not check the rules. This measures the speed of client and server alone.
    #[arg(long, alias = "unjudged")]
    pub(crate) without_oracles: bool,

    #[command(flatten)]
    pub(crate) fixed: FixedOptions,
}

/// Options that fix the kind of run.
#[derive(Args, Debug, Default)]
pub(crate) struct FixedOptions {
    /// Use these options instead of random ones, in the form in which reports print them, such as
    /// "clients=2 faults={reset,lag}".
    ///
    /// `xds sim options` lists the names. Omitted options have their simplest value. If actions,
    /// faults or lies are given without a number of operations, there are 20 operations; with
    /// --tape the options are used exactly as given.
    #[arg(long, value_name = "LINE", value_parser = parse_options)]
    pub(crate) options: Option<OptionLine>,
}

/// Parsed options with their original text.
#[derive(Clone, Debug)]
pub(crate) struct OptionLine {
    options: Options,
    text: String,
}

/// Default number of operations. Faults occur between operations, so zero would give none.
const OPERATIONS: u32 = 20;

impl OptionLine {
    /// Returns the options as given.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    fn names(&self, key: &str) -> bool {
        self.text.split_whitespace().any(|word| word.split_once('=').is_some_and(|it| it.0 == key))
    }

    /// Adds operations if actions, faults or lies are named, because they have no effect without.
    fn with_operations(mut self) -> Self {
        let Options { actions, faults, lies, .. } = self.options;
        let is_anything_named =
            (actions, faults, lies) != (Actions::NONE, Faults::NONE, Lies::NONE);
        if is_anything_named && !self.names("operations") {
            self.options.operations = OPERATIONS;
        }
        self
    }

    /// Lists the named options that conflict with the others, and the value that replaces each.
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

impl FixedOptions {
    /// Returns the configuration of the runs. With a tape the options are used exactly as printed.
    pub(crate) fn config(self, has_tape: bool) -> Config {
        let Some(line) = self.options else { return Config::default() };
        let changed = line.changed();
        if !changed.is_empty() {
            let changed = changed.join(", ");
            print_to_stderr(&format!("xds: some of these options cannot be combined: {changed}"));
        }
        let line = if has_tape { line } else { line.with_operations() };
        Config::default().with_fixed_options(line.options)
    }
}

/// Selects one run.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct RunSource {
    /// Seed of the run.
    #[arg(long, value_name = "SEED", value_parser = parse_number::<u64>)]
    pub(crate) seed: Option<u64>,

    /// Tape of the run, as printed in the report of a failure.
    #[arg(long, value_name = "TAPE", value_parser = parse_tape)]
    pub(crate) tape: Option<Arc<Tape>>,
}

#[derive(Args, Debug)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    pub(crate) source: RunSource,

    #[command(flatten)]
    pub(crate) fixed: FixedOptions,

    /// Simulate the drivers too: clients and servers with their HTTP/2 and TLS on a simulated network
    /// of byte streams, instead of the protocol alone.
    #[arg(long, conflicts_with_all = ["options"])]
    pub(crate) stack: bool,

    /// Simulate replicas: servers that follow one source, and clients that move between them.
    #[arg(long, conflicts_with_all = ["options", "stack", "html", "ndjson", "mermaid"])]
    pub(crate) replicas: bool,

    #[command(flatten)]
    pub(crate) form: TraceFormat,

    /// Number of last events that a diagram shows.
    #[arg(long, value_name = "N", default_value = "100", value_parser = parse_number::<usize>)]
    pub(crate) last: usize,
}

/// Output form of a run.
#[derive(Args, Debug)]
#[group(multiple = false)]
pub(crate) struct TraceFormat {
    /// Write a timeline for a browser to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Print one JSON object per event.
    #[arg(long)]
    pub(crate) ndjson: bool,

    /// Print a text diagram (default).
    #[arg(long)]
    pub(crate) text: bool,

    /// Print a Mermaid sequence diagram.
    #[arg(long)]
    pub(crate) mermaid: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ShrinkArgs {
    #[command(flatten)]
    pub(crate) source: RunSource,

    #[command(flatten)]
    pub(crate) fixed: FixedOptions,

    /// Simulate the drivers too: clients and servers with their HTTP/2 and TLS on a simulated network
    /// of byte streams, instead of the protocol alone.
    #[arg(long, conflicts_with_all = ["options"])]
    pub(crate) stack: bool,

    /// Simulate replicas: servers that follow one source, and clients that move between them.
    #[arg(long, conflicts_with_all = ["options", "stack", "html"])]
    pub(crate) replicas: bool,

    /// Maximum number of runs to try.
    #[arg(long, value_name = "N", default_value = "2_000", value_parser = parse_number::<u64>)]
    pub(crate) tries: u64,

    /// Write the results to this directory, as `xds sim run` does.
    #[arg(long, value_name = "DIR")]
    pub(crate) html: Option<PathBuf>,
}

fn parse_minutes(text: &str) -> Result<Duration, String> {
    let minutes: f64 = text.parse().map_err(|_| format!("{text:?} is not a number of minutes"))?;
    match Duration::try_from_secs_f64(minutes * 60.0) {
        Ok(time) if !time.is_zero() => Ok(time),
        Err(_) if minutes > 0.0 => Err("the number is too large".into()),
        _ if minutes.is_nan() => Err(format!("{text:?} is not a number of minutes")),
        _ => Err("must be greater than zero".into()),
    }
}

fn parse_options(text: &str) -> Result<OptionLine, String> {
    match text.parse() {
        Ok(options) => Ok(OptionLine { options, text: text.into() }),
        Err(why) => Err(why.to_string()),
    }
}

fn parse_tape(text: &str) -> Result<Arc<Tape>, String> {
    text.parse().map(Arc::new).map_err(|why| format!("invalid tape: {why}"))
}
