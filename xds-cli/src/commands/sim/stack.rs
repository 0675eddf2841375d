//! `xds sim run --stack`: simulations of the drivers, of HTTP/2 and TLS.
//!
//! Each run has a tokio runtime of its own, so runs are made on other threads than those of the
//! command's runtime.

use std::{
    fs,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use clap::ColorChoice;
use tracing::subscriber::NoSubscriber;
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
    interrupt::Interrupt,
    numbers::{grouped, grouped_count},
    progress::Progress,
};
use crate::{
    args::sim::{ReplayArgs, RunArgs, RunSource, ShrinkArgs, TraceFormat},
    failure::Failure,
    output,
    style::Style,
};

/// Interval of progress updates.
const TICK: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
struct StackResults {
    runs: u64,
    events: u64,
    polls: u64,
    hash: u64,
    /// Failed runs.
    failed: Vec<StackOutcome>,
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
    let jobs = args.jobs.or_else(|| thread::available_parallelism().ok());
    let jobs = jobs.map_or(1, |jobs| jobs.get() as u64);
    let interrupt = Interrupt::listen()?;
    let started = Instant::now();
    let mut sum = execute(args, jobs, &interrupt);
    let took = started.elapsed();
    interrupt.end_runs();
    sum.failed.sort_by_key(|outcome| outcome.seed);
    let style = Style::of(color, &std::io::stdout());
    if let Some(first) = sum.failed.first() {
        let seed = first.seed.unwrap_or_default();
        report(first, args.html.as_deref(), Effort::default())?;
        let verdict = format!(
            "{} of {} failed, replay: xds sim replay --stack --seed {seed}",
            grouped(sum.failed.len() as u64),
            grouped_count(sum.runs, "run"),
        );
        output::print(&format!("{}: {verdict}", style.bad("FAILED")))?;
        return Err(Failure::Verdict);
    }
    let seconds = took.as_secs_f64().max(f64::EPSILON);
    output::print(&format!("{} from {}", grouped_count(sum.runs, "seed"), args.seed))?;
    output::print(&format!(
        "{} and {} in {seconds:.1} s: {} runs and {} polls a second in each of {jobs} jobs",
        grouped_count(sum.events, "event"),
        grouped_count(sum.polls, "poll"),
        grouped((sum.runs as f64 / seconds / jobs as f64) as u64),
        grouped((sum.polls as f64 / seconds / jobs as f64) as u64),
    ))?;
    output::print(&format!("hash of all traces: {:016x}", sum.hash))?;
    output::print(&format!(
        "{} in {}",
        style.good("no violation"),
        grouped_count(sum.runs, "run")
    ))?;
    match interrupt.is_requested() {
        true => Err(Failure::Interrupted),
        false => Ok(()),
    }
}

/// Executes the runs. Without `--keep-going`, runs with lower seeds than that of a failed run are
/// still executed, so that the result does not depend on the number of jobs.
fn execute(args: &RunArgs, jobs: u64, interrupt: &Interrupt) -> StackResults {
    let started = Instant::now();
    let seeds = if args.minutes.is_some() { u64::MAX } else { args.seeds };
    let sum = Mutex::new(StackResults::default());
    let (next, lowest) = (AtomicU64::new(0), AtomicU64::new(seeds));
    thread::scope(|scope| {
        let job = || {
            loop {
                let is_over = args.minutes.is_some_and(|time| started.elapsed() >= time);
                if is_over || interrupt.is_requested() {
                    return;
                }
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= lowest.load(Ordering::Relaxed) {
                    return;
                }
                let outcome = run_seed(args.seed.wrapping_add(at), &scenario, Keep::Hash);
                let Ok(mut sum) = sum.lock() else { return };
                sum.runs += 1;
                sum.events += outcome.events;
                sum.polls += outcome.polls;
                sum.hash = sum.hash.wrapping_add(outcome.hash);
                if outcome.is_failure() {
                    if !args.keep_going {
                        lowest.fetch_min(at, Ordering::Relaxed);
                    }
                    sum.failed.push(outcome);
                }
            }
        };
        let workers: Vec<_> =
            (0..jobs.min(seeds)).map(|_| scope.spawn(move || silently(job))).collect();
        let mut progress = Progress::new();
        while !workers.iter().all(thread::ScopedJoinHandle::is_finished) {
            thread::sleep(TICK);
            let Ok(sum) = sum.lock() else { break };
            progress.show(|| {
                let failed = grouped_count(sum.failed.len() as u64, "violation");
                format!("{}, {failed}", grouped_count(sum.runs, "seed"))
            });
        }
        progress.clear();
    });
    sum.into_inner().unwrap_or_default()
}

pub(super) fn replay(args: &ReplayArgs) -> Result<(), Failure> {
    let outcome = record(&args.source);
    let trace = &outcome.trace;
    match &args.form {
        TraceFormat { html: Some(file), .. } => {
            let written = fs::write(file, trace.to_html());
            written.map_err(|why| Failure::Artifact { file: file.clone(), why })?;
        }
        TraceFormat { ndjson: true, .. } => output::print(&trace.to_ndjson())?,
        TraceFormat { mermaid: true, .. } => output::print(&trace.to_mermaid(args.last))?,
        TraceFormat { .. } => {
            for line in &trace.header.options {
                output::print(line)?;
            }
            output::print(&trace.to_text(args.last))?;
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
    let Some(violation) = &outcome.trace.violation else { return Ok(()) };
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
    output::print(&smallest.to_string())?;
    let Some(folder) = folder else { return Ok(()) };
    let artifact = |name: &str, content: String| {
        let file = folder.join(name);
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(&file, content));
        written.map_err(|why| Failure::Artifact { file: file.clone(), why })?;
        output::print(&format!("written: {}", file.display()))
    };
    artifact("timeline.html", smallest.trace.to_html())?;
    artifact("events.ndjson", smallest.trace.to_ndjson())?;
    artifact("report.txt", smallest.to_string())
}
