//! A server and its clients, with what each client received.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use prost::Message as _;
use xds_core::{
    Frame, StreamId, Time,
    proto::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, Node, Status},
    server::{
        CloseReason, OrderingPolicy, ResponseCause, Server, ServerConfig, ServerEvent,
        ServerOutput, StageTimeoutAction, StreamEvent, StreamKind, Transaction, Variant,
    },
};

use super::ops::{HABITS, Habit, NAMES, Op, TYPES, VIEWS};
use crate::support::{payload, url};

#[derive(Clone, Debug, Default)]
pub(super) struct Interest {
    pub(super) names: BTreeSet<String>,
    pub(super) everything: bool,
    /// Whether a request was sent on this stream.
    pub(super) asked: bool,
}

impl Interest {
    pub(super) fn has(&self, name: &str) -> bool {
        self.everything || self.names.contains(name)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Subscription {
    pub(super) interest: Interest,
    /// Contents and versions of the resources in use.
    pub(super) view: BTreeMap<String, (String, String)>,
    pub(super) absent: BTreeSet<String>,
    pub(super) inbox: VecDeque<DeltaDiscoveryResponse>,
    pub(super) nonce: String,
    /// Subscriptions without an answer yet.
    pub(super) unanswered: BTreeSet<String>,
    /// Every name that was ever subscribed to or sent.
    pub(super) met: BTreeSet<String>,
    pub(super) responses: u64,
    /// Number of resources in rejected responses, and of isolated retries.
    pub(super) suspects: usize,
    pub(super) has_rejected: bool,
    pub(super) recoveries: usize,
}

pub(super) struct Client {
    pub(super) view: usize,
    pub(super) stream: StreamId,
    pub(super) node_sent: bool,
    pub(super) subscriptions: [Subscription; TYPES.len()],
}

pub(super) struct World {
    pub(super) server: Server,
    pub(super) clients: Vec<Client>,
    pub(super) stores: [BTreeMap<(usize, usize), u8>; VIEWS.len()],
    pub(super) now: Time,
    pub(super) requests: usize,
    pub(super) responses: usize,
    pub(super) changes: usize,
    /// Whether a response may consist of several parts.
    pub(super) splits: bool,
    pub(super) window: usize,
    /// Whether removals are sent after all else.
    pub(super) is_ordered: bool,
    /// Whether a type may wait indefinitely for another type's ACK.
    pub(super) may_hold: bool,
}

impl World {
    pub(super) fn new(mut config: ServerConfig) -> Self {
        // Some of these clients never send a request.
        config.limits.first_request = None;
        let splits = config.limits.response_bytes < 1_000;
        let window = usize::from(config.type_defaults.others.window.get());
        let is_ordered = !matches!(config.ordering, OrderingPolicy::Off);
        let may_hold = matches!(
            &config.ordering,
            OrderingPolicy::MakeBeforeBreak(gated) if gated.on_stage_timeout == StageTimeoutAction::Hold
        );
        let mut server = Server::new(config, 3, Time::ZERO);
        let clients = HABITS
            .map(|_| Client {
                view: 0,
                stream: server
                    .accept(StreamKind::Aggregated(Variant::Incremental), Time::ZERO)
                    .unwrap(),
                node_sent: false,
                subscriptions: Default::default(),
            })
            .into();
        Self {
            server,
            clients,
            stores: Default::default(),
            now: Time::ZERO,
            requests: 0,
            responses: 0,
            changes: 0,
            splits,
            window,
            is_ordered,
            may_hold,
        }
    }

    pub(super) fn step(&mut self, op: &Op) {
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
                // An answer is sent only after the response was read.
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

    /// Changes the view of a client.
    pub(super) fn move_to(&mut self, client: usize, view: usize) {
        let Client { view: seen, stream, subscriptions, .. } = &mut self.clients[client];
        *seen = view;
        if subscriptions.iter().any(|subscription| subscription.interest.asked) {
            self.server.assign(*stream, &VIEWS[view].into(), self.now);
        }
        self.changes += NAMES.len();
    }

    pub(super) fn apply(&mut self, view: usize, changes: &[(usize, usize, Option<u8>)]) {
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
                    transaction.remove(&*type_url, NAMES[name])
                }
            };
        }
        self.changes += changes.len();
        self.server.apply(transaction, self.now).unwrap();
    }

    pub(super) fn change(
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
                // The server must report the current state under the wildcard (IS14).
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
    pub(super) fn send(
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

    /// Takes a response, if one is due, and checks that its content is allowed.
    pub(super) fn take(&mut self, client: usize) -> bool {
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
        if sent.cause == ResponseCause::Recovery {
            subscription.recoveries += 1;
            assert!(subscription.recoveries <= subscription.suspects, "each suspect once (M108)");
            assert_eq!((response.resources.len(), response.removed_resources.len()), (1, 0));
        }
        subscription.responses += 1;
        // Later parts of the first response have its reason, and so have deferred resources.
        let is_first = subscription.responses == 1;
        let is_later_part = self.splits || self.is_ordered;
        assert!(
            is_first == (sent.cause == ResponseCause::First) || is_later_part && !is_first,
            "{sent:?}"
        );
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
            // The rest of a partial wildcard response may contain a removal of an unknown name, and so may
            // a response that repeats rejected removals.
            let met = subscription.met.contains(name) || self.splits || subscription.has_rejected;
            assert!(met, "{name} was neither asked for nor sent (IS11)");
        }
        // A removal that is withheld from a returning client waits for the ACK of a first response, which
        // may be empty.
        let is_news =
            !all.is_empty() || subscription.unanswered.contains("*") || self.is_ordered && is_first;
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

    pub(super) fn answer(&mut self, client: usize, ty: usize) -> bool {
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
                subscription.has_rejected = true;
                Some(Status { code: 3, message: String::from("no"), ..Status::default() })
            }
        };
        self.send(client, ty, vec![], vec![], response.nonce, error, BTreeMap::new());
        true
    }

    /// Opens a new stream, on which the client states its versions or has forgotten them.
    pub(super) fn reconnect(&mut self, client: usize, states_versions: bool) {
        let Client { stream, node_sent, .. } = &mut self.clients[client];
        self.server.handle_event(StreamEvent::Closed(*stream), self.now);
        *stream =
            self.server.accept(StreamKind::Aggregated(Variant::Incremental), self.now).unwrap();
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

    pub(super) fn drain(&mut self) {
        let mut left_behind = Vec::new();
        while let Some(output) = self.server.poll_output() {
            if let ServerOutput::Event(ServerEvent::Authorize { stream, node_id }) = &output {
                let client = &self.clients[node_id.parse::<usize>().unwrap()];
                // Otherwise the stream has ended since.
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

    pub(super) fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 300, "it never ends (IS4, IS5)");
            let mut busy = false;
            for client in 0..self.clients.len() {
                busy |= self.take(client);
                for ty in 0..TYPES.len() {
                    busy |= self.answer(client, ty);
                }
            }
            self.drain();
            if !busy {
                let Some(due) = self.server.poll_timeout() else { return };
                self.now = self.now.max(due.at);
                self.server.handle_timeout(self.now);
            }
        }
    }

    pub(super) fn check_views(&self) {
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
        // A rejecting client may be waited for indefinitely.
        let clients = if self.may_hold { &self.clients[..1] } else { &self.clients[..] };
        for client in clients {
            for subscription in &client.subscriptions {
                let open = subscription.unanswered.iter().filter(|name| *name != "*");
                assert_eq!(open.count(), 0, "answered (IS7, IS14): {:?}", subscription.unanswered);
            }
        }
    }
}

pub(super) fn drop_value(_: bool) {}
