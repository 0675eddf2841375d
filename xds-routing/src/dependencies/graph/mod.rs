//! Graph of clusters, their members and endpoints: the newest state of each, and the state in use.

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
    outbox::Outbox,
    watched_resource::{WatchUpdate, WatchedResource},
};
use crate::{
    cluster::{Cluster, Discovery},
    endpoint::ClusterLoadAssignment,
};

/// All watched clusters.
///
/// A cluster is *settled* once it has a version in use: the resource together with its
/// dependencies, or an error. It stays settled while it is watched.
#[derive(Clone, Debug, Default)]
pub(super) struct Graph {
    nodes: BTreeMap<ResourceName, ClusterNode>,
    endpoints: BTreeMap<ResourceName, EndpointsNode>,
    /// Aggregate clusters, counting the versions in use and pending.
    aggregates: BTreeSet<ResourceName>,
    /// Number of notices for clusters, used as a logical clock.
    clock: u64,
    /// Authority of the newest routes.
    pub(super) home: Option<Authority>,
    pub(super) changed: Changed,
}

/// Changes since the last evaluation.
#[derive(Clone, Debug, Default)]
pub(super) struct Changed {
    /// Clusters whose version in use or known errors changed.
    pub(super) clusters: BTreeSet<ResourceName>,
    /// The members of an aggregate in use changed.
    pub(super) members: bool,
    /// Some clusters may not be needed any more.
    pub(super) links_cut: bool,
}

/// One cluster.
#[derive(Clone, Debug)]
struct ClusterNode {
    /// Length of the shortest path of aggregates from a route or a subscription to the cluster.
    depth: usize,
    in_use: Option<Result<Arc<Cluster>, DependencyError>>,
    /// Pending version, which is used once its dependencies are known.
    next: Option<Arc<Cluster>>,
    /// Ambient error of the newest version.
    ambient: Option<WatchError>,
    /// Logical time since which the newest version has its current discovery.
    since: u64,
    /// Logical time of the last notice.
    last_notice: u64,
    /// Whether the watch was restarted, and no notice arrived since.
    is_restarted: bool,
}

impl ClusterNode {
    const fn at(depth: usize) -> Self {
        Self {
            depth,
            in_use: None,
            next: None,
            ambient: None,
            since: 0,
            last_notice: 0,
            is_restarted: false,
        }
    }

    /// Records a notice, even if it does not change the value.
    fn record_notice(&mut self, clock: u64, value: Result<&Cluster, &DependencyError>) {
        (self.last_notice, self.is_restarted) = (clock, false);
        let known = self.next.as_ref().or_else(|| self.current()).map(|known| &known.discovery);
        if known != value.ok().map(|new| &new.discovery) {
            self.since = clock;
        }
    }

    fn current(&self) -> Option<&Arc<Cluster>> {
        self.in_use.as_ref().and_then(|result| result.as_ref().ok())
    }

    fn is_settled(&self) -> bool {
        self.in_use.is_some()
    }

    /// Returns the discovery of the version in use and that of the pending one.
    fn discoveries(&self) -> impl Iterator<Item = &Discovery> {
        [self.current(), self.next.as_ref()].into_iter().flatten().map(|it| &it.discovery)
    }
}

/// Endpoints resource.
#[derive(Clone, Debug, Default)]
struct EndpointsNode {
    resource: WatchedResource<ClusterLoadAssignment>,
    /// Clusters that refer to the resource, counting the versions in use and pending.
    clusters: BTreeSet<ResourceName>,
}

fn members(discovery: &Discovery) -> &[ResourceName] {
    match discovery {
        Discovery::Aggregate(members) => members,
        Discovery::Eds(_) | Discovery::LogicalDns(_) => &[],
    }
}

/// State of clusters.
impl Graph {
    pub(super) fn is_settled(&self, name: &ResourceName) -> bool {
        self.nodes.get(name).is_some_and(ClusterNode::is_settled)
    }

    /// Whether a cluster and its dependencies have a value or a definite error. The error that the
    /// server is unreachable is not definite: the next response, or a timeout, replaces it. Only
    /// the authority of the routes is waited for: a cluster of another authority fails alone (A74).
    pub(super) fn is_certain(&self, name: &ResourceName) -> bool {
        self.nodes.contains_key(name) && self.are_certain(name)
    }

    /// Like [`is_certain`](Self::is_certain), but also true for a cluster that is too deep to be
    /// watched.
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

    /// Whether the error only means that the server is unreachable, and the resource has the same
    /// authority as the routes.
    fn may_come(&self, name: &ResourceName, error: &DependencyError) -> bool {
        error.is_out_of_reach() && Authority::of(name.as_str()).ok() == self.home
    }

    /// Returns those of the given clusters that are aggregates and certain.
    pub(super) fn certain_aggregates(&self, among: &BTreeSet<ResourceName>) -> Vec<ResourceName> {
        let aggregates = self.aggregates.intersection(among);
        aggregates.filter(|name| self.is_certain(name)).cloned().collect()
    }

    /// Whether some leaf of the cluster has known endpoints or is a logical DNS cluster.
    fn is_usable(&self, name: &ResourceName) -> bool {
        let has_endpoints = |leaf: &ResourceName| match self.in_use(leaf) {
            Some(Ok(cluster)) => match &cluster.discovery {
                Discovery::Eds(service) => {
                    let known = self.endpoints.get(service).map(|it| &it.resource.value);
                    matches!(known, Some(Some(Ok(_))))
                }
                Discovery::LogicalDns(_) => true,
                Discovery::Aggregate(_) => false,
            },
            Some(Err(_)) | None => false,
        };
        self.leaves(name).is_ok_and(|leaves| leaves.iter().any(has_endpoints))
    }

    /// Returns the version in use, or `None` if the cluster is not settled.
    pub(super) fn in_use(
        &self,
        name: &ResourceName,
    ) -> Option<&Result<Arc<Cluster>, DependencyError>> {
        self.nodes.get(name)?.in_use.as_ref()
    }

    /// Returns the ambient error of a cluster.
    pub(super) fn ambient(&self, name: &ResourceName) -> Option<&WatchError> {
        self.nodes.get(name)?.ambient.as_ref()
    }

    /// Returns the error of the pending endpoints resource, while the cluster keeps its current
    /// one.
    pub(super) fn pending_error(&self, name: &ResourceName) -> Option<&WatchError> {
        let Discovery::Eds(service) = &self.nodes.get(name)?.next.as_ref()?.discovery else {
            return None;
        };
        match self.endpoints(service)?.value.as_ref()? {
            Err(DependencyError::Watch(error)) => Some(error),
            _ => None,
        }
    }

    /// Returns the state of an endpoints resource.
    pub(super) fn endpoints(
        &self,
        name: &ResourceName,
    ) -> Option<&WatchedResource<ClusterLoadAssignment>> {
        self.endpoints.get(name).map(|node| &node.resource)
    }

    /// Returns these clusters and their members, recursively, as far as they are settled.
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

/// Watches.
impl Graph {
    /// Watches a cluster that a route names or that is subscribed.
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
                    self.nodes.insert(name, ClusterNode::at(depth));
                }
                // A shorter path was found, so more of its members may be within the maximum depth.
                Some(node) if depth < node.depth => {
                    node.depth = depth;
                    let below = node.discoveries().flat_map(members);
                    waiting.extend(below.map(|member| (member.clone(), depth + 1)));
                }
                Some(_) => {}
            }
        }
    }

    /// Stops watching clusters that are not reachable from the given ones.
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
                self.release(&name, discovery, outbox);
            }
        }
    }

    /// Watches the dependencies of a cluster.
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

    /// Releases the dependencies of a former discovery of a cluster that it does not need
    /// otherwise.
    fn release(&mut self, name: &ResourceName, discovery: &Discovery, outbox: &mut Outbox) {
        let node = self.nodes.get(name);
        match discovery {
            Discovery::Eds(service) => {
                let is_needed = |node: &ClusterNode| {
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
                let is_one = |node: &ClusterNode| {
                    node.discoveries().any(|it| matches!(it, Discovery::Aggregate(_)))
                };
                if !node.is_some_and(is_one) {
                    self.aggregates.remove(name);
                }
            }
        }
    }
}

/// Notices.
impl Graph {
    pub(super) fn take_cluster(
        &mut self,
        name: &ResourceName,
        update: WatchUpdate<Cluster>,
        outbox: &mut Outbox,
    ) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        if let WatchUpdate::Value(value) = &update {
            self.clock = self.clock.saturating_add(1);
            node.record_notice(self.clock, value.as_deref());
        }
        match update {
            WatchUpdate::Nothing => {}
            WatchUpdate::Ambient(error) => {
                node.ambient = error;
                self.changed.clusters.insert(name.clone());
            }
            WatchUpdate::Value(Ok(cluster)) => {
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
                    self.release(name, &old.discovery, outbox);
                }
                self.settle(name, outbox);
            }
            WatchUpdate::Value(Err(error)) => {
                node.ambient = None;
                let old = [node.next.take(), node.current().cloned()];
                node.in_use = Some(Err(error));
                self.note_in_use(name);
                for old in old.into_iter().flatten() {
                    self.release(name, &old.discovery, outbox);
                }
                self.settle_aggregates(outbox);
            }
        }
    }

    pub(super) fn take_endpoints(
        &mut self,
        service: &ResourceName,
        update: WatchUpdate<ClusterLoadAssignment>,
        outbox: &mut Outbox,
    ) {
        let Some(endpoints) = self.endpoints.get_mut(service) else { return };
        endpoints.resource.take(update);
        let clusters: Vec<ResourceName> = endpoints.clusters.iter().cloned().collect();
        for name in clusters {
            self.changed.clusters.insert(name.clone());
            self.settle(&name, outbox);
        }
    }

    /// Uses the pending version of a cluster if its dependencies are known, then those of
    /// aggregates that waited for it.
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
                // A usable version is not replaced while the new endpoints are only transiently
                // missing.
                let is_better = node.current().is_none() || endpoints.resource.is_certain();
                endpoints.resource.value.is_some() && is_better
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
            self.release(name, &old.discovery, outbox);
        }
    }

    /// Records that the discovery of a cluster changed or the cluster was lost. If the cluster is
    /// an aggregate or a member of one, all aggregates are re-evaluated.
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
