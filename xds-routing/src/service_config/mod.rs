//! The service config of gRFC A28: routes as the configuration of an LB policy, for channels that route by
//! policies.
//!
//! [`ServiceConfigs`] makes one of each version of a [`VirtualHost`]. Equal actions are one, whose name says
//! what it does; a name stays with its action over updates, and a split of calls whose weights alone change
//! keeps its name, so that a canary rollout never closes a child policy.
//!
//! A route that does not lead to a cluster fails its calls, and those only (A36): its action is a
//! `weighted_target_experimental` without targets, where nobody gets a call.
//!
//! # The example of A28, corrected
//!
//! A test makes the config of the example in A28's appendix. The text of the example has slips, which are
//! not followed:
//!
//! | in the example | here |
//! |---|---|
//! | fields `Action` and `Route` (X25) | `action` and `route`, as protobuf's JSON has them |
//! | `match_fraction` in the text (X25) | `matchFraction` |
//! | the third route has prefix `/service_2/method_2` as a resource and `/service_2/method_1` as a config (X26) | what the resource says |
//! | why both splits have index 1 is not said (X27) | the index counts the actions with the same clusters, whose names are sorted and joined by `_`; from 1 up to the first name that is free |
//! | one route needs no routing policy, whatever it matches (X28) | only if it matches every call |

mod actions;
mod json;

use thiserror::Error;

use self::actions::{Action, Names};
use crate::route::{Action as RouteAction, ClusterChoice, Route, VirtualHost};

/// Makes service configs of the versions of a virtual host, one after the other.
#[derive(Clone, Debug, Default)]
pub struct ServiceConfigs {
    names: Names,
}

/// A service config, which is JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceConfig(serde_json::Value);

impl ServiceConfig {
    /// The config as compact JSON; the same config is the same text.
    #[must_use]
    pub fn to_json(&self) -> alloc::string::String {
        alloc::format!("{}", self.0)
    }
}

/// A route does what the LB policies of A28 have no words for; channels that route by
/// [`VirtualHost::find`] do it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("route {route} {why}")]
#[non_exhaustive]
pub struct Inexpressible {
    /// Its index among [`VirtualHost::routes`].
    pub route: usize,
    /// What it does.
    pub why: &'static str,
}

impl ServiceConfigs {
    /// Has made none yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The service config of the next version of the virtual host.
    ///
    /// # Errors
    ///
    /// A route does what cannot be said. Names are as they were.
    pub fn next(&mut self, host: &VirtualHost) -> Result<ServiceConfig, Inexpressible> {
        let mut routes = alloc::vec::Vec::new();
        for (index, route) in host.routes().iter().enumerate() {
            let inexpressible = |why| Inexpressible { route: index, why };
            let action = action(route).map_err(inexpressible)?;
            let matches = json::matches(&route.matches).map_err(inexpressible)?;
            routes.push((action, matches));
        }
        self.names.renew(routes.iter().map(|(action, _)| action));
        let policy = match (host.routes(), routes.as_slice()) {
            ([route], [(action, _)]) if route.matches.is_catch_all() => action.policy(),
            _ => self.routing(routes),
        };
        let list = serde_json::Value::Array([policy].into());
        Ok(ServiceConfig(json::object([("loadBalancingConfig", list)])))
    }

    fn routing(&self, routes: alloc::vec::Vec<(Action, json::Fields)>) -> serde_json::Value {
        let actions = self.names.by_name().map(|(name, action)| (name, action.child()));
        let actions = json::object(actions);
        let routes = routes.into_iter().map(|(action, mut fields)| {
            let name = self.names.of(&action).unwrap_or_default();
            fields.push(("action", name.into()));
            json::object(fields)
        });
        let routes = serde_json::Value::Array(routes.collect());
        let config = json::object([("action", actions), ("route", routes)]);
        json::object([("xds_routing_experimental", config)])
    }
}

fn action(route: &Route) -> Result<Action, &'static str> {
    match &route.action {
        RouteAction::Forward(forward) => match &forward.clusters {
            ClusterChoice::Cluster(name) => Ok(Action::cluster(name)),
            ClusterChoice::Weighted(weights) => Ok(Action::weighted(weights)),
            ClusterChoice::Plugin { .. } => Err("leaves the choice of a cluster to a plugin"),
        },
        RouteAction::TakeIn | RouteAction::Unsupported => Ok(Action::Fail),
    }
}
