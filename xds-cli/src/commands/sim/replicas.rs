//! `xds sim run --replicas`: simulations of servers that follow one source.

use clap::ColorChoice;
use xds_sim::{
    check::shrink::Effort,
    replicas::{
        ReplicaSituations,
        check::{ReplicaOutcome, replay as replay_tape, run_seed, shrink as shrink_run},
    },
};

use super::{
    drift::{another_run, print_drift},
    interrupt::Interrupt,
    jobs::{Completed, Jobs, Sum, print_error, speed},
    shown::print_folded,
};
use crate::{
    args::sim::{ReplayArgs, RunArgs, RunSource, ShrinkArgs},
    failure::Failure,
    numbers::{grouped, grouped_count},
    output::{self, progress::Progress},
    style::Style,
};

#[derive(Debug, Default)]
struct ReplicaResults {
    runs: u64,
    events: u64,
    /// Sum of the hashes of the runs, modulo 2^64. It does not depend on their order.
    hash: u64,
    situations: ReplicaSituations,
    /// Seeds of the reported runs and the rules they broke.
    broken: Vec<(u64, &'static str)>,
}

impl Sum for ReplicaResults {
    type Outcome = ReplicaOutcome;
    type Failed = ReplicaOutcome;

    fn add(&mut self, outcome: ReplicaOutcome) -> Option<ReplicaOutcome> {
        self.runs += 1;
        self.events += outcome.events;
        self.hash = self.hash.wrapping_add(outcome.hash);
        self.situations.add(&outcome.situations);
        outcome.violation.is_some().then_some(outcome)
    }

    fn note(&mut self, seed: u64, outcome: &ReplicaOutcome) {
        self.broken.push((seed, rule_of(outcome)));
    }

    fn numbers(&self) -> [u64; 3] {
        [self.runs, self.broken.len() as u64, self.events]
    }
}

fn rule_of(outcome: &ReplicaOutcome) -> &'static str {
    outcome.violation.as_ref().map_or("", |violation| violation.invariant)
}

/// Makes the run of a seed or tape, and records its events.
fn record(source: &RunSource) -> ReplicaOutcome {
    match (&source.tape, source.seed) {
        (Some(tape), _) => replay_tape(tape, None),
        (None, seed) => run_seed(seed.unwrap_or_default(), None, true),
    }
}

pub(super) fn run(args: &RunArgs, color: ColorChoice) -> Result<(), Failure> {
    let interrupt = Interrupt::listen()?;
    let jobs = Jobs::new(args, &interrupt);
    let Completed::<ReplicaResults> { mut sum, first, took } = jobs.execute(
        |seed| run_seed(seed, None, false),
        |failed| print_error(report(failed, Effort::default())),
    );
    interrupt.end_runs();
    if let Some(first) = &first {
        report(first, Effort::default())?;
    }
    let style = Style::of(color, &std::io::stdout());
    let runs = grouped_count(sum.runs, "run");
    output::print(&format!("{} from {}", grouped_count(sum.runs, "seed"), args.seed))?;
    output::print(&speed(sum.events, took, jobs.jobs))?;
    output::print(&format!("hash of all runs: {:016x}", sum.hash))?;
    output::print(&format!("situations:{}", sum.situations.to_text()))?;
    sum.broken.sort_unstable();
    if let Some((seed, _)) = sum.broken.first() {
        let failed = grouped(sum.broken.len() as u64);
        let replay = format!("replay: xds sim replay --replicas --seed {seed}");
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
    for line in outcome.log.iter().skip(outcome.log.len().saturating_sub(args.last)) {
        print_folded(line)?;
    }
    verdict(&outcome)
}

pub(super) fn shrink(args: &ShrinkArgs) -> Result<(), Failure> {
    let outcome = record(&args.source);
    if outcome.violation.is_none() {
        let why = "nothing to shrink: the run breaks no rule";
        return Err(Failure::Simulated(why.into()));
    }
    report(&outcome, Effort { tries: usize::try_from(args.tries).unwrap_or(usize::MAX) })?;
    verdict(&outcome)
}

fn verdict(outcome: &ReplicaOutcome) -> Result<(), Failure> {
    let Some(violation) = &outcome.violation else {
        let drift = outcome.drift.map(|drift| Failure::Simulated(another_run(drift)));
        return drift.map_or(Ok(()), Err);
    };
    print_drift(outcome.drift);
    let run = outcome.seed.map_or_else(|| "the run".into(), |seed| format!("seed {seed}"));
    Err(Failure::Simulated(format!("{run} breaks {}", violation.invariant)))
}

/// Shrinks a failed run and prints it.
fn report(outcome: &ReplicaOutcome, effort: Effort) -> Result<(), Failure> {
    let mut progress = Progress::new();
    let smallest = shrink_run(outcome, None, effort, &mut |now| {
        progress.show(|| {
            let (tries, limit, choices) = (now.tries, now.limit, now.choices);
            format!("shrinking: {tries} of {limit} tries, {choices} choices left")
        });
    });
    output::print(&smallest.to_string())
}
