//! A stage: hosts, a network, and the run of a scenario on them.

use core::{fmt, net::SocketAddr, time::Duration};
use std::{
    cell::RefCell,
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex},
    time::SystemTime,
};

use tokio::{task::yield_now, time::sleep};
use xds_core::Time;

use super::{
    files::FileWatches,
    host::{Host, HostShared, HostsOfThread},
    messages::MessageJudge,
    network::{Conditions, DialOutcome, Network},
    run::{executor::Executor, log::Log},
};
use crate::{
    tape::Choices,
    trace::{Extent, Header, Keep, ParticipantKind, Phase, Trace, Violation},
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
    /// Number of faults that changed something.
    pub faults: u64,
    /// Situations counted with [`sometimes`](crate::sometimes()).
    pub situations: BTreeMap<&'static str, u64>,
}

impl Stage {
    pub(super) fn new(choices: Choices, keep: Keep, executor: Executor) -> Self {
        let log = Log::new(keep);
        Self {
            network: Network::new(log.clone(), executor.memory().clone()),
            executor,
            log,
            choices: RefCell::new(choices),
            hosts: RefCell::default(),
            judge: RefCell::default(),
            violation: RefCell::default(),
            description: RefCell::default(),
        }
    }

    pub(super) fn end(self) -> StageReport {
        let ended = self.log.now();
        let header = Header::new(None, self.description.take());
        let (events, faults) = (self.log.events(), self.log.faults());
        let trace = self.log.finish(header, self.violation.take());
        let hosts = self.hosts.take();
        for host in &hosts {
            self.kill(host);
        }
        let polls = self.executor.polls();
        StageReport {
            trace,
            choices: self.choices.into_inner(),
            events,
            polls,
            ended,
            faults,
            situations: actor::take_reached(),
        }
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
        let (id, address) = self.network.add_host(name, lane);
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
        HostsOfThread::add(&host);
        self.hosts.borrow_mut().push(host.clone());
        host
    }

    /// Drops all tasks of a host, as if its processes were killed. Its connections are closed. The
    /// host stays reachable, and tasks can be spawned on it again.
    ///
    /// A task of `tokio::spawn` belongs to no host and goes on, even if a task of the host has
    /// spawned it. [`Host::start`] spawns a task of the host.
    ///
    /// # Panics
    ///
    /// Panics if it is called by a task of this host.
    pub fn kill(&self, host: &Host) {
        self.end_tasks(host, "host is killed");
    }

    fn end_tasks(&self, host: &Host, why: &str) {
        self.log.fault(&[host.shared.lane], Extent::Instant, why);
        self.executor.kill(host.shared.id);
        self.network.close_all(host.shared.id);
    }

    /// Powers the host off: its connections are lost without any packet to the other side, then its
    /// tasks are dropped. Tasks of `tokio::spawn` continue, as after [`kill`](Self::kill).
    ///
    /// # Panics
    ///
    /// Panics if it is called by a task of this host.
    pub fn power_off(&self, host: &Host) {
        for other in self.hosts.borrow().iter() {
            self.network.cut(host.shared.id, other.shared.id);
        }
        self.end_tasks(host, "host loses its power");
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

    /// Stops all traffic between two hosts. Bytes are delayed, not lost, until
    /// [`heal`](Self::heal).
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

    /// Loses the connections between two hosts silently: bytes vanish, and neither side is
    /// notified.
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

    /// Sets whether a proxy sends a GOAWAY on each new HTTP/2 connection without TLS from one host
    /// to another, right after the server's SETTINGS.
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

    /// Number of events so far.
    pub(super) fn events(&self) -> u64 {
        self.log.events()
    }

    /// Number of tasks that have not ended.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.executor.tasks()
    }

    /// Records that a rule was broken. The first violation counts.
    pub fn violate(&self, invariant: &'static str, rule: &'static str, what: impl Into<String>) {
        self.violate_at(self.now(), invariant, rule, what.into());
    }

    /// Records that a rule was broken at a virtual time.
    pub(super) fn violate_at(
        &self,
        at: Time,
        invariant: &'static str,
        rule: &'static str,
        what: String,
    ) {
        let number = self.log.events();
        let violation = Violation { invariant, rule, what, at, number };
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
    /// visible happens. A task that returned [`Poll::Pending`](core::task::Poll::Pending) with all
    /// its wakers registered finds nothing to do; if it does something, a wake-up was lost. No
    /// virtual time passes, so no timer can be the cause.
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

    /// Waits until `condition` holds, for at most `limit` of virtual time. Returns whether it
    /// holds. The condition is checked after 5 ms and then at increasing intervals of up to one
    /// second.
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
