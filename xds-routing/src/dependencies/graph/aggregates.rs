//! Clusters that are made of others: their leaves, and when another way of making them is taken into use.

use alloc::{collections::BTreeSet, vec::Vec};

use xds_core::ResourceName;

use super::{Discovery, Graph, MAX_AGGREGATE_DEPTH, Outbox};
use crate::dependencies::DependencyKind;

/// Whether an aggregate can be made of what it is to be made of next.
enum Readiness {
    /// Together with these, which wait for nothing else: they may be made of each other.
    Ready(BTreeSet<ResourceName>),
    /// Something is not there, or is to be found in another way soon.
    Waits,
    /// It would lead nowhere, as far as is known. That rests on what was known of these before, which may have
    /// changed in the same update.
    Doubtful(Vec<ResourceName>),
}

/// Why calls to an aggregate can go nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dependencies) enum Leafless {
    /// It is made of clusters that are made of clusters, and so on for too long.
    TooDeep,
    /// Nothing that it is made of can be had.
    NoLeaves,
}

/// What is found on the way down from a cluster.
#[derive(Default)]
struct Descent {
    seen: BTreeSet<ResourceName>,
    leaves: Vec<ResourceName>,
}

impl Graph {
    /// What a cluster is made of in the end, in the order of use, each once. A cluster that comes up again
    /// further down counts at its first place, which ends every loop (A37).
    pub(in crate::dependencies) fn leaves(
        &self,
        name: &ResourceName,
    ) -> Result<Vec<ResourceName>, Leafless> {
        let mut descent = Descent::default();
        self.descend(name, &BTreeSet::new(), &mut descent)?;
        Ok(descent.leaves)
    }

    /// Looks for the leaves of a cluster as they would be if what is next of some were in use.
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

    /// Takes aggregates into use of which every member is settled or could be. One may be what others wait for.
    pub(super) fn settle_aggregates(&mut self, outbox: &mut Outbox) {
        while self.settle_some(outbox) {}
    }

    /// True if there were any.
    fn settle_some(&mut self, outbox: &mut Outbox) -> bool {
        let has_next =
            |name: &&ResourceName| self.nodes.get(*name).is_some_and(|node| node.next.is_some());
        let waiting: Vec<ResourceName> = self.aggregates.iter().filter(has_next).cloned().collect();
        let mut has_settled = false;
        for name in waiting {
            match self.readiness(&name) {
                Readiness::Waits => {}
                Readiness::Ready(together) => {
                    has_settled = true;
                    together.iter().for_each(|name| self.promote(name, outbox));
                }
                Readiness::Doubtful(names) => {
                    names.iter().for_each(|name| self.ask_again(name, outbox));
                }
            }
        }
        has_settled
    }

    /// Watches a cluster anew: whoever does is told what is known of it by now.
    fn ask_again(&mut self, name: &ResourceName, outbox: &mut Outbox) {
        if let Some(node) = self.nodes.get_mut(name)
            && !core::mem::replace(&mut node.is_asked_again, true)
        {
            outbox.renew(DependencyKind::Cluster, name);
        }
    }

    fn readiness(&self, name: &ResourceName) -> Readiness {
        // What can be used is not given up for what cannot be had at the moment.
        let is_usable = self.is_usable(name);
        let Some(together) = self.waiting_together(name, is_usable) else {
            return Readiness::Waits;
        };
        match is_usable {
            true => self.unless_it_leads_nowhere(name, together),
            false => Readiness::Ready(together),
        }
    }

    /// The aggregate and those below it that wait, if there is nothing else that they wait for.
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
                // Too deep to be followed, which is found when leaves are gathered.
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

    /// Half of an update looks like a loop where the whole of it turns round who is made of whom. So calls keep
    /// the clusters that they can use until nothing below waits any more, and each that is below was heard of
    /// after the aggregate was told to change: then the loop is real, and an error (A37).
    fn unless_it_leads_nowhere(
        &self,
        name: &ResourceName,
        together: BTreeSet<ResourceName>,
    ) -> Readiness {
        let mut descent = Descent::default();
        if self.descend(name, &together, &mut descent).is_ok() {
            return Readiness::Ready(together);
        }
        let since = self.nodes.get(name).map_or(0, |node| node.since);
        let mut doubtful = Vec::new();
        for below in descent.seen {
            let Some(node) = self.nodes.get(&below) else { continue };
            if node.next.is_some() && !together.contains(&below) {
                return Readiness::Waits;
            }
            if node.heard < since {
                doubtful.push(below);
            }
        }
        match doubtful.is_empty() {
            true => Readiness::Ready(together),
            false => Readiness::Doubtful(doubtful),
        }
    }
}
