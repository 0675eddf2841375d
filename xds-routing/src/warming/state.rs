//! State machine of warming.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use core::time::Duration;

use xds_core::{
    ResourceName, Time,
    client::{Change, ErrorCategory, InvalidWatch, Notice, Resource},
};

use super::{Warmed, WarmedReference, WarmingOutput, references::dependencies_of};
use crate::dependencies::{Dependency, DependencyKind};

/// Warms listeners and clusters. See the [module](super).
///
/// Inputs update the state. [`poll_output`](Self::poll_output) returns the results; of several
/// unread changes of a listener or cluster, only the newest is kept. Equal inputs give equal
/// outputs in every process.
#[derive(Clone, Debug, Default)]
pub struct Warming {
    roots: BTreeMap<Dependency, Root>,
    /// Roots known before a resynchronization that have not been reported again.
    stale: BTreeSet<Dependency>,
    referenced: BTreeMap<Dependency, Referenced>,
    /// Deadlines, each with the resource that is waited for and the root that waits.
    deadlines: BTreeSet<(Time, Dependency, Dependency)>,
    clusters: Collection,
    listeners: Collection,
    starts: BTreeSet<Dependency>,
    ends: BTreeSet<Dependency>,
    /// Roots whose version in use changed, or that were removed, since they were last returned.
    changed: BTreeSet<Dependency>,
    now: Time,
}

/// Listener or cluster.
#[derive(Clone, Debug, Default)]
struct Root {
    in_use: Option<Generation>,
    /// Pending version, which is used once its references are known.
    next: Option<Generation>,
}

/// Version of a resource with its references.
#[derive(Clone, Debug)]
struct Generation {
    resource: Resource,
    references: Vec<Dependency>,
}

/// Route configuration or endpoints.
#[derive(Clone, Debug)]
struct Referenced {
    state: Fetch,
    /// Roots that refer to it, each with its wait.
    roots: BTreeMap<Dependency, Wait>,
}

/// Wait of a root for a reference, by its newest version.
#[derive(Clone, Copy, Debug)]
struct Wait {
    /// Configured timeout. `None` means no limit.
    timeout: Option<Duration>,
    state: WaitState,
}

#[derive(Clone, Copy, Debug)]
enum WaitState {
    Until(Option<Time>),
    /// The timeout has expired: the listener or cluster is used without the resource.
    TimedOut,
}

/// Progress of a watched resource.
#[derive(Clone, Debug)]
enum Fetch {
    /// No result yet.
    Waiting,
    Known(Resource),
    /// The resource does not exist or cannot be obtained.
    Missing,
}

/// Progress of a wildcard subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Collection {
    #[default]
    Requested,
    /// The first state arrived, or an error.
    Known,
}

/// Inputs.
impl Warming {
    /// Creates a state machine without resources.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Handles a change of a listener or a cluster, depending on `kind`.
    pub fn handle_change(&mut self, kind: DependencyKind, change: Change, now: Time) {
        self.now = self.now.max(now);
        match change {
            Change::Resource { name, result: Ok(resource) } => self.renew(kind, name, resource),
            Change::Resource { name, result: Err(_) } => self.remove(&Dependency::new(kind, name)),
            Change::Collection(_) => *self.collection(kind) = Collection::Known,
            Change::Resync => {
                self.stale.extend(self.roots.keys().filter(|root| root.kind == kind).cloned());
            }
            _ => {}
        }
    }

    /// Handles the end of the pending changes: after a [resynchronization](Change::Resync), roots
    /// that were not reported again are removed.
    pub fn handle_caught_up(&mut self, kind: DependencyKind, now: Time) {
        self.now = self.now.max(now);
        let gone: Vec<Dependency> =
            self.stale.iter().filter(|root| root.kind == kind).cloned().collect();
        gone.iter().for_each(|root| self.remove(root));
    }

    /// Handles a notice of routes or endpoints. A notice for a resource that is not watched is
    /// ignored.
    pub fn handle_notice(&mut self, dependency: &Dependency, notice: Notice, now: Time) {
        self.now = self.now.max(now);
        match notice {
            Notice::Changed(Ok(resource)) => self.conclude(dependency, Fetch::Known(resource)),
            // A transient error says nothing about the resource.
            Notice::Changed(Err(error)) => match error.kind().category() {
                ErrorCategory::Data => self.conclude(dependency, Fetch::Missing),
                ErrorCategory::Transient => {}
            },
            _ => {}
        }
    }

    /// Handles the refusal of a watch by the client: the resource counts as missing.
    pub fn handle_refusal(&mut self, dependency: &Dependency, why: InvalidWatch, now: Time) {
        let _ = why;
        self.now = self.now.max(now);
        self.conclude(dependency, Fetch::Missing);
    }

    /// Gives up waiting for references whose timeout has expired. Calling early is harmless.
    pub fn handle_timeout(&mut self, now: Time) {
        self.now = self.now.max(now);
        while let Some((at, ..)) = self.deadlines.first()
            && *at <= self.now
            && let Some((_, dependency, root)) = self.deadlines.pop_first()
        {
            let referenced = self.referenced.get_mut(&dependency);
            if let Some(wait) = referenced.and_then(|referenced| referenced.roots.get_mut(&root)) {
                wait.state = WaitState::TimedOut;
            }
            self.settle(&root);
        }
    }
}

/// Outputs.
impl Warming {
    /// Returns the next output: new watches, then changed clusters, changed listeners, and ended
    /// watches.
    pub fn poll_output(&mut self) -> Option<WarmingOutput> {
        if let Some(next) = self.starts.first() {
            // A restarted watch must end first, so that the client reports its current state.
            return match self.ends.take(next) {
                Some(end) => Some(WarmingOutput::Unwatch(end)),
                None => self.starts.pop_first().map(WarmingOutput::Watch),
            };
        }
        // `Cluster` follows `Listener` in the order of kinds, so the last one is a cluster.
        if let Some(id) = self.changed.pop_last() {
            return Some(match self.warmed(&id) {
                Some(warmed) => WarmingOutput::Use(warmed),
                None => WarmingOutput::Drop(id),
            });
        }
        self.ends.pop_first().map(WarmingOutput::Unwatch)
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, ..)| *at)
    }

    /// Returns the version in use of a listener or a cluster.
    #[must_use]
    pub fn warmed(&self, root: &Dependency) -> Option<Warmed> {
        let in_use = self.roots.get(root)?.in_use.as_ref()?;
        let references = in_use.references.iter().map(|reference| WarmedReference {
            name: reference.name.clone(),
            resource: match self.referenced.get(reference).map(|referenced| &referenced.state) {
                Some(Fetch::Known(resource)) => Some(resource.clone()),
                Some(Fetch::Waiting | Fetch::Missing) | None => None,
            },
        });
        let references = references.collect();
        Some(Warmed { root: root.clone(), resource: in_use.resource.clone(), references })
    }

    /// Whether a listener or a cluster has a pending version that waits for its references.
    #[must_use]
    pub fn is_warming(&self, root: &Dependency) -> bool {
        self.roots.get(root).is_some_and(|root| root.next.is_some())
    }

    /// Whether the proxy can start to accept connections: all listeners and clusters are known, and
    /// each has had a version in use.
    // S0.158
    #[must_use]
    pub fn is_initialized(&self) -> bool {
        let is_known = [self.clusters, self.listeners] == [Collection::Known; 2];
        is_known && self.roots.values().all(|root| root.in_use.is_some())
    }

    fn collection(&mut self, kind: DependencyKind) -> &mut Collection {
        match kind {
            DependencyKind::Listener | DependencyKind::Routes => &mut self.listeners,
            DependencyKind::Cluster | DependencyKind::Endpoints => &mut self.clusters,
        }
    }
}

/// Listeners and clusters.
impl Warming {
    fn renew(&mut self, kind: DependencyKind, name: ResourceName, resource: Resource) {
        let id = Dependency::new(kind, name);
        let mut references = Vec::new();
        for reference in dependencies_of(kind, &resource.bytes) {
            self.add_reference(&reference.dependency, &id, reference.timeout);
            references.push(reference.dependency);
        }
        let root = self.roots.entry(id.clone()).or_default();
        self.stale.remove(&id);
        let replaced = root.next.replace(Generation { resource, references });
        self.release(&id, replaced);
        self.settle(&id);
    }

    fn remove(&mut self, id: &Dependency) {
        self.stale.remove(id);
        let Some(root) = self.roots.remove(id) else { return };
        if root.in_use.is_some() {
            self.changed.insert(id.clone());
        } else {
            self.changed.remove(id);
        }
        self.release(id, root.in_use);
        self.release(id, root.next);
    }

    /// Uses the pending version if each reference is known or its time is over.
    fn settle(&mut self, id: &Dependency) {
        let Some(root) = self.roots.get_mut(id) else { return };
        let is_warm = |reference: &Dependency| {
            let Some(referenced) = self.referenced.get(reference) else { return true };
            let state = referenced.roots.get(id).map(|wait| wait.state);
            !matches!(referenced.state, Fetch::Waiting)
                || matches!(state, Some(WaitState::TimedOut))
        };
        if root.next.as_ref().is_none_or(|next| !next.references.iter().all(is_warm)) {
            return;
        }
        let old = core::mem::replace(&mut root.in_use, root.next.take());
        self.changed.insert(id.clone());
        self.release(id, old);
    }
}

/// References.
impl Warming {
    /// Adds a reference of a root. The timeout begins with the first version that has this
    /// reference and timeout. A later version restarts it only if its timeout differs.
    fn add_reference(
        &mut self,
        dependency: &Dependency,
        root: &Dependency,
        timeout: Option<Duration>,
    ) {
        let referenced = self.referenced.entry(dependency.clone()).or_insert_with(|| {
            self.starts.insert(dependency.clone());
            Referenced { state: Fetch::Waiting, roots: BTreeMap::new() }
        });
        let before = referenced.roots.get(root).copied();
        if before.is_some_and(|before| before.timeout == timeout) {
            return;
        }
        if let Some(Wait { state: WaitState::Until(Some(at)), .. }) = before {
            self.deadlines.remove(&(at, dependency.clone(), root.clone()));
        }
        let until = timeout.map(|timeout| self.now.after(timeout));
        if let (Some(at), Fetch::Waiting) = (until, &referenced.state) {
            self.deadlines.insert((at, dependency.clone(), root.clone()));
        }
        referenced.roots.insert(root.clone(), Wait { timeout, state: WaitState::Until(until) });
    }

    /// Releases the references of a version, except those that the root's other version has too.
    fn release(&mut self, root: &Dependency, generation: Option<Generation>) {
        for reference in generation.into_iter().flat_map(|generation| generation.references) {
            let is_named = |root: &Root| {
                let mut generations = [&root.in_use, &root.next].into_iter().flatten();
                generations.any(|generation| generation.references.contains(&reference))
            };
            if self.roots.get(root).is_some_and(is_named) {
                continue;
            }
            let Some(referenced) = self.referenced.get_mut(&reference) else { continue };
            if let Some(Wait { state: WaitState::Until(Some(at)), .. }) =
                referenced.roots.remove(root)
            {
                self.deadlines.remove(&(at, reference.clone(), root.clone()));
            }
            if !referenced.roots.is_empty() {
                continue;
            }
            self.referenced.remove(&reference);
            if !self.starts.remove(&reference) {
                self.ends.insert(reference);
            }
        }
    }

    /// Applies the result for a resource: waiting roots may be used, and roots that use it are
    /// reported.
    fn conclude(&mut self, dependency: &Dependency, state: Fetch) {
        let Some(referenced) = self.referenced.get_mut(dependency) else { return };
        referenced.state = state;
        for (root, wait) in &referenced.roots {
            if let WaitState::Until(Some(at)) = wait.state {
                self.deadlines.remove(&(at, dependency.clone(), root.clone()));
            }
        }
        let roots: Vec<_> = referenced.roots.keys().cloned().collect();
        for id in roots {
            let uses = |root: &Root| {
                root.in_use.as_ref().is_some_and(|in_use| in_use.references.contains(dependency))
            };
            if self.roots.get(&id).is_some_and(uses) {
                self.changed.insert(id.clone());
            }
            self.settle(&id);
        }
    }
}
