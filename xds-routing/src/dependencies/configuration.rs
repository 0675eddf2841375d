//! Configuration of a channel as one value.

use alloc::{collections::BTreeMap, string::ToString as _, sync::Arc, vec::Vec};
use core::fmt::Display;

use xds_core::ResourceName;

use super::{ClusterError, ResolutionNote};
use crate::{
    cluster::Cluster,
    endpoint::ClusterLoadAssignment,
    listener::{HttpConnections, Listener},
    route::{RouteConfiguration, VirtualHost},
    router::{Failure, Router},
    scalars::SocketAddress,
};

/// Complete and consistent configuration for the calls of a channel.
///
/// It contains every cluster that a route names, with its endpoints or the reason why there are
/// none. Cloning is cheap. Parts that did not change between two configurations are the same
/// [`Arc`] in both.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    pub(super) listener: Arc<Listener>,
    pub(super) routes: Arc<RouteConfiguration>,
    /// Index of the virtual host.
    pub(super) host: usize,
    pub(super) resolved_clusters: ResolvedClusters,
}

/// Clusters with their endpoints, or the reasons why there are none. They belong to a
/// [`Configuration`], or are kept while there is none
/// ([`DependencyManager::clusters`](super::DependencyManager::clusters)). Cloning is cheap.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedClusters {
    pub(super) clusters: Arc<ClusterMap>,
    /// Ambient errors of the listener and the routes.
    pub(super) note: ResolutionNote,
}

impl ResolvedClusters {
    /// Returns all clusters by name: those that routes name, those that are subscribed, and the
    /// members of aggregates among them. A subscribed cluster is missing until its first result is
    /// known.
    #[must_use]
    pub fn by_name(
        &self,
    ) -> &BTreeMap<ResourceName, Result<Arc<ClusterConfiguration>, ClusterError>> {
        &self.clusters
    }

    /// Returns the cluster with this name.
    ///
    /// # Errors
    ///
    /// Returns the failure of calls to the cluster if it is unknown or cannot be used.
    // B26
    pub fn cluster(&self, name: &ResourceName) -> Result<&Arc<ClusterConfiguration>, Failure> {
        match self.clusters.get(name) {
            Some(Ok(cluster)) => Ok(cluster),
            Some(Err(why)) => {
                let note = why.note().unwrap_or(&self.note).to_string();
                let why = why.to_string();
                Err(Failure::NoCluster { cluster: name.clone(), why, note })
            }
            None => Err(Failure::UnknownCluster(name.clone())),
        }
    }

    /// Returns the ambient errors of the listener and the routes, for the messages of calls that
    /// fail before a cluster is chosen.
    #[must_use]
    pub const fn note(&self) -> &ResolutionNote {
        &self.note
    }
}

/// Clusters by name.
pub(super) type ClusterMap =
    BTreeMap<ResourceName, Result<Arc<ClusterConfiguration>, ClusterError>>;

impl Configuration {
    /// Returns the listener.
    #[must_use]
    pub const fn listener(&self) -> &Arc<Listener> {
        &self.listener
    }

    /// Returns the HTTP connection manager of the listener.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a configuration is of an API listener")]
    pub fn connections(&self) -> &HttpConnections {
        self.listener.api().expect("the listener is an API listener")
    }

    /// Returns the route configuration, either a resource or inlined in the listener.
    #[must_use]
    pub const fn routes(&self) -> &Arc<RouteConfiguration> {
        &self.routes
    }

    /// Returns the virtual host that matches the authority of the channel.
    #[must_use]
    #[expect(clippy::expect_used, reason = "the index is that of a virtual host of these routes")]
    pub fn virtual_host(&self) -> &VirtualHost {
        self.routes.virtual_hosts().get(self.host).expect("the index is valid")
    }

    /// Creates a router, which decides where each call goes.
    #[must_use]
    pub fn router(&self) -> Router {
        Router::of_host(Arc::clone(&self.routes), self.host, self.connections())
    }

    /// Returns the clusters: those that routes name, those that are subscribed, and the members of
    /// aggregates among them.
    #[must_use]
    pub const fn resolved_clusters(&self) -> &ResolvedClusters {
        &self.resolved_clusters
    }

    /// Returns all clusters [by name](ResolvedClusters::by_name).
    #[must_use]
    pub fn clusters(
        &self,
    ) -> &BTreeMap<ResourceName, Result<Arc<ClusterConfiguration>, ClusterError>> {
        self.resolved_clusters.by_name()
    }

    /// Returns the [cluster](ResolvedClusters::cluster) with this name.
    ///
    /// # Errors
    ///
    /// Returns the failure of calls to the cluster if it is unknown or cannot be used.
    pub fn cluster(&self, name: &ResourceName) -> Result<&Arc<ClusterConfiguration>, Failure> {
        self.resolved_clusters.cluster(name)
    }
}

/// Cluster with its endpoints or members.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ClusterConfiguration {
    /// Cluster resource.
    pub cluster: Arc<Cluster>,
    /// Destinations of the cluster's calls.
    pub children: Children,
    /// Note for the message of every failed call.
    // S3.091
    pub note: ResolutionNote,
}

/// Destinations of a cluster's calls.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Children {
    /// The cluster has endpoints of its own.
    Leaf(EndpointConfiguration),
    /// The cluster is an aggregate. These are its leaf clusters in order of priority, without
    /// duplicates (gRFC A37). Each of them is among the [clusters](Configuration::clusters).
    /// Clusters that cannot be obtained are left out.
    Aggregate(Vec<ResourceName>),
}

/// Endpoints of a leaf cluster.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EndpointConfiguration {
    /// Endpoints.
    pub endpoints: Endpoints,
}

/// Endpoints of a leaf cluster, by their source.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Endpoints {
    /// Endpoints of an EDS resource.
    Known(Arc<ClusterLoadAssignment>),
    /// No endpoints can be obtained. The [note](ClusterConfiguration::note) contains the reason.
    Missing,
    /// One endpoint with the addresses of this DNS name, which the owner of the connections
    /// resolves (gRFC A37).
    Dns(SocketAddress),
}

impl ClusterConfiguration {
    /// Creates the failure of a call that no endpoint accepts, with the reason and the
    /// [note](field@Self::note).
    // S3.090, S3.091
    #[must_use]
    pub fn failure(&self, why: impl Display) -> Failure {
        let (cluster, note) = (self.cluster.name.clone(), self.note.to_string());
        Failure::NoEndpoint { cluster, why: why.to_string(), note }
    }

    /// Creates the failure of a call that the configuration of the cluster rejects.
    #[must_use]
    pub fn refusal(&self, why: impl Display) -> Failure {
        let (cluster, note) = (self.cluster.name.clone(), self.note.to_string());
        Failure::Refused { cluster, why: why.to_string(), note }
    }

    /// Creates the failure of a call that was sent to an endpoint and ended without a response.
    #[must_use]
    pub fn loss(&self, why: impl Display) -> Failure {
        let (cluster, note) = (self.cluster.name.clone(), self.note.to_string());
        Failure::Lost { cluster, why: why.to_string(), note }
    }
}
