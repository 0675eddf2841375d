//! `xds sim run --stack`: simulations of the drivers, of HTTP/2 and TLS.
//!
//! Each run has a tokio runtime of its own, so runs are made on other threads than those of the
//! command's runtime.

use std::{path::Path, thread, time::Duration};

use clap::ColorChoice;
use tracing::subscriber::NoSubscriber;
use xds_core::Time;
use xds_sim::{
    check::shrink::Effort,
    stack::{
        Stage,
        check::{StackOutcome, replay as replay_tape, run_seed, shrink as shrink_run},
        storm::storm,
    },
    trace::Keep,
};

use super::{
    artifacts,
    drift::{another_run, print_drift},
    interrupt::Interrupt,
    jobs::{Completed, Jobs, Sum, print_error, speed},
    shown::{print_folded, print_trace},
};
use crate::{
    args::sim::{ReplayArgs, RunArgs, RunSource, ShrinkArgs, TraceFormat},
    failure::Failure,
    numbers::{grouped, grouped_count},
    output::{self, progress::Progress},
    style::Style,
};

#[derive(Debug, Default)]
struct StackResults {
    runs: u64,
    events: u64,
    polls: u64,
    /// Sum of the virtual times of the runs.
    virtual_time: Duration,
    /// Sum of the trace hashes of the runs, modulo 2^64. It does not depend on their order.
    hash: u64,
    /// Seeds of the reported runs and the rules they broke.
    broken: Vec<(u64, &'static str)>,
}

impl Sum for StackResults {
    type Outcome = StackOutcome;
    type Failed = StackOutcome;

    fn add(&mut self, outcome: StackOutcome) -> Option<StackOutcome> {
        self.runs += 1;
        self.events += outcome.events;
        self.polls += outcome.polls;
        self.virtual_time += outcome.ended.since(Time::ZERO);
        self.hash = self.hash.wrapping_add(outcome.hash);
        outcome.is_failure().then_some(outcome)
    }

    fn note(&mut self, seed: u64, outcome: &StackOutcome) {
        self.broken.push((seed, rule_of(outcome)));
    }

    fn numbers(&self) -> [u64; 3] {
        [self.runs, self.broken.len() as u64, self.events]
    }
}

fn rule_of(outcome: &StackOutcome) -> &'static str {
    outcome.trace.violation.as_ref().map_or("", |violation| violation.invariant)
}

/// Runs `work` without logs: storms fail and recover on purpose.
fn silently<T>(work: impl FnOnce() -> T) -> T {
    tracing::subscriber::with_default(NoSubscriber::default(), work)
}

async fn scenario(stage: &Stage) {
    storm(stage).await;
}

/// Makes the run of a seed or tape, and records its events.
fn record(source: &RunSource) -> StackOutcome {
    on_a_thread(|| match (&source.tape, source.seed) {
        (Some(tape), _) => replay_tape(tape, &scenario),
        (None, seed) => run_seed(seed.unwrap_or_default(), &scenario, Keep::All),
    })
}

fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let worked = thread::scope(|scope| scope.spawn(|| silently(work)).join());
    worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

pub(super) fn run(args: &RunArgs, color: ColorChoice) -> Result<(), Failure> {
    let interrupt = Interrupt::listen()?;
    let jobs = Jobs::new(args, &interrupt);
    let folder = args.html.as_deref();
    let Completed::<StackResults> { mut sum, first, took } = jobs.execute(
        |seed| silently(|| run_seed(seed, &scenario, Keep::Hash)),
        |failed| print_error(report(failed, folder, Effort::default())),
    );
    interrupt.end_runs();
    let style = Style::of(color, &std::io::stdout());
    if let Some(first) = &first {
        report(first, folder, Effort::default())?;
    }
    let seconds = took.as_secs_f64().max(f64::EPSILON);
    let (runs, jobs) = (grouped_count(sum.runs, "run"), jobs.jobs);
    output::print(&format!("{} from {}", grouped_count(sum.runs, "seed"), args.seed))?;
    output::print(&speed(sum.events, took, jobs))?;
    output::print(&format!(
        "{}, {} h of virtual time: {} runs and {} polls a second",
        grouped_count(sum.polls, "poll"),
        grouped(sum.virtual_time.as_secs() / 3_600),
        grouped((sum.runs as f64 / seconds) as u64),
        grouped((sum.polls as f64 / seconds) as u64),
    ))?;
    output::print(&format!("hash of all traces: {:016x}", sum.hash))?;
    sum.broken.sort_unstable();
    if let Some((seed, _)) = sum.broken.first() {
        let failed = grouped(sum.broken.len() as u64);
        let replay = format!("replay: xds sim replay --stack --seed {seed}");
        for (seed, rule) in &sum.broken {
            output::print(&format!("  seed {seed} breaks {rule}"))?;
        }
        let verdict = format!("{}: {failed} of {runs} failed, {replay}", style.bad("FAILED"));
        output::print(&verdict)?;
        return Err(Failure::Verdict);
    }
    output::print(&format!("{} in {runs}", style.good("no violation")))?;
    match interrupt.is_requested() {
        true => Err(Failure::Interrupted),
        false => Ok(()),
    }
}

pub(super) fn replay(args: &ReplayArgs) -> Result<(), Failure> {
    let outcome = record(&args.source);
    let trace = &outcome.trace;
    match &args.form {
        TraceFormat { html: Some(file), .. } => {
            artifacts::write_file(file, &trace.to_html())?;
        }
        TraceFormat { ndjson: true, .. } => output::print(&trace.to_ndjson())?,
        TraceFormat { mermaid: true, .. } => output::print(&trace.to_mermaid(args.last))?,
        TraceFormat { .. } => {
            for line in &trace.header.options {
                print_folded(line)?;
            }
            print_trace(trace, args.last)?;
        }
    }
    verdict(&outcome)
}

pub(super) fn shrink(args: &ShrinkArgs) -> Result<(), Failure> {
    let outcome = record(&args.source);
    if !outcome.is_failure() {
        let why = "nothing to shrink: the run breaks no rule";
        return Err(Failure::Simulated(why.into()));
    }
    let effort = Effort { tries: usize::try_from(args.tries).unwrap_or(usize::MAX) };
    report(&outcome, args.html.as_deref(), effort)?;
    verdict(&outcome)
}

fn verdict(outcome: &StackOutcome) -> Result<(), Failure> {
    let Some(violation) = &outcome.trace.violation else {
        let drift = outcome.drift.map(|drift| Failure::Simulated(another_run(drift)));
        return drift.map_or(Ok(()), Err);
    };
    print_drift(outcome.drift);
    let run = outcome.seed.map_or_else(|| "the run".into(), |seed| format!("seed {seed}"));
    Err(Failure::Simulated(format!("{run} breaks {}", violation.invariant)))
}

/// Shrinks a failed run, prints it, and writes its timeline if a directory is given.
fn report(outcome: &StackOutcome, folder: Option<&Path>, effort: Effort) -> Result<(), Failure> {
    let mut progress = Progress::new();
    let smallest = on_a_thread(|| {
        shrink_run(outcome, &scenario, effort, &mut |now| {
            progress.show(|| {
                let (tries, limit, choices) = (now.tries, now.limit, now.choices);
                format!("shrinking: {tries} of {limit} tries, {choices} choices left")
            });
        })
    });
    print_folded(&smallest.to_string())?;
    let Some(folder) = folder else { return Ok(()) };
    let rule = rule_of(&smallest).replace(' ', "-").to_lowercase();
    let seed = outcome.seed.map_or_else(|| "tape".into(), |seed| format!("seed_{seed}"));
    let artifact = |ending: &str, content: String| {
        artifacts::write_file(&folder.join(format!("stack_{rule}_{seed}.{ending}")), &content)
    };
    artifact("html", smallest.trace.to_html())?;
    artifact("ndjson", smallest.trace.to_ndjson())?;
    artifact("txt", smallest.to_string())
}
