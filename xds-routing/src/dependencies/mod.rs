//! From the name of a listener to everything that calls need: gRFC A74.
//!
//! A channel asks for a listener. That leads to a route configuration, this to clusters, a cluster to endpoints
//! or to further clusters. A [`DependencyManager`] follows all of it and puts together what belongs together: a
//! [`Configuration`] is complete and consistent, and there is one at a time.
//!
//! ```text
//!            notices of watches                         watch this, no longer that
//!   client ─────────────────────▶ DependencyManager ───────────────────────────────▶ client
//!                                        │     ▲
//!          Result<Configuration, why not>│     │ subscribe, unsubscribe: calls under way
//!                                        ▼     │
//!                             Router, LB policies: who sends calls
//! ```
//!
//! It does no IO. [`ClientDependencies`] ties it to a client core, and with feature `handle`
//! `HandleDependencies` to the handle of a running client, as a source of configurations to await.
//!
//! # When there is a configuration
//!
//! When everything that it needs is there or is known to be missing (A74). What takes its place later takes it
//! in one step, and not before it is complete either; make before break:
//!
//! | what changes | the old one stays in use until |
//! |---|---|
//! | the listener or its routes | the routes are there, and every cluster that they name |
//! | where a cluster has its endpoints from | these are there |
//! | of which clusters an aggregate is made | all of them are there, and lead somewhere or surely nowhere |
//! | all else, endpoints above all | it does not stay; and nothing that waits holds that up |
//!
//! The last line is where this differs from gRPC's own libraries: there, one new cluster that is slow keeps the new
//! endpoints of all others from being used.
//!
//! Half of an update can look as if clusters were made of each other where the whole of it turns round who is made of
//! whom. What can be used is not given up for that: a cluster that would lead nowhere is first asked for once more, by
//! a new watch. A loop that stays is told at once then (A37).
//!
//! # What goes wrong
//!
//! | what | leads to |
//! |---|---|
//! | no listener or no routes, or none that can be used | a [`ConfigurationError`]: all calls fail |
//! | no such cluster | a [`ClusterError`] in its place: calls to it fail |
//! | no endpoints | a [`LeafConfiguration`] without; the note of the cluster says why |
//! | an error beside something that stays in use | part of the [`ResolutionNote`] of each cluster that it concerns |
//! | whoever answers for the routes is away, and new ones lead to clusters that are not known | nothing yet: the old routes stay |
//! | new routes of another name, or new endpoints of another name, that cannot be had at the moment | the old ones stay, and their notes say what is wrong with the new |
//!
//! The last line is another difference. By A74 an error that may pass takes the place of what is in use as any other does
//! if the resource is not cached, and one of another name is not: a listener that names other routes while the management
//! server is in trouble would fail all calls, though those they would take were good a moment ago. What cannot be had
//! at the moment says nothing against the old, which was accepted (S3.020); that what takes its place does not exist, or is
//! invalid, does, and is followed at once.
//!
//! An error of one cluster fails that cluster alone. So new routes come into use as soon as there is an answer for each
//! of their clusters, which may be an error or none in time; for those that another authority answers for, that it is
//! away is enough.
//!
//! The status of a call that fails for any of that is UNAVAILABLE, whatever the server said (A54, S3.096-S3.098).
//!
//! # Clusters that are still needed
//!
//! Routes that no longer lead to a cluster may have decided for it a moment ago. Who holds calls keeps their
//! clusters with [`subscribe`](DependencyManager::subscribe) until it has let go of them as often with
//! [`unsubscribe`](DependencyManager::unsubscribe). The same serves a plugin that names clusters by itself. What
//! neither routes nor subscriptions lead to is dropped, and no longer watched.
//!
//! That goes on while there is no configuration, since a call that was decided does not need one: the clusters are
//! [those of the manager](DependencyManager::clusters) then, and the error is told again when they change.

mod configuration;
mod error;
mod followed;
mod graph;
#[cfg(feature = "handle")]
mod handle_watches;
mod manager;
mod note;
mod on_client;
#[cfg(feature = "handle")]
mod on_handle;
mod outbox;
mod root;
mod watches;

use xds_core::{ResourceName, types};

#[cfg(feature = "handle")]
pub(crate) use self::handle_watches::{HandleWatches, WatchNews};
#[cfg(feature = "handle")]
pub use self::on_handle::HandleDependencies;
pub(crate) use self::watches::Watches;
pub use self::{
    configuration::{
        Children, ClusterConfiguration, Configuration, Endpoints, FollowedClusters,
        LeafConfiguration,
    },
    error::{ClusterError, ConfigurationError, DependencyError},
    manager::{DependencyManager, DependencyOutput},
    note::ResolutionNote,
    on_client::ClientDependencies,
};

/// How deep clusters may be made of clusters: that many, the one that routes name included (A37).
pub const MAX_AGGREGATE_DEPTH: usize = 16;

/// What is followed: a resource by its type and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Dependency {
    /// The type.
    pub kind: DependencyKind,
    /// The name.
    pub name: ResourceName,
}

impl Dependency {
    /// The resource of this type and name.
    #[must_use]
    pub const fn new(kind: DependencyKind, name: ResourceName) -> Self {
        Self { kind, name }
    }
}

/// The type of a resource, in the order in which they lead to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DependencyKind {
    /// A listener.
    Listener,
    /// A route configuration.
    Routes,
    /// A cluster.
    Cluster,
    /// The endpoints of clusters.
    Endpoints,
}

impl DependencyKind {
    /// The type URL.
    #[must_use]
    pub const fn type_url(self) -> &'static str {
        match self {
            Self::Listener => types::LISTENER,
            Self::Routes => types::ROUTE_CONFIGURATION,
            Self::Cluster => types::CLUSTER,
            Self::Endpoints => types::CLUSTER_LOAD_ASSIGNMENT,
        }
    }
}
