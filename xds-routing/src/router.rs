//! Calls one by one, without LB policies for routes: gRFC A31, the way that is recommended.
//!
//! A [`Router`] decides once for each call, which cluster it goes to and how long it may take; a retry stays
//! with what was decided (X46). [`ClusterReferences`] knows which clusters are needed: those that routes lead to,
//! and those that calls under way still use. It holds no connections; whoever does removes a cluster when it is
//! told that nothing refers to it.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::{String, ToString as _},
    sync::Arc,
    vec::Vec,
};
use core::{fmt, time::Duration};

use thiserror::Error;
use xds_core::ResourceName;

use crate::{
    filters::{Fault, FaultInjection, FilterConfig, FilterOverrides},
    listener::HttpConnections,
    matching::{Call, NoRoute},
    pattern::Headers,
    random::Random,
    route::{Action, ClusterChoice, Forward, Route, RouteConfiguration, VirtualHost},
};

/// Why a call fails that no endpoint answers. The status says nothing of what went wrong between client
/// and management server: it is UNAVAILABLE, or INTERNAL for what must not happen (S3.096-S3.098).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Failure {
    /// No virtual host is for the name that the channel asks for (S2.070).
    #[error("no virtual host of route configuration `{routes}` is for `{name}`")]
    NoVirtualHost {
        /// The route configuration.
        routes: ResourceName,
        /// The name.
        name: String,
    },
    /// No route is for the call (S2.057).
    #[error(transparent)]
    NoRoute(#[from] NoRoute),
    /// The route is not for clients (A36).
    #[error("route `{0}` does not lead to a cluster")]
    UnsupportedAction(String),
    /// The cluster is not among those that routes or calls refer to: a bug of whoever asks.
    #[error("cluster `{0}` is not known")]
    UnknownCluster(ResourceName),
    /// The cluster does not exist, or not any more, or cannot be had.
    #[error("cluster `{cluster}` cannot be used: {why} (resolution note: {note})")]
    NoCluster {
        /// The cluster.
        cluster: ResourceName,
        /// Why, for the message of the status.
        why: String,
        /// What is known to be wrong beside it, else whose configuration it is (S3.091).
        note: String,
    },
    /// The cluster is known, but no endpoint of it takes the call.
    #[error("no endpoint of cluster `{cluster}`: {why} (resolution note: {note})")]
    NoEndpoint {
        /// The cluster.
        cluster: ResourceName,
        /// Why, for the message of the status.
        why: String,
        /// What is known to be wrong with the cluster's configuration, else whose it is (S3.091).
        note: String,
    },
    /// The cluster's configuration does not let the call through: it is one of a share that is dropped, or too
    /// many calls are under way.
    #[error("cluster `{cluster}` refuses the call: {why} (resolution note: {note})")]
    Refused {
        /// The cluster.
        cluster: ResourceName,
        /// Why, for the message of the status.
        why: String,
        /// What is known to be wrong with the cluster's configuration, else whose it is.
        note: String,
    },
    /// The call was sent to an endpoint, and ended without an answer: with its connection, or because the endpoint
    /// reset it. The endpoint may have acted on it, so that it is not sent again.
    #[error("lost the call to an endpoint of cluster `{cluster}`: {why} (resolution note: {note})")]
    Lost {
        /// The cluster.
        cluster: ResourceName,
        /// Why, for the message of the status.
        why: String,
        /// What is known to be wrong with the cluster's configuration, else whose it is.
        note: String,
    },
}

const INTERNAL: i32 = 13;
const UNAVAILABLE: i32 = 14;

impl Failure {
    /// The gRPC status of the call: 13, INTERNAL, for an unknown cluster, and 14, UNAVAILABLE, for all else
    /// (B26).
    #[must_use]
    pub const fn code(&self) -> i32 {
        match self {
            Self::UnknownCluster(_) => INTERNAL,
            Self::NoVirtualHost { .. }
            | Self::NoRoute(_)
            | Self::UnsupportedAction(_)
            | Self::NoCluster { .. }
            | Self::NoEndpoint { .. }
            | Self::Refused { .. }
            | Self::Lost { .. } => UNAVAILABLE,
        }
    }

    /// What is known to be wrong beside it, or whose configuration it is, if it says that itself.
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

    /// The message of the call's status: with this note, which is that of
    /// [all clusters](crate::dependencies::FollowedClusters::note), unless it has one itself (S3.090, S3.095).
    #[must_use]
    pub fn message(&self, note: impl fmt::Display) -> String {
        match self.note() {
            Some(_) => self.to_string(),
            None => format!("{self} (resolution note: {note})"),
        }
    }
}

/// Decides where calls of a channel go.
#[derive(Clone, Debug)]
pub struct Router {
    routes: Arc<RouteConfiguration>,
    host: usize,
    max_stream_duration: Option<Duration>,
    /// The filters that make trouble on purpose, by name, in turn.
    faults: Arc<[(String, FaultInjection)]>,
}

/// What was decided for a call.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Decision<'a> {
    /// The route configuration in use.
    pub routes: &'a RouteConfiguration,
    /// The virtual host in use.
    pub host: &'a VirtualHost,
    /// The route that it takes.
    pub route: &'a Route,
    /// What the route says about getting to a cluster: retries, hashes, the name to ask for.
    pub forward: &'a Forward,
    /// Where it goes.
    pub target: Target<'a>,
    /// How long it may take; `None` is without limit.
    pub timeout: Option<Duration>,
    /// What is done to it on purpose before it is sent (A33).
    pub fault: Fault,
}

impl<'a> Decision<'a> {
    /// What is set for the HTTP filter of this name beside the listener: for the choice among weighted
    /// clusters, else for the route, else for the virtual host, else for all routes (A39). The first of
    /// them counts whole.
    #[must_use]
    pub fn filter_override(&self, filter: &str) -> Option<&'a FilterConfig> {
        let of_choice = match self.target {
            Target::Cluster { overrides, .. } => overrides,
            Target::Plugin(_) => None,
        };
        let of_all = [&self.route.overrides, self.host.overrides(), self.routes.overrides()];
        of_choice.into_iter().chain(of_all).find_map(|overrides| overrides.get(filter))
    }

    /// What the filters that make trouble on purpose do to the call, in turn.
    fn faults<H: Headers + ?Sized>(
        &self,
        filters: &[(String, FaultInjection)],
        headers: &H,
        random: &mut Random,
    ) -> Fault {
        filters.iter().fold(Fault::default(), |fault, (name, configured)| {
            let faults = match self.filter_override(name) {
                Some(FilterConfig::Faults(faults)) => faults,
                _ => configured,
            };
            fault.then(faults.decide(headers, random))
        })
    }
}

/// Where a call goes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Target<'a> {
    /// To this cluster.
    Cluster {
        /// The cluster.
        name: &'a ResourceName,
        /// Settings of HTTP filters for this choice, which go before those of the route (A39).
        overrides: Option<&'a FilterOverrides>,
    },
    /// To whichever cluster the extension of this name says.
    Plugin(&'a str),
}

impl Router {
    /// Decides by the virtual host that is for `name`, which is the channel's target without the scheme
    /// (S2.068).
    ///
    /// # Errors
    ///
    /// There is none: all calls fail with that.
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
        let faults = listener.filters.iter().filter_map(|filter| match &filter.config {
            FilterConfig::Faults(faults) => Some((filter.name.clone(), faults.clone())),
            FilterConfig::Other(_) => None,
        });
        let faults = faults.collect();
        Self { routes, host, max_stream_duration: listener.max_stream_duration, faults }
    }

    /// The virtual host in use.
    #[must_use]
    pub fn virtual_host(&self) -> &VirtualHost {
        self.routes.virtual_hosts.get(self.host).expect("found when the router was made")
    }

    /// The clusters that routes lead to, each once, in order.
    #[must_use]
    pub fn clusters(&self) -> BTreeSet<ResourceName> {
        self.virtual_host().clusters()
    }

    /// Decides for a call that its application gives this much time, if it gives a limit.
    ///
    /// # Errors
    ///
    /// No route is for the call, or the one that is does not lead to a cluster.
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
            ClusterChoice::Cluster(name) => Target::Cluster { name, overrides: None },
            ClusterChoice::Weighted(weights) => {
                let chosen = weights.choose(random);
                Target::Cluster { name: &chosen.name, overrides: Some(&chosen.overrides) }
            }
            ClusterChoice::Plugin { name, .. } => Target::Plugin(name),
        };
        let timeout = self.limited(timeout, forward);
        let fault = Fault::default();
        let decided =
            Decision { routes: &self.routes, host, route, forward, target, timeout, fault };
        Ok(Decision { fault: decided.faults(&self.faults, call.headers, random), ..decided })
    }

    /// The application's limit, but no more than what the route says, else the listener. Of the route's
    /// two, the one for the header counts; zero is no limit (A31).
    fn limited(&self, stated: Option<Duration>, forward: &Forward) -> Option<Duration> {
        let of_route = forward.timeout_header_max.or(forward.max_stream_duration);
        let most = of_route.or(self.max_stream_duration).filter(|limit| !limit.is_zero());
        match (stated, most) {
            (Some(stated), Some(most)) => Some(stated.min(most)),
            (stated, most) => stated.or(most),
        }
    }
}

/// Which clusters are needed, and by whom. A cluster goes in two steps: first no route leads to it, so that
/// no call begins; once the last call that was decided for it has been picked, it can go (B26).
#[derive(Clone, Debug, Default)]
pub struct ClusterReferences {
    clusters: BTreeMap<ResourceName, References>,
}

#[derive(Clone, Copy, Debug, Default)]
struct References {
    is_routed: bool,
    calls: usize,
}

/// What changed about a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClusterChange {
    /// It is needed now.
    Added(ResourceName),
    /// Nothing refers to it any more.
    Removed(ResourceName),
}

impl ClusterReferences {
    /// Nothing is needed yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the clusters that routes lead to from now on, and says what changed: what is new, then what is
    /// gone.
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

    /// A call was decided for a cluster, which stays until [`end_call`](Self::end_call).
    ///
    /// # Errors
    ///
    /// Nothing refers to the cluster: the call was decided by another router's routes.
    pub fn start_call(&mut self, cluster: &ResourceName) -> Result<(), Failure> {
        let references = self.clusters.get_mut(cluster);
        let references = references.ok_or_else(|| Failure::UnknownCluster(cluster.clone()))?;
        references.calls = references.calls.saturating_add(1);
        Ok(())
    }

    /// A call needs its cluster no longer. Says so if nothing else does. A call that never began is ignored.
    pub fn end_call(&mut self, cluster: &ResourceName) -> Option<ClusterChange> {
        let references = self.clusters.get_mut(cluster)?;
        references.calls = references.calls.saturating_sub(1);
        if references.is_routed || references.calls > 0 {
            return None;
        }
        self.clusters.remove(cluster);
        Some(ClusterChange::Removed(cluster.clone()))
    }

    /// The clusters that are needed, in order.
    pub fn needed(&self) -> impl Iterator<Item = &ResourceName> {
        self.clusters.keys()
    }
}
