//! Turns of the future of a run, between which tokio polls its own tasks.
//!
//! The future does not take part while only tasks of tokio are ready. So a thread of the process
//! wakes it when a run makes no progress for some real time. A turn for this reason polls nothing
//! and thus has no effect on the run.

use core::{
    task::{Context, Waker},
    time::Duration,
};
use std::{
    sync::{
        Arc, Mutex, MutexGuard, Once, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::Wake,
    thread,
};

use tokio::runtime::Builder;
use xds_core::Time;

/// Real time between two checks of all runs.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Number of checks in a row without progress, with turns between them, of a run that is stuck.
const CHECKS: u64 = 100;

/// Progress of tokio's scheduler.
#[derive(Default)]
pub(crate) struct SchedulerProgress {
    /// Number of times that no task was ready, and of turns in which the run was woken.
    steps: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

impl SchedulerProgress {
    /// Observes the scheduler of a runtime.
    pub(crate) fn observe(self: &Arc<Self>, builder: &mut Builder) {
        let progress = Arc::clone(self);
        builder.on_thread_park(move || progress.step());
        watch(self);
    }

    fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs in progress, with their steps at the last check.
static RUNS: Mutex<Vec<(Weak<SchedulerProgress>, u64)>> = Mutex::new(Vec::new());

/// Lets a thread wake the run whenever it makes no progress.
fn watch(progress: &Arc<SchedulerProgress>) {
    static ONCE: Once = Once::new();

    RUNS.lock().unwrap_or_else(PoisonError::into_inner).push((Arc::downgrade(progress), 0));
    ONCE.call_once(|| {
        // Without the thread, a busy loop does not end.
        let _ = thread::Builder::new().name("xds-sim watchdog".into()).spawn(|| {
            loop {
                thread::sleep(CHECK_INTERVAL);
                check_all();
            }
        });
    });
}

fn check_all() {
    RUNS.lock().unwrap_or_else(PoisonError::into_inner).retain_mut(|(run, before)| {
        let Some(run) = run.upgrade() else { return false };
        let steps = run.steps.load(Ordering::Relaxed);
        if core::mem::replace(before, steps) == steps {
            run.waker().iter().for_each(Waker::wake_by_ref);
        }
        true
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
