//! Route configurations (RDS) as gRPC uses them: [gRFC A28] as amended, with gRFCs A31, A36, A39,
//! A42, A44, A63 and A81.
//!
//! [gRFC A28]:
//!     https://github.com/grpc/proposal/blob/master/A28-xds-traffic-splitting-and-routing.md
//!
//! | topic | file |
//! |---|---|
//! | domain patterns, virtual hosts | `domains.rs`, [`RouteConfiguration::virtual_host`] |
//! | route matches | `matches.rs` |
//! | the route of a call | `find.rs`, [`VirtualHost::find`] |
//! | the reasons why routes do not match a call | `explain.rs`, [`VirtualHost::explain`] |
//! | route matches by the rules of Envoy | `criteria.rs`, `proxy.rs`, [`ProxyRoutes`] |
//! | route actions | `action.rs`, `hash.rs`, `retry.rs`, `weights.rs` |
//! | skipped routes | `skipped.rs` |
//! | validation | `validate.rs` and the `validate_*` functions next to each value |
//! | incremental validation of an update | `renew.rs`, [`RouteConfiguration::from_bytes_after`] |

mod action;
mod criteria;
mod domains;
mod explain;
mod find;
mod hash;
mod matches;
mod proxy;
mod renew;
mod retry;
mod skipped;
mod validate;
mod weights;

use alloc::{collections::BTreeSet, string::String, vec::Vec};

use xds_core::ResourceName;

use self::domains::DomainIndex;
pub(crate) use self::validate::validate_route_configuration;
pub use self::{
    action::{Action, ClusterChoice, Forward, HostRewrite},
    criteria::{Mismatch, NotEvaluated, ProxyCriteria},
    domains::DomainPattern,
    explain::{ExplainedRoute, Verdict},
    find::NoRoute,
    hash::{HashPolicy, HashSource},
    matches::RouteMatch,
    proxy::{Drawn, ProxyHost, ProxyRoutes},
    retry::{RetryPolicy, RetryableStatus},
    skipped::{SkipReason, SkippedRoute},
    weights::{WeightedCluster, WeightedClusters},
};
use crate::{filters::FilterOverrides, matching::RouteIndex, validation::Trust};

/// Validated route configuration.
#[derive(Clone, Debug)]
pub struct RouteConfiguration {
    pub(crate) name: ResourceName,
    pub(crate) virtual_hosts: Vec<VirtualHost>,
    pub(crate) overrides: FilterOverrides,
    pub(crate) index: DomainIndex,
    /// Trust in the server at validation. Not part of the value.
    pub(crate) trust: Trust,
}

impl RouteConfiguration {
    /// Returns the name of the resource. Empty for an inline configuration without a name.
    #[must_use]
    pub const fn name(&self) -> &ResourceName {
        &self.name
    }

    /// Returns the virtual hosts, in the order of the resource.
    #[must_use]
    pub fn virtual_hosts(&self) -> &[VirtualHost] {
        &self.virtual_hosts
    }

    /// Returns the virtual host whose domains match a name most specifically. Among equally
    /// specific ones, the first is used. For a channel, the name is the target URI without its
    /// scheme. Comparison ignores ASCII case.
    // S2.067, S2.068, S2.069
    #[must_use]
    pub fn virtual_host(&self, name: &str) -> Option<&VirtualHost> {
        self.index.find(name).and_then(|index| self.virtual_hosts.get(index))
    }

    /// Returns the index of the [`virtual_host`](Self::virtual_host) of a name, and the domain that
    /// matches.
    #[must_use]
    pub fn matched_domain(&self, name: &str) -> Option<(usize, DomainPattern)> {
        self.index.find_domain(name)
    }

    /// Returns the HTTP filter overrides of the whole configuration (gRFC A39).
    #[must_use]
    pub const fn overrides(&self) -> &FilterOverrides {
        &self.overrides
    }
}

impl PartialEq for RouteConfiguration {
    /// Ignores the index, which is derived, and the trust in the server.
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.virtual_hosts, &self.overrides)
            == (&other.name, &other.virtual_hosts, &other.overrides)
    }
}

/// Routes for a set of domains.
#[derive(Clone, Debug)]
pub struct VirtualHost {
    pub(crate) name: String,
    pub(crate) domains: Vec<DomainPattern>,
    pub(crate) routes: Vec<Route>,
    pub(crate) skipped_routes: Vec<SkippedRoute>,
    pub(crate) overrides: FilterOverrides,
    pub(crate) index: RouteIndex,
}

impl VirtualHost {
    /// Returns the name, used only in messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the domain patterns.
    #[must_use]
    pub fn domains(&self) -> &[DomainPattern] {
        &self.domains
    }

    /// Returns the routes that can match some call, in the order of the resource. The first match
    /// is used.
    // S2.047
    #[must_use]
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// Returns the clusters that the routes name, sorted and without duplicates. Clusters chosen by
    /// plugins are unknown.
    // S0.021
    #[must_use]
    pub fn clusters(&self) -> BTreeSet<ResourceName> {
        let mut clusters = BTreeSet::new();
        for route in &self.routes {
            let Action::Forward(forward) = &route.action else { continue };
            match &forward.clusters {
                ClusterChoice::Cluster(name) => {
                    clusters.insert(name.clone());
                }
                ClusterChoice::Weighted(weights) => {
                    clusters.extend(weights.clusters().iter().map(|it| it.name.clone()));
                }
                ClusterChoice::Plugin { .. } => {}
            }
        }
        clusters
    }

    /// Returns the skipped routes. If no other routes are left, every call fails, so a warning is
    /// advisable.
    // X33
    #[must_use]
    pub fn skipped_routes(&self) -> &[SkippedRoute] {
        &self.skipped_routes
    }

    /// Returns the HTTP filter overrides of the virtual host (gRFC A39).
    #[must_use]
    pub const fn overrides(&self) -> &FilterOverrides {
        &self.overrides
    }
}

impl PartialEq for VirtualHost {
    /// Ignores the index, which is derived.
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.domains, &self.routes, &self.skipped_routes, &self.overrides)
            == (&other.name, &other.domains, &other.routes, &other.skipped_routes, &other.overrides)
    }
}

/// Route: the calls it matches, and the action for them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Route {
    /// Name, used only in messages.
    pub name: String,
    /// Conditions for a call.
    pub matches: RouteMatch,
    /// Action for matching calls.
    pub action: Action,
    /// HTTP filter overrides of the route (gRFC A39).
    pub overrides: FilterOverrides,
    /// Whether the route contains expressions, which count against the limits of the resource.
    pub(crate) has_expressions: bool,
}
