//! Errors of configurations and their clusters.

use alloc::{
    format,
    string::{String, ToString as _},
};

use thiserror::Error;
use xds_core::ResourceName;

use super::{DependencyError, MAX_AGGREGATE_DEPTH, ResolutionNote};

/// Error in place of a configuration. All calls fail with status UNAVAILABLE.
// S3.098
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigurationError {
    /// The listener cannot be obtained.
    #[error(transparent)]
    Listener(DependencyError),
    /// The listener is a server listener.
    #[error("listener `{listener}` is not an API listener (resolution note: {note})")]
    NotForClients {
        /// Name of the listener.
        listener: ResourceName,
        /// Other known errors, or the xDS node ID if there are none.
        // S3.095
        note: String,
    },
    /// The route configuration cannot be obtained.
    #[error(transparent)]
    Routes(DependencyError),
    /// No virtual host matches the authority of the channel.
    // S2.070
    #[error(
        "no virtual host of route configuration `{routes}` matches `{name}` (resolution note: {note})"
    )]
    NoVirtualHost {
        /// Name of the route configuration.
        routes: ResourceName,
        /// Authority of the channel.
        name: String,
        /// Ambient errors of the listener and the routes, or the xDS node ID if there are none.
        // S3.095
        note: String,
    },
}

impl ConfigurationError {
    /// Returns the status message of calls: this error, and other known errors or the xDS node ID
    /// from the [note](super::ResolvedClusters::note) of the
    /// [clusters](super::DependencyManager::clusters).
    // S3.090, S3.095
    #[must_use]
    pub fn message(&self, note: &ResolutionNote) -> String {
        let (Self::Listener(error) | Self::Routes(error)) = self else { return self.to_string() };
        let rest = note.without(error);
        match error {
            // The error contains the node ID itself.
            DependencyError::Watch(_) if rest.is_bare() => self.to_string(),
            _ => format!("{self} (resolution note: {rest})"),
        }
    }
}

/// Error in place of a cluster. Calls to it fail with status UNAVAILABLE.
// S3.098
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The cluster resource cannot be obtained.
    #[error(transparent)]
    Resource(#[from] DependencyError),
    /// Aggregate clusters are nested too deeply (gRFC A37).
    #[error("aggregate clusters are nested more than {MAX_AGGREGATE_DEPTH} levels deep")]
    TooDeep {
        /// Ambient errors of the listener, the routes and the cluster.
        note: ResolutionNote,
    },
    /// No member of the aggregate cluster can be obtained (gRFC A37).
    #[error("no leaf cluster of the aggregate is available")]
    NoLeaves {
        /// Ambient errors of the listener, the routes and the cluster.
        note: ResolutionNote,
    },
}

impl ClusterError {
    /// Returns the ambient errors of the listener, the routes and the cluster, or `None` if the
    /// resource itself cannot be obtained.
    // S3.093
    #[must_use]
    pub const fn note(&self) -> Option<&ResolutionNote> {
        match self {
            Self::Resource(_) => None,
            Self::TooDeep { note } | Self::NoLeaves { note } => Some(note),
        }
    }
}
