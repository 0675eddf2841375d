//! The state machine.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use core::time::Duration;

use xds_core::{
    ResourceName, Time,
    client::{Change, ErrorCategory, InvalidWatch, Notice, Resource},
};

use super::{Warmed, WarmedNeed, WarmingOutput, needs::needs_of};
use crate::dependencies::{Dependency, DependencyKind};

/// Warms listeners and clusters. See the [module](super).
///
/// Inputs do the work; [`poll_output`](Self::poll_output) hands out what came of it: of a listener or a
/// cluster that changed several times meanwhile, only how it is now. The same inputs give the same outputs in every
/// process.
#[derive(Clone, Debug, Default)]
pub struct Warming {
    roots: BTreeMap<Dependency, Root>,
    /// Those that were known before their collection began anew, and have not come again yet.
    stale: BTreeSet<Dependency>,
    needed: BTreeMap<Dependency, Needed>,
    /// When waiting ends: for what, and whose.
    deadlines: BTreeSet<(Time, Dependency, Dependency)>,
    clusters: Collection,
    listeners: Collection,
    starts: BTreeSet<Dependency>,
    ends: BTreeSet<Dependency>,
    /// Roots of which something is to be said: they are used in another way, or gone.
    changed: BTreeSet<Dependency>,
    now: Time,
}

/// A listener or a cluster.
#[derive(Clone, Debug, Default)]
struct Root {
    in_use: Option<Generation>,
    /// What takes its place when what it names is there.
    next: Option<Generation>,
}

/// A resource with what it names.
#[derive(Clone, Debug)]
struct Generation {
    resource: Resource,
    needs: Vec<Dependency>,
}

/// Routes or endpoints.
#[derive(Clone, Debug)]
struct Needed {
    state: Fetch,
    /// Who names them, and how long that waits.
    roots: BTreeMap<Dependency, Wait>,
}

/// How long a root waits for what it names, by its newest generation.
#[derive(Clone, Copy, Debug)]
struct Wait {
    /// What it says; `None` is for ever.
    timeout: Option<Duration>,
    patience: Patience,
}

#[derive(Clone, Copy, Debug)]
enum Patience {
    Until(Option<Time>),
    /// It has waited long enough, and goes on without.
    Over,
}

/// How far a resource is.
#[derive(Clone, Debug)]
enum Fetch {
    /// On its way.
    Waiting,
    Known(Resource),
    /// There is none.
    Missing,
}

/// How far a collection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Collection {
    #[default]
    Requested,
    /// It came, or cannot be had.
    Known,
}

/// Inputs.
impl Warming {
    /// Nothing is known yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a change of all listeners, or of all clusters: whichever `kind` says.
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

    /// There are no more changes for now: a state that began [anew](Change::Resync) is complete.
    pub fn handle_caught_up(&mut self, kind: DependencyKind, now: Time) {
        self.now = self.now.max(now);
        let gone: Vec<Dependency> =
            self.stale.iter().filter(|root| root.kind == kind).cloned().collect();
        gone.iter().for_each(|root| self.remove(root));
    }

    /// Takes a notice of routes or endpoints. One of what is not watched is ignored.
    pub fn handle_notice(&mut self, dependency: &Dependency, notice: Notice, now: Time) {
        self.now = self.now.max(now);
        match notice {
            Notice::Changed(Ok(resource)) => self.conclude(dependency, Fetch::Known(resource)),
            // Trouble on the way says nothing of the resource.
            Notice::Changed(Err(error)) => match error.kind().category() {
                ErrorCategory::Data => self.conclude(dependency, Fetch::Missing),
                ErrorCategory::Transient => {}
            },
            _ => {}
        }
    }

    /// Routes or endpoints cannot be watched: there are none.
    pub fn handle_refusal(&mut self, dependency: &Dependency, why: InvalidWatch, now: Time) {
        let _ = why;
        self.now = self.now.max(now);
        self.conclude(dependency, Fetch::Missing);
    }

    /// Goes on without what has not come in time. Calling early is harmless.
    pub fn handle_timeout(&mut self, now: Time) {
        self.now = self.now.max(now);
        while let Some((at, ..)) = self.deadlines.first()
            && *at <= self.now
            && let Some((_, dependency, root)) = self.deadlines.pop_first()
        {
            let needed = self.needed.get_mut(&dependency);
            if let Some(wait) = needed.and_then(|needed| needed.roots.get_mut(&root)) {
                wait.patience = Patience::Over;
            }
            self.settle(&root);
        }
    }
}

/// Outputs.
impl Warming {
    /// The next thing to do or to use: watches, then clusters before listeners, then the ends of watches.
    pub fn poll_output(&mut self) -> Option<WarmingOutput> {
        if let Some(next) = self.starts.first() {
            // Whoever watches anew has forgotten what it knew, and is told again.
            return match self.ends.take(next) {
                Some(end) => Some(WarmingOutput::Unwatch(end)),
                None => self.starts.pop_first().map(WarmingOutput::Watch),
            };
        }
        // Clusters come after listeners in the order of kinds.
        if let Some(id) = self.changed.pop_last() {
            return Some(match self.warmed(&id) {
                Some(warmed) => WarmingOutput::Use(warmed),
                None => WarmingOutput::Drop(id),
            });
        }
        self.ends.pop_first().map(WarmingOutput::Unwatch)
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, ..)| *at)
    }

    /// A listener or a cluster as it is used.
    #[must_use]
    pub fn warmed(&self, root: &Dependency) -> Option<Warmed> {
        let in_use = self.roots.get(root)?.in_use.as_ref()?;
        let needs = in_use.needs.iter().map(|need| WarmedNeed {
            name: need.name.clone(),
            resource: match self.needed.get(need).map(|needed| &needed.state) {
                Some(Fetch::Known(resource)) => Some(resource.clone()),
                Some(Fetch::Waiting | Fetch::Missing) | None => None,
            },
        });
        let needs = needs.collect();
        Some(Warmed { root: root.clone(), resource: in_use.resource.clone(), needs })
    }

    /// Whether a listener or a cluster has something newer that waits for what it names.
    #[must_use]
    pub fn is_warming(&self, root: &Dependency) -> bool {
        self.roots.get(root).is_some_and(|root| root.next.is_some())
    }

    /// Whether all listeners and clusters have come, or cannot be had, and each has been warm once: whoever
    /// takes connections begins now (S0.158).
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

/// Roots.
impl Warming {
    fn renew(&mut self, kind: DependencyKind, name: ResourceName, resource: Resource) {
        let id = Dependency::new(kind, name);
        let mut needs = Vec::new();
        for need in needs_of(kind, &resource.bytes) {
            self.need(&need.dependency, &id, need.timeout);
            needs.push(need.dependency);
        }
        let root = self.roots.entry(id.clone()).or_default();
        self.stale.remove(&id);
        let replaced = root.next.replace(Generation { resource, needs });
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

    /// Takes what is next into use, if what it names is there or is waited for no longer.
    fn settle(&mut self, id: &Dependency) {
        let Some(root) = self.roots.get_mut(id) else { return };
        let is_warm = |need: &Dependency| {
            let Some(needed) = self.needed.get(need) else { return true };
            let patience = needed.roots.get(id).map(|wait| wait.patience);
            !matches!(needed.state, Fetch::Waiting) || matches!(patience, Some(Patience::Over))
        };
        if root.next.as_ref().is_none_or(|next| !next.needs.iter().all(is_warm)) {
            return;
        }
        let old = core::mem::replace(&mut root.in_use, root.next.take());
        self.changed.insert(id.clone());
        self.release(id, old);
    }
}

/// What roots name.
impl Warming {
    /// A root names something. How long it waits counts from when it first said so: another version of it
    /// that says the same changes nothing, one that says something else begins anew.
    fn need(&mut self, dependency: &Dependency, root: &Dependency, timeout: Option<Duration>) {
        let needed = self.needed.entry(dependency.clone()).or_insert_with(|| {
            self.starts.insert(dependency.clone());
            Needed { state: Fetch::Waiting, roots: BTreeMap::new() }
        });
        let before = needed.roots.get(root).copied();
        if before.is_some_and(|before| before.timeout == timeout) {
            return;
        }
        if let Some(Wait { patience: Patience::Until(Some(at)), .. }) = before {
            self.deadlines.remove(&(at, dependency.clone(), root.clone()));
        }
        let until = timeout.map(|timeout| self.now.after(timeout));
        if let (Some(at), Fetch::Waiting) = (until, &needed.state) {
            self.deadlines.insert((at, dependency.clone(), root.clone()));
        }
        needed.roots.insert(root.clone(), Wait { timeout, patience: Patience::Until(until) });
    }

    /// A root no longer needs what a generation of it named, unless another one names it too.
    fn release(&mut self, root: &Dependency, generation: Option<Generation>) {
        for need in generation.into_iter().flat_map(|generation| generation.needs) {
            let is_named = |root: &Root| {
                let mut generations = [&root.in_use, &root.next].into_iter().flatten();
                generations.any(|generation| generation.needs.contains(&need))
            };
            if self.roots.get(root).is_some_and(is_named) {
                continue;
            }
            let Some(needed) = self.needed.get_mut(&need) else { continue };
            if let Some(Wait { patience: Patience::Until(Some(at)), .. }) =
                needed.roots.remove(root)
            {
                self.deadlines.remove(&(at, need.clone(), root.clone()));
            }
            if !needed.roots.is_empty() {
                continue;
            }
            self.needed.remove(&need);
            if !self.starts.remove(&need) {
                self.ends.insert(need);
            }
        }
    }

    /// Something is known of routes or endpoints: who waits for them may go on, who uses them is told.
    fn conclude(&mut self, dependency: &Dependency, state: Fetch) {
        let Some(needed) = self.needed.get_mut(dependency) else { return };
        needed.state = state;
        for (root, wait) in &needed.roots {
            if let Patience::Until(Some(at)) = wait.patience {
                self.deadlines.remove(&(at, dependency.clone(), root.clone()));
            }
        }
        let roots: Vec<_> = needed.roots.keys().cloned().collect();
        for id in roots {
            let uses = |root: &Root| {
                root.in_use.as_ref().is_some_and(|in_use| in_use.needs.contains(dependency))
            };
            if self.roots.get(&id).is_some_and(uses) {
                self.changed.insert(id.clone());
            }
            self.settle(&id);
        }
    }
}
