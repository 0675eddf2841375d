//! State machine of the dependency manager, and its adapters to a client core and to a handle.

mod on_client;
#[cfg(feature = "handle")]
mod on_handle;

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    sync::Arc,
    vec::Vec,
};

use xds_core::{
    ResourceName,
    client::{InvalidWatch, Notice, WatchError},
};

pub use self::on_client::ClientDependencies;
#[cfg(feature = "handle")]
pub use self::on_handle::HandleDependencies;
use super::{
    Children, ClusterConfiguration, ClusterError, Configuration, ConfigurationError, Dependency,
    DependencyError, DependencyKind, EndpointConfiguration, Endpoints, ResolutionNote,
    ResolvedClusters,
    configuration::ClusterMap,
    graph::{Graph, Leafless},
    outbox::{DependencyOutput, Outbox},
    root::{ListenerRoutes, RootState},
    watched_resource::WatchUpdate,
};
use crate::{
    Rules,
    cluster::{Cluster, Discovery},
};

/// Tracks the resources that a listener leads to. See the [module](super).
///
/// Inputs update the state. [`poll_output`](Self::poll_output) returns the results; of several
/// unread configurations only the newest is kept. Equal inputs give equal outputs in every process.
///
/// ```
/// use xds_routing::dependencies::{Dependency, DependencyKind, DependencyManager, DependencyOutput};
///
/// let mut manager = DependencyManager::new("shop.example.com", "shop.example.com", "node-1");
/// let listener = Dependency::new(DependencyKind::Listener, "shop.example.com".into());
/// assert_eq!(manager.poll_output(), Some(DependencyOutput::Watch(listener)));
/// assert_eq!(manager.poll_output(), None);
/// ```
#[derive(Clone, Debug)]
pub struct DependencyManager {
    listener: ResourceName,
    authority: String,
    node_id: Arc<str>,
    rules: Rules,
    root: RootState,
    in_use: Option<Result<ListenerRoutes, ConfigurationError>>,
    next: Option<Next>,
    graph: Graph,
    /// Number of subscriptions of each cluster.
    subscriptions: BTreeMap<ResourceName, usize>,
    /// Clusters of the configuration.
    clusters: Arc<ClusterMap>,
    /// Ambient errors of the listener and the routes, which all notes have in common.
    shared: Vec<WatchError>,
    outbox: Outbox,
    is_changed: bool,
    is_shut_down: bool,
}

/// Pending listener and routes, which are used once their clusters are known.
#[derive(Clone, Debug)]
struct Next {
    root: ListenerRoutes,
    /// Clusters that are not known yet.
    awaited: BTreeSet<ResourceName>,
}

impl DependencyManager {
    /// Creates a manager for the listener with this name. `authority` is the target of the channel
    /// without its scheme and selects the virtual host. `node_id` is the client's node ID, for
    /// messages.
    // S2.068
    #[must_use]
    pub fn new(
        listener: impl Into<ResourceName>,
        authority: impl Into<String>,
        node_id: impl Into<Arc<str>>,
    ) -> Self {
        let listener = listener.into();
        let mut outbox = Outbox::default();
        outbox.watch(DependencyKind::Listener, &listener);
        Self {
            listener,
            authority: authority.into(),
            node_id: node_id.into(),
            rules: Rules::default(),
            root: RootState::default(),
            in_use: None,
            next: None,
            graph: Graph::default(),
            subscriptions: BTreeMap::new(),
            clusters: Arc::default(),
            shared: Vec::new(),
            outbox,
            is_changed: false,
            is_shut_down: false,
        }
    }

    /// Sets the rules for resources that the client did not validate because it does not know their
    /// types. Default: gRPC's rules.
    #[must_use]
    pub fn with_rules(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    /// Handles a notice of a watch. A notice for a resource that is not watched is ignored.
    pub fn handle_notice(&mut self, dependency: &Dependency, notice: Notice) {
        let Dependency { kind, name } = dependency;
        match kind {
            DependencyKind::Listener => {
                self.on_listener(name, WatchUpdate::read(notice, &self.rules))
            }
            DependencyKind::Routes => self.on_routes(name, WatchUpdate::read(notice, &self.rules)),
            DependencyKind::Cluster => {
                self.graph.take_cluster(
                    name,
                    WatchUpdate::read(notice, &self.rules),
                    &mut self.outbox,
                );
            }
            DependencyKind::Endpoints => {
                self.graph.take_endpoints(
                    name,
                    WatchUpdate::read(notice, &self.rules),
                    &mut self.outbox,
                );
            }
        }
        self.advance();
    }

    /// Handles the refusal of a watch by the client.
    pub fn handle_refusal(&mut self, dependency: &Dependency, why: InvalidWatch) {
        let Dependency { kind, name } = dependency;
        let error = DependencyError::Refused(why);
        match kind {
            DependencyKind::Listener => self.on_listener(name, WatchUpdate::Value(Err(error))),
            DependencyKind::Routes => self.on_routes(name, WatchUpdate::Value(Err(error))),
            DependencyKind::Cluster => {
                self.graph.take_cluster(name, WatchUpdate::Value(Err(error)), &mut self.outbox);
            }
            DependencyKind::Endpoints => {
                self.graph.take_endpoints(name, WatchUpdate::Value(Err(error)), &mut self.outbox);
            }
        }
        self.advance();
    }

    /// Keeps a cluster, even if no route names it, until [`unsubscribe`](Self::unsubscribe) has
    /// been called the same number of times. The caller subscribes to each cluster that its calls
    /// may use, once for all calls or once per call.
    pub fn subscribe(&mut self, cluster: &ResourceName) {
        if self.is_shut_down {
            return;
        }
        let count = self.subscriptions.entry(cluster.clone()).or_default();
        *count = count.saturating_add(1);
        if *count == 1 {
            self.graph.follow(cluster, &mut self.outbox);
            self.graph.changed.members |= !self.clusters.contains_key(cluster);
            self.advance();
        }
    }

    /// Ends a subscription of a cluster. If no route and no other subscription needs the cluster,
    /// its watch ends.
    pub fn unsubscribe(&mut self, cluster: &ResourceName) {
        let Some(count) = self.subscriptions.get_mut(cluster) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.subscriptions.remove(cluster);
            let in_use = self.in_use.as_ref().and_then(|it| it.as_ref().ok());
            let is_in_use = in_use.is_some_and(|root| root.clusters.contains(cluster));
            let is_routed = self.routed().any(|root| root.clusters.contains(cluster));
            // Only pending routes name it: it is watched, but not part of the map yet.
            self.graph.changed.members |= !is_in_use;
            self.graph.changed.links_cut |= !is_routed;
            if !is_in_use {
                self.advance();
            }
        }
    }

    /// Ends all watches. Later inputs have no effect.
    pub fn shut_down(&mut self) {
        if core::mem::replace(&mut self.is_shut_down, true) {
            return;
        }
        self.subscriptions.clear();
        self.root.forget(&mut self.outbox);
        (self.in_use, self.next) = (None, None);
        self.graph.collect(core::iter::empty(), &mut self.outbox);
        self.clusters = Arc::default();
        self.outbox.unwatch(DependencyKind::Listener, &self.listener);
        self.is_changed = false;
    }

    /// Returns the next output: new watches first, then ended ones, then the configuration.
    pub fn poll_output(&mut self) -> Option<DependencyOutput> {
        if let Some(change) = self.outbox.pop() {
            return Some(change.into());
        }
        if !core::mem::take(&mut self.is_changed) {
            return None;
        }
        self.configuration().map(DependencyOutput::Configuration)
    }

    /// Returns the configuration in use, or the error in its place. `None` until one of them is
    /// known.
    #[must_use]
    pub fn configuration(&self) -> Option<Result<Configuration, ConfigurationError>> {
        let in_use = self.in_use.as_ref()?;
        Some(in_use.as_ref().map_err(Clone::clone).map(|root| Configuration {
            listener: Arc::clone(&root.listener),
            routes: Arc::clone(&root.routes),
            host: root.host,
            resolved_clusters: self.clusters(),
        }))
    }

    /// Returns the clusters in use: those of the [configuration](Self::configuration) or, if there
    /// is none, those that are [subscribed](Self::subscribe).
    #[must_use]
    pub fn clusters(&self) -> ResolvedClusters {
        let note = self.note(None, Vec::new());
        ResolvedClusters { clusters: Arc::clone(&self.clusters), note }
    }

    /// Whether a newer listener or newer routes wait for their dependencies, or nothing is in use
    /// yet.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.next.is_some() || self.in_use.is_none()
    }
}

/// Listener and routes.
impl DependencyManager {
    fn on_listener(&mut self, name: &ResourceName, update: WatchUpdate<crate::listener::Listener>) {
        if self.is_shut_down || *name != self.listener {
            return;
        }
        if self.root.listener.take(update) {
            self.root.follow_routes(&mut self.outbox);
            self.renew();
        }
    }

    fn on_routes(
        &mut self,
        name: &ResourceName,
        update: WatchUpdate<crate::route::RouteConfiguration>,
    ) {
        if !self.root.follows_routes(name) {
            return;
        }
        if self.root.routes.take(update) {
            self.renew();
        }
    }

    /// Re-evaluates the root after a change of the listener or the routes.
    fn renew(&mut self) {
        let replaced = self.next.take();
        self.graph.changed.links_cut |= replaced.is_some();
        self.graph.home = self.root.home();
        let is_usable = matches!(self.in_use, Some(Ok(_)));
        match self.root.newest(&self.authority, &self.node_id) {
            None => {}
            Some(Err(_)) if is_usable && self.root.is_transiently_unavailable() => {}
            Some(Err(error)) => {
                self.in_use = Some(Err(error));
                self.graph.changed.links_cut = true;
                self.graph.changed.members = true;
                self.is_changed = true;
            }
            Some(Ok(root)) => {
                if let Some(Ok(in_use)) = &self.in_use
                    && in_use.is(&root)
                {
                    return;
                }
                for cluster in &root.clusters {
                    self.graph.follow(cluster, &mut self.outbox);
                }
                let is_awaited = |name: &&ResourceName| match is_usable {
                    true => !self.graph.is_certain(name),
                    false => !self.graph.is_settled(name),
                };
                let awaited = root.clusters.iter().filter(is_awaited).cloned().collect();
                self.next = Some(Next { root, awaited });
            }
        }
    }

    /// Returns the roots in use and pending, whose clusters are needed.
    fn routed(&self) -> impl Iterator<Item = &ListenerRoutes> {
        let in_use = self.in_use.as_ref().and_then(|it| it.as_ref().ok());
        in_use.into_iter().chain(self.next.as_ref().map(|next| &next.root))
    }
}

/// Evaluation after each input.
impl DependencyManager {
    fn advance(&mut self) {
        if self.is_shut_down {
            return;
        }
        self.replace_root();
        if core::mem::take(&mut self.graph.changed.links_cut) {
            let routed: BTreeSet<ResourceName> =
                self.routed().flat_map(|root| &root.clusters).cloned().collect();
            let from = routed.iter().chain(self.subscriptions.keys());
            self.graph.collect(from, &mut self.outbox);
            // The collection may have removed endpoints, but nothing that requires another
            // collection.
            self.graph.changed.links_cut = false;
            self.graph.changed.members = true;
        }
        // A subscribed cluster is added to the map once it has a version in use.
        let is_new = |name: &ResourceName| {
            self.subscriptions.contains_key(name) && !self.clusters.contains_key(name)
        };
        let has_new = self.graph.changed.clusters.iter().any(is_new);
        let members = core::mem::take(&mut self.graph.changed.members) || has_new;
        let mut changed = core::mem::take(&mut self.graph.changed.clusters);
        let shared = self.root.ambient();
        if shared != self.shared {
            self.shared = shared;
            changed.extend(self.clusters.keys().cloned());
            // Needed even if no cluster is usable, because failures contain the note too.
            self.is_changed |= matches!(self.in_use, Some(Ok(_)));
        }
        match members {
            true => self.recompose(&changed),
            false => self.refresh(changed),
        }
    }

    /// Uses the pending root if none of its clusters is awaited any more.
    fn replace_root(&mut self) {
        let is_usable = matches!(self.in_use, Some(Ok(_)));
        let Some(next) = &mut self.next else { return };
        for name in &self.graph.changed.clusters {
            let is_there = match is_usable {
                true => self.graph.is_certain(name),
                false => self.graph.is_settled(name),
            };
            if is_there {
                next.awaited.remove(name);
            }
        }
        // The members of an aggregate may have become certain without a change of the aggregate.
        if is_usable && !self.graph.changed.clusters.is_empty() {
            for name in self.graph.certain_aggregates(&next.awaited) {
                next.awaited.remove(&name);
            }
        }
        if next.awaited.is_empty()
            && let Some(next) = self.next.take()
        {
            self.in_use = Some(Ok(next.root));
            self.graph.changed.links_cut = true;
            self.is_changed = true;
        }
    }

    /// Rebuilds the map of clusters, whose set may have changed.
    fn recompose(&mut self, changed: &BTreeSet<ResourceName>) {
        let root = self.in_use.as_ref().and_then(|it| it.as_ref().ok());
        let routed = root.map(|root| &root.clusters).into_iter().flatten();
        let members = self.graph.reach(routed.chain(self.subscriptions.keys()));
        let mut clusters = ClusterMap::new();
        for name in members {
            let entry = match self.clusters.get(name) {
                Some(entry) if !changed.contains(name) => Some(entry.clone()),
                old => self.entry(name).map(|new| keep_equal(old, new)),
            };
            if let Some(entry) = entry {
                clusters.insert(name.clone(), entry);
            }
        }
        if !is_same(&clusters, &self.clusters) {
            self.clusters = Arc::new(clusters);
            self.is_changed = true;
        }
    }

    /// Updates the changed clusters of the map.
    fn refresh(&mut self, changed: BTreeSet<ResourceName>) {
        for name in changed {
            let Some(old) = self.clusters.get(&name) else { continue };
            let Some(new) = self.entry(&name) else { continue };
            if *old != new {
                Arc::make_mut(&mut self.clusters).insert(name, new);
                self.is_changed = true;
            }
        }
    }

    /// Returns the version of a cluster in use, or `None` if it is not settled.
    fn entry(&self, name: &ResourceName) -> Option<Entry> {
        let cluster = match self.graph.in_use(name)? {
            Ok(cluster) => cluster,
            Err(error) => return Some(Err(error.clone().into())),
        };
        let (children, note) = match &cluster.discovery {
            Discovery::Aggregate(_) => {
                let note = self.note_of(name, None, None);
                match self.graph.leaves(name) {
                    Ok(leaves) => (Children::Aggregate(leaves), note),
                    Err(Leafless::TooDeep) => return Some(Err(ClusterError::TooDeep { note })),
                    Err(Leafless::NoLeaves) => return Some(Err(ClusterError::NoLeaves { note })),
                }
            }
            Discovery::Eds(_) | Discovery::LogicalDns(_) => self.leaf(name, cluster),
        };
        Some(Ok(Arc::new(ClusterConfiguration { cluster: Arc::clone(cluster), children, note })))
    }

    fn leaf(&self, name: &ResourceName, cluster: &Cluster) -> (Children, ResolutionNote) {
        let (mut missing, mut of_endpoints) = (None, None);
        let endpoints = match &cluster.discovery {
            Discovery::Eds(service) => {
                let known = self.graph.endpoints(service);
                of_endpoints = known.and_then(|known| known.ambient.clone());
                match known.and_then(|known| known.value.as_ref()) {
                    Some(Ok(endpoints)) => {
                        let is_empty = endpoints.priorities.is_empty();
                        missing = is_empty.then(|| DependencyError::NoLocalities(service.clone()));
                        Endpoints::Known(Arc::clone(endpoints))
                    }
                    Some(Err(error)) => {
                        missing = Some(error.clone());
                        Endpoints::Missing
                    }
                    None => Endpoints::Missing,
                }
            }
            Discovery::LogicalDns(address) => Endpoints::Dns(address.clone()),
            Discovery::Aggregate(_) => Endpoints::Missing,
        };
        let note = self.note_of(name, missing, of_endpoints);
        (Children::Leaf(EndpointConfiguration { endpoints }), note)
    }

    /// Returns the note of a cluster.
    // S3.093
    fn note_of(
        &self,
        name: &ResourceName,
        missing: Option<DependencyError>,
        of_endpoints: Option<WatchError>,
    ) -> ResolutionNote {
        let of_cluster = self.graph.ambient(name).cloned();
        let of_next = self.graph.pending_error(name).cloned();
        self.note(missing, of_cluster.into_iter().chain(of_endpoints).chain(of_next).collect())
    }

    fn note(&self, missing: Option<DependencyError>, own: Vec<WatchError>) -> ResolutionNote {
        let errors = self.shared.iter().cloned().chain(own).collect();
        ResolutionNote::new(Arc::clone(&self.node_id), missing, errors)
    }
}

/// Entry of the cluster map.
type Entry = Result<Arc<ClusterConfiguration>, ClusterError>;

/// Whether two maps are the same. Unchanged entries share their allocation.
fn is_same(new: &ClusterMap, old: &ClusterMap) -> bool {
    let is_same = |new: &Entry, old: &Entry| match (new, old) {
        (Ok(new), Ok(old)) => Arc::ptr_eq(new, old),
        (new, old) => new == old,
    };
    let mut pairs = new.iter().zip(old);
    new.len() == old.len() && pairs.all(|(new, old)| new.0 == old.0 && is_same(new.1, old.1))
}

/// Returns the old entry if both are equal, so that its users see that nothing changed.
fn keep_equal(old: Option<&Entry>, new: Entry) -> Entry {
    match old {
        Some(old) if *old == new => old.clone(),
        _ => new,
    }
}
