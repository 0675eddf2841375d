//! Clusters, what they are made of and their endpoints: what is known of each, and what is in use.

mod aggregates;

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};

use xds_core::{ResourceName, client::WatchError, xdstp::Authority};

pub(super) use self::aggregates::Leafless;
use super::{
    DependencyError, DependencyKind, MAX_AGGREGATE_DEPTH,
    followed::{Followed, News},
    outbox::Outbox,
};
use crate::{
    cluster::{Cluster, Discovery},
    endpoint::ClusterLoadAssignment,
};

/// All clusters that are followed.
///
/// A cluster is *settled* once something of it is in use: the resource with what it needs, or the
/// error in its place. It stays settled as long as it is followed.
#[derive(Clone, Debug, Default)]
pub(super) struct Graph {
    nodes: BTreeMap<ResourceName, Node>,
    endpoints: BTreeMap<ResourceName, EndpointsNode>,
    /// The clusters that are made of others, be it in use or next.
    aggregates: BTreeSet<ResourceName>,
    /// How often something was told of a cluster.
    told: u64,
    /// Who answers for the newest routes.
    pub(super) home: Option<Authority>,
    pub(super) changed: Changed,
}

/// What happened since it was last looked at.
#[derive(Clone, Debug, Default)]
pub(super) struct Changed {
    /// The clusters of which something else is in use, or known.
    pub(super) clusters: BTreeSet<ResourceName>,
    /// An aggregate that is in use is made of other clusters.
    pub(super) members: bool,
    /// Some clusters may be followed in vain.
    pub(super) links_cut: bool,
}

/// One cluster.
#[derive(Clone, Debug)]
struct Node {
    /// How many clusters lie between it and a route or a subscription, at least.
    depth: usize,
    in_use: Option<Result<Arc<Cluster>, DependencyError>>,
    /// What takes its place when what it needs is there.
    next: Option<Arc<Cluster>>,
    /// What is wrong beside the newest of both.
    ambient: Option<WatchError>,
    /// Since when it is to be found as the newest of both says, in the graph's count.
    since: u64,
    /// When something was told of it last, in the same.
    heard: u64,
    /// Whether it is watched anew, to hear of it once more.
    is_asked_again: bool,
}

impl Node {
    const fn at(depth: usize) -> Self {
        Self {
            depth,
            in_use: None,
            next: None,
            ambient: None,
            since: 0,
            heard: 0,
            is_asked_again: false,
        }
    }

    /// Something is told of it, be it new or not.
    fn hear(&mut self, told: u64, value: Result<&Cluster, &DependencyError>) {
        (self.heard, self.is_asked_again) = (told, false);
        let known = self.next.as_ref().or_else(|| self.current()).map(|known| &known.discovery);
        if known != value.ok().map(|new| &new.discovery) {
            self.since = told;
        }
    }

    fn current(&self) -> Option<&Arc<Cluster>> {
        self.in_use.as_ref().and_then(|result| result.as_ref().ok())
    }

    fn is_settled(&self) -> bool {
        self.in_use.is_some()
    }

    /// What it is found by, or is to be.
    fn discoveries(&self) -> impl Iterator<Item = &Discovery> {
        [self.current(), self.next.as_ref()].into_iter().flatten().map(|it| &it.discovery)
    }
}

/// The endpoints of clusters.
#[derive(Clone, Debug, Default)]
struct EndpointsNode {
    followed: Followed<ClusterLoadAssignment>,
    /// The clusters that have them, be it in use or next.
    clusters: BTreeSet<ResourceName>,
}

fn members(discovery: &Discovery) -> &[ResourceName] {
    match discovery {
        Discovery::Aggregate(members) => members,
        Discovery::Eds(_) | Discovery::LogicalDns(_) => &[],
    }
}

/// What is known.
impl Graph {
    pub(super) fn is_settled(&self, name: &ResourceName) -> bool {
        self.nodes.get(name).is_some_and(Node::is_settled)
    }

    /// Whether it is settled, and not by mere trouble on the way to it or to what it is made of: that ends with the
    /// next answer, be it an error, or with none in time. Only who answers for the routes is waited for; a
    /// cluster that others answer for fails alone (A74).
    pub(super) fn is_certain(&self, name: &ResourceName) -> bool {
        self.nodes.contains_key(name) && self.are_certain(name)
    }

    /// The same of a cluster that may be too deep to be followed, of which nothing is to come.
    fn are_certain(&self, name: &ResourceName) -> bool {
        let (mut seen, mut waiting) = (BTreeSet::new(), Vec::from([name]));
        while let Some(name) = waiting.pop() {
            let Some(node) = self.nodes.get(name).filter(|_| seen.insert(name)) else { continue };
            let is_certain = match &node.in_use {
                None => false,
                Some(Err(error)) => !self.may_come(name, error),
                Some(Ok(cluster)) => {
                    waiting.extend(members(&cluster.discovery));
                    match &cluster.discovery {
                        Discovery::Eds(service) => {
                            match self.endpoints(service).and_then(|it| it.value.as_ref()) {
                                None => false,
                                Some(Ok(_)) => true,
                                Some(Err(error)) => !self.may_come(service, error),
                            }
                        }
                        Discovery::LogicalDns(_) | Discovery::Aggregate(_) => true,
                    }
                }
            };
            if !is_certain {
                return false;
            }
        }
        true
    }

    /// Whether nothing is known of what cannot be had but that who answers for it and for the routes is away.
    fn may_come(&self, name: &ResourceName, error: &DependencyError) -> bool {
        error.is_out_of_reach() && Authority::of(name.as_str()).ok() == self.home
    }

    /// The aggregates among these that are certain.
    pub(super) fn certain_aggregates(&self, among: &BTreeSet<ResourceName>) -> Vec<ResourceName> {
        let aggregates = self.aggregates.intersection(among);
        aggregates.filter(|name| self.is_certain(name)).cloned().collect()
    }

    /// Whether calls to a cluster can go somewhere.
    fn is_usable(&self, name: &ResourceName) -> bool {
        let has_endpoints = |leaf: &ResourceName| match self.in_use(leaf) {
            Some(Ok(cluster)) => match &cluster.discovery {
                Discovery::Eds(service) => {
                    let known = self.endpoints.get(service).map(|it| &it.followed.value);
                    matches!(known, Some(Some(Ok(_))))
                }
                Discovery::LogicalDns(_) => true,
                Discovery::Aggregate(_) => false,
            },
            Some(Err(_)) | None => false,
        };
        self.leaves(name).is_ok_and(|leaves| leaves.iter().any(has_endpoints))
    }

    /// What is in use of a cluster; `None` if it is not settled.
    pub(super) fn in_use(
        &self,
        name: &ResourceName,
    ) -> Option<&Result<Arc<Cluster>, DependencyError>> {
        self.nodes.get(name)?.in_use.as_ref()
    }

    /// What is wrong beside a cluster.
    pub(super) fn ambient(&self, name: &ResourceName) -> Option<&WatchError> {
        self.nodes.get(name)?.ambient.as_ref()
    }

    /// Why the endpoints that a cluster is to have cannot be had at the moment, while it keeps those that it has.
    pub(super) fn held_up_by(&self, name: &ResourceName) -> Option<&WatchError> {
        let Discovery::Eds(service) = &self.nodes.get(name)?.next.as_ref()?.discovery else {
            return None;
        };
        match self.endpoints(service)?.value.as_ref()? {
            Err(DependencyError::Watch(error)) => Some(error),
            _ => None,
        }
    }

    /// What is known of endpoints.
    pub(super) fn endpoints(
        &self,
        name: &ResourceName,
    ) -> Option<&Followed<ClusterLoadAssignment>> {
        self.endpoints.get(name).map(|node| &node.followed)
    }

    /// These clusters and all that they are made of, as far as they are settled.
    pub(super) fn reach<'a>(
        &'a self,
        from: impl Iterator<Item = &'a ResourceName>,
    ) -> BTreeSet<&'a ResourceName> {
        let mut waiting: Vec<&ResourceName> = from.collect();
        let mut reached = BTreeSet::new();
        while let Some(name) = waiting.pop() {
            let Some(in_use) = self.in_use(name) else { continue };
            if reached.insert(name)
                && let Ok(cluster) = in_use
            {
                waiting.extend(members(&cluster.discovery));
            }
        }
        reached
    }
}

/// What is followed.
impl Graph {
    /// Follows a cluster that routes lead to, or that is subscribed to.
    pub(super) fn follow(&mut self, name: &ResourceName, outbox: &mut Outbox) {
        self.follow_below(Vec::from([(name.clone(), 0)]), outbox);
    }

    fn follow_below(&mut self, mut waiting: Vec<(ResourceName, usize)>, outbox: &mut Outbox) {
        while let Some((name, depth)) = waiting.pop() {
            if depth >= MAX_AGGREGATE_DEPTH {
                continue;
            }
            match self.nodes.get_mut(&name) {
                None => {
                    outbox.watch(DependencyKind::Cluster, &name);
                    self.nodes.insert(name, Node::at(depth));
                }
                // There is a shorter way to it, so that more of what is below may be near enough.
                Some(node) if depth < node.depth => {
                    node.depth = depth;
                    let below = node.discoveries().flat_map(members);
                    waiting.extend(below.map(|member| (member.clone(), depth + 1)));
                }
                Some(_) => {}
            }
        }
    }

    /// Drops what neither these nor what they are made of lead to.
    pub(super) fn collect<'a>(
        &mut self,
        from: impl Iterator<Item = &'a ResourceName>,
        outbox: &mut Outbox,
    ) {
        let mut depths: BTreeMap<ResourceName, usize> = BTreeMap::new();
        let mut level: Vec<ResourceName> = from.cloned().collect();
        for depth in 0..MAX_AGGREGATE_DEPTH {
            let mut below = Vec::new();
            for name in level {
                if let Some(node) = self.nodes.get(&name)
                    && !depths.contains_key(&name)
                {
                    below.extend(node.discoveries().flat_map(members).cloned());
                    depths.insert(name, depth);
                }
            }
            level = below;
        }
        let mut gone = Vec::new();
        for (name, node) in &mut self.nodes {
            match depths.get(name) {
                Some(&depth) => node.depth = depth,
                None => gone.push(name.clone()),
            }
        }
        for name in gone {
            let Some(node) = self.nodes.remove(&name) else { continue };
            outbox.unwatch(DependencyKind::Cluster, &name);
            self.aggregates.remove(&name);
            self.changed.clusters.insert(name.clone());
            for discovery in node.discoveries() {
                self.let_go(&name, discovery, outbox);
            }
        }
    }

    /// Links a cluster to what it needs.
    fn link(&mut self, name: &ResourceName, discovery: &Discovery, outbox: &mut Outbox) {
        match discovery {
            Discovery::Eds(service) => {
                let node = self.endpoints.entry(service.clone()).or_insert_with(|| {
                    outbox.watch(DependencyKind::Endpoints, service);
                    EndpointsNode::default()
                });
                node.clusters.insert(name.clone());
            }
            Discovery::LogicalDns(_) => {}
            Discovery::Aggregate(members) => {
                self.aggregates.insert(name.clone());
                let depth = self.nodes.get(name).map_or(0, |node| node.depth);
                let below = members.iter().map(|member| (member.clone(), depth + 1));
                self.follow_below(below.collect(), outbox);
            }
        }
    }

    /// Cuts the links of a cluster by a discovery that it had, as far as it does not need them otherwise.
    fn let_go(&mut self, name: &ResourceName, discovery: &Discovery, outbox: &mut Outbox) {
        let node = self.nodes.get(name);
        match discovery {
            Discovery::Eds(service) => {
                let is_needed = |node: &Node| {
                    node.discoveries()
                        .any(|it| matches!(it, Discovery::Eds(name) if name == service))
                };
                if node.is_some_and(is_needed) {
                    return;
                }
                if let Some(endpoints) = self.endpoints.get_mut(service) {
                    endpoints.clusters.remove(name);
                    if endpoints.clusters.is_empty() {
                        self.endpoints.remove(service);
                        outbox.unwatch(DependencyKind::Endpoints, service);
                    }
                }
            }
            Discovery::LogicalDns(_) => {}
            Discovery::Aggregate(_) => {
                self.changed.links_cut = true;
                let is_one = |node: &Node| {
                    node.discoveries().any(|it| matches!(it, Discovery::Aggregate(_)))
                };
                if !node.is_some_and(is_one) {
                    self.aggregates.remove(name);
                }
            }
        }
    }
}

/// News.
impl Graph {
    pub(super) fn take_cluster(
        &mut self,
        name: &ResourceName,
        news: News<Cluster>,
        outbox: &mut Outbox,
    ) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        if let News::Value(value) = &news {
            self.told = self.told.saturating_add(1);
            node.hear(self.told, value.as_deref());
        }
        match news {
            News::Nothing => {}
            News::Ambient(error) => {
                node.ambient = error;
                self.changed.clusters.insert(name.clone());
            }
            News::Value(Ok(cluster)) => {
                node.ambient = None;
                let old_next = node.next.take();
                if node.current().is_some_and(|old| old.discovery == cluster.discovery) {
                    node.in_use = Some(Ok(cluster));
                    self.changed.clusters.insert(name.clone());
                } else {
                    node.next = Some(Arc::clone(&cluster));
                    self.link(name, &cluster.discovery, outbox);
                }
                if let Some(old) = old_next {
                    self.let_go(name, &old.discovery, outbox);
                }
                self.settle(name, outbox);
            }
            News::Value(Err(error)) => {
                node.ambient = None;
                let old = [node.next.take(), node.current().cloned()];
                node.in_use = Some(Err(error));
                self.note_in_use(name);
                for old in old.into_iter().flatten() {
                    self.let_go(name, &old.discovery, outbox);
                }
                self.settle_aggregates(outbox);
            }
        }
    }

    pub(super) fn take_endpoints(
        &mut self,
        service: &ResourceName,
        news: News<ClusterLoadAssignment>,
        outbox: &mut Outbox,
    ) {
        let Some(endpoints) = self.endpoints.get_mut(service) else { return };
        endpoints.followed.take(news);
        let clusters: Vec<ResourceName> = endpoints.clusters.iter().cloned().collect();
        for name in clusters {
            self.changed.clusters.insert(name.clone());
            self.settle(&name, outbox);
        }
    }

    /// Takes what is next of a cluster into use if what it needs is there, and that may be all that some
    /// clusters wait for that are made of it.
    fn settle(&mut self, name: &ResourceName, outbox: &mut Outbox) {
        if self.is_leaf_ready(name) {
            self.promote(name, outbox);
        }
        self.settle_aggregates(outbox);
    }

    fn is_leaf_ready(&self, name: &ResourceName) -> bool {
        let Some(node) = self.nodes.get(name) else { return false };
        let Some(next) = &node.next else { return false };
        match &next.discovery {
            Discovery::LogicalDns(_) => true,
            Discovery::Aggregate(_) => false,
            Discovery::Eds(service) => {
                let Some(endpoints) = self.endpoints.get(service) else { return false };
                // What can be used is not given up for what cannot be had at the moment.
                let is_better = node.current().is_none() || endpoints.followed.is_certain();
                endpoints.followed.value.is_some() && is_better
            }
        }
    }

    fn promote(&mut self, name: &ResourceName, outbox: &mut Outbox) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        let Some(next) = node.next.take() else { return };
        let old = node.current().cloned();
        node.in_use = Some(Ok(next));
        self.note_in_use(name);
        if let Some(old) = old {
            self.let_go(name, &old.discovery, outbox);
        }
    }

    /// A cluster is found in another way, or cannot be had. If it is one of those that others are made of, or is
    /// made of others itself, that matters to all that are above it.
    fn note_in_use(&mut self, name: &ResourceName) {
        self.changed.clusters.insert(name.clone());
        let is_made_of_it = |aggregate: &ResourceName| {
            let node = self.nodes.get(aggregate);
            node.is_some_and(|node| node.discoveries().any(|it| members(it).contains(name)))
        };
        if self.aggregates.contains(name) || self.aggregates.iter().any(is_made_of_it) {
            self.changed.clusters.extend(self.aggregates.iter().cloned());
            self.changed.members = true;
        }
    }
}
