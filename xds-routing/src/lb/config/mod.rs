//! LB policies' configurations, read from the JSON of service configs.
//!
//! A policy is chosen as gRPC chooses it: the first of a list whose name is known (S2.048). Its
//! configuration is judged, and if that is invalid so is all that it is in; what comes after it in the
//! list is not looked at (S2.050, S2.051). Names of fields are read as protobuf's JSON has them, in either
//! spelling, `matchFraction` or `match_fraction` (X25).

mod fields;
mod matches;

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    vec::Vec,
};

use serde_json::Value;
use thiserror::Error;
use xds_core::ResourceName;

use self::fields::Fields;
use super::{
    routing::{PolicyRoute, RoutingConfig},
    weighted_target::Target,
};
use crate::{
    judge::{InvalidResource, Judge, Trust},
    rules::Rules,
};

/// A policy and its configuration, which is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyConfig {
    /// `xds_routing_experimental`: calls go to the child of the first route that matches (S2.005).
    Routing(RoutingConfig<Self>),
    /// `weighted_target_experimental`: calls are split between children, by name (S2.008).
    WeightedTarget(BTreeMap<String, Target<Self>>),
    /// A policy that is not this crate's to run.
    Leaf(LeafConfig),
}

/// What is at the leaves of a tree of policies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LeafConfig {
    /// `cds_experimental`: the cluster of this name.
    Cluster(ResourceName),
    /// Any other policy.
    Named {
        /// Its name.
        policy: String,
        /// Its configuration, an object of compact JSON.
        config: String,
    },
}

impl LeafConfig {
    /// The name of the policy.
    #[must_use]
    pub fn policy(&self) -> &str {
        match self {
            Self::Cluster(_) => CDS,
            Self::Named { policy, .. } => policy,
        }
    }
}

/// A configuration is not valid, and rejected as a whole (S2.045).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidPolicy {
    /// It is not JSON.
    #[error("not JSON: {0}")]
    Json(String),
    /// It is JSON of something else: where, by the names of fields and keys, and why.
    #[error(transparent)]
    Fields(#[from] InvalidResource),
}

/// The policies that are known.
///
/// The two that route and split calls are, and `cds_experimental`; others by their names only, at first
/// those of gRPC that choose between endpoints.
#[derive(Clone, Debug)]
pub struct PolicyRegistry {
    leaves: BTreeSet<String>,
    rules: Rules,
}

const ROUTING: &str = "xds_routing_experimental";
const WEIGHTED_TARGET: &str = "weighted_target_experimental";
const CDS: &str = "cds_experimental";
const LEAVES: [&str; 7] = [
    "least_request_experimental",
    "pick_first",
    "priority_experimental",
    "ring_hash_experimental",
    "round_robin",
    "weighted_round_robin",
    "wrr_locality_experimental",
];

impl Default for PolicyRegistry {
    fn default() -> Self {
        Self::new(Rules::default())
    }
}

impl PolicyRegistry {
    /// Of the rules, those of regular expressions count.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self { leaves: LEAVES.map(String::from).into(), rules }
    }

    /// Knows another policy by its name.
    #[must_use]
    pub fn with_policy(mut self, name: impl Into<String>) -> Self {
        self.leaves.insert(name.into());
        self
    }

    /// The policy of a service config: of an object with a `loadBalancingConfig`.
    ///
    /// # Errors
    ///
    /// All that is wrong with it.
    pub fn service_config(&self, json: &str) -> Result<PolicyConfig, InvalidPolicy> {
        self.judge(json, |value, judge| {
            let config = Fields::of(value, judge)?;
            self.policy_in(&config, "loadBalancingConfig", judge)
        })
    }

    /// The policy of a list of objects, each of which has one field: the name of a policy.
    ///
    /// # Errors
    ///
    /// All that is wrong with it.
    pub fn policies(&self, json: &str) -> Result<PolicyConfig, InvalidPolicy> {
        self.judge(json, |value, judge| self.policy(value, judge))
    }

    fn judge(
        &self,
        json: &str,
        work: impl FnOnce(&Value, &mut Judge<'_>) -> Option<PolicyConfig>,
    ) -> Result<PolicyConfig, InvalidPolicy> {
        let value = serde_json::from_str(json);
        let value: Value = value.map_err(|why| InvalidPolicy::Json(format!("{why}")))?;
        let mut judge = Judge::new(&self.rules, Trust::default());
        let config = work(&value, &mut judge);
        Ok(judge.finish(config)?)
    }

    fn policy_in(
        &self,
        fields: &Fields<'_>,
        name: &'static str,
        judge: &mut Judge<'_>,
    ) -> Option<PolicyConfig> {
        let list = fields.required(name, judge)?;
        judge.field(name, |judge| self.policy(list, judge))
    }

    /// The first policy of a list that is known.
    fn policy(&self, list: &Value, judge: &mut Judge<'_>) -> Option<PolicyConfig> {
        let Value::Array(list) = list else {
            judge.fault("must be a list of policies");
            return None;
        };
        let mut unknown = Vec::new();
        for (index, entry) in list.iter().enumerate() {
            let entry = entry.as_object().filter(|entry| entry.len() == 1);
            let Some((name, config)) = entry.and_then(|entry| entry.iter().next()) else {
                judge.fault(format_args!("[{index}] must be an object with one field"));
                return None;
            };
            if self.knows(name) {
                let path = format!("[{index}].{name}");
                return judge.index(&path, |judge| self.known(name, config, judge));
            }
            unknown.push(name.as_str());
        }
        match unknown.is_empty() {
            true => judge.fault("must not be empty"),
            false => judge.fault(format_args!("none is known of {}", unknown.join(", "))),
        }
        None
    }

    fn knows(&self, name: &str) -> bool {
        [ROUTING, WEIGHTED_TARGET, CDS].contains(&name) || self.leaves.contains(name)
    }

    fn known(&self, name: &str, config: &Value, judge: &mut Judge<'_>) -> Option<PolicyConfig> {
        let fields = Fields::of(config, judge)?;
        match name {
            ROUTING => self.routing(&fields, judge).map(PolicyConfig::Routing),
            WEIGHTED_TARGET => self.targets(&fields, judge).map(PolicyConfig::WeightedTarget),
            CDS => {
                let cluster = fields.text("cluster", judge)?;
                if cluster.is_empty() {
                    judge.fault_in("cluster", "must not be empty");
                }
                Some(PolicyConfig::Leaf(LeafConfig::Cluster(ResourceName::from(cluster))))
            }
            _ => {
                let (policy, config) = (String::from(name), format!("{config}"));
                Some(PolicyConfig::Leaf(LeafConfig::Named { policy, config }))
            }
        }
    }

    fn routing(
        &self,
        fields: &Fields<'_>,
        judge: &mut Judge<'_>,
    ) -> Option<RoutingConfig<PolicyConfig>> {
        let mut routes = Vec::new();
        for (index, route) in fields.list("route", judge).iter().enumerate() {
            routes.push(judge.element("route", index, |judge| {
                let fields = Fields::of(route, judge)?;
                let matches = matches::read(&fields, judge);
                let action = fields.text("action", judge)?;
                Some(PolicyRoute::new(matches?, action))
            }));
        }
        let mut actions = BTreeMap::new();
        for (name, action) in fields.map("action", judge) {
            let action = judge.element("action", format_args!("{name:?}"), |judge| {
                let fields = Fields::of(action, judge)?;
                self.policy_in(&fields, "childPolicy", judge)
            });
            actions.insert(name.clone(), action);
        }
        // What refers to what can only be said of what was read.
        let routes: Option<Vec<_>> = routes.into_iter().collect();
        let actions: Option<BTreeMap<_, _>> =
            actions.into_iter().map(|(name, action)| Some((name, action?))).collect();
        Some(RoutingConfig::judge(routes?, actions?, judge))
    }

    fn targets(
        &self,
        fields: &Fields<'_>,
        judge: &mut Judge<'_>,
    ) -> Option<BTreeMap<String, Target<PolicyConfig>>> {
        let mut targets = BTreeMap::new();
        let mut sum: u64 = 0;
        for (name, target) in fields.map("targets", judge) {
            let target = judge.element("targets", format_args!("{name:?}"), |judge| {
                let fields = Fields::of(target, judge)?;
                let weight = fields.number("weight", judge).unwrap_or_default();
                if weight == 0 {
                    judge.fault_in("weight", "must be a number above zero");
                }
                sum = sum.saturating_add(u64::from(weight));
                Some(Target::new(weight, self.policy_in(&fields, "childPolicy", judge)?))
            });
            targets.extend(target.map(|target| (name.clone(), target)));
        }
        if sum > u64::from(u32::MAX) {
            judge.fault_in("targets", format_args!("the weights sum up to more than {}", u32::MAX));
        }
        Some(targets)
    }
}
