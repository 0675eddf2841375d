//! Service config of [gRFC A28]: routes as the configuration of an LB policy, for channels that
//! route by LB policies.
//!
//! [`ServiceConfigs`] creates one for each version of a [`VirtualHost`]. Equal actions are merged
//! into one, whose name describes it. An action keeps its name across updates. A split of which
//! only the weights change keeps its name too, so a canary rollout never closes a child policy.
//!
//! A route that does not forward to a cluster fails its own calls, but no others (gRFC A36). Its
//! action is a `weighted_target_experimental` without targets.
//!
//! # The example of A28, corrected
//!
//! A test generates the config of the example in A28's appendix. The example contains mistakes,
//! which are not reproduced:
//!
//! [gRFC A28]:
//!     https://github.com/grpc/proposal/blob/master/A28-xds-traffic-splitting-and-routing.md
//!
//! | in the example | here |
//! |---|---|
//! | fields `PolicyAction` and `Route` | `action` and `route`, as in protobuf's JSON mapping |
//! | `match_fraction` in the text | `matchFraction` |
//! | prefix of the third route: `method_2` in the resource, `method_1` in the config | `method_2` |
//! | index 1 of both splits is unexplained | see below |
//! | one route never needs a routing policy | only if it matches every call |
//!
//! The index distinguishes actions with the same clusters, whose names are sorted and joined by
//! `_`. It is the first free number from 1.
// X25, X26, X27, X28

mod actions;
mod json;

use thiserror::Error;

use self::actions::{Names, PolicyAction};
use crate::route::{Action as RouteAction, ClusterChoice, Route, VirtualHost};

/// Generator of the service configs of successive versions of a virtual host.
#[derive(Clone, Debug, Default)]
pub struct ServiceConfigs {
    names: Names,
}

/// Service config as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceConfig(serde_json::Value);

impl ServiceConfig {
    /// Returns the config as compact JSON. Equal configs give equal text.
    #[must_use]
    pub fn to_json(&self) -> alloc::string::String {
        alloc::format!("{}", self.0)
    }
}

/// Error for a route that the LB policies of A28 cannot express. Channels that route by
/// [`VirtualHost::find`] support it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("route {route} {why}")]
#[non_exhaustive]
pub struct UnsupportedRoute {
    /// Index of the route in [`VirtualHost::routes`].
    pub route: usize,
    /// Unsupported feature.
    pub why: &'static str,
}

impl ServiceConfigs {
    /// Creates a generator without previous configs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the service config of the next version of the virtual host.
    ///
    /// # Errors
    ///
    /// Returns an error if a route cannot be expressed. Names are unchanged then.
    pub fn next(&mut self, host: &VirtualHost) -> Result<ServiceConfig, UnsupportedRoute> {
        let mut routes = alloc::vec::Vec::new();
        for (index, route) in host.routes().iter().enumerate() {
            let unsupported = |why| UnsupportedRoute { route: index, why };
            let action = action(route).map_err(unsupported)?;
            let matches = json::matches(&route.matches).map_err(unsupported)?;
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

    fn routing(
        &self,
        routes: alloc::vec::Vec<(PolicyAction, json::ObjectFields)>,
    ) -> serde_json::Value {
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

fn action(route: &Route) -> Result<PolicyAction, &'static str> {
    match &route.action {
        RouteAction::Forward(forward) => match &forward.clusters {
            ClusterChoice::Cluster(name) => Ok(PolicyAction::cluster(name)),
            ClusterChoice::Weighted(weights) => Ok(PolicyAction::weighted(weights)),
            ClusterChoice::Plugin { .. } => Err("uses a cluster specifier plugin"),
        },
        RouteAction::NonForwarding | RouteAction::Unsupported => Ok(PolicyAction::Fail),
    }
}
