//! Aggregate clusters: their leaves, and the conditions for using a new version.

use alloc::{collections::BTreeSet, vec::Vec};

use xds_core::ResourceName;

use super::{Discovery, Graph, MAX_AGGREGATE_DEPTH, Outbox};
use crate::dependencies::DependencyKind;

/// Whether the pending version of an aggregate can be used.
enum Readiness {
    /// Usable together with these aggregates, which wait for nothing else. They may refer to each
    /// other.
    Ready(BTreeSet<ResourceName>),
    /// A member is missing or has a pending version.
    Waiting,
    /// Without leaves, by the known state of these clusters, which the same update may have
    /// changed.
    Stale(Vec<ResourceName>),
}

/// Reason why an aggregate has no usable leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dependencies) enum Leafless {
    /// Aggregates are nested too deeply.
    TooDeep,
    /// No leaf can be obtained.
    NoLeaves,
}

/// State of a descent from a cluster to its leaves.
#[derive(Default)]
struct Descent {
    seen: BTreeSet<ResourceName>,
    leaves: Vec<ResourceName>,
}

impl Graph {
    /// Returns the leaf clusters in order of priority, without duplicates. A repeated cluster
    /// counts at its first position, which ends every loop (gRFC A37).
    pub(in crate::dependencies) fn leaves(
        &self,
        name: &ResourceName,
    ) -> Result<Vec<ResourceName>, Leafless> {
        let mut descent = Descent::default();
        self.descend(name, &BTreeSet::new(), &mut descent)?;
        Ok(descent.leaves)
    }

    /// Collects the leaves of a cluster, assuming that the pending versions of `renewed` are in
    /// use.
    fn descend(
        &self,
        name: &ResourceName,
        renewed: &BTreeSet<ResourceName>,
        descent: &mut Descent,
    ) -> Result<(), Leafless> {
        self.gather(name, 0, renewed, descent)?;
        if descent.leaves.is_empty() { Err(Leafless::NoLeaves) } else { Ok(()) }
    }

    fn gather(
        &self,
        name: &ResourceName,
        depth: usize,
        renewed: &BTreeSet<ResourceName>,
        descent: &mut Descent,
    ) -> Result<(), Leafless> {
        if !descent.seen.insert(name.clone()) {
            return Ok(());
        }
        if depth >= MAX_AGGREGATE_DEPTH {
            return Err(Leafless::TooDeep);
        }
        let Some(node) = self.nodes.get(name) else { return Ok(()) };
        let cluster = if renewed.contains(name) { node.next.as_ref() } else { node.current() };
        let Some(cluster) = cluster else { return Ok(()) };
        let Discovery::Aggregate(members) = &cluster.discovery else {
            descent.leaves.push(name.clone());
            return Ok(());
        };
        members.iter().try_for_each(|member| self.gather(member, depth + 1, renewed, descent))
    }

    /// Uses the pending versions of all aggregates that are ready. One may be what others wait for.
    pub(super) fn settle_aggregates(&mut self, outbox: &mut Outbox) {
        while self.settle_some(outbox) {}
    }

    /// Returns whether any pending version was used.
    fn settle_some(&mut self, outbox: &mut Outbox) -> bool {
        let has_next =
            |name: &&ResourceName| self.nodes.get(*name).is_some_and(|node| node.next.is_some());
        let waiting: Vec<ResourceName> = self.aggregates.iter().filter(has_next).cloned().collect();
        let mut has_settled = false;
        for name in waiting {
            match self.readiness(&name) {
                Readiness::Waiting => {}
                Readiness::Ready(together) => {
                    has_settled = true;
                    together.iter().for_each(|name| self.promote(name, outbox));
                }
                Readiness::Stale(names) => {
                    names.iter().for_each(|name| self.restart_watch(name, outbox));
                }
            }
        }
        has_settled
    }

    /// Restarts the watch of a cluster, so that the client reports its current state.
    fn restart_watch(&mut self, name: &ResourceName, outbox: &mut Outbox) {
        if let Some(node) = self.nodes.get_mut(name)
            && !core::mem::replace(&mut node.is_restarted, true)
        {
            outbox.renew(DependencyKind::Cluster, name);
        }
    }

    fn readiness(&self, name: &ResourceName) -> Readiness {
        // A usable version is not replaced by one that is only transiently unusable.
        let is_usable = self.is_usable(name);
        let Some(together) = self.waiting_together(name, is_usable) else {
            return Readiness::Waiting;
        };
        match is_usable {
            true => self.readiness_with_leaves(name, together),
            false => Readiness::Ready(together),
        }
    }

    /// Returns the aggregate and the pending aggregates below it, or `None` if they wait for
    /// something else.
    fn waiting_together(
        &self,
        name: &ResourceName,
        is_usable: bool,
    ) -> Option<BTreeSet<ResourceName>> {
        let next_members =
            |name: &ResourceName| match &self.nodes.get(name)?.next.as_ref()?.discovery {
                Discovery::Aggregate(members) => Some(members),
                Discovery::Eds(_) | Discovery::LogicalDns(_) => None,
            };
        let mut group = BTreeSet::from([name.clone()]);
        let mut waiting: Vec<&ResourceName> = next_members(name)?.iter().collect();
        while let Some(member) = waiting.pop() {
            match self.nodes.get(member) {
                // Too deep to be watched. Collecting the leaves detects this.
                None => {}
                Some(_) if group.contains(member) => {}
                Some(node) if node.is_settled() && is_usable && !self.are_certain(member) => {
                    return None;
                }
                Some(node) if node.is_settled() => {}
                Some(_) => {
                    waiting.extend(next_members(member)?);
                    group.insert(member.clone());
                }
            }
        }
        Some(group)
    }

    /// Checks that the new version has leaves. Half of an update that reverses the membership of
    /// aggregates looks like a loop. Therefore the usable version stays in use until nothing below
    /// is pending and each cluster below was reported after the aggregate changed. A loop that
    /// remains is real, and an error (gRFC A37).
    fn readiness_with_leaves(
        &self,
        name: &ResourceName,
        together: BTreeSet<ResourceName>,
    ) -> Readiness {
        let mut descent = Descent::default();
        if self.descend(name, &together, &mut descent).is_ok() {
            return Readiness::Ready(together);
        }
        let since = self.nodes.get(name).map_or(0, |node| node.since);
        let mut stale = Vec::new();
        for below in descent.seen {
            let Some(node) = self.nodes.get(&below) else { continue };
            if node.next.is_some() && !together.contains(&below) {
                return Readiness::Waiting;
            }
            if node.last_notice < since {
                stale.push(below);
            }
        }
        match stale.is_empty() {
            true => Readiness::Ready(together),
            false => Readiness::Stale(stale),
        }
    }
}
