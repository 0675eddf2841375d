//! `xds sim run`: many runs in parallel.

use std::{
    fmt::{Display, Write as _},
    io, mem,
};

use clap::ColorChoice;
use xds_sim::{Effects, Failure as Broken, Outcome, Situations, check::OracleMode, run_seed};

use super::{
    interrupt::Interrupt,
    jobs::{Completed, Jobs, Sum, print_error, speed},
    report::report,
};
use crate::{
    args::sim::RunArgs,
    failure::Failure,
    numbers::{grouped, grouped_count},
    output,
    style::Style,
    text::count,
};

/// Results of the runs so far.
#[derive(Debug, Default)]
struct RunResults {
    runs: u64,
    events: u64,
    /// Sum of the trace hashes of the runs, modulo 2^64. It does not depend on their order.
    hash: u64,
    situations: Situations,
    /// Seeds of the reported runs and the rules they broke.
    broken: Vec<(u64, &'static str)>,
}

impl Sum for RunResults {
    type Outcome = Outcome;
    type Failed = Broken;

    fn add(&mut self, outcome: Outcome) -> Option<Broken> {
        self.runs += 1;
        self.events += outcome.events;
        self.hash = self.hash.wrapping_add(outcome.hash);
        self.situations.add(&outcome.situations);
        outcome.violation
    }

    fn note(&mut self, seed: u64, broken: &Broken) {
        self.broken.push((seed, broken.violation.invariant));
    }

    fn numbers(&self) -> [u64; 3] {
        [self.runs, self.broken.len() as u64, self.events]
    }
}

pub(super) fn run(mut args: RunArgs, color: ColorChoice) -> Result<(), Failure> {
    // Runs with fixed options do not reach all situations.
    let is_fixed = args.fixed.options.is_some();
    let options = args.fixed.options.as_ref().map(|it| it.text().to_owned());
    let mut config = mem::take(&mut args.fixed).config(false);
    if args.without_oracles {
        config.oracle_mode = OracleMode::Off;
    }
    let interrupt = Interrupt::listen()?;
    let jobs = Jobs::new(&args, &interrupt);
    let Completed::<RunResults> { mut sum, first, took } = jobs.execute(
        |seed| run_seed(seed, &config),
        |broken| print_error(report(broken, &config, args.html.as_deref())),
    );
    interrupt.end_runs();

    if let Some(broken) = first {
        report(&broken, &config, args.html.as_deref())?;
        return failed(&violated(&sum, options.as_deref()), color);
    }
    let style = Style::of(color, &io::stdout());
    let violations = count(sum.broken.len() as u64, "violation");
    output::print(&format!(
        "{} from {}: {}",
        grouped_count(sum.runs, "seed"),
        args.seed,
        match sum.broken.is_empty() {
            _ if args.without_oracles => style.quiet("rules not checked"),
            true => style.good("no violation"),
            false => style.bad(&*violations),
        },
    ))?;
    output::print(&speed(sum.events, took, jobs.jobs))?;
    output::print(&format!("hash of all traces: {:016x}", sum.hash))?;
    if !args.without_oracles {
        output::print(&situations(&sum.situations, !is_fixed))?;
        output::print(&effects(sum.situations.effects(), !is_fixed))?;
    }
    if !sum.broken.is_empty() {
        sum.broken.sort_unstable();
        output::print(&list(&sum.broken))?;
        return failed(&violated(&sum, options.as_deref()), color);
    }
    let is_covered = match interrupt.is_requested() || args.without_oracles || is_fixed {
        true => Ok(()),
        false => require_full_coverage(&sum),
    };
    if let Err(why) = is_covered {
        return failed(&why.to_string(), color);
    }
    let runs = grouped_count(sum.runs, "run");
    output::print(&match args.without_oracles {
        true => format!("rules not checked in {runs}"),
        false => format!("{} in {runs}", style.good("no violation")),
    })?;
    match interrupt.is_requested() {
        true => Err(Failure::Interrupted),
        false => Ok(()),
    }
}

/// Prints the verdict of runs that failed, as the last line.
fn failed(why: &str, color: ColorChoice) -> Result<(), Failure> {
    let style = Style::of(color, &io::stdout());
    output::print(&format!("{}: {why}", style.bad("FAILED")))?;
    Err(Failure::Verdict)
}

/// Describes the violations, with the command that repeats the first one.
fn violated(sum: &RunResults, options: Option<&str>) -> String {
    let (broken, runs) = (sum.broken.len() as u64, grouped_count(sum.runs, "run"));
    let mut rules: Vec<_> = sum.broken.iter().map(|(_, rule)| *rule).collect();
    rules.sort_unstable();
    rules.dedup();
    let (verb, seed) = (if broken == 1 { "violates" } else { "violate" }, sum.broken.first());
    let seed = seed.map_or(0, |(seed, _)| *seed);
    let options = options.map(|line| format!(" --options \"{line}\"")).unwrap_or_default();
    format!(
        "{} of {runs} {verb} {}, replay: xds sim replay --seed {seed}{options}",
        grouped(broken),
        rules.join(", ")
    )
}

fn list(broken: &[(u64, &str)]) -> String {
    let lines: Vec<_> =
        broken.iter().map(|(seed, rule)| format!("\n  seed {seed} breaks {rule}")).collect();
    format!("violations:{}", lines.concat())
}

/// Returns an error if enough runs did not reach every situation and every effect.
fn require_full_coverage(sum: &RunResults) -> Result<(), Failure> {
    if sum.runs < Situations::ENOUGH_RUNS {
        return Ok(());
    }
    let missing = sum.situations.missing().map(|it| format!("{:?}", it.as_str()));
    let idle = sum.situations.effects().missing().map(|it| it.to_string());
    let reports = [
        missing_text("never reached", "situation", missing.collect()),
        missing_text("never had", "effect", idle.collect()),
    ];
    let missing_text: Vec<_> = reports.into_iter().flatten().collect();
    match missing_text.is_empty() {
        true => Ok(()),
        false => {
            let runs = grouped_count(sum.runs, "run");
            Err(Failure::Simulated(format!("{runs} {}", missing_text.join(" and "))))
        }
    }
}

/// Describes missing situations or effects; `None` if none is missing.
fn missing_text(what: &str, noun: &str, names: Vec<String>) -> Option<String> {
    let noun = count(names.len() as u64, noun);
    (!names.is_empty()).then(|| format!("{what} {noun}: {}", names.join(", ")))
}

fn situations(situations: &Situations, are_required: bool) -> String {
    table("situations reached", situations.iter(), are_required)
}

fn effects(effects: &Effects, are_required: bool) -> String {
    table("effects", effects.iter(), are_required)
}

/// Formats how often each situation or effect occurred.
fn table(
    title: &str,
    rows: impl Iterator<Item = (impl Display, u64)>,
    are_required: bool,
) -> String {
    let rows: Vec<_> = rows.collect();
    let missing = rows.iter().filter(|(_, hits)| *hits == 0).count();
    let demand = match missing > 0 && are_required {
        true => format!(" (all are required in {})", grouped_count(Situations::ENOUGH_RUNS, "run")),
        false => String::new(),
    };
    let mut text = format!("{title}, {} of {}{demand}:", rows.len() - missing, rows.len());
    for (row, hits) in rows {
        let hits = if hits == 0 { "never".into() } else { grouped(hits) };
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {hits:>12}  {row}");
    }
    text
}

#[cfg(test)]
mod tests {
    use xds_sim::{Situation, effects::Effect, options::Fault};

    use super::*;

    /// Results of `runs` runs that reached everything except these situations and effects.
    fn runs_without(runs: u64, missing: &[Situation], idle: &[Effect]) -> RunResults {
        let mut sum = RunResults { runs, ..RunResults::default() };
        for situation in Situation::ALL.into_iter().filter(|it| !missing.contains(it)) {
            sum.situations.note(situation);
        }
        for kind in Effect::all().filter(|it| !idle.contains(it)) {
            sum.situations.note_effect(kind);
        }
        sum
    }

    #[test]
    fn rare_situations_are_required_only_of_many_runs() {
        let error_text = |runs, missing: &[Situation], idle: &[Effect]| {
            let demanded = require_full_coverage(&runs_without(runs, missing, idle));
            demanded.err().map(|failure| failure.to_string())
        };
        let few = Situations::ENOUGH_RUNS - 1;
        let all: Vec<Effect> = Effect::all().collect();
        assert_eq!(error_text(few, &Situation::ALL, &all), None);
        assert_eq!(error_text(few + 1, &[], &[]), None);
        assert_eq!(
            error_text(few + 1, &[Situation::IdleClose], &[]).as_deref(),
            Some("8,000 runs never reached 1 situation: \"idle stream closed\"")
        );
        let two = error_text(few + 1, &[Situation::IdleClose, Situation::StaleNonce], &[]).unwrap();
        assert!(two.starts_with("8,000 runs never reached 2 situations: "), "{two}");
        assert_eq!(
            error_text(few + 1, &[], &[Fault::Reset.into(), Fault::End.into()]).as_deref(),
            Some("8,000 runs never had 2 effects: fault reset, fault end")
        );
    }
}
