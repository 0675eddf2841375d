//! A minimal model of the server's responses, checked against a real server.
//!
//! | file | content |
//! |---|---|
//! | `ops.rs` | random steps and configurations |
//! | `client.rs` | one client: its subscriptions, resources and history |

pub(crate) mod client;
pub(crate) mod ops;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use prost::Message as _;
use xds_core::{
    Frame, Time,
    proto::{DiscoveryRequest, DiscoveryResponse, Node, Status},
    server::{
        NackRecovery, OrderingPolicy, ResponseCause, Server, ServerConfig, ServerOutput,
        SotwResponse, StreamEvent, StreamKind, Transaction, Variant, VersionMode,
    },
};

use self::{
    client::{Asked, Client, Holds, Interest, Rejected, Subscription},
    ops::{Habit, NAMES, Nonce, Op, Split, TYPES},
};
use crate::support::{payload, url};

const VIA: StreamKind = StreamKind::Aggregated(Variant::StateOfTheWorld);
pub(crate) const HABITS: [Habit; 3] = [Habit::Accepts, Habit::Rejects, Habit::Wavers];

pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) clients: Vec<Client>,
    pub(crate) store: BTreeMap<(usize, usize), u8>,
    /// Number of effective changes per type.
    pub(crate) changes: [u64; TYPES.len()],
    pub(crate) drains: Drains,
    /// Every output in order.
    pub(crate) transcript: Vec<String>,
    pub(crate) frames: Vec<Bytes>,
    pub(crate) requests: usize,
    pub(crate) split: Split,
    window: usize,
    nack_recovery: NackRecovery,
    versions: VersionMode,
    /// Number of changes that share a label, with label versions.
    pub(crate) changes_of_a_label: u64,
    /// Whether the responses of all types are complete.
    repeats: bool,
    /// Whether a deleted resource may still be sent while its removal is deferred.
    lets_linger: bool,
    now: Time,
}

/// Polling of outputs, which must not affect the result (rule 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drains {
    Always,
    Never,
}

impl World {
    pub(crate) fn new(seed: u64, drains: Drains) -> Self {
        Self::with((ServerConfig::default(), Split::No), seed, drains)
    }

    pub(crate) fn with(
        (mut config, split): (ServerConfig, Split),
        seed: u64,
        drains: Drains,
    ) -> Self {
        // Some of these clients never send a request.
        config.limits.first_request = None;
        let rules = config.type_defaults.others;
        let lets_linger = !matches!(config.ordering, OrderingPolicy::Off);
        let mut server = Server::new(config, seed, Time::ZERO);
        let clients = HABITS
            .map(|habit| Client {
                habit,
                stream: server.accept(VIA, Time::ZERO).unwrap(),
                node_sent: false,
                subscriptions: Default::default(),
            })
            .into();
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
            window: usize::from(rules.window.get()),
            nack_recovery: rules.nack_recovery,
            versions: rules.versions,
            changes_of_a_label: 3,
            repeats: rules.sotw_response != SotwResponse::Changes,
            lets_linger,
            now: Time::ZERO,
        }
    }

    pub(crate) fn run(&mut self, ops: &[Op]) {
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

    pub(crate) fn apply(&mut self, changes: &[(usize, usize, Option<u8>)]) {
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
        let differs = |key: &&(usize, usize)| before.get(key) != self.store.get(key);
        let touched: BTreeSet<_> = before.keys().chain(self.store.keys()).filter(differs).collect();
        let mut types: BTreeSet<usize> = touched.iter().map(|(ty, _)| *ty).collect();
        if matches!(self.versions, VersionMode::Caller | VersionMode::Label) {
            // The same resources with another version are a change, too.
            if self.changes_of_a_label < u64::MAX {
                types.extend(changes.iter().map(|(ty, ..)| *ty));
            }
            for ty in &types {
                let change = self.changes[*ty] + 1;
                let shared = match self.versions {
                    VersionMode::Label => change / self.changes_of_a_label,
                    _ => change,
                };
                transaction.set_version(url(TYPES[*ty]), format!("v{shared}"));
            }
        }
        let applied = self.server.apply(transaction, self.now).unwrap();
        assert_eq!(applied.changed + applied.removed, touched.len());
        for (ty, changes) in self.changes.iter_mut().enumerate() {
            *changes += u64::from(types.contains(&ty));
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
            // Resources of an earlier stream are not kept up to date, except for a wildcard
            // subscription: a removal is not reported if none of the listed names exists (M39).
            subscription.view.clear();
        }
        let nonce = match nonce {
            Nonce::Newest => subscription.nonce.clone(),
            Nonce::Blank => String::new(),
        };
        let version = subscription.accepted.clone();
        // A list that crosses a response is stale unless it has no nonce: the server drops it, and
        // the client must repeat it.
        let heard = subscription.inbox.is_empty() || nonce.is_empty();
        self.send(client, ty, nonce, version, None, heard);
    }

    pub(crate) fn send(
        &mut self,
        client: usize,
        ty: usize,
        nonce: String,
        version: String,
        error: Option<Status>,
        heard: bool,
    ) {
        let Client { stream, node_sent, subscriptions, .. } = &mut self.clients[client];
        let subscription = &mut subscriptions[ty];
        let interest = subscription.interest.clone();
        if heard {
            subscription.view.retain(|name, _| interest.has(name));
        }
        subscription.seen.lists += u64::from(heard);
        subscription.seen.unheard = !heard;
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
        self.server.handle_event(event, self.now);
    }

    /// Takes a response, if one is due, and checks that it has a reason.
    fn take(&mut self, client: usize) -> bool {
        let mut frame = Frame::default();
        let stream = self.clients[client].stream;
        let Some(sent) = self.server.poll_transmit(stream, self.now, &mut frame) else {
            return false;
        };
        let bytes = frame.to_bytes();
        self.frames.push(bytes.clone());
        self.transcript.push(format!("{sent:?}"));
        let response = DiscoveryResponse::decode(bytes).unwrap();
        let ty = TYPES.iter().position(|ty| url(ty) == response.type_url).unwrap();
        let subscription = &mut self.clients[client].subscriptions[ty];
        assert!(subscription.inbox.len() < self.window, "more than may be on their way (IS16)");

        let seen = &mut subscription.seen;
        let resources: Vec<_> = response.resources.iter().map(|any| any.value.clone()).collect();
        match sent.cause {
            // Later parts of a split response have the reason of the first part.
            _ if self.split == Split::Yes && seen.responses > 0 => {}
            ResponseCause::First => assert_eq!(seen.responses, 0),
            ResponseCause::Changed => assert!(self.changes[ty] > seen.changes || seen.lingering),
            ResponseCause::Resubscribed => assert!(seen.lists > seen.lists_then),
            ResponseCause::Warming => {
                assert!(TYPES[ty] == "eds" && seen.clusters > seen.clusters_then)
            }
            // Without dropped resources and unreported removals that had been sent.
            ResponseCause::Recovery if self.nack_recovery == NackRecovery::ResendBatch => {
                let moment = (self.changes[ty], seen.lists, seen.clusters);
                assert!(seen.rejected.as_ref().is_some_and(|rejected| moment > rejected.after));
                let is_full = self.repeats || matches!(TYPES[ty], "cds" | "lds");
                assert!(is_full, "no full state");
            }
            ResponseCause::Recovery => {
                assert_eq!(self.nack_recovery, NackRecovery::Isolate);
                seen.recoveries += 1;
                assert!(seen.recoveries <= seen.suspects, "each suspect once (M108)");
                assert!(subscription.inbox.is_empty(), "nothing else is on its way");
            }
            other => panic!("{other}"),
        }
        let is_same =
            |it: &&Rejected| it.resources == resources && it.errors == response.resource_errors;
        if let Some(rejected) = seen.rejected.as_ref().filter(is_same) {
            let now = (self.changes[ty], seen.lists, seen.clusters);
            assert!(now > rejected.after, "rejected, and sent again for nothing (IS4)");
        }
        seen.responses += 1;
        if sent.cause != ResponseCause::Recovery {
            seen.clusters_then = seen.clusters;
        }
        // A resource sent alone answers nothing and is no change. What waits for other types comes
        // later.
        let is_alone =
            sent.cause == ResponseCause::Recovery && self.nack_recovery == NackRecovery::Isolate;
        if !is_alone {
            (seen.changes, seen.lists_then) = (self.changes[ty], seen.lists);
        }
        // Unsubscribed resources are not checked here.
        let names: Vec<_> = resources.iter().map(|value| name_of(value)).collect();
        let unique: BTreeSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len(), "duplicates (M81)");
        seen.lingering = false;
        for (name, value) in names.iter().zip(&resources) {
            let index = NAMES.iter().position(|known| known == name).unwrap();
            let exists = self.store.contains_key(&(ty, index));
            // The last accepted version may be older.
            let repeats = self.repeats || matches!(TYPES[ty], "cds" | "lds");
            if sent.cause == ResponseCause::Recovery && repeats {
                seen.lingering |= !exists;
                continue;
            }
            if !exists {
                assert!(self.lets_linger && TYPES[ty] == "cds", "deleted (M64)");
                seen.lingering = true;
            } else {
                let current = payload(name, &self.store[&(ty, index)].to_string());
                assert_eq!(*value, current, "not the newest (M64)");
            }
        }
        // A full state states the newest version or label, even if it contains the same as a resource
        // sent alone.
        let changes = match self.versions {
            VersionMode::Caller | VersionMode::Label if is_alone => seen.changes,
            _ => self.changes[ty],
        };
        seen.sent.extend(resources);
        // What does not fit is a change that comes after this part.
        let interest = &subscription.interest;
        let is_unsent = |(&(of, name), content): (&(usize, usize), &u8)| {
            let sent = payload(NAMES[name], &content.to_string());
            of == ty && interest.has(NAMES[name]) && !seen.sent.contains(&sent)
        };
        let has_more = self.split == Split::Yes && self.store.iter().any(is_unsent);
        let changes = changes - u64::from(has_more);
        let moment = (changes, seen.lists_then, seen.clusters_then);
        subscription.inbox.push_back((response, moment));
        if TYPES[ty] == "cds" {
            self.clients[client].subscriptions[1].seen.clusters += 1;
        }
        true
    }

    fn answer(&mut self, client: usize, ty: usize) -> bool {
        let Client { habit, subscriptions, .. } = &mut self.clients[client];
        let subscription = &mut subscriptions[ty];
        let Some((response, moment)) = subscription.inbox.pop_front() else { return false };
        let accepts = match habit {
            Habit::Accepts => true,
            Habit::Rejects => false,
            Habit::Wavers => subscription.seen.responses % 2 == 0,
        };
        subscription.nonce = response.nonce.clone();
        subscription.version = response.version_info.clone();
        let (lists, unheard) = (subscription.seen.lists, subscription.seen.unheard);
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
            subscription.seen.suspects += response.resources.len();
            subscription.seen.rejected = Some(Rejected {
                resources: response.resources.iter().map(|any| any.value.clone()).collect(),
                errors: response.resource_errors.clone(),
                after: moment,
            });
            Some(Status { code: 3, message: String::from("no"), ..Status::default() })
        };
        subscription.seen.error = error.clone();
        let (nonce, version) = (response.nonce, subscription.accepted.clone());
        self.send(client, ty, nonce, version, error, true);
        // An ACK repeats the list, which is no news unless an earlier list was dropped.
        let seen = &mut self.clients[client].subscriptions[ty].seen;
        if !unheard {
            seen.lists = lists;
        }
        true
    }

    /// Opens a new stream. The client forgets its resources, except a complete state that it
    /// accepted for a wildcard subscription, whose version it states.
    fn reconnect(&mut self, client: usize) {
        let Client { stream, node_sent, subscriptions, .. } = &mut self.clients[client];
        self.server.handle_event(StreamEvent::Closed(*stream), self.now);
        *stream = self.server.accept(VIA, self.now).unwrap();
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
            // An empty first list means the legacy wildcard where that exists (X02); a client
            // without subscriptions sends no request.
            if !interest.explicit {
                *asked = Asked::Never;
                view.clear();
                continue;
            }
            let full_state = self.repeats || matches!(*short, "cds" | "lds");
            if !(full_state && interest.is_everything()) {
                view.clear();
            }
            let version = accepted.clone();
            self.send(client, ty, String::new(), version, None, true);
        }
    }

    /// Lets all clients and all timers finish, in a bounded number of steps.
    pub(crate) fn settle(&mut self) {
        for _ in 0..300 {
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
                // Until drained, the next deadline is queued output.
                self.drain();
                let Some(due) = self.server.poll_timeout() else { return };
                self.now = self.now.max(due.at);
                self.server.handle_timeout(self.now);
            }
        }
        panic!("no end of responses (IL2)");
    }

    pub(crate) fn check_views(&self) {
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
                    // Removals of these types are not reported.
                    view.retain(|name, _| exists.contains_key(name));
                }
                assert_eq!(view, exists, "{}", TYPES[ty]);
            }
        }
    }
}

pub(crate) fn name_of(value: &[u8]) -> String {
    String::from_utf8_lossy(value).split('=').next().unwrap_or_default().into()
}
