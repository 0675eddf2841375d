//! Actions of a service config and their names.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::{String, ToString},
    vec::Vec,
};

use serde_json::Value;
use xds_core::ResourceName;

use super::json::object;
use crate::route::WeightedClusters;

/// Action of a route. Two actions are equal if they have the same clusters with the same weights,
/// in any order.
// S2.118
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PolicyAction {
    Cluster(ResourceName),
    /// Weights by cluster. Those of a repeated cluster are added.
    Weighted(BTreeMap<ResourceName, u32>),
    /// Calls fail.
    Fail,
}

impl PolicyAction {
    pub(super) fn cluster(name: &ResourceName) -> Self {
        Self::Cluster(name.clone())
    }

    pub(super) fn weighted(weights: &WeightedClusters) -> Self {
        let mut sums: BTreeMap<ResourceName, u32> = BTreeMap::new();
        for cluster in weights.clusters() {
            let sum = sums.entry(cluster.name.clone()).or_default();
            *sum = sum.saturating_add(cluster.weight);
        }
        Self::Weighted(sums)
    }

    /// Returns the clusters of a split, which identify it when its weights change.
    fn clusters(&self) -> Option<Vec<&ResourceName>> {
        match self {
            Self::Cluster(_) | Self::Fail => None,
            Self::Weighted(weights) => Some(weights.keys().collect()),
        }
    }

    /// Returns the LB policy of the action.
    // S2.108, S2.109
    pub(super) fn policy(&self) -> Value {
        match self {
            Self::Cluster(name) => cds(name),
            Self::Weighted(weights) => {
                let targets = weights.iter().map(|(name, &weight)| {
                    let policies = Value::Array([cds(name)].into());
                    let target = object([("childPolicy", policies), ("weight", weight.into())]);
                    (name.as_str(), target)
                });
                weighted_target(object(targets))
            }
            Self::Fail => weighted_target(object([])),
        }
    }

    /// Returns the entry for the map of actions.
    pub(super) fn child(&self) -> Value {
        object([("childPolicy", Value::Array([self.policy()].into()))])
    }
}

fn weighted_target(targets: Value) -> Value {
    object([("weighted_target_experimental", object([("targets", targets)]))])
}

fn cds(name: &ResourceName) -> Value {
    object([("cds_experimental", object([("cluster", name.as_str().into())]))])
}

/// Unique names of the actions of the newest config.
// S2.107
#[derive(Clone, Debug, Default)]
pub(super) struct Names(BTreeMap<PolicyAction, String>);

impl Names {
    pub(super) fn of(&self, action: &PolicyAction) -> Option<&str> {
        self.0.get(action).map(String::as_str)
    }

    pub(super) fn by_name(&self) -> impl Iterator<Item = (&str, &PolicyAction)> {
        let by_name: BTreeMap<&str, &PolicyAction> =
            self.0.iter().map(|(action, name)| (name.as_str(), action)).collect();
        by_name.into_iter()
    }

    /// Replaces the actions by those of the next config. New actions are named in sorted order, so
    /// the order of routes does not matter.
    // S2.110-S2.119
    pub(super) fn renew<'a>(&mut self, wanted: impl Iterator<Item = &'a PolicyAction>) {
        let wanted: BTreeSet<&PolicyAction> = wanted.collect();
        let before = core::mem::take(&mut self.0);
        let (kept, mut removed): (BTreeMap<_, _>, BTreeMap<_, _>) =
            before.into_iter().partition(|(action, _)| wanted.contains(action));
        let mut used: BTreeSet<String> = kept.values().cloned().collect();
        self.0 = kept;
        let mut unnamed = Vec::new();
        for action in wanted {
            if self.0.contains_key(action) {
                continue;
            }
            let same = |other: &&PolicyAction| {
                action.clusters().is_some() && other.clusters() == action.clusters()
            };
            let predecessor = removed.keys().find(same).cloned();
            match predecessor.and_then(|predecessor| removed.remove(&predecessor)) {
                Some(name) => {
                    used.insert(name.clone());
                    self.0.insert(action.clone(), name);
                }
                None => unnamed.push(action),
            }
        }
        for action in unnamed {
            let name = free_name(action, &used);
            used.insert(name.clone());
            self.0.insert(action.clone(), name);
        }
    }
}

/// Returns an unused name that describes the action.
// X27
fn free_name(action: &PolicyAction, used: &BTreeSet<String>) -> String {
    let weights = match action {
        PolicyAction::Cluster(name) => return format!("cds:{name}"),
        // No name of a cluster or a split starts like this.
        PolicyAction::Fail => return String::from("fail"),
        PolicyAction::Weighted(weights) => weights,
    };
    let clusters: Vec<String> = weights.keys().map(ToString::to_string).collect();
    let prefix = format!("weighted:{}", clusters.join("_"));
    let names = (1_u32..).map(|index| format!("{prefix}_{index}"));
    names.into_iter().find(|name| !used.contains(name)).unwrap_or(prefix)
}
