//! Turns of the future of a run, between which tokio polls its own tasks.
//!
//! The future does not take part while only tasks of tokio are ready. So a thread of the process
//! wakes it when a run makes no progress for some real time. A turn for this reason polls nothing
//! and thus has no effect on the run.
//!
//! Code that never returns prevents turns, so that the run cannot end. The thread reports this.

use core::{
    task::{Context, Waker},
    time::Duration,
};
use std::{
    io::{self, Write as _},
    sync::{
        Arc, Mutex, MutexGuard, Once, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::Wake,
    thread,
};

use tokio::runtime::Builder;
use xds_core::Time;

use crate::check::environment::name_of_test;

/// Real time between two checks of all runs.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Number of checks in a row without progress, with turns between them, of a run that is stuck.
const CHECKS: u64 = 100;

/// Progress of tokio's scheduler.
pub(crate) struct SchedulerProgress {
    /// Number of times that no task was ready, and of turns in which the run was woken.
    steps: AtomicU64,
    /// Number of turns, including those in which the run was not woken.
    turns: AtomicU64,
    waker: Mutex<Option<Waker>>,
    /// Description of the run.
    run: String,
}

impl SchedulerProgress {
    /// Creates the progress of a run that has not begun, of a seed or of a tape.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        let run = seed.map_or_else(|| "of a tape".into(), |seed| format!("of seed {seed}"));
        let test = name_of_test().map(|test| format!(" in the test `{test}`")).unwrap_or_default();
        Self {
            steps: AtomicU64::default(),
            turns: AtomicU64::default(),
            waker: Mutex::default(),
            run: run + &test,
        }
    }

    /// Observes the scheduler of a runtime.
    pub(crate) fn observe(self: &Arc<Self>, builder: &mut Builder) {
        let progress = Arc::clone(self);
        builder.on_thread_park(move || progress.step());
        watch(self);
    }

    fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes to standard error that the run does not end. A test harness does not capture this.
    fn report_hang(&self) {
        let Self { run, .. } = self;
        let seconds = (CHECK_INTERVAL * HANG_CHECKS).as_secs();
        // There is nobody else to report to.
        let _ = writeln!(
            io::stderr(),
            "xds-sim: the run {run} has made no progress for {seconds} s of real time: code in it \
             loops without waiting, or blocks its thread. The run cannot end. The documentation \
             of `xds_sim::app` lists what is not supported."
        );
    }

    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Number of checks in a row without progress or a turn, after which a run is reported.
const HANG_CHECKS: u32 = 100;

/// Runs in progress.
static RUNS: Mutex<Vec<WatchedRun>> = Mutex::new(Vec::new());

/// Run in progress, with its progress at the last check.
struct WatchedRun {
    progress: Weak<SchedulerProgress>,
    steps: u64,
    turns: u64,
    /// Number of checks in a row without progress or a turn.
    silent_checks: u32,
}

impl WatchedRun {
    /// Wakes the run if it makes no progress, and reports it if it does not react. Returns whether
    /// it has not ended.
    fn check(&mut self) -> bool {
        let Some(progress) = self.progress.upgrade() else { return false };
        let steps = progress.steps.load(Ordering::Relaxed);
        let turns = progress.turns.load(Ordering::Relaxed);
        let has_stepped = core::mem::replace(&mut self.steps, steps) != steps;
        let had_turn = core::mem::replace(&mut self.turns, turns) != turns;
        if !has_stepped {
            progress.waker().iter().for_each(Waker::wake_by_ref);
        }
        self.silent_checks = if has_stepped || had_turn { 0 } else { self.silent_checks + 1 };
        if self.silent_checks == HANG_CHECKS {
            progress.report_hang();
        }
        true
    }
}

/// Lets a thread wake the run whenever it makes no progress.
fn watch(progress: &Arc<SchedulerProgress>) {
    static ONCE: Once = Once::new();

    let progress = Arc::downgrade(progress);
    let run = WatchedRun { progress, steps: 0, turns: 0, silent_checks: 0 };
    RUNS.lock().unwrap_or_else(PoisonError::into_inner).push(run);
    ONCE.call_once(|| {
        // Without the thread, a busy loop does not end.
        let _ = thread::Builder::new().name("xds-sim watchdog".into()).spawn(|| {
            loop {
                thread::sleep(CHECK_INTERVAL);
                let mut runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
                runs.retain_mut(WatchedRun::check);
            }
        });
    });
}

/// Turns of one run.
pub(crate) struct Turns {
    progress: Arc<SchedulerProgress>,
    own: Option<(Arc<TurnWaker>, Waker)>,
    /// Virtual time of the last turn in which the run was woken, and the number of these turns then.
    instant: (Time, u64),
    /// Steps at the last turn in which the run was not woken, and the number of these turns since.
    checked: (u64, u64),
}

/// Waker of the run that records whether it was used.
struct TurnWaker {
    is_woken: AtomicBool,
    outer: Waker,
}

impl Wake for TurnWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Relaxed);
        self.outer.wake_by_ref();
    }
}

impl Turns {
    pub(crate) const fn new(progress: Arc<SchedulerProgress>) -> Self {
        Self { progress, own: None, instant: (Time::ZERO, 0), checked: (0, 0) }
    }

    /// Begins a turn. Returns the waker to poll with, if the run was woken.
    pub(crate) fn begin(&mut self, cx: &Context<'_>, now: Time) -> Option<Waker> {
        let Self { progress, own, .. } = self;
        progress.turns.fetch_add(1, Ordering::Relaxed);
        let (own, waker) = own.get_or_insert_with(|| {
            *progress.waker() = Some(cx.waker().clone());
            let (is_woken, outer) = (AtomicBool::new(true), cx.waker().clone());
            let own = Arc::new(TurnWaker { is_woken, outer });
            (Arc::clone(&own), own.into())
        });
        if own.is_woken.swap(false, Ordering::Relaxed) {
            progress.step();
            let before = if self.instant.0 == now { self.instant.1 } else { 0 };
            self.instant = (now, before + 1);
            return Some(waker.clone());
        }
        let steps = progress.steps.load(Ordering::Relaxed);
        let before = if self.checked.0 == steps { self.checked.1 } else { 0 };
        self.checked = (steps, before + 1);
        None
    }

    /// Number of turns since virtual time has advanced.
    pub(crate) const fn at_this_time(&self) -> u64 {
        self.instant.1
    }

    /// Whether tasks of tokio have been ready for a long real time, without any progress.
    pub(crate) const fn is_stuck(&self) -> bool {
        self.checked.1 > CHECKS
    }
}

/// The hooks of a runtime must not keep the runtime alive.
impl Drop for Turns {
    fn drop(&mut self) {
        *self.progress.waker() = None;
    }
}
