//! Per-call routing without LB policies for routes, as recommended by [gRFC A31].
//!
//! A [`Router`] decides once per call which cluster it goes to and how long it may take. Retries
//! keep that decision. [`ClusterReferences`] tracks which clusters are needed: those that routes
//! refer to, and those that active calls still use. It holds no connections. Their owner removes a
//! cluster when [`ClusterChange::Removed`] reports that nothing refers to it.
//!
//! With a [`DependencyManager`](crate::dependencies::DependencyManager), a router comes from
//! [`Configuration::router`](crate::dependencies::Configuration::router), and
//! [`subscribe`](crate::dependencies::DependencyManager::subscribe) takes the place of
//! `ClusterReferences`. A [`Balancer`](crate::balancer::Balancer) chooses the endpoint.
//!
//! [gRFC A31]:
//!     https://github.com/grpc/proposal/blob/master/A31-xds-timeout-support-and-config-selector.md
// X46

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::{String, ToString as _},
    sync::Arc,
    vec::Vec,
};
use core::{fmt, time::Duration};

use thiserror::Error;
use xds_core::{ResourceName, StatusCode};

use crate::{
    filters::{Fault, FilterConfig, FilterOverrides, HttpFilter, Session},
    listener::HttpConnections,
    matching::Call,
    pattern::Headers,
    random::Random,
    route::{Action, ClusterChoice, Forward, NoRoute, Route, RouteConfiguration, VirtualHost},
};

/// Failure of a call that no endpoint answers. The status is UNAVAILABLE, or INTERNAL for a bug of
/// the caller. It does not depend on status codes of the management server ([gRFC A54]).
///
/// [gRFC A54]:
///     https://github.com/grpc/proposal/blob/master/A54-restrict-control-plane-status-codes.md
// S3.096-S3.098
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Failure {
    /// No virtual host matches the channel's authority.
    // S2.070
    #[error("no virtual host of route configuration `{routes}` matches `{name}`")]
    NoVirtualHost {
        /// Name of the route configuration.
        routes: ResourceName,
        /// Authority that the channel asks for.
        name: String,
    },
    /// No route matches the call.
    // S2.057
    #[error(transparent)]
    NoRoute(#[from] NoRoute),
    /// The action of the matching route is not supported by clients (gRFC A36). The value is the
    /// name of the route, which may be empty.
    #[error("the matching route{} does not forward to a cluster", name_of_route(.0))]
    UnsupportedAction(String),
    /// No route or active call refers to the cluster: a bug of the caller.
    #[error("unknown cluster `{0}`")]
    UnknownCluster(ResourceName),
    /// The cluster does not exist, was removed, or could not be obtained.
    #[error("cluster `{cluster}` cannot be used: {why} (resolution note: {note})")]
    NoCluster {
        /// Name of the cluster.
        cluster: ResourceName,
        /// Reason, for the status message.
        why: String,
        /// Other known configuration errors, or the xDS node ID if there are none.
        // S3.091
        note: String,
    },
    /// No endpoint of the cluster accepts the call.
    #[error("no endpoint of cluster `{cluster}`: {why} (resolution note: {note})")]
    NoEndpoint {
        /// Name of the cluster.
        cluster: ResourceName,
        /// Reason, for the status message.
        why: String,
        /// Known errors of the cluster's configuration, or the xDS node ID if there are none.
        // S3.091
        note: String,
    },
    /// The configuration of the cluster rejects the call: it is dropped by a drop category, or the
    /// circuit breaker limits the number of active calls.
    #[error("cluster `{cluster}` rejects the call: {why} (resolution note: {note})")]
    Refused {
        /// Name of the cluster.
        cluster: ResourceName,
        /// Reason, for the status message.
        why: String,
        /// Known errors of the cluster's configuration, or the xDS node ID if there are none.
        note: String,
    },
    /// The call was sent to an endpoint and ended without a response, because the connection was
    /// lost or the endpoint reset the stream. The endpoint may have processed the call, so it is
    /// not retried transparently.
    #[error("call to an endpoint of cluster `{cluster}` failed: {why} (resolution note: {note})")]
    Lost {
        /// Name of the cluster.
        cluster: ResourceName,
        /// Reason, for the status message.
        why: String,
        /// Known errors of the cluster's configuration, or the xDS node ID if there are none.
        note: String,
    },
}

fn name_of_route(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(" `{name}`") }
}

impl Failure {
    /// Returns the gRPC status code of the call: `Internal` for an unknown cluster, otherwise
    /// `Unavailable`.
    // B26
    #[must_use]
    pub const fn code(&self) -> StatusCode {
        match self {
            Self::UnknownCluster(_) => StatusCode::Internal,
            Self::NoVirtualHost { .. }
            | Self::NoRoute(_)
            | Self::UnsupportedAction(_)
            | Self::NoCluster { .. }
            | Self::NoEndpoint { .. }
            | Self::Refused { .. }
            | Self::Lost { .. } => StatusCode::Unavailable,
        }
    }

    /// Returns the resolution note, if this kind of failure carries one.
    #[must_use]
    pub fn note(&self) -> Option<&str> {
        match self {
            Self::NoCluster { note, .. }
            | Self::NoEndpoint { note, .. }
            | Self::Refused { note, .. }
            | Self::Lost { note, .. } => Some(note),
            Self::NoVirtualHost { .. }
            | Self::NoRoute(_)
            | Self::UnsupportedAction(_)
            | Self::UnknownCluster(_) => None,
        }
    }

    /// Returns the status message of the call. `note`, normally that of [all
    /// clusters](crate::dependencies::ResolvedClusters::note), is appended if the failure carries
    /// no note of its own.
    // S3.090, S3.095
    #[must_use]
    pub fn message(&self, note: impl fmt::Display) -> String {
        match self.note() {
            Some(_) => self.to_string(),
            None => format!("{self} (resolution note: {note})"),
        }
    }
}

/// Decides where the calls of a channel go. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Router {
    routes: Arc<RouteConfiguration>,
    host: usize,
    max_stream_duration: Option<Duration>,
    /// Filters for fault injection and sessions, in the order of the filter chain.
    filters: Arc<[HttpFilter]>,
}

/// Routing decision for a call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Decision<'a> {
    /// Route configuration in use.
    pub routes: &'a RouteConfiguration,
    /// Virtual host in use.
    pub host: &'a VirtualHost,
    /// Route that matches the call.
    pub route: &'a Route,
    /// Forwarding settings of the route: retries, hash policies, authority rewriting.
    pub forward: &'a Forward,
    /// Destination of the call.
    pub target: CallTarget<'a>,
    /// Maximum duration of the call. `None` means no limit.
    pub timeout: Option<Duration>,
    /// Fault to inject before the call is sent (gRFC A33).
    pub fault: Fault,
    /// Session of the call (gRFC A55). `None` if a filter of the listener does not apply to it.
    pub session: Option<Session>,
}

impl<'a> Decision<'a> {
    /// Returns the override for the HTTP filter with this name in the listener, from the first of:
    /// the chosen weighted cluster, the route, the virtual host, the route configuration
    /// ([gRFC A39]). Overrides are not merged.
    ///
    /// [gRFC A39]: https://github.com/grpc/proposal/blob/master/A39-xds-http-filters.md
    #[must_use]
    pub fn filter_override(&self, filter: &str) -> Option<&'a FilterConfig> {
        self.overrides().find_map(|overrides| overrides.get(filter))
    }

    fn overrides(&self) -> impl Iterator<Item = &'a FilterOverrides> {
        let of_choice = match self.target {
            CallTarget::Cluster { overrides, .. } => overrides,
            CallTarget::Plugin(_) => None,
        };
        let of_all = [&self.route.overrides, self.host.overrides(), self.routes.overrides()];
        of_choice.into_iter().chain(of_all)
    }

    /// Combines the faults of all fault injection filters, in the order of the filter chain.
    fn faults<H: Headers + ?Sized>(
        &self,
        filters: &[HttpFilter],
        headers: &H,
        random: &mut Random,
    ) -> Fault {
        filters.iter().fold(Fault::default(), |fault, filter| {
            match filter.effective(self.overrides()) {
                FilterConfig::Faults(faults) => fault.then(faults.decide(headers, random)),
                _ => fault,
            }
        })
    }

    /// Sets the session of the call. Of several filters that apply, the last one is used. If the
    /// cookie of the request names a cluster of the route, that cluster becomes the target (gRFC
    /// A60).
    fn join_session<H: Headers + ?Sized>(&mut self, filters: &[HttpFilter], call: &Call<'_, H>) {
        let CallTarget::Cluster { name, overrides } = self.target else { return };
        let cookies =
            filters.iter().rev().filter_map(|filter| match filter.effective(self.overrides()) {
                FilterConfig::Sessions(sessions) => sessions.cookie.as_ref(),
                _ => None,
            });
        let Some(cookie) = { cookies }.find(|cookie| cookie.applies_to(call.path)) else { return };
        let cookies = call.headers.value("cookie");
        let mut session = Session::of_request(cookie, cookies.as_deref(), name);
        if let Some(name) = self.forward.clusters.get(session.stated_cluster()) {
            session.set_cluster(name);
            self.target = CallTarget::Cluster { name, overrides };
        }
        self.session = Some(session);
    }
}

/// Destination of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum CallTarget<'a> {
    /// A cluster.
    Cluster {
        /// Name of the cluster.
        name: &'a ResourceName,
        /// HTTP filter overrides of the chosen weighted cluster. They precede those of the route
        /// (gRFC A39).
        overrides: Option<&'a FilterOverrides>,
    },
    /// The cluster chosen by the cluster specifier plugin with this name.
    Plugin(&'a str),
}

impl Router {
    /// Creates a router for the virtual host that matches `name`, the target of the channel without
    /// its scheme.
    ///
    /// # Errors
    ///
    /// Returns [`Failure::NoVirtualHost`] if none matches. All calls fail with it.
    // S2.068
    pub fn new(
        routes: Arc<RouteConfiguration>,
        name: &str,
        listener: &HttpConnections,
    ) -> Result<Self, Failure> {
        let Some(host) = routes.index.find(name) else {
            return Err(Failure::NoVirtualHost { routes: routes.name.clone(), name: name.into() });
        };
        Ok(Self::of_host(routes, host, listener))
    }

    pub(crate) fn of_host(
        routes: Arc<RouteConfiguration>,
        host: usize,
        listener: &HttpConnections,
    ) -> Self {
        let applies = |filter: &&HttpFilter| {
            matches!(filter.config, FilterConfig::Faults(_) | FilterConfig::Sessions(_))
        };
        let filters = listener.filters.iter().filter(applies).cloned().collect();
        Self { routes, host, max_stream_duration: listener.max_stream_duration, filters }
    }

    /// Returns the virtual host in use.
    #[must_use]
    #[expect(clippy::expect_used, reason = "the index is that of a virtual host of these routes")]
    pub fn virtual_host(&self) -> &VirtualHost {
        self.routes.virtual_hosts.get(self.host).expect("the index is valid")
    }

    /// Returns the clusters that the routes refer to, sorted and without duplicates.
    #[must_use]
    pub fn clusters(&self) -> BTreeSet<ResourceName> {
        self.virtual_host().clusters()
    }

    /// Decides for a call whose application set this timeout, or none.
    ///
    /// # Errors
    ///
    /// Returns an error if no route matches the call, or the matching route does not forward to a
    /// cluster.
    pub fn decide<H: Headers + ?Sized>(
        &self,
        call: &Call<'_, H>,
        timeout: Option<Duration>,
        random: &mut Random,
    ) -> Result<Decision<'_>, Failure> {
        let host = self.virtual_host();
        let route = host.find(call, random)?;
        let Action::Forward(forward) = &route.action else {
            return Err(Failure::UnsupportedAction(route.name.clone()));
        };
        let target = match &forward.clusters {
            ClusterChoice::Cluster(name) => CallTarget::Cluster { name, overrides: None },
            ClusterChoice::Weighted(weights) => {
                let chosen = weights.choose(random);
                CallTarget::Cluster { name: &chosen.name, overrides: Some(&chosen.overrides) }
            }
            ClusterChoice::Plugin { name, .. } => CallTarget::Plugin(name),
        };
        let timeout = self.limited(timeout, forward);
        let (fault, session) = (Fault::default(), None);
        let mut decided = Decision {
            routes: &self.routes,
            host,
            route,
            forward,
            target,
            timeout,
            fault,
            session,
        };
        decided.fault = decided.faults(&self.filters, call.headers, random);
        decided.join_session(&self.filters, call);
        Ok(decided)
    }

    /// Limits the timeout of the application to that of the route or, if it has none, the listener.
    /// `grpc_timeout_header_max` precedes `max_stream_duration`. Zero means no limit (gRFC A31).
    fn limited(&self, stated: Option<Duration>, forward: &Forward) -> Option<Duration> {
        let of_route = forward.timeout_header_max.or(forward.max_stream_duration);
        let most = of_route.or(self.max_stream_duration).filter(|limit| !limit.is_zero());
        match (stated, most) {
            (Some(stated), Some(most)) => Some(stated.min(most)),
            (stated, most) => stated.or(most),
        }
    }
}

/// Reference counts of clusters.
///
/// A cluster is removed in two steps. First no route refers to it any more, so no new call chooses
/// it. It is removed after the last call that had chosen it ended.
// B26
#[derive(Clone, Debug, Default)]
pub struct ClusterReferences {
    clusters: BTreeMap<ResourceName, References>,
}

#[derive(Clone, Copy, Debug, Default)]
struct References {
    is_routed: bool,
    calls: usize,
}

/// Change of the set of needed clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClusterChange {
    /// The cluster is needed from now on.
    Added(ResourceName),
    /// The cluster has no references any more.
    Removed(ResourceName),
}

impl ClusterReferences {
    /// Creates an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces the set of clusters that routes refer to. Returns the changes, additions first.
    pub fn set_routed(&mut self, routed: &BTreeSet<ResourceName>) -> Vec<ClusterChange> {
        let mut changes = Vec::new();
        for name in routed {
            let entry = self.clusters.entry(name.clone()).or_insert_with(|| {
                changes.push(ClusterChange::Added(name.clone()));
                References::default()
            });
            entry.is_routed = true;
        }
        self.clusters.retain(|name, references| {
            references.is_routed = routed.contains(name);
            let stays = references.is_routed || references.calls > 0;
            if !stays {
                changes.push(ClusterChange::Removed(name.clone()));
            }
            stays
        });
        changes
    }

    /// Registers a call that chose a cluster. The cluster stays until [`end_call`](Self::end_call).
    ///
    /// # Errors
    ///
    /// Returns [`Failure::UnknownCluster`] if nothing refers to the cluster: the call was decided
    /// by routes that are not those of this set.
    pub fn start_call(&mut self, cluster: &ResourceName) -> Result<(), Failure> {
        let references = self.clusters.get_mut(cluster);
        let references = references.ok_or_else(|| Failure::UnknownCluster(cluster.clone()))?;
        references.calls = references.calls.saturating_add(1);
        Ok(())
    }

    /// Ends a call's reference to its cluster. Returns the removal if this was the last reference.
    /// An unknown cluster is ignored.
    pub fn end_call(&mut self, cluster: &ResourceName) -> Option<ClusterChange> {
        let references = self.clusters.get_mut(cluster)?;
        references.calls = references.calls.saturating_sub(1);
        if references.is_routed || references.calls > 0 {
            return None;
        }
        self.clusters.remove(cluster);
        Some(ClusterChange::Removed(cluster.clone()))
    }

    /// Returns the needed clusters, sorted.
    pub fn needed(&self) -> impl Iterator<Item = &ResourceName> {
        self.clusters.keys()
    }
}
