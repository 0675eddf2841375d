//! Random incremental clients and transactions against the simplest possible idea of what must come out.
//!
//! The model is a map of what exists and, per client and type, what it asked for and holds. The server is
//! right if, once everybody is done, each accepting client holds what exists of what it asked for and
//! knows of what does not; if every name it added was answered; if it then is silent; and if it never
//! said anything that nobody asked about.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::support::{payload, url};
use proptest::{collection::vec, prelude::*};
use prost::Message as _;
use xds_core::{
    Frame, StreamId, Time,
    proto::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, Node, Status},
    server::{
        AckGated, Admission, Cause, CloseReason, NackRecovery, OrderingPolicy, Server,
        ServerConfig, ServerOutput, StreamEvent, Transaction, Variant, Via, Window,
    },
};

const TYPES: [&str; 2] = ["cds", "eds"];
const NAMES: [&str; 4] = ["a", "b", "c", "*"];
const VIEWS: [&str; 2] = ["one", "two"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Habit {
    Accepts,
    Rejects,
    /// Rejects every other response.
    Wavers,
}

const HABITS: [Habit; 3] = [Habit::Accepts, Habit::Rejects, Habit::Wavers];

#[derive(Clone, Debug)]
enum Op {
    Apply(usize, Vec<(usize, usize, Option<u8>)>),
    /// Names to add and to drop, as bits; with the newest nonce or without.
    Change {
        client: usize,
        ty: usize,
        add: u8,
        drop: u8,
        answers: bool,
    },
    Take {
        client: usize,
    },
    Answer {
        client: usize,
        ty: usize,
    },
    Reconnect {
        client: usize,
        states_versions: bool,
    },
    Move {
        client: usize,
        view: usize,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let client = || 0..HABITS.len();
    let ty = || 0..TYPES.len();
    // Clients begin in the first.
    let view = || prop_oneof![3 => Just(0usize), 1 => Just(1)];
    let change = (ty(), 0..3usize, proptest::option::weighted(0.7, 0..3u8));
    let bits = || prop_oneof![3 => Just(0u8), 2 => 0..16u8, 1 => Just(8u8)];
    prop_oneof![
        4 => (view(), vec(change, 1..4)).prop_map(|(view, changes)| Op::Apply(view, changes)),
        4 => (client(), ty(), bits(), bits(), any::<bool>()).prop_map(
            |(client, ty, add, drop, answers)| Op::Change { client, ty, add, drop, answers }
        ),
        4 => client().prop_map(|client| Op::Take { client }),
        3 => (client(), ty()).prop_map(|(client, ty)| Op::Answer { client, ty }),
        1 => (client(), any::<bool>())
            .prop_map(|(client, states_versions)| Op::Reconnect { client, states_versions }),
        1 => (client(), view()).prop_map(|(client, view)| Op::Move { client, view }),
    ]
}

fn config() -> impl Strategy<Value = ServerConfig> {
    let limits = prop_oneof![Just(4 << 20), Just(1), Just(90)];
    let recovery = prop_oneof![
        Just(NackRecovery::ResendBatch),
        Just(NackRecovery::Minimal),
        Just(NackRecovery::Isolate)
    ];
    let window = prop_oneof![2 => Just(1u16), 1 => 2..4u16];
    let deletions = prop_oneof![Just(10_000), Just(1usize)];
    // What endpoints a cluster needs the model does not know.
    let mut gated = AckGated::default();
    gated.references = None;
    let ordering = prop_oneof![
        2 => Just(OrderingPolicy::OrderOnly),
        1 => Just(OrderingPolicy::Off),
        2 => Just(OrderingPolicy::AckGated(gated)),
    ];
    let limits = (limits, deletions);
    (limits, recovery, window, ordering).prop_map(|(limits, recovery, window, ordering)| {
        let (response, deletions) = limits;
        let mut config = ServerConfig::default().with_every_type(|it| {
            it.nack_recovery = recovery;
            it.window = Window::new(window);
        });
        config.ordering = ordering;
        config.admission = Admission::Asked;
        config.limits.response_bytes = response;
        config.limits.deletions_per_type = deletions;
        config
    })
}

#[derive(Clone, Debug, Default)]
struct Interest {
    names: BTreeSet<String>,
    everything: bool,
    /// Whether a request was sent on this stream.
    asked: bool,
}

impl Interest {
    fn has(&self, name: &str) -> bool {
        self.everything || self.names.contains(name)
    }
}

#[derive(Clone, Debug, Default)]
struct Subscription {
    interest: Interest,
    /// Names and contents in use, with their versions.
    view: BTreeMap<String, (String, String)>,
    absent: BTreeSet<String>,
    inbox: VecDeque<DeltaDiscoveryResponse>,
    nonce: String,
    /// What was added and not answered yet.
    unanswered: BTreeSet<String>,
    /// Everything it ever asked for or was sent.
    met: BTreeSet<String>,
    responses: u64,
    /// Resources in rejected responses, and responses that had one of them by itself.
    suspects: usize,
    recoveries: usize,
}

struct Client {
    view: usize,
    stream: StreamId,
    node_sent: bool,
    subscriptions: [Subscription; TYPES.len()],
}

struct World {
    server: Server,
    clients: Vec<Client>,
    stores: [BTreeMap<(usize, usize), u8>; VIEWS.len()],
    deaths: BTreeMap<(usize, usize), u32>,
    now: Time,
    requests: usize,
    responses: usize,
    changes: usize,
    /// Whether a response may be one of several parts.
    splits: bool,
    window: usize,
    /// Whether types wait for each other's ACKs.
    is_gated: bool,
}

impl World {
    fn new(config: ServerConfig) -> Self {
        let splits = config.limits.response_bytes < 1_000;
        let window = usize::from(config.type_defaults.others.window.get());
        let is_gated = matches!(config.ordering, OrderingPolicy::AckGated(_));
        let mut server = Server::new(config, 3, Time::ZERO);
        let clients = HABITS
            .map(|_| Client {
                view: 0,
                stream: server.accept(Via::Aggregated(Variant::Incremental), Time::ZERO).unwrap(),
                node_sent: false,
                subscriptions: Default::default(),
            })
            .into();
        Self {
            server,
            clients,
            stores: Default::default(),
            deaths: BTreeMap::new(),
            now: Time::ZERO,
            requests: 0,
            responses: 0,
            changes: 0,
            splits,
            window,
            is_gated,
        }
    }

    fn step(&mut self, op: &Op) {
        match op {
            Op::Apply(view, changes) => self.apply(*view, changes),
            Op::Change { client, ty, add, drop, answers } => {
                let names = |bits: u8| {
                    let named = NAMES.iter().enumerate();
                    named
                        .filter(move |(bit, _)| bits & (1 << bit) != 0)
                        .map(|(_, &name)| name.into())
                };
                let (add, drop): (Vec<String>, Vec<String>) =
                    (names(*add).collect(), names(*drop).collect());
                let nonce = match answers {
                    true => self.clients[*client].subscriptions[*ty].nonce.clone(),
                    false => String::new(),
                };
                // An answer is given to what was read.
                if self.clients[*client].subscriptions[*ty].inbox.is_empty() {
                    self.change(*client, *ty, add, drop, nonce);
                }
            }
            Op::Take { client } => drop(self.take(*client)),
            Op::Answer { client, ty } => drop(self.answer(*client, *ty)),
            Op::Reconnect { client, states_versions } => self.reconnect(*client, *states_versions),
            Op::Move { client, view } => self.move_to(*client, *view),
        }
        self.drain();
    }

    /// What the client sees changes under it.
    fn move_to(&mut self, client: usize, view: usize) {
        let Client { view: seen, stream, subscriptions, .. } = &mut self.clients[client];
        *seen = view;
        if subscriptions.iter().any(|subscription| subscription.interest.asked) {
            self.server.assign(*stream, &VIEWS[view].into(), self.now);
        }
        self.changes += NAMES.len();
    }

    fn apply(&mut self, view: usize, changes: &[(usize, usize, Option<u8>)]) {
        let mut transaction = Transaction::in_view(VIEWS[view]);
        for &(ty, name, content) in changes {
            let type_url = url(TYPES[ty]);
            match content {
                Some(content) => {
                    self.stores[view].insert((ty, name), content);
                    let bytes = payload(NAMES[name], &content.to_string());
                    transaction.set(&*type_url, NAMES[name], bytes)
                }
                None => {
                    self.stores[view].remove(&(ty, name));
                    *self.deaths.entry((ty, name)).or_default() += 1;
                    transaction.remove(&*type_url, NAMES[name])
                }
            };
        }
        self.changes += changes.len();
        self.server.apply(transaction, self.now).unwrap();
    }

    fn change(
        &mut self,
        client: usize,
        ty: usize,
        add: Vec<String>,
        drop: Vec<String>,
        nonce: String,
    ) {
        let subscription = &mut self.clients[client].subscriptions[ty];
        let is_first = !subscription.interest.asked;
        subscription.interest.asked = true;
        let interest = &mut subscription.interest;
        for name in &add {
            match name.as_str() {
                "*" => interest.everything = true,
                _ => drop_value(interest.names.insert(name.clone())),
            }
            subscription.met.insert(name.clone());
            subscription.absent.remove(name);
            subscription.unanswered.insert(name.clone());
        }
        if is_first && add.is_empty() && drop.is_empty() && TYPES[ty] == "cds" {
            interest.everything = true;
            subscription.unanswered.insert("*".into());
        }
        for name in &drop {
            subscription.unanswered.remove(name);
            if name == "*" {
                interest.everything = false;
            } else if interest.names.remove(name) && interest.everything {
                // The server must say whether the wildcard still covers it (IS14).
                subscription.unanswered.insert(name.clone());
            }
        }
        let interest = interest.clone();
        if !interest.everything {
            subscription.unanswered.retain(|name| interest.names.contains(name));
        }
        subscription.view.retain(|name, _| interest.has(name));
        subscription.absent.retain(|name| interest.names.contains(name));
        let states = BTreeMap::new();
        self.send(client, ty, add, drop, nonce, None, states);
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of a request")]
    fn send(
        &mut self,
        client: usize,
        ty: usize,
        add: Vec<String>,
        drop: Vec<String>,
        nonce: String,
        error: Option<Status>,
        versions: BTreeMap<String, String>,
    ) {
        let Client { stream, node_sent, .. } = &mut self.clients[client];
        let node = (!*node_sent).then(|| Node { id: format!("{client}"), ..Node::default() });
        *node_sent = true;
        let request = DeltaDiscoveryRequest {
            node,
            type_url: url(TYPES[ty]),
            resource_names_subscribe: add,
            resource_names_unsubscribe: drop,
            initial_resource_versions: versions,
            response_nonce: nonce,
            error_detail: error,
            ..Default::default()
        };
        self.requests += 1;
        let event = StreamEvent::Message(*stream, request.encode_to_vec().into());
        self.server.handle_event(event, self.now);
    }

    /// Takes a response, if one is due, and checks that it says nothing it must not.
    fn take(&mut self, client: usize) -> bool {
        let mut frame = Frame::default();
        let Some(sent) =
            self.server.poll_transmit(self.clients[client].stream, self.now, &mut frame)
        else {
            return false;
        };
        self.responses += 1;
        let response = DeltaDiscoveryResponse::decode(frame.to_bytes()).unwrap();
        let ty = TYPES.iter().position(|ty| url(ty) == response.type_url).unwrap();
        let store = &self.stores[self.clients[client].view];
        let subscription = &mut self.clients[client].subscriptions[ty];
        assert!(subscription.inbox.len() < self.window, "more than may be on their way (IS16)");
        if sent.cause == Cause::Recovery {
            subscription.recoveries += 1;
            assert!(subscription.recoveries <= subscription.suspects, "each suspect once (M108)");
            assert_eq!((response.resources.len(), response.removed_resources.len()), (1, 0));
        }
        subscription.responses += 1;
        // A later part of the first response has its reason.
        let is_first = subscription.responses == 1;
        assert!(is_first == (sent.cause == Cause::First) || self.splits && !is_first, "{sent:?}");
        let names: Vec<_> = response.resources.iter().map(|it| &*it.name).collect();
        let removed = response.removed_resources.iter().map(|name| &**name);
        let all: Vec<_> = names.iter().copied().chain(removed).collect();
        let unique: BTreeSet<_> = all.iter().collect();
        assert_eq!(unique.len(), all.len(), "a name comes twice (M135): {all:?}");
        for resource in &response.resources {
            let index = NAMES.iter().position(|known| *known == resource.name).unwrap();
            let current = payload(&resource.name, &store[&(ty, index)].to_string());
            assert_eq!(resource.resource.as_ref().unwrap().value, current, "not the newest (M64)");
            assert!(
                subscription.interest.has(&resource.name),
                "nobody asked for {}",
                resource.name
            );
        }
        for name in &response.removed_resources {
            let exists = NAMES.iter().position(|known| known == name);
            let exists = exists.is_some_and(|index| store.contains_key(&(ty, index)));
            let left = !subscription.interest.has(name);
            assert!(!exists || left, "{name} exists");
            // Who has a part of everything so far may be told of a deletion in the rest; and of several
            // gaps in the life of a resource only the last one is remembered.
            let index = NAMES.iter().position(|known| known == name).unwrap_or(usize::MAX);
            let many_gaps = self.deaths.get(&(ty, index)).is_some_and(|&deaths| deaths > 1);
            let met = subscription.met.contains(name) || self.splits || many_gaps;
            assert!(met, "{name} was neither asked for nor sent (IS11)");
        }
        let is_news = !all.is_empty() || subscription.unanswered.contains("*");
        assert!(is_news || self.splits, "nothing to say (IS5): {sent:?}");
        for name in all {
            subscription.unanswered.remove(name);
            subscription.met.insert(name.into());
        }
        if !self.splits {
            subscription.unanswered.remove("*");
        }
        subscription.inbox.push_back(response);
        true
    }

    fn answer(&mut self, client: usize, ty: usize) -> bool {
        let subscription = &mut self.clients[client].subscriptions[ty];
        let Some(response) = subscription.inbox.pop_front() else { return false };
        subscription.nonce = response.nonce.clone();
        let accepts = match HABITS[client] {
            Habit::Accepts => true,
            Habit::Rejects => false,
            Habit::Wavers => subscription.responses.is_multiple_of(2),
        };
        let error = match accepts {
            true => {
                for resource in response.resources {
                    if subscription.interest.has(&resource.name) {
                        let any = resource.resource.unwrap();
                        let text = String::from_utf8_lossy(&any.value).into_owned();
                        subscription.absent.remove(&resource.name);
                        subscription.view.insert(resource.name, (resource.version, text));
                    }
                }
                for name in response.removed_resources {
                    subscription.view.remove(&name);
                    if subscription.interest.names.contains(&name) {
                        subscription.absent.insert(name);
                    }
                }
                None
            }
            false => {
                subscription.suspects += response.resources.len();
                Some(Status { code: 3, message: String::from("no"), ..Status::default() })
            }
        };
        self.send(client, ty, vec![], vec![], response.nonce, error, BTreeMap::new());
        true
    }

    /// A new stream, on which the client may say what it has, or have forgotten it.
    fn reconnect(&mut self, client: usize, states_versions: bool) {
        let Client { stream, node_sent, .. } = &mut self.clients[client];
        self.server.handle_event(StreamEvent::Closed(*stream), self.now);
        *stream = self.server.accept(Via::Aggregated(Variant::Incremental), self.now).unwrap();
        *node_sent = false;
        for ty in 0..TYPES.len() {
            let subscription = &mut self.clients[client].subscriptions[ty];
            let old = std::mem::take(subscription);
            if old.interest.names.is_empty() && !old.interest.everything {
                continue;
            }
            subscription.interest = old.interest.clone();
            let mut add: Vec<_> = old.interest.names.into_iter().collect();
            if old.interest.everything {
                add.push("*".into());
            }
            subscription.met.extend(add.iter().cloned());
            let mut versions = BTreeMap::new();
            if states_versions {
                subscription.view = old.view;
                for (name, (version, _)) in &subscription.view {
                    versions.insert(name.clone(), version.clone());
                    subscription.met.insert(name.clone());
                }
            }
            let held = |name: &String| versions.contains_key(name);
            subscription.unanswered = add.iter().filter(|name| !held(name)).cloned().collect();
            self.send(client, ty, add, vec![], String::new(), None, versions);
        }
    }

    fn drain(&mut self) {
        let mut left_behind = Vec::new();
        while let Some(output) = self.server.poll_output() {
            if let ServerOutput::Authorize { stream, node_id } = &output {
                let client = &self.clients[node_id.parse::<usize>().unwrap()];
                // Or else it has gone since.
                if client.stream == *stream {
                    self.server.assign(*stream, &VIEWS[client.view].into(), self.now);
                }
            }
            if let ServerOutput::Close(stream, reason) = output {
                assert_eq!(reason, CloseReason::Behind, "nobody misbehaves");
                left_behind.push(stream);
            }
        }
        let is_last = left_behind.is_empty();
        for stream in left_behind {
            let client = self.clients.iter().position(|it| it.stream == stream).unwrap();
            self.reconnect(client, true);
        }
        if !is_last {
            self.drain();
        }
    }

    fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 200, "it never ends (IS4, IS5)");
            let mut busy = false;
            for client in 0..self.clients.len() {
                busy |= self.take(client);
                for ty in 0..TYPES.len() {
                    busy |= self.answer(client, ty);
                }
            }
            self.drain();
            if !busy {
                return;
            }
        }
    }

    fn check_views(&self) {
        for (ty, short) in TYPES.iter().enumerate() {
            let subscription = &self.clients[0].subscriptions[ty];
            let interest = &subscription.interest;
            let wanted: BTreeMap<_, _> = self.stores[self.clients[0].view]
                .iter()
                .filter(|((of, name), _)| *of == ty && interest.has(NAMES[*name]))
                .map(|((_, name), content)| {
                    let text = payload(NAMES[*name], &content.to_string());
                    (NAMES[*name].to_string(), String::from_utf8_lossy(&text).into_owned())
                })
                .collect();
            let held: BTreeMap<_, _> = subscription
                .view
                .iter()
                .map(|(name, (_, text))| (name.clone(), text.clone()))
                .collect();
            assert_eq!(held, wanted, "{short}: the client holds what exists");
            let absent: BTreeSet<_> =
                interest.names.iter().filter(|name| !wanted.contains_key(*name)).cloned().collect();
            assert_eq!(subscription.absent, absent, "{short}: it knows what does not (IS12)");
        }
        // Who rejects what others wait for keeps them waiting.
        let clients = if self.is_gated { &self.clients[..1] } else { &self.clients[..] };
        for client in clients {
            for subscription in &client.subscriptions {
                let open = subscription.unanswered.iter().filter(|name| *name != "*");
                assert_eq!(open.count(), 0, "answered (IS7, IS14): {:?}", subscription.unanswered);
            }
        }
    }
}

fn drop_value(_: bool) {}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// IS3, IS4, IS5, IS7, IS8, IS11-IS14, IS16, IS23, M64, M131, M135.
    #[test]
    fn everybody_ends_up_with_what_exists(ops in vec(op(), 1..60), config in config()) {
        let mut world = World::new(config);
        for op in &ops {
            world.step(op);
        }
        world.settle();
        world.check_views();
        let bound = 8 * (world.requests + HABITS.len() * TYPES.len() * (world.changes + 1));
        prop_assert!(world.responses <= bound);
        for client in &world.clients {
            world.server.handle_event(StreamEvent::Closed(client.stream), world.now);
        }
        let stats = world.server.stats();
        prop_assert_eq!((stats.streams, stats.subscriptions), (0, 0));
        let existing: usize = world.stores.iter().map(BTreeMap::len).sum();
        prop_assert_eq!(stats.resources, existing);
        let views = world.stores.iter().filter(|store| !store.is_empty()).count();
        prop_assert_eq!(stats.views, views + 1);
    }
}
