//! Route configurations (RDS) as gRPC understands them: gRFC A28 as amended, with A31, A36, A39, A42, A44,
//! A63 and A81.
//!
//! | what | file |
//! |---|---|
//! | virtual hosts, and which is for a name | `domains.rs`, [`RouteConfiguration::virtual_host`] |
//! | which calls a route is for | `matches.rs` |
//! | what to do with them | `action.rs`, `retry.rs`, `weights.rs` |
//! | judging all of it | `validate.rs` and the `judge` functions beside each value |
//! | judging what is new in it | `renew.rs`, [`RouteConfiguration::from_bytes_after`] |

mod action;
mod domains;
mod matches;
mod renew;
mod retry;
mod validate;
mod weights;

use alloc::{collections::BTreeSet, string::String, vec::Vec};

use xds_core::ResourceName;

use self::domains::DomainIndex;
pub use self::{
    action::{Action, ClusterChoice, Forward, HashPolicy, HashSource, HostRewrite},
    domains::DomainPattern,
    matches::RouteMatch,
    retry::{RetryPolicy, RetryableStatus},
    weights::{WeightedCluster, WeightedClusters},
};
pub(crate) use self::{matches::judge_text, validate::judge_route_configuration};
use crate::{filters::FilterOverrides, judge::Trust, matching::RouteIndex};

/// A validated route configuration.
#[derive(Clone, Debug)]
pub struct RouteConfiguration {
    pub(crate) name: ResourceName,
    pub(crate) virtual_hosts: Vec<VirtualHost>,
    pub(crate) overrides: FilterOverrides,
    pub(crate) index: DomainIndex,
    /// What it was judged with, which is no part of what it says.
    pub(crate) trust: Trust,
}

impl RouteConfiguration {
    /// The resource's name; empty if it is part of a listener and has none.
    #[must_use]
    pub const fn name(&self) -> &ResourceName {
        &self.name
    }

    /// All virtual hosts, in the order of the resource.
    #[must_use]
    pub fn virtual_hosts(&self) -> &[VirtualHost] {
        &self.virtual_hosts
    }

    /// The virtual host whose domains fit a name most specifically (S2.067, S2.069); of several that do
    /// equally, the first. For a channel the name is what its target URI asks for, without the scheme
    /// (S2.068); case does not matter.
    #[must_use]
    pub fn virtual_host(&self, name: &str) -> Option<&VirtualHost> {
        self.index.find(name).and_then(|index| self.virtual_hosts.get(index))
    }

    /// Settings of HTTP filters for all of it (A39).
    #[must_use]
    pub const fn overrides(&self) -> &FilterOverrides {
        &self.overrides
    }
}

impl PartialEq for RouteConfiguration {
    /// The index is a function of the virtual hosts; whom they are from does not matter beside what they say.
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.virtual_hosts, &self.overrides)
            == (&other.name, &other.virtual_hosts, &other.overrides)
    }
}

/// The routes for some names.
#[derive(Clone, Debug)]
pub struct VirtualHost {
    pub(crate) name: String,
    pub(crate) domains: Vec<DomainPattern>,
    pub(crate) routes: Vec<Route>,
    pub(crate) passed_over: Vec<PassedOver>,
    pub(crate) overrides: FilterOverrides,
    pub(crate) index: RouteIndex,
}

impl VirtualHost {
    /// Its name, for people and logs.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names that it is for.
    #[must_use]
    pub fn domains(&self) -> &[DomainPattern] {
        &self.domains
    }

    /// The routes that can match, in the order of the resource; the first that does counts (S2.047).
    #[must_use]
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// The clusters that its routes lead to, each once, in order (S0.021). Those that a plugin chooses are not
    /// known.
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

    /// The routes that are passed over. A host where no other is left is worth a warning: every call to
    /// it fails (X33).
    #[must_use]
    pub fn passed_over(&self) -> &[PassedOver] {
        &self.passed_over
    }

    /// Settings of HTTP filters for all its routes (A39).
    #[must_use]
    pub const fn overrides(&self) -> &FilterOverrides {
        &self.overrides
    }
}

impl PartialEq for VirtualHost {
    /// The index is a function of the routes.
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.domains, &self.routes, &self.passed_over, &self.overrides)
            == (&other.name, &other.domains, &other.routes, &other.passed_over, &other.overrides)
    }
}

/// Which calls, and what to do with them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Route {
    /// Its name, for people and logs.
    pub name: String,
    /// Which calls.
    pub matches: RouteMatch,
    /// What to do with them.
    pub action: Action,
    /// Settings of HTTP filters (A39).
    pub overrides: FilterOverrides,
    /// Whether expressions of it count among those that a resource may have.
    pub(crate) has_expressions: bool,
}

/// A route that no call will ever take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PassedOver {
    /// Its index in the resource.
    pub route: usize,
    /// Why.
    pub why: WhyPassedOver,
}

/// Why a route is passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhyPassedOver {
    /// It asks for parameters in the URL, of which gRPC has none (S2.090).
    QueryParameters,
    /// It is not valid otherwise, and no call has its path: those of gRPC are `/service/method`.
    Path,
    /// A header is to name the cluster (S2.099).
    ClusterHeader,
    /// The cluster is named in no known way, or not at all (X31).
    UnknownClusterSpecifier,
    /// It leaves the choice of the cluster to an optional plugin that is not known.
    OptionalPlugin,
}
