//! Random clients and transactions against the simplest possible idea of what must come out.
//!
//! The model is a map of what exists and, per client, what it asked for and holds. The server is
//! right if, once everybody is done, each accepting client holds what exists of what it asked
//! for; if it then is silent; and if everything it said on the way had a reason.

mod server_support;

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use proptest::{collection::vec, option, prelude::*};
use prost::Message as _;
use server_support::{payload, url};
use xds_core::{
    Frame, StreamId, Time,
    proto::{DiscoveryRequest, DiscoveryResponse, Node, Status},
    server::{
        Cause, NackRecovery, Server, ServerConfig, ServerLimits, ServerOutput, StreamEvent,
        Transaction, Variant, Via, Warming,
    },
};

/// Full state, the endpoints that follow it, full state by name, and changes of an unknown type.
const TYPES: [&str; 4] = ["cds", "eds", "lds", "own"];
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

#[derive(Clone, Debug)]
enum Op {
    Apply(Vec<(usize, usize, Option<u8>)>),
    /// A client lists names: a bit per name, and one for the wildcard.
    List {
        client: usize,
        ty: usize,
        names: u8,
        nonce: Nonce,
    },
    /// The transport of a client takes one response.
    Take {
        client: usize,
    },
    /// A client reads a response and answers it.
    Answer {
        client: usize,
        ty: usize,
    },
    Reconnect {
        client: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nonce {
    Newest,
    Blank,
}

/// What happens to clients, among types. With few of them, races are found sooner.
fn op(clients: Range<usize>, types: Range<usize>) -> impl Strategy<Value = Op> {
    let (client, ty) = (clients, types);
    prop_oneof![
        4 => vec((ty.clone(), 0..NAMES.len(), option::weighted(0.7, 0..3u8)), 1..5)
            .prop_map(Op::Apply),
        4 => (client.clone(), ty.clone(), 0..64u8, prop_oneof![
            5 => Just(Nonce::Newest), 1 => Just(Nonce::Blank)
        ]).prop_map(|(client, ty, names, nonce)| Op::List { client, ty, names, nonce }),
        6 => client.clone().prop_map(|client| Op::Take { client }),
        6 => (client.clone(), ty).prop_map(|(client, ty)| Op::Answer { client, ty }),
        1 => client.prop_map(|client| Op::Reconnect { client }),
    ]
}

/// The policies that change what is sent, and a limit that splits responses.
fn config() -> impl Strategy<Value = (ServerConfig, Split)> {
    let recovery = prop_oneof![Just(NackRecovery::ResendBatch), Just(NackRecovery::Minimal)];
    let warming = prop_oneof![3 => Just(Warming::AfterClusters), 1 => Just(Warming::Off)];
    let split = prop_oneof![3 => Just(Split::No), 1 => Just(Split::Yes)];
    (recovery, warming, split).prop_map(|(recovery, warming, split)| {
        let mut config = ServerConfig::default();
        config.nack_recovery = recovery;
        config.warming = warming;
        if split == Split::Yes {
            let mut limits = ServerLimits::default();
            // One or two resources.
            limits.response_bytes = 150;
            config = config.with_limits(limits);
        }
        (config, split)
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Split {
    No,
    Yes,
}

/// What a client does with a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Habit {
    Accepts,
    Rejects,
    /// Accepts every other one.
    Wavers,
}

const HABITS: [Habit; 3] = [Habit::Accepts, Habit::Rejects, Habit::Wavers];

struct World {
    server: Server,
    clients: Vec<Client>,
    store: BTreeMap<(usize, usize), u8>,
    /// Effective changes per type.
    changes: [u64; TYPES.len()],
    drains: Drains,
    /// Everything that came out, in order.
    transcript: Vec<String>,
    frames: Vec<Bytes>,
    requests: usize,
    split: Split,
}

/// When outputs are polled; it must make no difference (rule 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drains {
    Always,
    Never,
}

struct Client {
    habit: Habit,
    stream: StreamId,
    node_sent: bool,
    subscriptions: [Subscription; TYPES.len()],
}

#[derive(Clone, Default)]
struct Subscription {
    asked: Asked,
    interest: Interest,
    nonce: String,
    version: String,
    accepted: String,
    /// Whether it has forgotten nothing of what it accepted last.
    holds: Holds,
    /// What the client holds, by name.
    view: BTreeMap<String, String>,
    /// The response on its way.
    inbox: Option<DiscoveryResponse>,
    seen: Seen,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Holds {
    #[default]
    APart,
    All,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Asked {
    #[default]
    Never,
    Once,
}

#[derive(Clone, Default, PartialEq, Eq)]
struct Interest {
    names: BTreeSet<String>,
    everything: bool,
    /// A name was listed before.
    explicit: bool,
}

impl Interest {
    fn is_everything(&self) -> bool {
        self.everything && self.names.is_empty()
    }

    fn has(&self, name: &str) -> bool {
        self.everything || self.names.contains(name)
    }
}

/// What there was when the last response was rendered, to tell whether the next has a reason.
#[derive(Clone, Default)]
struct Seen {
    responses: u64,
    changes: u64,
    /// Lists sent that said something new, and those at the last response.
    lists: u64,
    lists_then: u64,
    /// Responses with clusters on the stream, and those at the last response.
    clusters: u64,
    clusters_then: u64,
    rejected: Option<Rejected>,
}

/// The response rejected last, and the changes, lists and clusters there were when it was rendered.
#[derive(Clone, PartialEq, Eq)]
struct Rejected {
    resources: Vec<Bytes>,
    after: (u64, u64, u64),
}

impl World {
    fn new(seed: u64, drains: Drains) -> Self {
        Self::with((ServerConfig::default(), Split::No), seed, drains)
    }

    fn with((config, split): (ServerConfig, Split), seed: u64, drains: Drains) -> Self {
        let mut server = Server::new(config, seed, Time::ZERO);
        let mut connect = |habit| Client {
            habit,
            stream: server.accept(Via::Aggregated(Variant::StateOfTheWorld), Time::ZERO).unwrap(),
            node_sent: false,
            subscriptions: Default::default(),
        };
        let clients = HABITS.into_iter().map(&mut connect).collect();
        Self {
            server,
            clients,
            store: BTreeMap::new(),
            changes: [0; TYPES.len()],
            drains,
            transcript: Vec::new(),
            frames: Vec::new(),
            requests: 0,
            split,
        }
    }

    fn run(&mut self, ops: &[Op]) {
        for op in ops {
            self.step(op);
            if self.drains == Drains::Always {
                self.drain();
            }
        }
        self.settle();
        self.drain();
    }

    fn step(&mut self, op: &Op) {
        match op {
            Op::Apply(changes) => self.apply(changes),
            Op::List { client, ty, names, nonce } => self.list(*client, *ty, *names, *nonce),
            Op::Take { client } => drop(self.take(*client)),
            Op::Answer { client, ty } => drop(self.answer(*client, *ty)),
            Op::Reconnect { client } => self.reconnect(*client),
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.server.poll_output() {
            assert!(!matches!(output, ServerOutput::Close(..)), "nobody misbehaves: {output:?}");
            self.transcript.push(format!("{output:?}"));
        }
    }

    fn apply(&mut self, changes: &[(usize, usize, Option<u8>)]) {
        let mut transaction = Transaction::new();
        let before = self.store.clone();
        for &(ty, name, content) in changes {
            let type_url = url(TYPES[ty]);
            match content {
                Some(content) => {
                    self.store.insert((ty, name), content);
                    let bytes = payload(NAMES[name], &content.to_string());
                    transaction.set(&*type_url, NAMES[name], bytes)
                }
                None => {
                    self.store.remove(&(ty, name));
                    transaction.remove(&*type_url, NAMES[name])
                }
            };
        }
        let applied = self.server.apply(transaction, Time::ZERO).unwrap();
        let differs = |key: &&(usize, usize)| before.get(key) != self.store.get(key);
        let touched: BTreeSet<_> = before.keys().chain(self.store.keys()).filter(differs).collect();
        assert_eq!(applied.changed + applied.removed, touched.len());
        for (ty, changes) in self.changes.iter_mut().enumerate() {
            *changes += u64::from(touched.iter().any(|(of, _)| *of == ty));
        }
    }

    fn list(&mut self, client: usize, ty: usize, names: u8, nonce: Nonce) {
        let subscription = &mut self.clients[client].subscriptions[ty];
        let listed: BTreeSet<String> = NAMES
            .iter()
            .enumerate()
            .filter(|(bit, _)| names & (1 << bit) != 0)
            .map(|(_, name)| String::from(*name))
            .collect();
        let star = names & (1 << NAMES.len()) != 0;
        let explicit = subscription.interest.explicit || star || !listed.is_empty();
        let legacy = !explicit && matches!(TYPES[ty], "cds" | "lds");
        let interest = Interest { names: listed, everything: star || legacy, explicit };
        let for_everything = interest.is_everything();
        subscription.interest = interest;
        subscription.asked = Asked::Once;
        if !for_everything {
            subscription.holds = Holds::APart;
        }
        if subscription.seen.responses == 0 && !subscription.interest.everything {
            // What it holds from an earlier stream it was promised nothing about, unless it comes
            // back for all of it: a deletion meanwhile is silent if nothing it names exists (M39).
            subscription.view.clear();
        }
        let nonce = match nonce {
            Nonce::Newest => subscription.nonce.clone(),
            Nonce::Blank => String::new(),
        };
        let version = subscription.accepted.clone();
        self.send(client, ty, nonce, version, None);
    }

    fn send(
        &mut self,
        client: usize,
        ty: usize,
        nonce: String,
        version: String,
        error: Option<Status>,
    ) {
        let Client { stream, node_sent, subscriptions, .. } = &mut self.clients[client];
        let subscription = &mut subscriptions[ty];
        let interest = subscription.interest.clone();
        // A list that crosses a response is stale unless it names no nonce: the server drops it, so
        // the client must not count on it having been heard.
        if subscription.inbox.is_none() || nonce.is_empty() {
            subscription.view.retain(|name, _| interest.has(name));
        }
        subscription.seen.lists += 1;
        let mut resource_names: Vec<_> = interest.names.into_iter().collect();
        if interest.everything && interest.explicit {
            resource_names.push(String::from("*"));
        }
        let node = (!*node_sent).then(|| Node { id: format!("{client}"), ..Node::default() });
        *node_sent = true;
        let request = DiscoveryRequest {
            version_info: version,
            node,
            resource_names,
            type_url: url(TYPES[ty]),
            response_nonce: nonce,
            error_detail: error,
            ..DiscoveryRequest::default()
        };
        self.requests += 1;
        let event = StreamEvent::Message(*stream, request.encode_to_vec().into());
        self.server.handle_event(event, Time::ZERO);
    }

    /// Takes a response, if one is due, and checks that it has a reason.
    fn take(&mut self, client: usize) -> bool {
        let mut frame = Frame::default();
        let stream = self.clients[client].stream;
        let Some(sent) = self.server.poll_transmit(stream, Time::ZERO, &mut frame) else {
            return false;
        };
        let bytes = frame.to_bytes();
        self.frames.push(bytes.clone());
        self.transcript.push(format!("{sent:?}"));
        let response = DiscoveryResponse::decode(bytes).unwrap();
        let ty = TYPES.iter().position(|ty| url(ty) == response.type_url).unwrap();
        let subscription = &mut self.clients[client].subscriptions[ty];
        assert!(subscription.inbox.is_none(), "a second response on its way (IS16)");

        let seen = &mut subscription.seen;
        let resources: Vec<_> = response.resources.iter().map(|any| any.value.clone()).collect();
        match sent.cause {
            // A later part of a response has the reason of the first one.
            _ if self.split == Split::Yes && seen.responses > 0 => {}
            Cause::First => assert_eq!(seen.responses, 0),
            Cause::Changed => assert!(self.changes[ty] > seen.changes),
            Cause::Resubscribed => assert!(seen.lists > seen.lists_then),
            Cause::Warming => assert!(TYPES[ty] == "eds" && seen.clusters > seen.clusters_then),
            other => panic!("{other}"),
        }
        if let Some(rejected) = seen.rejected.as_ref().filter(|r| r.resources == resources) {
            let now = (self.changes[ty], seen.lists, seen.clusters);
            assert!(now > rejected.after, "rejected, and sent again for nothing (IS4)");
        }
        seen.responses += 1;
        seen.changes = self.changes[ty];
        seen.lists_then = seen.lists;
        seen.clusters_then = seen.clusters;
        // What this response can have that the client did not ask for is nothing.
        let names: Vec<_> = resources.iter().map(|value| name_of(value)).collect();
        let unique: BTreeSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len(), "duplicates (M81)");
        for (name, value) in names.iter().zip(&resources) {
            let index = NAMES.iter().position(|known| known == name).unwrap();
            let current = payload(name, &self.store[&(ty, index)].to_string());
            assert_eq!(*value, current, "not the newest (M64)");
        }
        subscription.inbox = Some(response);
        if TYPES[ty] == "cds" {
            self.clients[client].subscriptions[1].seen.clusters += 1;
        }
        true
    }

    fn answer(&mut self, client: usize, ty: usize) -> bool {
        let Client { habit, subscriptions, .. } = &mut self.clients[client];
        let subscription = &mut subscriptions[ty];
        let Some(response) = subscription.inbox.take() else { return false };
        let accepts = match habit {
            Habit::Accepts => true,
            Habit::Rejects => false,
            Habit::Wavers => subscription.seen.responses % 2 == 0,
        };
        subscription.nonce = response.nonce.clone();
        subscription.version = response.version_info.clone();
        let lists = subscription.seen.lists;
        let error = if accepts {
            subscription.accepted = response.version_info.clone();
            subscription.holds = match subscription.interest.is_everything() {
                true => Holds::All,
                false => Holds::APart,
            };
            if matches!(TYPES[ty], "cds" | "lds") {
                subscription.view.clear();
            }
            for any in &response.resources {
                let name = name_of(&any.value);
                if subscription.interest.has(&name) {
                    let content = String::from_utf8_lossy(&any.value).into_owned();
                    subscription.view.insert(name, content);
                }
            }
            None
        } else {
            let seen = &mut subscription.seen;
            seen.rejected = Some(Rejected {
                resources: response.resources.iter().map(|any| any.value.clone()).collect(),
                after: (seen.changes, seen.lists_then, seen.clusters_then),
            });
            Some(Status { code: 3, message: String::from("no"), ..Status::default() })
        };
        let (nonce, version) = (response.nonce, subscription.accepted.clone());
        self.send(client, ty, nonce, version, error);
        // An answer that repeats the list says nothing new about it; one after a dropped list does.
        let seen = &mut self.clients[client].subscriptions[ty].seen;
        if seen.lists_then == lists {
            seen.lists = lists;
        }
        true
    }

    /// A new stream. The client forgets what it holds, except that a full state it accepted for the
    /// wildcard alone it may keep and say so.
    fn reconnect(&mut self, client: usize) {
        let Client { stream, node_sent, subscriptions, .. } = &mut self.clients[client];
        self.server.handle_event(StreamEvent::Closed(*stream), Time::ZERO);
        *stream =
            self.server.accept(Via::Aggregated(Variant::StateOfTheWorld), Time::ZERO).unwrap();
        *node_sent = false;
        for subscription in subscriptions.iter_mut() {
            let old = core::mem::take(subscription);
            if old.holds == Holds::All {
                subscription.accepted = old.accepted;
            }
            subscription.holds = old.holds;
            subscription.view = old.view;
            subscription.interest = old.interest;
            subscription.asked = old.asked;
        }
        for (ty, short) in TYPES.iter().enumerate() {
            let Subscription { asked, interest, accepted, view, .. } =
                &mut self.clients[client].subscriptions[ty];
            if *asked == Asked::Never {
                continue;
            }
            interest.explicit = interest.everything || !interest.names.is_empty();
            // An empty first list means everything again where the legacy wildcard is known (X02);
            // a client without interest says nothing at all.
            if !interest.explicit {
                *asked = Asked::Never;
                view.clear();
                continue;
            }
            let full_state = matches!(*short, "cds" | "lds");
            if !(full_state && interest.is_everything()) {
                view.clear();
            }
            let version = accepted.clone();
            self.send(client, ty, String::new(), version, None);
        }
    }

    /// Lets everybody finish, in a bounded number of steps.
    fn settle(&mut self) {
        for _ in 0..40 {
            let mut progress = false;
            for client in 0..self.clients.len() {
                while self.take(client) {
                    progress = true;
                }
                for ty in 0..TYPES.len() {
                    progress |= self.answer(client, ty);
                }
            }
            if !progress {
                return;
            }
        }
        panic!("no end of responses (IL2)");
    }

    fn check_views(&self) {
        for client in self.clients.iter().filter(|client| client.habit == Habit::Accepts) {
            for (ty, subscription) in client.subscriptions.iter().enumerate() {
                let exists: BTreeMap<String, String> = self
                    .store
                    .iter()
                    .filter(|((of, name), _)| *of == ty && subscription.interest.has(NAMES[*name]))
                    .map(|((_, name), content)| {
                        (String::from(NAMES[*name]), format!("{}={content}", NAMES[*name]))
                    })
                    .collect();
                let mut view = subscription.view.clone();
                if !matches!(TYPES[ty], "cds" | "lds") {
                    // Deletions are silent there.
                    view.retain(|name, _| exists.contains_key(name));
                }
                assert_eq!(view, exists, "{}", TYPES[ty]);
            }
        }
    }
}

fn name_of(value: &[u8]) -> String {
    String::from_utf8_lossy(value).split('=').next().unwrap_or_default().into()
}

/// Runs to the end and checks that it is one.
fn converge(ops: &[Op], config: (ServerConfig, Split)) {
    let mut world = World::with(config, 1, Drains::Always);
    world.run(ops);
    world.check_views();
    let frames = world.frames.len();
    // Saying the same again changes nothing.
    for client in 0..world.clients.len() {
        for ty in 0..TYPES.len() {
            let subscription = world.clients[client].subscriptions[ty].clone();
            if !subscription.nonce.is_empty() {
                let (nonce, version) = (subscription.nonce, subscription.accepted);
                world.send(client, ty, nonce, version, None);
            }
        }
    }
    let settled = world.frames.len();
    world.settle();
    let endpoints = url("eds");
    for frame in &world.frames[settled..] {
        let response = DiscoveryResponse::decode(frame.clone()).unwrap();
        assert_eq!(response.type_url, &*endpoints, "only endpoints may still be warming");
    }
    assert_eq!(settled, frames);
    assert!(frames <= 6 * (world.requests + world.clients.len() * ops.len()));

    // All that was held for them goes with them.
    for client in &world.clients {
        world.server.handle_event(StreamEvent::Closed(client.stream), Time::ZERO);
    }
    let stats = world.server.stats();
    assert_eq!((stats.streams, stats.subscriptions), (0, 0));
    assert_eq!((stats.resources, stats.names), (world.store.len(), world.store.len()));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// IS5, IS6, IS8, IS9, IS16, IS4, M64, M81, IL1, IL2.
    #[test]
    fn everybody_ends_up_with_what_exists(
        ops in vec(op(0..3, 0..TYPES.len()), 1..60),
        config in config(),
    ) {
        converge(&ops, config);
    }

    /// The same with one client and a type in full state.
    #[test]
    fn a_full_state_ends_up_complete(ops in vec(op(0..1, 2..3), 1..40), config in config()) {
        converge(&ops, config);
    }

    /// The same with one client, clusters and endpoints.
    #[test]
    fn clusters_and_endpoints_end_up_complete(
        ops in vec(op(0..1, 0..2), 1..40),
        config in config(),
    ) {
        converge(&ops, config);
    }

    /// IS34, rules 2 and 3: neither the process, nor the seed, nor when outputs are polled shows.
    #[test]
    fn the_same_calls_give_the_same_bytes(ops in vec(op(0..3, 0..TYPES.len()), 1..40)) {
        let mut one = World::new(1, Drains::Always);
        let mut same = World::new(1, Drains::Always);
        let mut other_seed = World::new(2, Drains::Always);
        let mut undrained = World::new(1, Drains::Never);
        for world in [&mut one, &mut same, &mut other_seed, &mut undrained] {
            world.run(&ops);
        }
        prop_assert_eq!(&one.transcript, &same.transcript);
        prop_assert_eq!(&one.frames, &same.frames);
        prop_assert_eq!(&one.transcript, &other_seed.transcript);
        prop_assert_eq!(&one.frames, &other_seed.frames);
        prop_assert_eq!(&one.frames, &undrained.frames);
    }

    /// Two servers with the same resources in the end state the same versions (M72, 5.7h).
    #[test]
    fn replicas_agree_on_versions(ops in vec(op(0..3, 0..TYPES.len()), 1..30), noise in vec(op(0..3, 0..TYPES.len()), 1..30)) {
        let mut one = World::new(1, Drains::Always);
        one.run(&ops);
        let mut two = World::new(2, Drains::Always);
        two.run(&noise);
        let wanted: Vec<_> = (0..TYPES.len())
            .flat_map(|ty| (0..NAMES.len()).map(move |name| (ty, name)))
            .map(|(ty, name)| (ty, name, one.store.get(&(ty, name)).copied()))
            .collect();
        two.apply(&wanted);
        for ty in TYPES {
            prop_assert_eq!(one.server.version(&url(ty)), two.server.version(&url(ty)));
        }
    }
}
