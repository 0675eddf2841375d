//! A relay: a client whose resources go into the store of a server, and whose watches are the
//! subscriptions of the server's clients.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use xds_core::{
    CacheControl, Client, Time, WatchId,
    client::{
        ClientConfig, Interest, Node, Notice, OpaqueType, ResourceType, ServerAddress,
        WatchErrorKind,
    },
    server::{
        Admission, OnDemand, ResourceOptions, Server, ServerConfig, ServerEvent, ServerOutput,
        Transaction, Variant, VersionMode,
    },
    types,
};
use xds_sim::ToyType;

use super::segment::{Member, Segment};

/// Time for which a resource without subscribers stays subscribed upstream.
// M250
pub(crate) const GRACE: Duration = Duration::from_secs(10);

/// View of clients whose requests must not be aggregated with those of others.
// M252
const APART: &str = "apart";

/// Subscription of the relay's clients: view, type and name.
type Key = (String, String, String);

/// Origin of versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Versions {
    /// Derived from the contents of resources, and so the same at every server.
    Content,
    /// Set by the application of the upstream server, and passed on by the relay.
    // M253
    Above,
}

/// Upstream server, relay, and clients of the relay.
pub(crate) struct RelayWorld {
    /// Upstream server. Its clients are those of the relay, one per view.
    pub(crate) upstream: Segment,
    /// Server of the relay, and its clients.
    pub(crate) downstream: Segment,
    pub(crate) now: Time,
    watches: BTreeMap<Key, (Member, WatchId)>,
    /// Resources without subscribers, and the times at which they are unsubscribed.
    unwanted: VecDeque<(Time, Key)>,
    /// Resources that must not be kept.
    // M249
    fleeting: BTreeSet<Key>,
    /// Client of the relay for each view.
    views: BTreeMap<String, Member>,
    variant: Variant,
    versions: Versions,
    /// Upstream errors for the relay's operator; the relay's clients are not notified.
    // M247
    pub(crate) troubles: Vec<String>,
}

impl RelayWorld {
    pub(crate) fn new(variant: Variant) -> Self {
        Self::with_versions(variant, Versions::Content)
    }

    pub(crate) fn with_versions(variant: Variant, versions: Versions) -> Self {
        let now = Time::ZERO;
        let mode = match versions {
            Versions::Content => VersionMode::Content,
            Versions::Above => VersionMode::Label,
        };
        let above = ServerConfig::default().with_every_type(|it| it.versions = mode);
        let config =
            above.clone().with_on_demand(OnDemand::Notify).with_admission(Admission::ByApplication);
        Self {
            upstream: Segment::new(Server::new(above, 1, now)),
            downstream: Segment::new(Server::new(config, 2, now)),
            now,
            watches: BTreeMap::new(),
            unwanted: VecDeque::new(),
            fleeting: BTreeSet::new(),
            views: BTreeMap::new(),
            variant,
            versions,
            troubles: Vec::new(),
        }
    }

    /// Connects a new client to the relay.
    pub(crate) fn client(&mut self, id: &str) -> Member {
        self.downstream.join(client(id, self.variant, ToyType::new))
    }

    /// Changes the resources of the upstream server.
    pub(crate) fn set(&mut self, change: impl FnOnce(&mut Transaction)) {
        let mut transaction = Transaction::new();
        change(&mut transaction);
        let applied = self.upstream.server.apply(transaction, self.now);
        applied.expect("a good transaction");
        self.settle();
    }

    /// Delivers all messages until there are no more.
    pub(crate) fn settle(&mut self) {
        loop {
            let moved = self.upstream.pump(self.now) | self.downstream.pump(self.now);
            if !(self.forward_subscriptions() | self.forward_changes() | moved) {
                return;
            }
        }
    }

    /// Advances the time, from deadline to deadline.
    pub(crate) fn advance(&mut self, duration: Duration) {
        let until = self.now.after(duration);
        loop {
            self.settle();
            let own = self.unwanted.front().map(|(at, _)| *at);
            let deadlines = [own, self.upstream.next_deadline(), self.downstream.next_deadline()];
            let next = deadlines.into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= until) else { break };
            self.now = self.now.max(next);
            self.upstream.wake(self.now);
            self.downstream.wake(self.now);
            self.release_expired();
        }
        self.now = until;
    }

    /// Number of watches of the relay's clients at the upstream server.
    pub(crate) fn subscriptions(&self) -> usize {
        self.watches.len()
    }

    /// Watches the resources that clients of the relay subscribe to.
    // M245, M254
    fn forward_subscriptions(&mut self) -> bool {
        let mut moved = false;
        while let Some(wish) = self.downstream.wishes.pop_front() {
            moved = true;
            match wish {
                ServerOutput::Event(ServerEvent::Authorize { stream, node_id }) => {
                    let view = if node_id.starts_with(APART) { &*node_id } else { "" };
                    self.downstream.server.assign(stream, &view.into(), self.now);
                }
                ServerOutput::Event(ServerEvent::Wanted { view, type_url, names }) => {
                    for name in names {
                        self.subscribe((view.to_string(), type_url.to_string(), name.to_string()));
                    }
                }
                ServerOutput::Event(ServerEvent::Unwanted { view, type_url, names }) => {
                    for name in names {
                        let key = (view.to_string(), type_url.to_string(), name.to_string());
                        // A resource that must not be kept is unsubscribed with its
                        // last subscriber (M249).
                        let grace = if self.fleeting.remove(&key) { Duration::ZERO } else { GRACE };
                        self.unwanted.push_back((self.now.after(grace), key));
                    }
                    self.unwanted.make_contiguous().sort_by_key(|(at, _)| *at);
                }
                other => panic!("a relay does not know {other:?}"),
            }
        }
        moved
    }

    /// Starts a watch, unless it still exists.
    fn subscribe(&mut self, key: (String, String, String)) {
        if self.unwanted.iter().any(|(_, unwanted)| *unwanted == key) {
            self.unwanted.retain(|(_, unwanted)| *unwanted != key);
            return;
        }
        let member = self.client_of(&key.0);
        let interest = Interest::Name(key.2.as_str());
        let watch = self.upstream.watch(member, key.1.as_str(), interest, self.now);
        self.watches.insert(key, (member, watch));
    }

    /// Applies the notices of the relay's clients to the relay's server.
    fn forward_changes(&mut self) -> bool {
        let mut moved = false;
        while let Some((member, watch, notice)) = self.upstream.notices.pop_front() {
            moved = true;
            let own = self.watches.iter().find(|(_, own)| **own == (member, watch));
            let Some((key, _)) = own else { continue };
            let (view, type_url, name) = key;
            let mut transaction = Transaction::in_view(view.as_str());
            match notice {
                Notice::Changed(Ok(resource)) => {
                    let control = resource.cache_control;
                    match control {
                        CacheControl::Cacheable => self.fleeting.remove(key),
                        _ => self.fleeting.insert(key.clone()),
                    };
                    let mut options = ResourceOptions::default().with_cache_control(control);
                    let (type_url, name) = (type_url.as_str(), name.as_str());
                    // State of the world has one version per response, incremental
                    // one per resource.
                    match (self.versions, self.variant) {
                        (Versions::Content, _) => {}
                        (Versions::Above, Variant::Incremental) => {
                            options = options.with_version(resource.version);
                        }
                        (Versions::Above, Variant::StateOfTheWorld) => {
                            transaction.set_version(type_url, resource.version);
                        }
                    }
                    transaction.set_with(type_url, name, resource.bytes, options);
                }
                Notice::Changed(Err(error)) | Notice::Ambient(Some(error)) => {
                    let (type_url, name) = (type_url.as_str(), name.as_str());
                    match error.kind() {
                        WatchErrorKind::Reported { code, message } => {
                            transaction.set_error(type_url, name, *code, message.clone());
                        }
                        WatchErrorKind::Deleted => {
                            transaction.remove(type_url, name);
                        }
                        WatchErrorKind::Absent | WatchErrorKind::DoesNotExist(_) => {
                            transaction.mark_missing(type_url, name);
                        }
                        // Upstream error: clients keep the resource (M247).
                        trouble => {
                            self.troubles.push(format!("{name}: {trouble}"));
                            continue;
                        }
                    }
                }
                _ => continue,
            }
            let applied = self.downstream.server.apply(transaction, self.now);
            applied.expect("what one server sends another one can hold");
        }
        moved
    }

    /// Ends watches of resources without subscribers after the grace period.
    fn release_expired(&mut self) {
        while self.unwanted.front().is_some_and(|(at, _)| *at <= self.now) {
            let Some((_, key)) = self.unwanted.pop_front() else { return };
            // The resource may have been subscribed again without a new output of the server,
            // because the response arrived in between. Then the end of that subscription is not
            // reported either.
            let (view, type_url, name) = &key;
            let server = &mut self.downstream.server;
            let removed =
                server.remove_unless_named(&view.as_str().into(), type_url, name, self.now);
            if removed.expect("a removal").is_none() {
                self.unwanted.push_back((self.now.after(GRACE), key));
                continue;
            }
            let Some((member, watch)) = self.watches.remove(&key) else { continue };
            self.upstream.client(member).unwatch(watch, self.now);
        }
    }

    fn client_of(&mut self, view: &str) -> Member {
        if let Some(&member) = self.views.get(view) {
            return member;
        }
        let id = if view.is_empty() { "relay" } else { view };
        let member = self.upstream.join(client(id, self.variant, OpaqueType::new));
        self.views.insert(view.to_owned(), member);
        member
    }
}

/// Creates a client of clusters and endpoints.
pub(crate) fn client<T: ResourceType + 'static>(
    id: &str,
    variant: Variant,
    resource_type: impl Fn(&'static str) -> T,
) -> Client {
    let server = ServerAddress::new("server").with_variant(variant);
    // Rejections are answered at once.
    let config = ClientConfig::new(Node::new(id), server)
        .with_nack_interval(Duration::ZERO)
        .with_type(resource_type(types::CLUSTER))
        .with_type(resource_type(types::CLUSTER_LOAD_ASSIGNMENT));
    Client::new(config, 3, Time::ZERO)
}
