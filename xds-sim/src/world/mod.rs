//! Any number of clients, servers, watchers and links in virtual time.
//!
//! A world never ticks: it does what is due at this instant, then jumps to the earliest of the
//! deliveries and deadlines. A core that asks for a timeout too late, or forgets to, is found out,
//! because nothing else ever wakes it (contract rule 4). There are no threads and nothing waits.

mod application;
mod client_side;
mod clock;
mod commands;
mod endings;
mod faults;
mod files;
mod leaving;
mod link;
pub mod message;
mod names;
mod network;
mod parts;
mod polls;
mod reach;
pub(crate) mod reception;
mod seeing;
mod server_side;
mod store;
mod strangers;
mod texts;
mod watches;

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap},
    mem,
    time::Duration,
};

use xds_core::{Client, Time, TypeUrl, server::Server, types};

pub(crate) use faults::KEEPALIVE;
pub(crate) use leaving::GRACE;
pub(crate) use names::{MOST_NAMES, alias_of, glob_covers, is_alias, is_glob, meaning_of};
pub(crate) use store::TOO_LONG;
pub(crate) use watches::Watched;

pub use application::{Application, ControlPlane, Reply};
pub use link::{Link, LinkId};
pub use parts::{BadAnswer, Beside, FileState, Party, Reach, Resources, Watch};

use self::{
    parts::{ClientNode, Hearing, Plane, Scheduled, ServerNode, State},
    strangers::Stranger,
    watches::Watches,
};
use crate::{
    check::{Config, Judge},
    effects::Kind,
    options::{Options, Responses, Transport, Versions},
    oracle::{self, Event, Oracle, Report},
    situations::{Situation, Situations},
    tape::Choices,
    trace::{Header, Keep, LaneKind, Phase, Recorder, Trace, Violation},
    within::{Who, turn_of},
};

/// The types of a world, of which the options take the first ones.
const TYPES: [&str; 4] =
    [types::CLUSTER, types::CLUSTER_LOAD_ASSIGNMENT, types::LISTENER, types::ROUTE_CONFIGURATION];

/// Clients, servers and the links between them.
pub struct World {
    options: Options,
    choices: Choices,
    config: Config,
    types: Vec<TypeUrl>,
    now: Time,
    order: u64,
    heap: BinaryHeap<Reverse<Scheduled>>,
    clients: Vec<ClientNode>,
    servers: Vec<ServerNode>,
    links: Vec<Link>,
    /// What is true, by view, whichever server knows of it yet.
    truth: Vec<State>,
    /// How often anything was set: part of what resources say, so that no two are equal by accident.
    revision: u64,
    /// How much longer messages take at present.
    slowness: Duration,
    /// The most that this ever was.
    slowest: Duration,
    /// How many bytes the network takes in a second at present, if that is bounded.
    narrowness: Option<u64>,
    /// How much later timers come at present.
    lateness: Duration,
    /// By how much the clock has jumped so far.
    jumped: Duration,
    /// Whether nothing has kept a driver or a watcher from being in time.
    is_punctual: bool,
    strangers: Vec<Stranger>,
    next_stream: u64,
    oracles: Vec<Box<dyn Oracle>>,
    recorder: Recorder,
    situations: Situations,
    /// How often something was then otherwise, by what an application, an operator or the network did at once.
    changes: u64,
    violation: Option<Violation>,
    phase: Phase,
    events: u64,
    events_at_instant: u32,
    outputs_at_instant: u32,
    /// How often the scenario has let time pass.
    waits: u32,
}

/// What is left of a world.
pub(crate) struct Ended {
    pub(crate) options: Options,
    pub(crate) choices: Choices,
    pub(crate) events: u64,
    pub(crate) hash: u64,
    pub(crate) situations: Situations,
    pub(crate) violation: Option<Violation>,
    pub(crate) trace: Trace,
}

impl World {
    pub(crate) fn new(options: Options, mut choices: Choices, config: &Config, keep: Keep) -> Self {
        let mut options = options;
        if config.control_plane.is_some() {
            // It knows streams.
            options.transport = Transport::Streams;
            // And neither views nor ours.
            (options.views, options.versions) = (1, Versions::Content);
            // Nor is it told of a limit.
            options.responses = Responses::Long;
        }
        let options = options.fitting();
        let mut recorder = Recorder::new(keep);
        let types: Vec<TypeUrl> =
            TYPES.iter().take(options.types as usize).map(|&url| url.into()).collect();
        let seed = u64::from(choices.below("seed of cores", 1 << 16));
        let oracles = match config.judge {
            Judge::Everything => {
                let own = config.oracles.iter().map(|make| {
                    let _turn = turn_of(Who::Oracle);
                    make(&options)
                });
                oracle::all(&options).into_iter().chain(own).collect()
            }
            Judge::Nothing => Vec::new(),
        };
        let clients = (0..options.clients as usize).map(|at| ClientNode {
            core: Client::new(
                names::client_config(&options, &types, at),
                seed + at as u64,
                Time::ZERO,
            ),
            application: config.application.as_ref().map(|make| {
                let _turn = turn_of(Who::Application);
                make(at)
            }),
            lane: recorder.lane(LaneKind::Client, &names::client(at), None),
            view: at % (options.views.max(1) as usize),
            deadline: None,
            starved_until: None,
            links: Vec::new(),
            watches: Watches::new(types.len()),
            incarnation: 0,
            is_shut_down: false,
            cut_off: vec![None; options.servers as usize],
        });
        let clients: Vec<_> = clients.collect();
        let servers = (0..options.servers as usize).map(|at| ServerNode {
            core: Self::plane(config, &options, at, 0, Time::ZERO),
            lane: recorder.lane(LaneKind::Server, &names::server(at), None),
            deadline: None,
            starved_until: None,
            links: Vec::new(),
            state: vec![State::new(types.len()); options.views.max(1) as usize],
            earlier: Vec::new(),
            asked: BTreeSet::new(),
            lags_for: None,
            reach: Reach::Up,
            file: FileState::Whole,
            hearing: Hearing::Once,
            still_seen: None,
            leaves_since: None,
            incarnation: 0,
        });
        let servers: Vec<_> = servers.collect();
        recorder.phase(Time::ZERO, Phase::WarmUp);
        Self {
            truth: vec![State::new(types.len()); options.views.max(1) as usize],
            options,
            choices,
            config: config.clone(),
            types,
            now: Time::ZERO,
            order: 0,
            heap: BinaryHeap::new(),
            clients,
            servers,
            links: Vec::new(),
            revision: 0,
            slowness: Duration::ZERO,
            slowest: Duration::ZERO,
            narrowness: None,
            lateness: Duration::ZERO,
            jumped: Duration::ZERO,
            is_punctual: true,
            strangers: Vec::new(),
            next_stream: 0,
            oracles,
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

    fn plane(config: &Config, options: &Options, at: usize, incarnation: u32, now: Time) -> Plane {
        match &config.control_plane {
            Some(make) => {
                let _turn = turn_of(Who::ControlPlane);
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

    /// Tells the oracles that the run is over, which may have something to say of it.
    pub(crate) fn finish_run(&mut self) {
        if self.violation.is_none() {
            self.emit(&Event::Ended);
        }
    }

    pub(crate) fn end(self) -> Ended {
        let header = Header::new(None, vec![self.options.to_string()]);
        let hash = self.recorder.hash();
        Ended {
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
/// Judgement.
impl World {
    /// Counts a situation that the run has come to.
    pub fn note(&mut self, situation: Situation) {
        self.situations.note(situation);
    }

    /// Counts that something takes effect: what is put right, and how all ends, is not what a run is made to withstand.
    pub(crate) fn takes_effect(&mut self, kind: impl Into<Kind>) {
        if matches!(self.phase, Phase::WarmUp | Phase::Faults) {
            self.situations.effects.note(kind.into());
        }
    }

    /// How often something was then otherwise, by what was done or went wrong just now.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Says that the run has come to its next part.
    pub fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.recorder.phase(self.now, phase);
        self.emit(&Event::Phase(phase));
    }

    /// Nobody has anything to do: says so to the oracles, which look at everything. To be called when no
    /// message is under way.
    pub fn judge_at_rest(&mut self) {
        self.emit(&Event::Rest);
        if self.phase != Phase::Converge {
            return;
        }
        let _turn = turn_of(Who::Application);
        let disagrees = self.clients.iter().find_map(|node| {
            let truth = |type_url: &TypeUrl, name: &str| {
                let kind = self.types.iter().position(|known| known == type_url)?;
                self.truth[node.view].has[kind].get(name).cloned()
            };
            node.application.as_ref()?.agrees_with(&truth).err()
        });
        if let Some(what) = disagrees {
            self.break_rule(&oracle::APPLICATION, what);
        }
    }

    /// Says that a rule of the caller's is broken.
    pub fn fail(&mut self, invariant: &'static str, rule: &'static str, what: impl Into<String>) {
        self.break_rule(&oracle::Rule { id: invariant, sentence: rule }, what.into());
    }

    fn break_rule(&mut self, rule: &oracle::Rule, what: String) {
        let violation = Violation {
            invariant: rule.id,
            rule: rule.sentence,
            what,
            at: self.now,
            number: self.recorder.count().saturating_sub(1),
        };
        self.violation.get_or_insert(violation);
    }

    /// Says that somebody panicked.
    pub(crate) fn note_panic(&mut self, who: Who, text: String) {
        self.break_rule(&who.rule(), text);
    }

    fn emit(&mut self, event: &Event<'_>) {
        if self.oracles.is_empty() || self.is_over() {
            return;
        }
        let mut oracles = mem::take(&mut self.oracles);
        let mut report = Report::default();
        let _turn = turn_of(Who::Oracle);
        for oracle in &mut oracles {
            oracle.on_event(event, self, &mut report);
        }
        self.oracles = oracles;
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
