//! `xds sim`: simulations of clients and servers in virtual time.

mod artifacts;
mod drift;
mod interrupt;
mod jobs;
mod many;
mod replicas;
mod report;
mod shown;
mod stack;

use clap::ColorChoice;
use xds_sim::{Config, Outcome, options, record_seed, record_tape, trace::Trace};

use self::{
    drift::{another_run, print_drift},
    report::{failure_of, report_failure},
    shown::{print_folded, print_trace},
};
use crate::{
    args::{
        SimCommand,
        sim::{ReplayArgs, RunSource, ShrinkArgs, TraceFormat},
    },
    failure::Failure,
    output,
};

pub(crate) fn run(command: SimCommand, color: ColorChoice) -> Result<(), Failure> {
    let folder = match &command {
        SimCommand::Run(args) => args.html.as_deref(),
        SimCommand::Shrink(args) => args.html.as_deref(),
        SimCommand::Replay(_) | SimCommand::Options => None,
    };
    folder.map_or(Ok(()), artifacts::prepare)?;
    match command {
        SimCommand::Run(args) if args.stack => stack::run(&args, color),
        SimCommand::Replay(args) if args.stack => stack::replay(&args),
        SimCommand::Shrink(args) if args.stack => stack::shrink(&args),
        SimCommand::Run(args) if args.replicas => replicas::run(&args, color),
        SimCommand::Replay(args) if args.replicas => replicas::replay(&args),
        SimCommand::Shrink(args) if args.replicas => replicas::shrink(&args),
        SimCommand::Run(args) => many::run(args, color),
        SimCommand::Replay(args) => replay(args),
        SimCommand::Shrink(args) => shrink_one(args),
        SimCommand::Options => output::print(&options::listing()),
    }
}

fn replay(args: ReplayArgs) -> Result<(), Failure> {
    let (outcome, trace) = record(&args.source, &args.fixed.config(args.source.tape.is_some()));
    match args.form {
        TraceFormat { html: Some(file), .. } => {
            artifacts::write_file(&file, &trace.to_html())?;
        }
        TraceFormat { ndjson: true, .. } => output::print(&trace.to_ndjson())?,
        TraceFormat { mermaid: true, .. } => output::print(&trace.to_mermaid(args.last))?,
        TraceFormat { .. } => {
            print_folded(&format!("options: {}", outcome.options))?;
            print_trace(&trace, args.last)?;
        }
    }
    match (outcome.violation, outcome.drift) {
        (None, None) => Ok(()),
        (None, Some(drift)) => Err(Failure::Simulated(another_run(drift))),
        (Some(broken), drift) => {
            print_drift(drift);
            Err(failure_of(&broken))
        }
    }
}

fn shrink_one(args: ShrinkArgs) -> Result<(), Failure> {
    let mut config = args.fixed.config(args.source.tape.is_some());
    config.effort.tries = usize::try_from(args.tries).unwrap_or(usize::MAX);
    let (outcome, _) = record(&args.source, &config);
    let Some(broken) = outcome.violation else {
        let why = outcome.drift.map_or_else(|| "the run breaks no rule".into(), another_run);
        return Err(Failure::Simulated(format!("nothing to shrink: {why}")));
    };
    print_drift(outcome.drift);
    report_failure(&broken, &config, args.html.as_deref())
}

fn record(source: &RunSource, config: &Config) -> (Outcome, Trace) {
    match (&source.tape, source.seed) {
        (Some(tape), _) => record_tape(tape, config),
        (None, seed) => record_seed(seed.unwrap_or_default(), config),
    }
}
