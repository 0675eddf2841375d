//! World of replicas: the source, replicas, clients, streams, and the queue of events in virtual time.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use xds_core::{
    Client, Time,
    client::{ChannelError, Interest},
    service::Variant,
};

use super::{
    bug::ReplicaBug,
    client::{self, ReplicaClient, ReplicaSubscription},
    link::ReplicaLink,
    options::ReplicaOptions,
    replica::Replica,
    rules::ReplicaRule,
    situations::{ReplicaSituation, ReplicaSituations},
    source::{NAMES, SimulatedSource, SourceKey, TYPES, state_text, type_url},
};
use crate::{tape::Choices, trace::Violation};

/// Event in the queue.
#[derive(Debug)]
pub(super) enum QueuedEvent {
    /// A list arrives at a replica, as of some revisions ago.
    Listed {
        replica: usize,
        start: u64,
        behind: u64,
    },
    WatchOpened {
        replica: usize,
        start: u64,
        number: u64,
    },
    /// Changes arrive at a replica.
    Delivered {
        replica: usize,
        start: u64,
        number: u64,
    },
    /// A replica notices that its watch is dead.
    WatchLost {
        replica: usize,
        start: u64,
        number: u64,
    },
    /// A confirmation arrives at a replica.
    Confirmed {
        replica: usize,
        start: u64,
    },
    Connected(usize),
    ToServer(usize, Bytes),
    ToClient(usize, Bytes),
    EndAtClient(usize, ChannelError),
    EndAtServer(usize),
    Restarted(usize),
}

/// World of replicas.
#[derive(Debug)]
pub(super) struct ReplicaWorld {
    pub(super) now: Time,
    pub(super) choices: Choices,
    pub(super) options: ReplicaOptions,
    pub(super) source: SimulatedSource,
    pub(super) replicas: Vec<Replica>,
    pub(super) clients: Vec<ReplicaClient>,
    pub(super) links: Vec<ReplicaLink>,
    pub(super) situations: ReplicaSituations,
    pub(super) violation: Option<Violation>,
    pub(super) log: ReplicaLog,
    queue: BTreeMap<(Time, u64), QueuedEvent>,
    order: u64,
    pub(super) events: u64,
}

/// Log of a run: its hash always, its lines if they are wanted.
#[derive(Debug)]
pub(super) struct ReplicaLog {
    pub(super) hash: blake3::Hasher,
    pub(super) lines: Option<Vec<String>>,
}

impl ReplicaWorld {
    pub(super) fn new(mut choices: Choices, keeps_log: bool, bug: Option<ReplicaBug>) -> Self {
        let options = ReplicaOptions::draw(&mut choices);
        let now = Time::ZERO;
        let replicas = (0..options.replicas)
            .map(|number| Replica::new(&options, u64::from(number), now, bug))
            .collect();
        let mut world = Self {
            now,
            choices,
            options,
            source: SimulatedSource::default(),
            replicas,
            clients: Vec::new(),
            links: Vec::new(),
            situations: ReplicaSituations::default(),
            violation: None,
            log: ReplicaLog { hash: blake3::Hasher::new(), lines: keeps_log.then(Vec::new) },
            queue: BTreeMap::new(),
            order: 0,
            events: 0,
        };
        world.note(|| format!("options: {options}"));
        for number in 0..options.clients as usize {
            let application = world.new_application(number);
            world.clients.push(application);
        }
        world
    }

    fn new_application(&mut self, number: usize) -> ReplicaClient {
        let variants = [Variant::StateOfTheWorld, Variant::Incremental];
        let variant = self.choices.pick("variant", &variants);
        let mut wants = Vec::new();
        if !self.choices.chance("no wildcard", 500) {
            wants.push(ReplicaSubscription::Wildcard(0));
        } else {
            wants.extend((0..NAMES).map(|name| ReplicaSubscription::Name((0, name))));
        }
        let endpoints = self.choices.between("endpoints", 0, NAMES);
        wants.extend((0..endpoints).map(|name| ReplicaSubscription::Name((1, name))));
        let config = client::config(number, variant);
        let core = Client::new(config, 100 + number as u64, self.now);
        ReplicaClient::new(core, variant, wants)
    }

    /// Starts the watches of an application that are missing.
    pub(super) fn start_watches(&mut self, at: usize) {
        let application = &mut self.clients[at];
        for watched in application.wants.clone() {
            if application.watches.values().any(|it| *it == watched) {
                continue;
            }
            let url = type_url((watched.kind(), 0));
            let name = match watched {
                ReplicaSubscription::Wildcard(_) => String::new(),
                ReplicaSubscription::Name(key) => super::source::name(key),
            };
            let interest = match watched {
                ReplicaSubscription::Wildcard(_) => Interest::Wildcard,
                ReplicaSubscription::Name(_) => Interest::Name(&name),
            };
            let watch = application.core.watch(&url, interest, self.now).expect("a valid watch");
            application.watches.insert(watch, watched);
        }
    }

    /// Replaces the client of an application by a new one, which knows no versions.
    pub(super) fn restart_client(&mut self, at: usize) {
        for link in 0..self.links.len() {
            if self.links[link].client == at && self.links[link].is_open {
                self.links[link].is_open = false;
                self.schedule(Duration::ZERO, QueuedEvent::EndAtServer(link));
            }
        }
        let application = &mut self.clients[at];
        application.restarts += 1;
        let seed = 100 + at as u64 + 1_000 * application.restarts;
        application.core = Client::new(client::config(at, application.variant), seed, self.now);
        application.watches.clear();
        application.values.clear();
        application.cached.clear();
        application.read_from = [None; TYPES.len()];
        self.situations.note(ReplicaSituation::ClientRestarted);
        self.note(|| format!("client-{at} restarts"));
        self.start_watches(at);
    }

    /// Loses a connection: both sides notice it.
    pub(super) fn cut(&mut self, link: usize) {
        let it = &mut self.links[link];
        if !it.is_open {
            return;
        }
        let lost = ChannelError::Unreachable("connection lost".into());
        self.schedule(Duration::ZERO, QueuedEvent::EndAtServer(link));
        self.schedule(Duration::ZERO, QueuedEvent::EndAtClient(link, lost));
    }

    pub(super) fn schedule(&mut self, after: Duration, event: QueuedEvent) {
        self.schedule_at(self.now.after(after), event);
    }

    pub(super) fn schedule_at(&mut self, at: Time, event: QueuedEvent) {
        self.order += 1;
        self.queue.insert((at, self.order), event);
    }

    /// Draws a latency of the network.
    pub(super) fn latency(&mut self) -> Duration {
        Duration::from_millis(u64::from(self.choices.between("latency", 1, 20)))
    }

    /// Draws the delay of a change on its way to a replica.
    pub(super) fn lag(&mut self) -> Duration {
        let most = self.options.lag_ms;
        Duration::from_millis(1 + u64::from(self.choices.below("lag", most)))
    }

    /// Runs everything that is due within a time.
    pub(super) fn advance(&mut self, time: Duration) {
        let end = self.now.after(time);
        self.settle();
        while self.violation.is_none()
            && let Some(next) = self.next().filter(|&at| at <= end)
        {
            self.now = self.now.max(next);
            self.fire();
            self.settle();
        }
        self.now = end;
    }

    fn next(&self) -> Option<Time> {
        let queued = self.queue.first_key_value().map(|((at, _), _)| *at);
        let servers = self
            .replicas
            .iter()
            .filter(|it| it.is_running)
            .flat_map(|it| [it.server.poll_timeout().map(|due| due.at), it.wait_until()]);
        let clients = self.clients.iter().map(|it| it.core.poll_timeout().map(|due| due.at));
        servers.chain(clients).flatten().chain(queued).min()
    }

    fn fire(&mut self) {
        self.events += 1;
        for at in 0..self.replicas.len() {
            let replica = &mut self.replicas[at];
            if !replica.is_running {
                continue;
            }
            if replica.wait_until().is_some_and(|until| until <= self.now) {
                replica.follower.waited(self.now);
            }
            if replica.server.poll_timeout().is_some_and(|due| due.at <= self.now) {
                replica.server.handle_timeout(self.now);
            }
        }
        for client in &mut self.clients {
            if client.core.poll_timeout().is_some_and(|due| due.at <= self.now) {
                client.core.handle_timeout(self.now);
            }
        }
        if let Some(first) = self.queue.first_entry().filter(|it| it.key().0 <= self.now) {
            let event = first.remove();
            self.handle(event);
        }
    }

    /// Adds a line to the log.
    pub(super) fn note(&mut self, line: impl FnOnce() -> String) {
        let seconds = self.now.since(Time::ZERO).as_secs_f64();
        let text = format!("{seconds:10.3}s  {}", line());
        self.log.hash.update(text.as_bytes());
        if let Some(lines) = &mut self.log.lines {
            lines.push(text);
        }
    }

    pub(super) fn violate(&mut self, rule: &ReplicaRule, what: String) {
        if self.violation.is_some() {
            return;
        }
        self.note(|| format!("VIOLATION {}: {what}", rule.name));
        self.violation = Some(Violation {
            invariant: rule.name,
            rule: rule.text,
            what,
            at: self.now,
            number: self.events,
        });
    }

    /// Changes the source, and schedules the delivery to the replicas that watch it.
    pub(super) fn change_source(&mut self, objects: BTreeMap<SourceKey, Option<String>>) {
        let revision = self.source.change(objects);
        let objects = self.source.at(revision).cloned().unwrap_or_default().objects;
        self.note(|| {
            let texts = objects.iter().map(|(key, value)| state_text(*key, value.as_deref()));
            let texts: Vec<_> = texts.collect();
            match texts.is_empty() {
                true => format!("source: revision {revision} changes nothing"),
                false => format!("source: revision {revision}: {}", texts.join(", ")),
            }
        });
        if objects.is_empty() {
            self.situations.note(ReplicaSituation::SilentRevision);
            return;
        }
        for replica in 0..self.replicas.len() {
            self.plan_delivery(replica);
        }
    }
}
