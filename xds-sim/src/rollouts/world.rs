//! World of rollouts: the source, replicas, clients, and the queue of events in virtual time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use xds_core::{
    StreamId, Time,
    client::ChannelEvent,
    guards::{Guard, Guards, ViewChange},
    rollout::{
        CohortReport, MetricVerdict, NodeDetail, PeerNews, RolloutEvent, RolloutId, RolloutPhase,
        RolloutPolicy, RolloutState, ServerRollouts, Sharing, Side, StoreResult, StoredPhase,
    },
    server::{Observation, Server, ServerConfig, ServerOutput, StreamEvent, Transaction},
    types,
};

use super::clients::{RolloutClient, RolloutLink};
use crate::{Toy, tape::Choices, trace::Violation};

/// Resources of a state of the source, by name.
pub(super) type SourceContents = BTreeMap<String, String>;

/// Change of the source.
#[derive(Clone, Debug)]
pub(super) struct SourceChange {
    pub(super) contents: SourceContents,
    pub(super) policy: RolloutPolicy,
}

#[derive(Debug)]
pub(super) enum WorldEvent {
    ChangeArrives(usize, u64, u64),
    /// Endpoints, which are applied for all clients at once.
    EndpointsArrive(usize, u64, u64),
    StateArrives(usize, u64, RolloutState),
    StoreArrives(usize, u64, RolloutState),
    StoreAnswered(usize, u64, RolloutState, StoreResult),
    News(usize, u64, Arc<str>, PeerNews),
    ToServer(usize, Bytes),
    ToClient(usize, Bytes),
    EndAtServer(usize),
    EndAtClient(usize),
    Restarted(usize),
}

#[derive(Debug)]
pub(super) struct RolloutReplica {
    pub(super) server: Server,
    pub(super) rollouts: ServerRollouts,
    pub(super) is_running: bool,
    /// Number of restarts. Events of earlier starts are void.
    pub(super) start: u64,
    /// Change that this replica took last.
    pub(super) change: u64,
    /// Change that completed last, as far as this replica knows.
    pub(super) stable: u64,
    /// Newest endpoints that this replica has applied.
    pub(super) endpoints: u64,
    /// Contents before the rollout under way.
    pub(super) before: SourceContents,
    /// Streams that have moved to the candidate, or back, in the rollout under way.
    pub(super) moves: BTreeMap<(u64, StreamId), Vec<Side>>,
}

/// World of rollouts.
#[derive(Debug)]
pub(super) struct RolloutWorld {
    pub(super) now: Time,
    pub(super) choices: Choices,
    pub(super) hash: blake3::Hasher,
    pub(super) lines: Option<Vec<String>>,
    pub(super) replicas: Vec<RolloutReplica>,
    pub(super) clients: Vec<RolloutClient>,
    pub(super) links: Vec<RolloutLink>,
    /// Changes by number; 0 is the beginning.
    pub(super) changes: BTreeMap<u64, SourceChange>,
    /// Newest endpoints of the source.
    pub(super) endpoints: u64,
    pub(super) stored: Option<RolloutState>,
    /// Last step that was stored for each rollout.
    pub(super) reached: BTreeMap<u64, usize>,
    pub(super) completed: BTreeSet<u64>,
    pub(super) ended: [u64; 2],
    pub(super) events: u64,
    pub(super) violation: Option<Violation>,
    /// Whether the source can be reached.
    pub(super) is_source_up: bool,
    queue: BTreeMap<(Time, u64), WorldEvent>,
    order: u64,
    /// Earliest arrival of the next message: streams and watches keep the order.
    arrivals: BTreeMap<(u8, usize), Time>,
}

pub(super) fn snapshot(contents: &SourceContents, endpoints: u64) -> Transaction {
    let mut snapshot = Transaction::snapshot("");
    set_endpoints(&mut snapshot, endpoints);
    for (name, text) in contents {
        snapshot.set(types::CLUSTER, name.as_str(), Toy::bytes(name, text));
    }
    snapshot
}

fn set_endpoints(change: &mut Transaction, endpoints: u64) {
    change.set(types::CLUSTER_LOAD_ASSIGNMENT, "e", Toy::bytes("e", &endpoints.to_string()));
}

/// Whether the guard refuses a change: there is at least one cluster.
fn is_refused(server: &Server, change: &Transaction) -> bool {
    let guards: Guards = [Guard::at_least(types::CLUSTER, 1)].into_iter().collect();
    let preview = server.prepare_preview(change).expect("valid resources");
    let after = preview.contents();
    let before: Vec<_> = after.iter().map(|it| server.contents(it.view())).collect();
    let views = before.iter().zip(&after);
    guards.judge(views.map(|(before, after)| ViewChange::new(after.view(), before, after))).is_err()
}

fn name_of(replica: usize) -> Arc<str> {
    format!("replica-{replica}").into()
}

impl RolloutWorld {
    pub(super) fn new(mut choices: Choices, keeps_log: bool) -> Self {
        let (replicas, clients) =
            (choices.between("replicas", 1, 3), choices.between("clients", 1, 5));
        let first = SourceChange {
            contents: SourceContents::from([("a".into(), "0".into())]),
            policy: RolloutPolicy::all_at_once(),
        };
        let mut world = Self {
            now: Time::ZERO,
            choices,
            hash: blake3::Hasher::new(),
            lines: keeps_log.then(Vec::new),
            replicas: Vec::new(),
            clients: Vec::new(),
            links: Vec::new(),
            changes: BTreeMap::from([(0, first)]),
            endpoints: 0,
            stored: None,
            reached: BTreeMap::new(),
            completed: BTreeSet::from([0]),
            ended: [0; 2],
            events: 0,
            violation: None,
            is_source_up: true,
            queue: BTreeMap::new(),
            order: 0,
            arrivals: BTreeMap::new(),
        };
        for at in 0..replicas as usize {
            let replica = world.new_replica(at, 0, replicas as usize);
            world.replicas.push(replica);
        }
        for at in 0..clients as usize {
            world.add_client(at);
        }
        world
    }

    /// Creates a replica with the stable contents of the source.
    fn new_replica(&self, at: usize, start: u64, replicas: usize) -> RolloutReplica {
        let (seed, now) = (at as u64 + 1_000 * start, self.now);
        let mut server = Server::new(ServerConfig::default(), seed, now);
        let mut rollouts = ServerRollouts::new(NodeDetail::Full, Sharing::Replicas);
        let stable = self.stored.as_ref().map_or(0, |it| it.stable.0);
        let before = self.changes[&stable].contents.clone();
        let endpoints = self.endpoints;
        server.apply(snapshot(&before, endpoints), now).expect("valid resources");
        for other in (0..replicas).filter(|it| *it != at) {
            rollouts.peer(&mut server, &name_of(other), PeerNews::Joined, now);
        }
        let (is_running, change, moves) = (true, stable, BTreeMap::new());
        RolloutReplica {
            server,
            rollouts,
            is_running,
            start,
            change,
            stable,
            endpoints,
            before,
            moves,
        }
    }

    pub(super) fn restart(&mut self, at: usize) {
        let (start, replicas) = (self.replicas[at].start + 1, self.replicas.len());
        self.replicas[at] = self.new_replica(at, start, replicas);
        self.note(|| format!("replica-{at} starts"));
        // It continues with each change since the one that completed last.
        let changes: Vec<u64> = self.changes.keys().copied().collect();
        for number in changes {
            self.take_change(at, number);
        }
        self.tell_peers(at, PeerNews::Joined);
    }

    /// Tells the other replicas about one, as leases in the source do.
    pub(super) fn tell_peers(&mut self, about: usize, news: PeerNews) {
        for other in (0..self.replicas.len()).filter(|it| *it != about) {
            let start = self.replicas[other].start;
            let event = WorldEvent::News(other, start, name_of(about), news);
            self.send((3, about * 8 + other), event);
        }
    }

    /// Starts the rollout of a change at a replica.
    pub(super) fn take_change(&mut self, at: usize, number: u64) {
        let change = self.changes[&number].clone();
        let stored = self.stored.clone();
        let replica = &mut self.replicas[at];
        if number <= replica.change {
            return;
        }
        replica.change = number;
        if let Some(stored) = &stored {
            self.note_stable(at, stored);
        }
        let replica = &mut self.replicas[at];
        let whole = snapshot(&change.contents, replica.endpoints);
        if is_refused(&replica.server, &whole) {
            return self.note(|| format!("replica-{at}: the guard refuses change {number}"));
        }
        let (transactions, id) = (vec![whole], RolloutId(number));
        let result = replica.rollouts.start(
            &mut replica.server,
            id,
            transactions,
            change.policy,
            stored,
            self.now,
        );
        self.note(|| format!("replica-{at} starts rollout {number}: {result:?}"));
        result.expect("a valid rollout");
        self.drain_replica(at);
        self.judge_guard(at);
    }

    /// Notes that a replica learns which change completed last. It has that change, unless it has not
    /// taken it yet.
    fn note_stable(&mut self, at: usize, state: &RolloutState) {
        let (stable, replica) = (state.stable.0, &mut self.replicas[at]);
        if (replica.stable + 1..=replica.change).contains(&stable) {
            replica.stable = stable;
            replica.before = self.changes[&stable].contents.clone();
        }
    }

    pub(super) fn schedule(&mut self, after: Duration, event: WorldEvent) {
        self.order += 1;
        self.queue.insert((self.now.after(after), self.order), event);
    }

    /// Schedules an event after those of the same path.
    pub(super) fn send(&mut self, path: (u8, usize), event: WorldEvent) {
        let latency = Duration::from_millis(u64::from(self.choices.between("latency", 1, 50)));
        let earliest = self.arrivals.get(&path).copied().unwrap_or_default();
        let at = self.now.after(latency).max(earliest);
        self.arrivals.insert(path, at);
        self.order += 1;
        self.queue.insert((at, self.order), event);
    }

    /// Runs everything that is due within a time.
    pub(super) fn advance(&mut self, time: Duration) {
        let end = self.now.after(time);
        self.drain();
        while self.violation.is_none()
            && let Some(next) = self.next().filter(|at| *at <= end)
        {
            self.now = self.now.max(next);
            self.events += 1;
            self.fire_timers();
            if let Some(first) = self.queue.first_entry().filter(|it| it.key().0 <= self.now) {
                let event = first.remove();
                self.handle(event);
            }
            self.drain();
        }
        self.now = self.now.max(end);
    }

    fn next(&self) -> Option<Time> {
        let queued = self.queue.keys().next().map(|it| it.0);
        let replicas = self.replicas.iter().filter(|it| it.is_running).flat_map(|it| {
            [it.server.poll_timeout().map(|due| due.at), it.rollouts.poll_timeout()]
        });
        let clients = self.clients.iter().map(|it| it.core.poll_timeout().map(|due| due.at));
        replicas.chain(clients).flatten().chain(queued).min()
    }

    fn fire_timers(&mut self) {
        let now = self.now;
        for replica in self.replicas.iter_mut().filter(|it| it.is_running) {
            replica.server.handle_timeout(now);
            replica.rollouts.handle_timeout(&mut replica.server, now);
        }
        for client in &mut self.clients {
            client.core.handle_timeout(now);
        }
    }

    fn is_current(&self, at: usize, start: u64) -> bool {
        self.replicas[at].is_running && self.replicas[at].start == start
    }

    fn handle(&mut self, event: WorldEvent) {
        let now = self.now;
        match event {
            WorldEvent::ChangeArrives(at, start, number) if self.is_current(at, start) => {
                self.take_change(at, number);
            }
            WorldEvent::EndpointsArrive(at, start, number) if self.is_current(at, start) => {
                let mut change = Transaction::new();
                set_endpoints(&mut change, number);
                let replica = &mut self.replicas[at];
                let applied = replica.rollouts.apply(&mut replica.server, change, now);
                applied.expect("valid resources");
                replica.endpoints = number;
                self.drain_replica(at);
                self.judge_endpoints(at);
            }
            WorldEvent::StateArrives(at, start, state) if self.is_current(at, start) => {
                self.note_stable(at, &state);
                let replica = &mut self.replicas[at];
                replica.rollouts.observed(&mut replica.server, state, now);
            }
            WorldEvent::StoreArrives(at, start, state) => self.store(at, start, state),
            WorldEvent::StoreAnswered(at, start, state, result) if self.is_current(at, start) => {
                match &result {
                    StoreResult::Stored => self.note_stable(at, &state),
                    StoreResult::Conflict(current) => self.note_stable(at, current),
                    _ => {}
                }
                let replica = &mut self.replicas[at];
                replica.rollouts.stored(&mut replica.server, &state, result, now);
            }
            WorldEvent::News(at, start, name, news) if self.is_current(at, start) => {
                let replica = &mut self.replicas[at];
                replica.rollouts.peer(&mut replica.server, &name, news, now);
            }
            WorldEvent::ToServer(link, message) => {
                let RolloutLink { replica, stream, .. } = self.links[link];
                if let Some(stream) = stream {
                    let event = StreamEvent::Message(stream, message);
                    self.replicas[replica].server.handle_event(event, now);
                }
            }
            WorldEvent::EndAtServer(link) => {
                let RolloutLink { replica, stream, .. } = self.links[link];
                if let Some(stream) = stream {
                    self.links[link].stream = None;
                    self.replicas[replica].server.handle_event(StreamEvent::Closed(stream), now);
                }
            }
            WorldEvent::ToClient(link, message) => {
                let RolloutLink { client, channel, is_open, .. } = self.links[link];
                if is_open {
                    let event = ChannelEvent::Message(channel, message);
                    self.clients[client].core.handle_event(event, now);
                }
            }
            WorldEvent::EndAtClient(link) => self.end_at_client(link),
            WorldEvent::Restarted(at) => self.restart(at),
            _ => {}
        }
    }

    /// Stores a state by compare-and-set.
    fn store(&mut self, at: usize, start: u64, state: RolloutState) {
        let result = match &self.stored {
            _ if !self.is_source_up => StoreResult::Unavailable,
            Some(stored) if stored.generation + 1 != state.generation => {
                StoreResult::Conflict(stored.clone())
            }
            _ => StoreResult::Stored,
        };
        self.note(|| format!("replica-{at} stores {state}: {result:?}"));
        if result == StoreResult::Stored {
            let reached = self.reached.entry(state.id.0).or_default();
            *reached = state.step.max(*reached);
            if state.phase == StoredPhase::Completed {
                self.completed.insert(state.id.0);
            }
            self.stored = Some(state.clone());
            // A replica that has started again since it sent the state reads it like the others.
            for other in 0..self.replicas.len() {
                let now = self.replicas[other].start;
                if (other, now) != (at, start) {
                    let event = WorldEvent::StateArrives(other, now, state.clone());
                    self.send((2, other), event);
                }
            }
        }
        let answer = match self.choices.chance("answer lost", 50) {
            true => StoreResult::Unavailable,
            false => result,
        };
        self.send((4, at), WorldEvent::StoreAnswered(at, start, state, answer));
    }

    fn drain(&mut self) {
        for at in 0..self.clients.len() {
            self.drain_client(at);
        }
        for at in 0..self.replicas.len() {
            self.drain_replica(at);
        }
    }

    pub(super) fn drain_replica(&mut self, at: usize) {
        if !self.replicas[at].is_running {
            return;
        }
        let now = self.now;
        while let Some(output) = self.replicas[at].server.poll_output() {
            let replica = &mut self.replicas[at];
            let is_rejection = match &output {
                ServerOutput::Observed(Observation::Nacked { stream, message, .. }) => {
                    let rollout = replica.rollouts.rollout();
                    rollout.is_some_and(|it| {
                        // An answer to a response from before the rollout says nothing of it.
                        let new = format!(" bad{} ", it.progress().id.0);
                        it.side(*stream) == Some(Side::Candidate) && message.contains(&new)
                    })
                }
                _ => false,
            };
            replica.rollouts.handle_output(&mut replica.server, &output, now);
            if is_rejection {
                self.judge_rejection(at);
            }
            match output {
                ServerOutput::Writable(stream) => self.transmit(at, stream),
                ServerOutput::Close(stream, _) | ServerOutput::Finished(stream) => {
                    let closed = |it: &RolloutLink| it.replica == at && it.stream == Some(stream);
                    if let Some(link) = self.links.iter().rposition(closed) {
                        self.links[link].stream = None;
                        self.send((1, link), WorldEvent::EndAtClient(link));
                    }
                }
                _ => {}
            }
        }
        self.judge_sides(at);
        let mut has_ended = false;
        while let Some(event) = self.replicas[at].rollouts.poll_event() {
            has_ended |= matches!(event, RolloutEvent::Ended { .. });
            self.carry_out(at, event);
        }
        if has_ended {
            self.judge_endpoints(at);
            self.judge_guard(at);
        }
        // Several rollouts may have ended, of which the last one determines the contents.
        if has_ended {
            self.judge_end(at);
        }
    }

    fn carry_out(&mut self, at: usize, event: RolloutEvent) {
        let start = self.replicas[at].start;
        match event {
            RolloutEvent::Store(state) => {
                self.send((5, at), WorldEvent::StoreArrives(at, start, state));
            }
            RolloutEvent::Report(report) => self.report(at, report),
            RolloutEvent::Ended { progress, error } => {
                let (phase, number) = (progress.phase, progress.id.0);
                self.note(|| format!("replica-{at}: rollout {number} is {phase:?}"));
                assert_eq!(error, None, "valid resources");
                self.judge_blame(&progress);
                if phase == RolloutPhase::Completed {
                    let replica = &mut self.replicas[at];
                    replica.stable = number;
                    replica.before = self.changes[&number].contents.clone();
                }
                self.ended[usize::from(phase == RolloutPhase::RolledBack)] += 1;
            }
            _ => {}
        }
    }

    fn report(&mut self, at: usize, report: CohortReport) {
        self.tell_peers(at, PeerNews::Reported(report));
    }

    pub(super) fn metric(&mut self, verdict: &MetricVerdict) {
        let now = self.now;
        for replica in self.replicas.iter_mut().filter(|it| it.is_running) {
            replica.rollouts.metric(&mut replica.server, "m", verdict.clone(), now);
        }
    }

    /// Adds a line to the log.
    pub(super) fn note(&mut self, line: impl FnOnce() -> String) {
        let text = format!("{}  {}", self.now, line());
        self.hash.update(text.as_bytes());
        if let Some(lines) = &mut self.lines {
            lines.push(text);
        }
    }
}
