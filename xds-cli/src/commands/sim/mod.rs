//! `xds sim`: simulations of clients and servers in virtual time.

mod artifacts;
mod interrupt;
mod many;
mod progress;

use std::{fs, path::Path};

use clap::ColorChoice;
use xds_sim::{
    Config, Failure as Broken, Outcome, options, record_seed, record_tape, shrink, tape::Drift,
    trace::Trace,
};

use self::progress::Progress;
use crate::{
    args::{
        SimCommand,
        sim::{ReplayArgs, RunSource, ShrinkArgs, TraceFormat},
    },
    failure::Failure,
    output,
    text::count,
};

pub(crate) fn run(command: SimCommand, color: ColorChoice) -> Result<(), Failure> {
    match command {
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
            fs::write(&file, trace.to_html()).map_err(|why| Failure::Artifact { file, why })?;
        }
        TraceFormat { ndjson: true, .. } => output::print(&trace.to_ndjson())?,
        TraceFormat { mermaid: true, .. } => output::print(&trace.to_mermaid(args.last))?,
        TraceFormat { .. } => {
            output::print(&format!("options: {}", outcome.options))?;
            output::print(&trace.to_text(args.last))?;
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

/// Describes a replayed tape that led to another run than the recorded one.
fn another_run(drift: Drift) -> String {
    format!("{drift}; this run breaks no rule")
}

fn print_drift(drift: Option<Drift>) {
    if let Some(drift) = drift {
        output::print_to_stderr(&format!("xds: {drift}"));
    }
}

fn record(source: &RunSource, config: &Config) -> (Outcome, Trace) {
    match (&source.tape, source.seed) {
        (Some(tape), _) => record_tape(tape, config),
        (None, seed) => record_seed(seed.unwrap_or_default(), config),
    }
}

/// Reports a failed run, and returns an error.
fn report_failure(broken: &Broken, config: &Config, folder: Option<&Path>) -> Result<(), Failure> {
    report(broken, config, folder)?;
    Err(failure_of(broken))
}

/// Shrinks a failed run and prints its report.
fn report(broken: &Broken, config: &Config, folder: Option<&Path>) -> Result<(), Failure> {
    let mut progress = Progress::new();
    let mut tries = 0;
    let mut smallest = shrink(broken, config, &mut |now| {
        tries = now.tries;
        progress.show(|| {
            let (tries, limit, choices) = (now.tries, now.limit, now.choices);
            format!("shrinking: {tries} of {limit} tries, {choices} choices left")
        });
    });
    progress.clear();
    smallest.seed = broken.seed;
    output::print(&smallest.to_text(Some((broken, tries))))?;
    match folder {
        Some(folder) => {
            for file in artifacts::write(folder, broken, &smallest, tries)? {
                output::print(&format!("written: {}", file.display()))?;
            }
        }
        None => output::print(&format!("as a test:\n\n{}", smallest.to_test()))?,
    }
    Ok(())
}

fn failure_of(broken: &Broken) -> Failure {
    let run = broken.seed.map_or_else(|| "the run".into(), |seed| format!("seed {seed}"));
    Failure::Simulated(format!("{run} breaks {}", broken.violation.invariant))
}

/// Formats a number with separators, such as `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a number with a noun: `1 run`, `12,345 runs`.
fn grouped_count(number: u64, what: &str) -> String {
    match number {
        1 => count(1_u64, what),
        _ => format!("{} {what}s", grouped(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_have_commas() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(grouped_count(1, "run"), "1 run");
        assert_eq!(grouped_count(1_000, "run"), "1,000 runs");
    }
}
