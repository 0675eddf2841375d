//! The run of a scenario on a stage, with the rules that hold in all runs.

use core::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Poll},
    time::Duration,
};
use std::sync::Arc;

use tokio::{
    runtime::Builder,
    time::{Sleep, sleep},
};
use xds_core::Time;

use super::{
    Stage, StageReport,
    check::StackOutcome,
    host::HostsOfThread,
    run::{
        entropy::SeededEntropy,
        executor::Executor,
        turns::{SchedulerProgress, Turns},
    },
};
use crate::{
    oracle::Rule,
    tape::Choices,
    trace::{Keep, Violation},
    world::actor::{self, Actor, Caught},
};

/// Maximum number of polls of tasks, and of turns of tokio's scheduler, at one virtual time.
const MAX_POLLS: u64 = 200_000;

/// Maximum virtual time of a run. Shorter than the 30 years after which timers of tokio elapse
/// that are set to never elapse.
const MAX_TIME: Duration = Duration::from_secs(20 * 365 * 24 * 3_600);

/// Virtual time without any event after which a run is deadlocked.
const SILENCE: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Maximum number of events of a run, which also limits a run whose keepalives never end.
const MAX_EVENTS: u64 = 3_000_000;

const NO_THREADS: Rule = Rule::new("no threads", "a run has one thread");
const NO_PANIC: Rule = Rule::new("no panic", "no task panics");
const NO_BUSY_LOOP: Rule = Rule::new("no busy loop", "tasks become idle");
const NO_DEADLOCK: Rule = Rule::new("deadlock", "a scenario ends");

const THREAD_STARTED: &str = "a thread was started, by `tokio::task::spawn_blocking` or `tokio::fs`: use \
                              `Runtime::spawn_blocking` of a host, and `std::fs`; a client of the \
                              crate `xds` needs `start_on` instead of `start`";

const OTHER_THREAD: &str =
    "a task was woken by another thread: a run cannot repeat what threads do";

pub(super) const TOKIO_BUSY: &str = "no time passes while a task of `tokio::spawn` is always ready, for seconds of \
                          real time";

const SOCKETS: &str = "; sockets of the operating system are not supported: use `Host::listen`, \
                       `Host::dial` and `Host::connector`, and `bind_on` of a server of the crate `xds`";

impl Stage {
    /// Runs a scenario with the choices of a seed.
    ///
    /// # Panics
    ///
    /// Panics if the scenario panics, with the last events of the run, or if tokio cannot create a
    /// runtime. [`check`](super::check::check) reports and shrinks such a run.
    pub fn run(seed: u64, scenario: impl AsyncFnOnce(&Self)) -> StageReport {
        Self::run_with(Choices::from_seed(seed), Keep::All, scenario)
    }

    /// Runs a scenario with these choices.
    ///
    /// # Panics
    ///
    /// Panics if the scenario panics, with the last events of the run, or if tokio cannot create a
    /// runtime. [`check`](super::check::check) reports and shrinks such a run.
    pub fn run_with(
        choices: Choices,
        keep: Keep,
        scenario: impl AsyncFnOnce(&Self),
    ) -> StageReport {
        let report = Self::record(choices, keep, scenario);
        let scenario_rule = Actor::Scenario.rule().id;
        if report.trace.violation.as_ref().is_some_and(|it| it.invariant == scenario_rule) {
            panic!("{}", StackOutcome::of(report));
        }
        report
    }

    /// Runs a scenario with these choices. A panic of the scenario is a violation.
    pub(super) fn record(
        choices: Choices,
        keep: Keep,
        scenario: impl AsyncFnOnce(&Self),
    ) -> StageReport {
        drop(actor::take_reached());
        let mut builder = Builder::new_current_thread();
        builder.enable_time().start_paused(true);
        // Without this, `tokio::select!` of applications needs `biased` to be deterministic.
        #[cfg(tokio_unstable)]
        builder.rng_seed(tokio::runtime::RngSeed::from_bytes(b"xds"));
        let has_thread = Arc::new(AtomicBool::new(false));
        let started = Arc::clone(&has_thread);
        builder.on_thread_start(move || started.store(true, Ordering::Relaxed));
        let progress = Arc::new(SchedulerProgress::new(choices.seed()));
        progress.observe(&mut builder);
        let runtime = builder.build().expect("a runtime without I/O");
        let turns = Turns::new(progress);
        let mut report = runtime.block_on(Self::play(choices, keep, &has_thread, turns, scenario));
        // Waits for threads that have not reported themselves yet.
        drop(runtime);
        if has_thread.load(Ordering::Relaxed) && report.trace.violation.is_none() {
            let Rule { id: invariant, sentence: rule } = NO_THREADS;
            let (what, at, number) = (THREAD_STARTED.into(), report.ended, report.events);
            report.trace.violation = Some(Violation { invariant, rule, what, at, number });
        }
        report
    }

    async fn play(
        mut choices: Choices,
        keep: Keep,
        has_thread: &AtomicBool,
        turns: Turns,
        scenario: impl AsyncFnOnce(&Self),
    ) -> StageReport {
        let _tasks = actor::watch_tokio_tasks();
        let _entropy = SeededEntropy::start(u64::from(choices.below("entropy", u32::MAX)));
        let _hosts = HostsOfThread::begin();
        let executor = Executor::default();
        executor.set_order(choices.below("order of tasks", u32::MAX));
        let stage = Self::new(choices, keep, executor);
        {
            let mut scenario = pin!(async {
                scenario(&stage).await;
                stage.settle().await;
            });
            let mut run = Run::new(&stage, has_thread, turns);
            poll_fn(|cx| run.turn(cx, scenario.as_mut())).await;
        }
        stage.take_panics();
        stage.end()
    }

    /// Records the panics of tasks since the last call. Returns whether there were any.
    fn take_panics(&self) -> bool {
        let hosts = self.hosts.borrow();
        let of_hosts = self.executor.take_panics().into_iter().map(|(host, panic)| {
            let name = hosts.get(host).map(|host| format!("a task of host `{}`", host.name()));
            name.map_or_else(|| panic.clone(), |name| panic.replacen("a task", &name, 1))
        });
        let mut is_any = false;
        for panic in of_hosts.chain(actor::take_task_panics()) {
            is_any = true;
            let advice = if panic.contains("IO is disabled") { SOCKETS } else { "" };
            self.violate(NO_PANIC.id, NO_PANIC.sentence, panic + advice);
        }
        is_any
    }
}

/// Run in progress.
struct Run<'a> {
    stage: &'a Stage,
    has_thread: &'a AtomicBool,
    turns: Turns,
    end: Pin<Box<Sleep>>,
    /// Time at which a task was polled last.
    active: Time,
    /// Number of polls when the time advanced last.
    polls: (Time, u64),
}

impl<'a> Run<'a> {
    fn new(stage: &'a Stage, has_thread: &'a AtomicBool, turns: Turns) -> Self {
        let (now, end) = (stage.now(), Box::pin(sleep(MAX_TIME)));
        Self { stage, has_thread, turns, end, active: now, polls: (now, 0) }
    }

    /// Polls what is ready. Completes when the scenario has ended or a rule of runs is broken.
    fn turn(&mut self, cx: &Context<'_>, scenario: Pin<&mut impl Future<Output = ()>>) -> Poll<()> {
        // The cause of a panic of the scenario may be the panic of a task that it awaits.
        if self.stage.take_panics() {
            return Poll::Ready(());
        }
        if let Some(waker) = self.turns.begin(cx, self.stage.now())
            && self.poll(&mut Context::from_waker(&waker), scenario).is_ready()
        {
            return Poll::Ready(());
        }
        match self.broken_rule() {
            Some((rule, what)) => {
                self.stage.violate(rule.id, rule.sentence, what);
                Poll::Ready(())
            }
            None => Poll::Pending,
        }
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        scenario: Pin<&mut impl Future<Output = ()>>,
    ) -> Poll<()> {
        let stage = self.stage;
        if self.end.as_mut().poll(cx).is_ready() {
            let what = if stage.now().since(self.active) < SILENCE {
                "it has not ended after 20 years of virtual time"
            } else {
                "no task is ready and no timer is set: the scenario and all tasks wait for each other"
            };
            let Rule { id, sentence } = NO_DEADLOCK;
            stage.violate_at(self.active, id, sentence, what.into());
            return Poll::Ready(());
        }
        self.active = stage.now();
        match actor::catch(Actor::Scenario, || scenario.poll(cx)) {
            Caught::Finished(Poll::Pending) => {}
            Caught::Finished(Poll::Ready(())) | Caught::Stopped => return Poll::Ready(()),
            Caught::Panicked(actor, what) => {
                let Rule { id, sentence } = actor.rule();
                stage.violate(id, sentence, what);
                return Poll::Ready(());
            }
        }
        let _ = stage.executor.poll(cx);
        if stage.take_panics() {
            return Poll::Ready(());
        }
        stage.judge_wire();
        stage.judge_memory();
        Poll::Pending
    }

    /// Returns a rule that the run breaks, and how.
    fn broken_rule(&mut self) -> Option<(Rule, String)> {
        let stage = self.stage;
        // A thread that tokio has started may also be the one that woke a task.
        if self.has_thread.load(Ordering::Relaxed) {
            return Some((NO_THREADS, THREAD_STARTED.into()));
        }
        if stage.executor.was_woken_elsewhere() {
            return Some((NO_THREADS, OTHER_THREAD.into()));
        }
        let (now, polls) = (stage.now(), stage.executor.polls());
        if now != self.polls.0 {
            self.polls = (now, polls);
        }
        if polls - self.polls.1 > MAX_POLLS {
            let what = format!("{MAX_POLLS} polls of tasks while no time passes");
            return Some((NO_BUSY_LOOP, what));
        }
        if self.turns.at_this_time() > MAX_POLLS {
            let what =
                format!("{MAX_POLLS} turns while no time passes: the scenario is always ready");
            return Some((NO_BUSY_LOOP, what));
        }
        if self.turns.is_stuck() {
            return Some((NO_BUSY_LOOP, TOKIO_BUSY.into()));
        }
        (stage.events() > MAX_EVENTS)
            .then(|| (NO_DEADLOCK, format!("it has not ended after {MAX_EVENTS} events, at {now}")))
    }
}
