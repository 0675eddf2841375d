//! World: clients, servers, watchers and channels in virtual time.
//!
//! A world processes everything that is due at one instant, then jumps to the earliest delivery or
//! deadline. A core that requests its timeout too late, or not at all, is detected, because no
//! periodic tick calls it. There are no threads.

mod access;
pub(crate) mod actor;
pub(crate) mod admission;
mod application;
mod client_side;
mod clock;
mod commands;
mod draining;
pub mod events;
mod faults;
mod files;
mod link;
pub mod message;
#[cfg(feature = "stack")]
mod mirror;
mod names;
mod network;
mod parts;
mod polls;
mod reach;
mod rogue_clients;
mod server_side;
mod store;
mod stream_ends;
pub(crate) mod subscription;
mod texts;
mod watches;

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap},
    mem,
    time::Duration,
};

use xds_core::{Client, Time, TypeUrl, ViewName, server::Server, types};

pub(crate) use draining::GRACE;
pub(crate) use faults::KEEPALIVE;
pub(crate) use names::{
    MOST_NAMES, alias_of, glob_covers, is_alias, is_glob, meaning_of, numbered,
};
pub(crate) use store::TOO_LONG;
pub(crate) use watches::Watched;

pub use application::{Application, ControlPlane, Reply};
pub use link::{Link, LinkId};
pub(crate) use parts::Participants;
pub use parts::{BadAnswer, FileState, Party, Reach, ResourceExtras, Resources, Watch};

use self::{
    parts::{ClientNode, FileEvents, Plane, Scheduled, ServerNode, StoreState},
    rogue_clients::RogueClient,
    watches::Watches,
};
use crate::{
    effects::Effect,
    options::{Options, Responses, Transport, Versions},
    situations::{Situation, Situations},
    tape::Choices,
    trace::{Header, Keep, ParticipantKind, Phase, Recorder, Trace, Violation},
    world::{
        actor::{Actor, act_as},
        events::{Event, Oracle, Report},
    },
};

/// Resource types of a world. The options select how many of the first ones are used.
const TYPES: [&str; 4] =
    [types::CLUSTER, types::CLUSTER_LOAD_ASSIGNMENT, types::LISTENER, types::ROUTE_CONFIGURATION];

/// A simulation of clients, servers and the channels between them.
pub struct World {
    options: Options,
    choices: Choices,
    participants: Participants,
    types: Vec<TypeUrl>,
    /// Names of the views at the servers.
    view_names: Vec<ViewName>,
    now: Time,
    order: u64,
    heap: BinaryHeap<Reverse<Scheduled>>,
    clients: Vec<ClientNode>,
    servers: Vec<ServerNode>,
    links: Vec<Link>,
    /// Current resources by view. Servers may not know them yet.
    truth: Vec<StoreState>,
    /// Number of changes, which is part of new resource texts and makes them unique.
    revision: u64,
    /// Additional latency of the network.
    slowness: Duration,
    /// Maximum of `slowness` during the run.
    slowest: Duration,
    /// Bandwidth in bytes per second, if it is limited.
    bandwidth: Option<u64>,
    /// Delay of all timers.
    lateness: Duration,
    /// Total time by which the clock has jumped.
    jumped: Duration,
    /// Whether no driver or watcher has been delayed.
    is_punctual: bool,
    rogue_clients: Vec<RogueClient>,
    next_stream: u64,
    oracles: Vec<Box<dyn Oracle>>,
    /// Rules whose violation counts; `None` for all.
    judged: Option<Vec<events::Rule>>,
    recorder: Recorder,
    situations: Situations,
    /// Number of immediate state changes by applications, operators or faults.
    changes: u64,
    violation: Option<Violation>,
    phase: Phase,
    events: u64,
    events_at_instant: u32,
    outputs_at_instant: u32,
    /// Number of times that the scenario advanced time.
    waits: u32,
}

/// Result of a world whose run is over.
pub(crate) struct FinishedWorld {
    pub(crate) options: Options,
    pub(crate) choices: Choices,
    pub(crate) events: u64,
    pub(crate) hash: u64,
    pub(crate) situations: Situations,
    pub(crate) violation: Option<Violation>,
    pub(crate) trace: Trace,
}

impl World {
    pub(crate) fn new(
        options: Options,
        mut choices: Choices,
        participants: &Participants,
        oracles: impl FnOnce(&Options) -> Vec<Box<dyn Oracle>>,
        keep: Keep,
    ) -> Self {
        let mut options = options;
        if participants.control_plane.is_some() {
            // A user-defined control plane supports only streams,
            options.transport = Transport::Streams;
            // one view and content versions,
            (options.views, options.versions) = (1, Versions::Content);
            // and no size limit.
            options.responses = Responses::Long;
        }
        let options = options.fitting();
        let mut recorder = Recorder::new(keep);
        let types: Vec<TypeUrl> =
            TYPES.iter().take(options.types as usize).map(|&url| url.into()).collect();
        let seed = u64::from(choices.below("seed of cores", 1 << 16));
        let oracles = oracles(&options);
        let clients = (0..options.clients as usize).map(|at| ClientNode {
            core: Client::new(
                names::client_config(&options, &types, at),
                seed + at as u64,
                Time::ZERO,
            ),
            application: participants.application.as_ref().map(|make| {
                let _guard = act_as(Actor::Application);
                make(at)
            }),
            lane: recorder.lane(ParticipantKind::Client, &names::client(at), None),
            view: at % (options.views.max(1) as usize),
            deadline: None,
            suspended_until: None,
            links: Vec::new(),
            watches: Watches::new(types.len()),
            incarnation: 0,
            is_shut_down: false,
            cut_off: vec![None; options.servers as usize],
        });
        let clients: Vec<_> = clients.collect();
        let servers = (0..options.servers as usize).map(|at| ServerNode {
            core: Self::plane(participants, &options, at, 0, Time::ZERO),
            lane: recorder.lane(ParticipantKind::Server, &names::server(at), None),
            deadline: None,
            suspended_until: None,
            links: Vec::new(),
            state: vec![StoreState::new(types.len()); options.views.max(1) as usize],
            earlier: Vec::new(),
            asked: BTreeSet::new(),
            lags_for: None,
            reach: Reach::Up,
            file: FileState::Whole,
            file_events: FileEvents::Once,
            still_seen: None,
            draining_since: None,
            incarnation: 0,
        });
        let servers: Vec<_> = servers.collect();
        let view_names = match options.views {
            0 | 1 => vec![ViewName::default()],
            views => (0..views as usize).map(names::view).collect(),
        };
        recorder.phase(Time::ZERO, Phase::WarmUp);
        Self {
            truth: vec![StoreState::new(types.len()); options.views.max(1) as usize],
            options,
            choices,
            participants: participants.clone(),
            types,
            view_names,
            now: Time::ZERO,
            order: 0,
            heap: BinaryHeap::new(),
            clients,
            servers,
            links: Vec::new(),
            revision: 0,
            slowness: Duration::ZERO,
            slowest: Duration::ZERO,
            bandwidth: None,
            lateness: Duration::ZERO,
            jumped: Duration::ZERO,
            is_punctual: true,
            rogue_clients: Vec::new(),
            next_stream: 0,
            oracles,
            judged: None,
            recorder,
            situations: Situations::default(),
            changes: 0,
            violation: None,
            phase: Phase::WarmUp,
            events: 0,
            events_at_instant: 0,
            outputs_at_instant: 0,
            waits: 0,
        }
    }

    fn plane(
        participants: &Participants,
        options: &Options,
        at: usize,
        incarnation: u32,
        now: Time,
    ) -> Plane {
        match &participants.control_plane {
            Some(make) => {
                let _guard = act_as(Actor::ControlPlane);
                Plane::Own(make(at))
            }
            None => {
                let seed = u64::from(incarnation) << 8 | at as u64;
                Plane::Core(Box::new(Server::new(
                    names::server_config(options, at, incarnation),
                    seed,
                    now,
                )))
            }
        }
    }

    /// Notifies the oracles of the end of the run.
    pub(crate) fn finish_run(&mut self) {
        if self.violation.is_none() {
            self.emit(&Event::Ended);
        }
    }

    pub(crate) fn end(self) -> FinishedWorld {
        let header = Header::new(None, vec![self.options.to_string()]);
        let hash = self.recorder.hash();
        FinishedWorld {
            hash,
            trace: self.recorder.finish(header, self.violation.clone()),
            options: self.options,
            choices: self.choices,
            events: self.events,
            situations: self.situations,
            violation: self.violation,
        }
    }
}
/// Checks by oracles.
impl World {
    /// Counts a situation that the run has reached.
    pub fn note(&mut self, situation: Situation) {
        self.situations.note(situation);
    }

    /// Counts an effect in the warm-up and faults phases. Later effects are repairs and do not
    /// count.
    pub(crate) fn takes_effect(&mut self, kind: impl Into<Effect>) {
        if matches!(self.phase, Phase::WarmUp | Phase::Faults) {
            self.situations.effects.note(kind.into());
        }
    }

    /// Number of immediate state changes by applications, operators or faults.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Enters the next phase of the run.
    pub fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.recorder.phase(self.now, phase);
        self.emit(&Event::Phase(phase));
    }

    /// Notifies the oracles that the world is at rest, so that they check the whole state. Call
    /// this only when no message is in flight.
    pub fn check_at_rest(&mut self) {
        self.emit(&Event::Rest);
        if self.phase != Phase::Converge {
            return;
        }
        let _guard = act_as(Actor::Application);
        let disagrees = self.clients.iter().find_map(|node| {
            let truth = |type_url: &TypeUrl, name: &str| {
                let kind = self.types.iter().position(|known| known == type_url)?;
                self.truth[node.view].has[kind].get(name).cloned()
            };
            node.application.as_ref()?.agrees_with(&truth).err()
        });
        if let Some(what) = disagrees {
            self.break_rule(&events::APPLICATION, what);
        }
    }

    /// Fails the run because a user-defined rule is broken.
    pub fn fail(&mut self, invariant: &'static str, rule: &'static str, what: impl Into<String>) {
        self.break_rule(&events::Rule { id: invariant, sentence: rule }, what.into());
    }

    fn break_rule(&mut self, rule: &events::Rule, what: String) {
        let violation = Violation {
            invariant: rule.id,
            rule: rule.sentence,
            what,
            at: self.now,
            number: self.recorder.count().saturating_sub(1),
        };
        self.violation.get_or_insert(violation);
    }

    /// Fails the run because of a panic.
    pub(crate) fn note_panic(&mut self, actor: Actor, text: String) {
        self.break_rule(&actor.rule(), text);
    }

    fn emit(&mut self, event: &Event<'_>) {
        if self.oracles.is_empty() || self.is_over() {
            return;
        }
        let mut oracles = mem::take(&mut self.oracles);
        let mut report = Report { judged: self.judged.take(), ..Report::default() };
        let _guard = act_as(Actor::Oracle);
        for oracle in &mut oracles {
            oracle.on_event(event, self, &mut report);
        }
        self.oracles = oracles;
        self.judged = report.judged;
        for situation in report.situations {
            self.situations.note(situation);
        }
        if let Some((rule, what)) = report.breach {
            self.break_rule(&rule, what);
        }
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World")
            .field("now", &self.now)
            .field("options", &self.options)
            .field("phase", &self.phase)
            .field("violation", &self.violation)
            .finish_non_exhaustive()
    }
}
