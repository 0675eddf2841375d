//! A stage: hosts, a network, and the run of a scenario on them.

use core::{fmt, future::poll_fn, net::SocketAddr, pin::pin, task::Poll, time::Duration};
use std::{
    cell::RefCell,
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::SystemTime,
};

use tokio::{runtime::Builder, task::yield_now, time::sleep};
use xds_core::Time;

use super::{
    files::FileWatches,
    host::{Host, HostShared},
    messages::MessageJudge,
    network::{Conditions, DialOutcome, Network},
    run::{entropy::SeededEntropy, executor::Executor, log::Log},
};
use crate::{
    tape::Choices,
    trace::{Header, Keep, ParticipantKind, Phase, Trace, Violation},
    world::actor,
};

/// Hosts with a network between them, in virtual time.
pub struct Stage {
    pub(super) executor: Executor,
    pub(super) network: Network,
    log: Log,
    choices: RefCell<Choices>,
    pub(super) hosts: RefCell<Vec<Host>>,
    /// Judge of messages; `None` if they are not judged.
    pub(super) judge: RefCell<Option<MessageJudge>>,
    violation: RefCell<Option<Violation>>,
    description: RefCell<Vec<String>>,
}

/// Date at the start of a run, 2030-01-01 00:00 UTC, since 1970.
const START_DATE: Duration = Duration::from_secs(1_893_456_000);

/// Maximum number of polls of tasks at one virtual time.
const MAX_POLLS: u64 = 200_000;

/// Violations by code that a run cannot repeat: identifier, rule, and text.
type Unsupported = (&'static str, &'static str, &'static str);

const THREAD_STARTED: Unsupported = (
    "no threads",
    "a run has one thread",
    "a thread was started, by `tokio::task::spawn_blocking` or `tokio::fs`: use \
     `Runtime::spawn_blocking` of a host, and `std::fs`",
);

const OTHER_THREAD: Unsupported = (
    "no threads",
    "a run has one thread",
    "a task was woken by another thread: a run cannot repeat what threads do",
);

const SOCKETS: &str = "; sockets of the operating system are not supported: use `Host::listen`, \
                       `Host::dial` and `Host::connector`";

/// Result of a run on a stage.
#[derive(Debug)]
#[non_exhaustive]
pub struct StageReport {
    /// Events of the run, with their hash, and the violation if there was one.
    pub trace: Trace,
    /// Values chosen in the run.
    pub choices: Choices,
    /// Number of events.
    pub events: u64,
    /// Number of times that a task was polled.
    pub polls: u64,
    /// Virtual time at the end of the run.
    pub ended: Time,
}

impl Stage {
    /// Runs a scenario with the choices of a seed.
    ///
    /// # Panics
    ///
    /// Panics if the scenario panics, or if tokio cannot create a runtime.
    pub fn run(seed: u64, scenario: impl AsyncFnOnce(&Self)) -> StageReport {
        Self::run_with(Choices::from_seed(seed), Keep::All, scenario)
    }

    /// Runs a scenario with these choices.
    ///
    /// # Panics
    ///
    /// Panics if the scenario panics, or if tokio cannot create a runtime.
    pub fn run_with(
        choices: Choices,
        keep: Keep,
        scenario: impl AsyncFnOnce(&Self),
    ) -> StageReport {
        let mut builder = Builder::new_current_thread();
        builder.enable_time().start_paused(true);
        // Without this, `tokio::select!` of applications needs `biased` to be deterministic.
        #[cfg(tokio_unstable)]
        builder.rng_seed(tokio::runtime::RngSeed::from_bytes(b"xds"));
        let has_thread = Arc::new(AtomicBool::new(false));
        let started = Arc::clone(&has_thread);
        builder.on_thread_start(move || started.store(true, Ordering::Relaxed));
        let runtime = builder.build().expect("a runtime without I/O");
        let mut report = runtime.block_on(Self::play(choices, keep, &has_thread, scenario));
        // Waits for threads that have not reported themselves yet.
        drop(runtime);
        if has_thread.load(Ordering::Relaxed) && report.trace.violation.is_none() {
            let (at, number) = (report.ended, report.events);
            let (invariant, rule, what) = THREAD_STARTED;
            let what = what.to_owned();
            report.trace.violation = Some(Violation { invariant, rule, what, at, number });
        }
        report
    }

    async fn play(
        mut choices: Choices,
        keep: Keep,
        has_thread: &AtomicBool,
        scenario: impl AsyncFnOnce(&Self),
    ) -> StageReport {
        let _tasks = actor::watch_tokio_tasks();
        let _entropy = SeededEntropy::start(u64::from(choices.below("entropy", u32::MAX)));
        let executor = Executor::default();
        executor.set_order(choices.below("order of tasks", u32::MAX));
        let log = Log::new(keep);
        let stage = Self {
            network: Network::new(log.clone(), executor.memory().clone()),
            executor: executor.clone(),
            log,
            choices: RefCell::new(choices),
            hosts: RefCell::default(),
            judge: RefCell::default(),
            violation: RefCell::default(),
            description: RefCell::default(),
        };
        {
            let mut scenario = pin!(async {
                scenario(&stage).await;
                stage.settle().await;
            });
            let mut instant = (stage.now(), executor.polls());
            poll_fn(|cx| {
                if scenario.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                let _ = executor.poll(cx);
                let unsupported = if executor.was_woken_elsewhere() {
                    Some(OTHER_THREAD)
                } else {
                    has_thread.load(Ordering::Relaxed).then_some(THREAD_STARTED)
                };
                if let Some((invariant, rule, what)) = unsupported {
                    stage.violate(invariant, rule, what);
                    return Poll::Ready(());
                }
                stage.judge_wire();
                stage.judge_memory();
                let (now, polls) = (stage.now(), executor.polls());
                if now != instant.0 {
                    instant = (now, polls);
                } else if polls - instant.1 > MAX_POLLS {
                    let what = format!("{MAX_POLLS} polls of tasks while no time passes");
                    stage.violate("no busy loop", "tasks become idle", what);
                    return Poll::Ready(());
                }
                Poll::Pending
            })
            .await;
        }
        for panic in executor.take_panics().into_iter().chain(actor::take_task_panics()) {
            let advice = if panic.contains("IO is disabled") { SOCKETS } else { "" };
            stage.violate("no panic", "no task panics", panic + advice);
        }
        stage.end()
    }

    fn end(self) -> StageReport {
        let ended = self.log.now();
        let header = Header::new(None, self.description.take());
        let events = self.log.events();
        let trace = self.log.finish(header, self.violation.take());
        let hosts = self.hosts.take();
        for host in &hosts {
            self.kill(host);
        }
        let polls = self.executor.polls();
        StageReport { trace, choices: self.choices.into_inner(), events, polls, ended }
    }

    /// Adds a host. The name service resolves its name.
    #[must_use]
    pub fn host(&self, name: &str) -> Host {
        self.host_of_kind(name, ParticipantKind::Client)
    }

    /// Adds a host whose column in a diagram is that of a server.
    #[must_use]
    pub fn server_host(&self, name: &str) -> Host {
        self.host_of_kind(name, ParticipantKind::Server)
    }

    fn host_of_kind(&self, name: &str, kind: ParticipantKind) -> Host {
        let lane = self.log.lane(kind, name);
        let (id, address) = self.network.add_host(lane);
        self.network.set_name(name, Ok(vec![address]), Duration::ZERO);
        let host = Host {
            shared: Arc::new(HostShared {
                name: name.into(),
                id,
                address,
                lane,
                executor: self.executor.clone(),
                network: self.network.clone(),
                log: self.log.clone(),
                file_watches: FileWatches::default(),
                start_date: Mutex::new(SystemTime::UNIX_EPOCH + START_DATE),
            }),
        };
        self.hosts.borrow_mut().push(host.clone());
        host
    }

    /// Drops all tasks of a host, as if its processes were killed. Its connections are closed. The
    /// host stays reachable, and tasks can be spawned on it again.
    ///
    /// # Panics
    ///
    /// Panics if it is called by a task of this host.
    pub fn kill(&self, host: &Host) {
        self.executor.kill(host.shared.id);
        self.network.close_all(host.shared.id);
    }

    /// Lets the host lose its power: its connections are lost without a sign, then its tasks are
    /// dropped.
    ///
    /// # Panics
    ///
    /// Panics if it is called by a task of this host.
    pub fn power_off(&self, host: &Host) {
        for other in self.hosts.borrow().iter() {
            self.network.cut(host.shared.id, other.shared.id);
        }
        self.kill(host);
    }

    /// Sets the answer of the name service for a name: addresses, or an error. The answer takes
    /// `delay`.
    pub fn set_name(
        &self,
        name: &str,
        answer: Result<Vec<core::net::IpAddr>, io::ErrorKind>,
        delay: Duration,
    ) {
        self.network.set_name(name, answer, delay);
    }

    /// Sets what happens to attempts to connect to an address.
    pub fn set_reach(&self, address: SocketAddr, reach: DialOutcome) {
        self.network.set_reach(address, reach);
    }

    /// Sets the maximum number of connections that wait until a listener accepts them. Further
    /// attempts get no answer.
    pub fn set_backlog(&self, address: SocketAddr, backlog: usize) {
        self.network.set_backlog(address, backlog);
    }

    /// Sets the conditions from one host to another, also of existing connections.
    pub fn set_conditions(&self, from: &Host, to: &Host, conditions: Conditions) {
        self.network.set_conditions(from.shared.id, to.shared.id, conditions);
    }

    /// Stops all traffic between two hosts. Nothing is lost until [`heal`](Self::heal).
    pub fn partition(&self, one: &Host, other: &Host) {
        self.network.set_partitioned(one.shared.id, other.shared.id, true);
    }

    /// Resumes the traffic between two hosts.
    pub fn heal(&self, one: &Host, other: &Host) {
        self.network.set_partitioned(one.shared.id, other.shared.id, false);
    }

    /// Resets the connections between two hosts. Bytes on their way are lost.
    pub fn reset(&self, one: &Host, other: &Host) {
        self.network.reset(one.shared.id, other.shared.id);
    }

    /// Loses the connections between two hosts without a sign to either: bytes vanish.
    pub fn lose_connections(&self, one: &Host, other: &Host) {
        self.network.cut(one.shared.id, other.shared.id);
    }

    /// Closes one direction of the connections between two hosts.
    pub fn close_direction(&self, from: &Host, to: &Host) {
        self.network.close_direction(from.shared.id, to.shared.id);
    }

    /// Sends a GOAWAY on the HTTP/2 connections without TLS from one host to another, as a proxy
    /// between them may do.
    pub fn go_away(&self, from: &Host, to: &Host) {
        self.network.go_away(from.shared.id, to.shared.id);
    }

    /// Lets a proxy send a GOAWAY on each new HTTP/2 connection without TLS from one host to another,
    /// right after the server's SETTINGS.
    pub fn set_going_away(&self, from: &Host, to: &Host, goes_away: bool) {
        self.network.set_going_away(from.shared.id, to.shared.id, goes_away);
    }

    /// Draws a number below `bound`, or zero if `bound` is zero.
    pub fn below(&self, label: &'static str, bound: u32) -> u32 {
        self.choices.borrow_mut().below(label, bound)
    }

    /// Returns the choices of the run.
    pub fn choices(&self) -> core::cell::RefMut<'_, Choices> {
        self.choices.borrow_mut()
    }

    /// Adds a line to the header of the trace.
    pub fn describe(&self, line: impl Into<String>) {
        self.description.borrow_mut().push(line.into());
    }

    /// Records that the next phase begins.
    pub fn phase(&self, phase: Phase) {
        self.log.phase(phase);
    }

    /// Virtual time since the start of the run.
    #[must_use]
    pub fn now(&self) -> Time {
        self.log.now()
    }

    /// Number of open connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.network.connections()
    }

    /// Number of tasks that have not ended.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.executor.tasks()
    }

    /// Records that a rule was broken. The first violation counts.
    pub fn violate(&self, invariant: &'static str, rule: &'static str, what: impl Into<String>) {
        let number = self.log.events();
        let violation = Violation { invariant, rule, what: what.into(), at: self.now(), number };
        self.violation.borrow_mut().get_or_insert(violation);
    }

    /// Whether a rule was broken.
    #[must_use]
    pub fn is_violated(&self) -> bool {
        self.violation.borrow().is_some()
    }

    /// Lets all tasks run until nothing is ready at this virtual time.
    pub async fn settle(&self) {
        const TURNS: usize = 64;

        loop {
            let before = (self.executor.polls(), self.log.actions());
            for _ in 0..TURNS {
                yield_now().await;
            }
            if (self.executor.polls(), self.log.actions()) == before {
                return;
            }
        }
    }

    /// The kick oracle: wakes every task while nothing is ready, and reports a violation if anything
    /// visible happens. A task that returned [`Poll::Pending`] with all its wakers registered finds
    /// nothing to do; if it does something, a wake-up was lost. No virtual time passes, so no timer
    /// can be the cause.
    ///
    /// Returns whether a wake-up was lost.
    pub async fn kick(&self) -> bool {
        self.settle().await;
        let before = self.log.actions();
        self.executor.kick();
        self.settle().await;
        let after = self.log.actions();
        if after != before {
            let what = format!("{} actions after all tasks were woken", after - before);
            self.violate("no-lost-wake-up", "Waking a task that waits has no effect.", what);
        }
        after != before
    }

    /// Waits until `condition` holds, for at most `limit` of virtual time. Returns whether it does.
    /// Checks it after 5 ms, then ever more rarely, at last every second.
    pub async fn until(&self, limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
        const FIRST_STEP: Duration = Duration::from_millis(5);
        const LONGEST_STEP: Duration = Duration::from_secs(1);

        let mut step = FIRST_STEP;
        let end = tokio::time::Instant::now() + limit;
        loop {
            if condition() {
                return true;
            }
            if tokio::time::Instant::now() >= end {
                return false;
            }
            sleep(step).await;
            step = (step * 2).min(LONGEST_STEP);
        }
    }

    /// Whether bytes are on their way.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.network.is_quiet()
    }
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage").field("tasks", &self.tasks()).finish_non_exhaustive()
    }
}
