//! What calls need, as one value.

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

/// Everything that the calls of a channel need, complete and consistent: every cluster that a route names is in
/// it, with its endpoints or the reason why it has none. It is cheap to clone, and what did not change from one
/// configuration to the next is the same [`Arc`] in both.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    pub(super) listener: Arc<Listener>,
    pub(super) routes: Arc<RouteConfiguration>,
    /// The virtual host's index.
    pub(super) host: usize,
    pub(super) followed: FollowedClusters,
}

/// Clusters with their endpoints, or the reasons why there are none: those of a [`Configuration`], or those that are
/// kept while there is none ([`DependencyManager::clusters`](super::DependencyManager::clusters)). It is cheap to
/// clone.
#[derive(Clone, Debug, PartialEq)]
pub struct FollowedClusters {
    pub(super) clusters: Arc<ClusterMap>,
    /// What is wrong beside the listener and the routes.
    pub(super) note: ResolutionNote,
}

impl FollowedClusters {
    /// All of them by name: those that routes lead to, those that are subscribed to, and what they are made
    /// of. A cluster that is subscribed to and neither there nor known to be missing is not among them yet.
    #[must_use]
    pub fn by_name(
        &self,
    ) -> &BTreeMap<ResourceName, Result<Arc<ClusterConfiguration>, ClusterError>> {
        &self.clusters
    }

    /// The cluster of this name.
    ///
    /// # Errors
    ///
    /// How a call to it fails: it is not known, or cannot be used (B26).
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

    /// What is known to be wrong beside the listener and the routes, for the messages of calls that fail before a
    /// cluster is decided for.
    #[must_use]
    pub const fn note(&self) -> &ResolutionNote {
        &self.note
    }
}

/// Clusters by name.
pub(super) type ClusterMap =
    BTreeMap<ResourceName, Result<Arc<ClusterConfiguration>, ClusterError>>;

impl Configuration {
    /// The listener.
    #[must_use]
    pub const fn listener(&self) -> &Arc<Listener> {
        &self.listener
    }

    /// What becomes of requests, by the listener.
    #[must_use]
    pub fn connections(&self) -> &HttpConnections {
        self.listener.api().expect("a listener of clients")
    }

    /// The route configuration, be it a resource or part of the listener.
    #[must_use]
    pub const fn routes(&self) -> &Arc<RouteConfiguration> {
        &self.routes
    }

    /// The virtual host that is for the channel's name.
    #[must_use]
    pub fn virtual_host(&self) -> &VirtualHost {
        self.routes.virtual_hosts().get(self.host).expect("found when it was chosen")
    }

    /// What decides where each call goes.
    #[must_use]
    pub fn router(&self) -> Router {
        Router::of_host(Arc::clone(&self.routes), self.host, self.connections())
    }

    /// The clusters: those that routes lead to, those that are subscribed to, and what they are made of.
    #[must_use]
    pub const fn followed(&self) -> &FollowedClusters {
        &self.followed
    }

    /// All clusters [by name](FollowedClusters::by_name).
    #[must_use]
    pub fn clusters(
        &self,
    ) -> &BTreeMap<ResourceName, Result<Arc<ClusterConfiguration>, ClusterError>> {
        self.followed.by_name()
    }

    /// The [cluster](FollowedClusters::cluster) of this name.
    ///
    /// # Errors
    ///
    /// How a call to it fails: it is not known, or cannot be used (B26).
    pub fn cluster(&self, name: &ResourceName) -> Result<&Arc<ClusterConfiguration>, Failure> {
        self.followed.cluster(name)
    }
}

/// A cluster, and what calls to it need.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ClusterConfiguration {
    /// The resource.
    pub cluster: Arc<Cluster>,
    /// Where calls to it can go.
    pub children: Children,
    /// What is to be part of the message of every call that fails (S3.091).
    pub note: ResolutionNote,
}

/// Where calls to a cluster can go.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Children {
    /// To endpoints.
    Leaf(LeafConfiguration),
    /// To one of these clusters, each for when those before do not suffice: all that it is made of in the end,
    /// each once, at its first place (A37). Each is among the [clusters](Configuration::clusters). What cannot
    /// be had is left out.
    Aggregate(Vec<ResourceName>),
}

/// The endpoints of a cluster that is not made of others.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LeafConfiguration {
    /// They.
    pub endpoints: Endpoints,
}

/// The endpoints of a cluster.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Endpoints {
    /// These.
    Known(Arc<ClusterLoadAssignment>),
    /// There are none to be had; the [note](ClusterConfiguration::note) says why.
    Missing,
    /// One, at whatever addresses this name has at the moment: whoever connects asks DNS for it (A37).
    Dns(SocketAddress),
}

impl ClusterConfiguration {
    /// How a call to it fails that finds no endpoint: why, and the [note](field@Self::note) (S3.090, S3.091).
    #[must_use]
    pub fn failure(&self, why: impl Display) -> Failure {
        let (cluster, note) = (self.cluster.name.clone(), self.note.to_string());
        Failure::NoEndpoint { cluster, why: why.to_string(), note }
    }

    /// How a call to it fails that its configuration does not let through.
    #[must_use]
    pub fn refusal(&self, why: impl Display) -> Failure {
        let (cluster, note) = (self.cluster.name.clone(), self.note.to_string());
        Failure::Refused { cluster, why: why.to_string(), note }
    }

    /// How a call fails that was sent to one of its endpoints and ended without an answer.
    #[must_use]
    pub fn loss(&self, why: impl Display) -> Failure {
        let (cluster, note) = (self.cluster.name.clone(), self.note.to_string());
        Failure::Lost { cluster, why: why.to_string(), note }
    }
}
