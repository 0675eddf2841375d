//! Configurations of LB policies, read from the JSON of service configs.
//!
//! The first policy of a list whose name is known is used, as in gRPC. If its configuration is
//! invalid, the whole service config is invalid. Later entries of the list are ignored. Field names
//! are accepted in both spellings of protobuf's JSON mapping, `matchFraction` or `match_fraction`.
// S2.048, S2.050, S2.051, X25

mod field_reader;
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

use self::field_reader::FieldReader;
use super::{
    routing::{PolicyRoute, RoutingConfig},
    weighted_target::Target,
};
use crate::{
    rules::Rules,
    validation::{InvalidResource, Validator},
};

/// Policy with a valid configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyConfig {
    /// `xds_routing_experimental`: sends calls to the child of the first matching route.
    // S2.005
    Routing(RoutingConfig<Self>),
    /// `weighted_target_experimental`: splits calls between children by weight.
    // S2.008
    WeightedTarget(BTreeMap<String, Target<Self>>),
    /// A policy that this crate does not implement.
    Leaf(LeafPolicyConfig),
}

/// Leaf of a policy tree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LeafPolicyConfig {
    /// `cds_experimental` with the name of the cluster.
    Cluster(ResourceName),
    /// Any other policy.
    Named {
        /// Name of the policy.
        policy: String,
        /// Configuration: a compact JSON object.
        config: String,
    },
}

impl LeafPolicyConfig {
    /// Returns the name of the policy.
    #[must_use]
    pub fn policy(&self) -> &str {
        match self {
            Self::Cluster(_) => CDS,
            Self::Named { policy, .. } => policy,
        }
    }
}

/// Error for an invalid configuration, which is rejected as a whole.
// S2.045
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidPolicy {
    /// The text is not JSON. The value describes the error.
    #[error("not JSON: {0}")]
    Json(String),
    /// The JSON is not a valid configuration. Lists the invalid fields.
    #[error(transparent)]
    Fields(#[from] InvalidResource),
}

/// Registry of the known policies.
///
/// It contains the two that route and split calls, `cds_experimental`, and the names of gRPC's
/// endpoint-level policies. Other names can be added.
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
    /// Creates a registry. Only the rules for regular expressions are used.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self { leaves: LEAVES.map(String::from).into(), rules }
    }

    /// Adds a policy by its name.
    #[must_use]
    pub fn with_policy(mut self, name: impl Into<String>) -> Self {
        self.leaves.insert(name.into());
        self
    }

    /// Parses a service config: an object with a `loadBalancingConfig`.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not JSON, or one that lists the invalid fields.
    pub fn service_config(&self, json: &str) -> Result<PolicyConfig, InvalidPolicy> {
        self.validator(json, |value, validator| {
            let config = FieldReader::of(value, validator)?;
            self.policy_in(&config, "loadBalancingConfig", validator)
        })
    }

    /// Parses a list of policies: objects with one field each, the name of a policy.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not JSON, or one that lists the invalid fields.
    pub fn policies(&self, json: &str) -> Result<PolicyConfig, InvalidPolicy> {
        self.validator(json, |value, validator| self.policy(value, validator))
    }

    fn validator(
        &self,
        json: &str,
        work: impl FnOnce(&Value, &mut Validator<'_>) -> Option<PolicyConfig>,
    ) -> Result<PolicyConfig, InvalidPolicy> {
        let value = serde_json::from_str(json);
        let value: Value = value.map_err(|why| InvalidPolicy::Json(format!("{why}")))?;
        let mut validator = Validator::new(&self.rules, None);
        let config = work(&value, &mut validator);
        Ok(validator.finish(config)?)
    }

    fn policy_in(
        &self,
        fields: &FieldReader<'_>,
        name: &'static str,
        validator: &mut Validator<'_>,
    ) -> Option<PolicyConfig> {
        let list = fields.required(name, validator)?;
        validator.field(name, |validator| self.policy(list, validator))
    }

    /// Returns the first known policy of a list.
    fn policy(&self, list: &Value, validator: &mut Validator<'_>) -> Option<PolicyConfig> {
        let Value::Array(list) = list else {
            validator.error("must be a list of policies");
            return None;
        };
        let mut unknown = Vec::new();
        for (index, entry) in list.iter().enumerate() {
            let entry = entry.as_object().filter(|entry| entry.len() == 1);
            let Some((name, config)) = entry.and_then(|entry| entry.iter().next()) else {
                validator.error(format_args!("[{index}] must be an object with one field"));
                return None;
            };
            if self.knows(name) {
                let path = format!("[{index}].{name}");
                return validator.index(&path, |validator| self.known(name, config, validator));
            }
            unknown.push(name.as_str());
        }
        match unknown.is_empty() {
            true => validator.error("must not be empty"),
            false => validator
                .error(format_args!("none of these policies is known: {}", unknown.join(", "))),
        }
        None
    }

    fn knows(&self, name: &str) -> bool {
        [ROUTING, WEIGHTED_TARGET, CDS].contains(&name) || self.leaves.contains(name)
    }

    fn known(
        &self,
        name: &str,
        config: &Value,
        validator: &mut Validator<'_>,
    ) -> Option<PolicyConfig> {
        let fields = FieldReader::of(config, validator)?;
        match name {
            ROUTING => self.routing(&fields, validator).map(PolicyConfig::Routing),
            WEIGHTED_TARGET => self.targets(&fields, validator).map(PolicyConfig::WeightedTarget),
            CDS => {
                let cluster = fields.text("cluster", validator)?;
                if cluster.is_empty() {
                    validator.error_in("cluster", "must not be empty");
                }
                Some(PolicyConfig::Leaf(LeafPolicyConfig::Cluster(ResourceName::from(cluster))))
            }
            _ => {
                let (policy, config) = (String::from(name), format!("{config}"));
                Some(PolicyConfig::Leaf(LeafPolicyConfig::Named { policy, config }))
            }
        }
    }

    fn routing(
        &self,
        fields: &FieldReader<'_>,
        validator: &mut Validator<'_>,
    ) -> Option<RoutingConfig<PolicyConfig>> {
        let mut routes = Vec::new();
        for (index, route) in fields.list("route", validator).iter().enumerate() {
            routes.push(validator.element("route", index, |validator| {
                let fields = FieldReader::of(route, validator)?;
                let matches = matches::read(&fields, validator);
                let action = fields.text("action", validator)?;
                Some(PolicyRoute::new(matches?, action))
            }));
        }
        let mut actions = BTreeMap::new();
        for (name, action) in fields.map("action", validator) {
            let action = validator.element("action", format_args!("{name:?}"), |validator| {
                let fields = FieldReader::of(action, validator)?;
                self.policy_in(&fields, "childPolicy", validator)
            });
            actions.insert(name.clone(), action);
        }
        // References are validated only if everything was read.
        let routes: Option<Vec<_>> = routes.into_iter().collect();
        let actions: Option<BTreeMap<_, _>> =
            actions.into_iter().map(|(name, action)| Some((name, action?))).collect();
        Some(RoutingConfig::validator(routes?, actions?, validator))
    }

    fn targets(
        &self,
        fields: &FieldReader<'_>,
        validator: &mut Validator<'_>,
    ) -> Option<BTreeMap<String, Target<PolicyConfig>>> {
        let mut targets = BTreeMap::new();
        let mut sum: u64 = 0;
        for (name, target) in fields.map("targets", validator) {
            let target = validator.element("targets", format_args!("{name:?}"), |validator| {
                let fields = FieldReader::of(target, validator)?;
                let weight = fields.number("weight", validator).unwrap_or_default();
                if weight == 0 {
                    validator.error_in("weight", "must be a number above zero");
                }
                sum = sum.saturating_add(u64::from(weight));
                Some(Target::new(weight, self.policy_in(&fields, "childPolicy", validator)?))
            });
            targets.extend(target.map(|target| (name.clone(), target)));
        }
        if sum > u64::from(u32::MAX) {
            validator
                .error_in("targets", format_args!("the weights sum up to more than {}", u32::MAX));
        }
        Some(targets)
    }
}
