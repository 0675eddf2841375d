//! Resolution of a listener's name to all resources that calls need: [gRFC A74].
//!
//! A channel asks for a listener. The listener leads to a route configuration, which leads to
//! clusters. A cluster leads to endpoints or, if it is an aggregate, to other clusters. A
//! [`DependencyManager`] watches all of them and combines them into a [`Configuration`], which is
//! always complete and consistent.
//!
//! [gRFC A74]: https://github.com/grpc/proposal/blob/master/A74-xds-config-tears.md
//!
//! ```text
//!                                               watches to start, watches to end
//!   client ──── notices ────▶ DependencyManager ────────────────────────────────▶ client
//!                                  │     ▲
//!    Result<Configuration, error>  │     │ subscribe and unsubscribe clusters of active calls
//!                                  ▼     │
//!                             Router, LB policies
//! ```
//!
//! It performs no I/O. [`ClientDependencies`] connects it to a client core. With the feature
//! `handle`, `HandleDependencies` connects it to the handle of a running client and provides
//! configurations asynchronously.
//!
//! # Completeness
//!
//! The first configuration is available once every dependency is present or known to be missing
//! (gRFC A74). Later changes are atomic, and are not used before they are complete (make before
//! break):
//!
//! | change | the old version stays in use until |
//! |---|---|
//! | the listener or its routes | the routes and every cluster that they name are known |
//! | the EDS resource of a cluster | the new EDS resource is known |
//! | the members of an aggregate cluster | all members are known, and their leaves |
//! | anything else, e.g. endpoints | (replaced at once, even while another change is pending) |
//!
//! The last row differs from gRPC's own libraries, where one slow new cluster delays the endpoints
//! of all other clusters.
//!
//! Half of an update can look like a loop of aggregate clusters, if the whole update reverses their
//! membership. A usable version is not replaced for that. A cluster that would have no leaves is
//! first watched anew to get its current state. A loop that remains after that is reported (gRFC
//! A37).
//!
//! # Errors
//!
//! | condition | result |
//! |---|---|
//! | listener or routes missing or unusable | a [`ConfigurationError`]: all calls fail |
//! | cluster missing | a [`ClusterError`] in its place: its calls fail |
//! | endpoints missing | a [`EndpointConfiguration`] without endpoints; the note has the reason |
//! | ambient error of a resource in use | the [`ResolutionNote`] of each affected cluster |
//! | server unreachable, new routes name unknown clusters | the old routes stay in use |
//! | renamed routes or endpoints transiently unavailable | the old ones stay in use, with a note |
//!
//! The last row is another difference. In A74, a transient error of an uncached resource replaces
//! the version in use like any other error. If a listener names other routes while the management
//! server is unreachable, all calls would then fail, although the old routes worked. A transient
//! error does not mean that the old version is wrong, so the old version stays in use here. If the
//! new resource does not exist or is invalid, the error takes effect at once.
//!
//! An error of one cluster fails only that cluster. New routes are used as soon as the state of
//! each of their clusters is known; an error or a timeout counts as a state. For clusters of
//! another authority, an unreachable server counts as a state too.
//!
//! Calls that fail for any of these reasons have status UNAVAILABLE, whatever status the server
//! sent ([gRFC A54]).
//!
//! [gRFC A54]:
//!     https://github.com/grpc/proposal/blob/master/A54-restrict-control-plane-status-codes.md
//!
//! # Subscriptions
//!
//! Routes that no longer name a cluster may have chosen it for an active call. The owner of the
//! calls keeps their clusters with [`subscribe`](DependencyManager::subscribe) until it calls
//! [`unsubscribe`](DependencyManager::unsubscribe) as often. Cluster specifier plugins, which
//! choose clusters themselves, use the same functions. A cluster that neither routes nor
//! subscriptions need is removed, and its watch ends.
//!
//! Subscriptions also work while there is no configuration, because calls that have chosen a
//! cluster do not need one. [`DependencyManager::clusters`] returns the clusters then, and the
//! configuration error is repeated when they change.
// S3.020, S3.096-S3.098

mod configuration;
mod dependency_error;
mod error;
mod graph;
#[cfg(feature = "handle")]
mod handle_watches;
mod manager;
mod note;
mod outbox;
mod root;
mod watched_resource;
mod watches;

use xds_core::{ResourceName, types};

#[cfg(feature = "handle")]
pub(crate) use self::handle_watches::{HandleWatches, WatchEvent};
#[cfg(feature = "handle")]
pub use self::manager::HandleDependencies;
pub use self::{
    configuration::{
        Children, ClusterConfiguration, Configuration, EndpointConfiguration, Endpoints,
        ResolvedClusters,
    },
    dependency_error::DependencyError,
    error::{ClusterError, ConfigurationError},
    manager::{ClientDependencies, DependencyManager},
    note::ResolutionNote,
    outbox::DependencyOutput,
};
pub(crate) use self::{
    outbox::{Outbox, WatchChange},
    watched_resource::{WatchUpdate, WatchedResource},
    watches::Watches,
};

/// Maximum nesting depth of aggregate clusters, including the one that a route names ([gRFC A37]).
///
/// [gRFC A37]:
///     https://github.com/grpc/proposal/blob/master/A37-xds-aggregate-and-logical-dns-clusters.md
pub const MAX_AGGREGATE_DEPTH: usize = 16;

/// Watched resource, by its type and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Dependency {
    /// Type of the resource.
    pub kind: DependencyKind,
    /// Name of the resource.
    pub name: ResourceName,
}

impl Dependency {
    /// Creates a dependency from its type and name.
    #[must_use]
    pub const fn new(kind: DependencyKind, name: ResourceName) -> Self {
        Self { kind, name }
    }
}

/// Type of a resource, in the order of reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DependencyKind {
    /// Listener (LDS).
    Listener,
    /// Route configuration (RDS).
    Routes,
    /// Cluster (CDS).
    Cluster,
    /// Endpoints (EDS).
    Endpoints,
}

impl DependencyKind {
    /// Returns the type URL.
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
