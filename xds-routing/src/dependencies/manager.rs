//! The state machine.

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

use super::{
    Children, ClusterConfiguration, ClusterError, Configuration, ConfigurationError, Dependency,
    DependencyError, DependencyKind, Endpoints, FollowedClusters, LeafConfiguration,
    ResolutionNote,
    configuration::ClusterMap,
    followed::News,
    graph::{Graph, Leafless},
    outbox::Outbox,
    root::{Root, RootState},
};
use crate::{
    Rules,
    cluster::{Cluster, Discovery},
};

/// What a [`DependencyManager`] wants, or has to say.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
#[non_exhaustive]
pub enum DependencyOutput {
    /// Watch this, and hand in every notice.
    Watch(Dependency),
    /// Watch this no longer.
    Unwatch(Dependency),
    /// What is in use from now on, or why nothing can be. It replaces what was in use before.
    Configuration(Result<Configuration, ConfigurationError>),
}

/// Follows what a listener leads to. See the [module](super).
///
/// Inputs do the work; [`poll_output`](Self::poll_output) hands out what came of it, and of several
/// configurations that nobody took only the last. The same inputs give the same outputs in every process.
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
    in_use: Option<Result<Root, ConfigurationError>>,
    next: Option<Next>,
    graph: Graph,
    /// How many hold each cluster.
    subscriptions: BTreeMap<ResourceName, usize>,
    /// The clusters of the configuration.
    clusters: Arc<ClusterMap>,
    /// What their notes have in common: what is wrong beside the listener and the routes.
    shared: Vec<WatchError>,
    outbox: Outbox,
    has_news: bool,
    is_shut_down: bool,
}

/// What is to be used when its clusters are there.
#[derive(Clone, Debug)]
struct Next {
    root: Root,
    /// Those that are not.
    awaited: BTreeSet<ResourceName>,
}

impl DependencyManager {
    /// Follows the listener of this name for a channel that asks for `authority`: its target without the
    /// scheme, by which the virtual host is chosen (S2.068). The node id is that of the client, for messages.
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
            has_news: false,
            is_shut_down: false,
        }
    }

    /// Judges resources by these rules where the client has not judged them, because it does not know their
    /// types.
    #[must_use]
    pub fn with_rules(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    /// Takes a notice of a watch. One of what is not watched is ignored.
    pub fn handle_notice(&mut self, dependency: &Dependency, notice: Notice) {
        let Dependency { kind, name } = dependency;
        match kind {
            DependencyKind::Listener => self.on_listener(name, News::read(notice, &self.rules)),
            DependencyKind::Routes => self.on_routes(name, News::read(notice, &self.rules)),
            DependencyKind::Cluster => {
                self.graph.take_cluster(name, News::read(notice, &self.rules), &mut self.outbox);
            }
            DependencyKind::Endpoints => {
                self.graph.take_endpoints(name, News::read(notice, &self.rules), &mut self.outbox);
            }
        }
        self.advance();
    }

    /// A watch could not be made.
    pub fn handle_refusal(&mut self, dependency: &Dependency, why: InvalidWatch) {
        let Dependency { kind, name } = dependency;
        let error = DependencyError::Refused(why);
        match kind {
            DependencyKind::Listener => self.on_listener(name, News::Value(Err(error))),
            DependencyKind::Routes => self.on_routes(name, News::Value(Err(error))),
            DependencyKind::Cluster => {
                self.graph.take_cluster(name, News::Value(Err(error)), &mut self.outbox);
            }
            DependencyKind::Endpoints => {
                self.graph.take_endpoints(name, News::Value(Err(error)), &mut self.outbox);
            }
        }
        self.advance();
    }

    /// Keeps a cluster, whatever routes lead to, until [`unsubscribe`](Self::unsubscribe) has been called as
    /// often. Whoever sends calls does so for each cluster that it may have decided for; once for all calls, or
    /// once for each.
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

    /// Lets go of a cluster. If neither routes nor anybody else needs it, it is dropped.
    pub fn unsubscribe(&mut self, cluster: &ResourceName) {
        let Some(count) = self.subscriptions.get_mut(cluster) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.subscriptions.remove(cluster);
            let in_use = self.in_use.as_ref().and_then(|it| it.as_ref().ok());
            let is_in_use = in_use.is_some_and(|root| root.clusters.contains(cluster));
            let is_routed = self.routed().any(|root| root.clusters.contains(cluster));
            // What only the next routes lead to is followed, and does not belong to the rest yet.
            self.graph.changed.members |= !is_in_use;
            self.graph.changed.links_cut |= !is_routed;
            if !is_in_use {
                self.advance();
            }
        }
    }

    /// Ends all watches and does nothing any more.
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
        self.has_news = false;
    }

    /// The next thing to do or to use. Watches come before the ends of watches, and these before the
    /// configuration.
    pub fn poll_output(&mut self) -> Option<DependencyOutput> {
        if let Some(output) = self.outbox.pop() {
            return Some(output);
        }
        if !core::mem::take(&mut self.has_news) {
            return None;
        }
        self.configuration().map(DependencyOutput::Configuration)
    }

    /// What is in use, or why nothing can be; `None` until either is known.
    #[must_use]
    pub fn configuration(&self) -> Option<Result<Configuration, ConfigurationError>> {
        let in_use = self.in_use.as_ref()?;
        Some(in_use.as_ref().map_err(Clone::clone).map(|root| Configuration {
            listener: Arc::clone(&root.listener),
            routes: Arc::clone(&root.routes),
            host: root.host,
            followed: self.clusters(),
        }))
    }

    /// The clusters in use: those of the [configuration](Self::configuration); where there is none, those that are
    /// [subscribed](Self::subscribe) to.
    #[must_use]
    pub fn clusters(&self) -> FollowedClusters {
        let note = self.note(None, Vec::new());
        FollowedClusters { clusters: Arc::clone(&self.clusters), note }
    }

    /// Whether there is something newer than what is in use, which waits for what it needs.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.next.is_some() || self.in_use.is_none()
    }
}

/// The listener and its routes.
impl DependencyManager {
    fn on_listener(&mut self, name: &ResourceName, news: News<crate::listener::Listener>) {
        if self.is_shut_down || *name != self.listener {
            return;
        }
        if self.root.listener.take(news) {
            self.root.follow_routes(&mut self.outbox);
            self.renew();
        }
    }

    fn on_routes(&mut self, name: &ResourceName, news: News<crate::route::RouteConfiguration>) {
        if !self.root.follows_routes(name) {
            return;
        }
        if self.root.routes.take(news) {
            self.renew();
        }
    }

    /// There is another listener, or there are other routes.
    fn renew(&mut self) {
        let replaced = self.next.take();
        self.graph.changed.links_cut |= replaced.is_some();
        self.graph.home = self.root.home();
        let is_usable = matches!(self.in_use, Some(Ok(_)));
        match self.root.newest(&self.authority, &self.node_id) {
            None => {}
            Some(Err(_)) if is_usable && self.root.is_trouble() => {}
            Some(Err(error)) => {
                self.in_use = Some(Err(error));
                self.graph.changed.links_cut = true;
                self.graph.changed.members = true;
                self.has_news = true;
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

    /// The listeners with routes that clusters are needed for.
    fn routed(&self) -> impl Iterator<Item = &Root> {
        let in_use = self.in_use.as_ref().and_then(|it| it.as_ref().ok());
        in_use.into_iter().chain(self.next.as_ref().map(|next| &next.root))
    }
}

/// What comes of an input.
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
            // What went may have taken endpoints along, nothing else.
            self.graph.changed.links_cut = false;
            self.graph.changed.members = true;
        }
        // A cluster that is subscribed to belongs to the rest once there is something of it.
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
            // Also where no cluster can be used, whose failures say it all the same.
            self.has_news |= matches!(self.in_use, Some(Ok(_)));
        }
        match members {
            true => self.recompose(&changed),
            false => self.refresh(changed),
        }
    }

    /// Takes the next root into use, if no cluster of it is awaited any more.
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
        // What an aggregate is made of may have become certain, which is no change of its own.
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
            self.has_news = true;
        }
    }

    /// Makes the map of clusters anew: others may belong to it.
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
            self.has_news = true;
        }
    }

    /// Makes some clusters anew that belong to the map.
    fn refresh(&mut self, changed: BTreeSet<ResourceName>) {
        for name in changed {
            let Some(old) = self.clusters.get(&name) else { continue };
            let Some(new) = self.entry(&name) else { continue };
            if *old != new {
                Arc::make_mut(&mut self.clusters).insert(name, new);
                self.has_news = true;
            }
        }
    }

    /// A cluster as it is in use; `None` if it is not settled.
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
        (Children::Leaf(LeafConfiguration { endpoints }), note)
    }

    /// What is wrong beside a cluster (S3.093).
    fn note_of(
        &self,
        name: &ResourceName,
        missing: Option<DependencyError>,
        of_endpoints: Option<WatchError>,
    ) -> ResolutionNote {
        let of_cluster = self.graph.ambient(name).cloned();
        let of_next = self.graph.held_up_by(name).cloned();
        self.note(missing, of_cluster.into_iter().chain(of_endpoints).chain(of_next).collect())
    }

    fn note(&self, missing: Option<DependencyError>, own: Vec<WatchError>) -> ResolutionNote {
        let errors = self.shared.iter().cloned().chain(own).collect();
        ResolutionNote::new(Arc::clone(&self.node_id), missing, errors)
    }
}

/// A cluster of the map.
type Entry = Result<Arc<ClusterConfiguration>, ClusterError>;

/// Whether it is the same, where what did not change was kept.
fn is_same(new: &ClusterMap, old: &ClusterMap) -> bool {
    let is_same = |new: &Entry, old: &Entry| match (new, old) {
        (Ok(new), Ok(old)) => Arc::ptr_eq(new, old),
        (new, old) => new == old,
    };
    let mut pairs = new.iter().zip(old);
    new.len() == old.len() && pairs.all(|(new, old)| new.0 == old.0 && is_same(new.1, old.1))
}

/// The old one if the new one is equal to it, so that whoever has the old one sees that nothing changed.
fn keep_equal(old: Option<&Entry>, new: Entry) -> Entry {
    match old {
        Some(old) if *old == new => old.clone(),
        _ => new,
    }
}
