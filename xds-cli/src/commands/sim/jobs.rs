//! Runs of many seeds in parallel.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use super::interrupt::Interrupt;
use crate::{
    args::sim::RunArgs,
    numbers::{grouped, grouped_count},
    output::{self, progress::Progress},
    text::count,
};

/// Interval of progress updates.
const TICK: Duration = Duration::from_millis(100);

/// Runs of many seeds.
#[derive(Debug)]
pub(super) struct Jobs<'a> {
    args: &'a RunArgs,
    pub(super) seeds: u64,
    pub(super) jobs: u64,
    interrupt: &'a Interrupt,
}

/// Sum of the runs so far, and its failures.
pub(super) trait Sum: Default + Send {
    /// Outcome of one run.
    type Outcome;
    /// Failed run, to be reported.
    type Failed: Send;

    /// Adds a run. Returns its failure.
    fn add(&mut self, outcome: Self::Outcome) -> Option<Self::Failed>;

    /// Records a failure that is reported at once.
    fn note(&mut self, seed: u64, failed: &Self::Failed);

    /// Numbers of runs, failures and events.
    fn numbers(&self) -> [u64; 3];
}

/// Sum of all runs, and the failure with the lowest seed that was not reported at once.
#[derive(Debug)]
pub(super) struct Completed<S: Sum> {
    pub(super) sum: S,
    pub(super) first: Option<S::Failed>,
    pub(super) took: Duration,
}

impl<'a> Jobs<'a> {
    pub(super) fn new(args: &'a RunArgs, interrupt: &'a Interrupt) -> Self {
        let jobs = args.jobs.or_else(|| thread::available_parallelism().ok());
        let seeds = if args.minutes.is_some() { u64::MAX } else { args.seeds };
        let jobs = jobs.map_or(1, |jobs| jobs.get() as u64).min(seeds);
        Self { args, seeds, jobs, interrupt }
    }

    /// Executes the runs.
    ///
    /// After a failure, runs with lower seeds are still executed, so that the result does not depend
    /// on the number of jobs. With `--keep-going` all runs are executed, and `report` is called with
    /// each failure at once.
    pub(super) fn execute<S: Sum>(
        &self,
        run: impl Fn(u64) -> S::Outcome + Sync,
        report: impl Fn(&S::Failed),
    ) -> Completed<S> {
        let Self { args, seeds, jobs, interrupt } = self;
        let started = Instant::now();
        let sum = Mutex::new((S::default(), None));
        let next = AtomicU64::new(0);
        let lowest = AtomicU64::new(*seeds);
        // A job that finds a failure waits while another report is written.
        let (found, reports) = mpsc::sync_channel::<S::Failed>(1);
        thread::scope(|scope| {
            for _ in 0..*jobs {
                let found = found.clone();
                let (sum, next, lowest, run) = (&sum, &next, &lowest, &run);
                scope.spawn(move || {
                    loop {
                        let is_over = args.minutes.is_some_and(|time| started.elapsed() >= time);
                        if is_over || interrupt.is_requested() {
                            return;
                        }
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        if at >= lowest.load(Ordering::Relaxed) {
                            return;
                        }
                        let seed = args.seed.wrapping_add(at);
                        let outcome = run(seed);
                        let mut locked = lock(sum);
                        let Some(failed) = locked.0.add(outcome) else { continue };
                        if args.keep_going {
                            locked.0.note(seed, &failed);
                            drop(locked);
                            let _ = found.send(failed);
                        } else if lowest.fetch_min(at, Ordering::Relaxed) > at {
                            locked.1 = Some((seed, failed));
                        }
                    }
                });
            }
            drop(found);
            let mut progress = Progress::new();
            loop {
                match reports.recv_timeout(TICK) {
                    Err(RecvTimeoutError::Disconnected) => break,
                    Err(RecvTimeoutError::Timeout) => {
                        let numbers = lock(&sum).0.numbers();
                        progress.show(|| self.progress_text(numbers, started.elapsed()));
                    }
                    Ok(failed) => {
                        progress.clear();
                        report(&failed);
                    }
                }
            }
            progress.clear();
        });
        let (mut sum, first) = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
        let first = first.map(|(seed, failed)| {
            sum.note(seed, &failed);
            failed
        });
        Completed { sum, first, took: started.elapsed() }
    }

    fn progress_text(&self, [runs, failed, events]: [u64; 3], took: Duration) -> String {
        let runs = match self.args.minutes {
            None => format!("{} of {} seeds", grouped(runs), grouped(self.seeds)),
            Some(time) => {
                let left = time.saturating_sub(took).as_secs();
                format!("{}, {left} s left", grouped_count(runs, "seed"))
            }
        };
        let failed = match failed {
            0 => String::new(),
            failed => format!(", {}", count(failed, "violation")),
        };
        format!("{runs}{failed}, {}", speed(events, took, self.jobs))
    }
}

fn lock<T>(sum: &Mutex<T>) -> MutexGuard<'_, T> {
    // No run is made under this lock.
    sum.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Formats the speed. An event is one delivered message or one timer.
pub(super) fn speed(events: u64, took: Duration, jobs: u64) -> String {
    let seconds = took.as_secs_f64().max(f64::EPSILON);
    let each = events as f64 / seconds / jobs as f64;
    let beside = if jobs == 1 { String::new() } else { format!(" in each of {jobs} jobs") };
    format!(
        "{} in {seconds:.1} s: {} a second{beside}",
        grouped_count(events, "event"),
        grouped(each as u64)
    )
}

/// Prints an error of a report, such as a full disk, which does not stop the search.
pub(super) fn print_error(reported: Result<(), crate::failure::Failure>) {
    if let Err(why) = reported
        && !why.is_silent()
    {
        output::print_to_stderr(&format!("xds: {why}"));
    }
}
