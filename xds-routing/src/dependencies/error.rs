//! Why something cannot be had.

use alloc::{
    format,
    string::{String, ToString as _},
};

use thiserror::Error;
use xds_core::{
    ResourceName,
    client::{ErrorCategory, InvalidWatch, WatchError, WatchErrorKind},
};

use super::{MAX_AGGREGATE_DEPTH, ResolutionNote};
use crate::judge::InvalidResource;

/// Why a resource cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DependencyError {
    /// The client says so.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// It cannot even be asked for, as with a name of an unknown authority.
    #[error("cannot be watched: {0}")]
    Refused(#[from] InvalidWatch),
    /// It came, and is not valid. Only of a client that does not know the type, and so has not judged it.
    #[error("invalid: {0}")]
    Invalid(#[from] InvalidResource),
    /// It came, and has no endpoints. Only [part of a note](ResolutionNote::missing): it is in use like any other.
    #[error("eds {0}: has no localities")]
    NoLocalities(ResourceName),
}

impl DependencyError {
    /// Whether it says nothing of the resource but that nothing can be said at the moment.
    pub(super) fn is_transient(&self) -> bool {
        matches!(self, Self::Watch(error) if error.kind().category() == ErrorCategory::Transient)
    }

    /// Whether nobody has answered, since the server is away.
    pub(super) fn is_out_of_reach(&self) -> bool {
        let Self::Watch(error) = self else { return false };
        matches!(error.kind(), WatchErrorKind::Unavailable(_))
    }
}

/// Why there is no configuration. All calls fail with that; the status is UNAVAILABLE (S3.098).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigurationError {
    /// The listener cannot be had.
    #[error(transparent)]
    Listener(DependencyError),
    /// The listener is one of servers.
    #[error("listener `{listener}` is not for clients (resolution note: {note})")]
    NotForClients {
        /// The listener.
        listener: ResourceName,
        /// What is known to be wrong beside it, else whose configuration it is (S3.095).
        note: String,
    },
    /// The route configuration cannot be had.
    #[error(transparent)]
    Routes(DependencyError),
    /// No virtual host is for the name that the channel asks for (S2.070).
    #[error(
        "no virtual host of route configuration `{routes}` is for `{name}` (resolution note: {note})"
    )]
    NoVirtualHost {
        /// The route configuration.
        routes: ResourceName,
        /// The name.
        name: String,
        /// What is known to be wrong beside listener and routes, else whose configuration it is (S3.095).
        note: String,
    },
}

impl ConfigurationError {
    /// The message of the status of calls: beside the error what else is wrong, or whose configuration it is, by
    /// the [note](super::FollowedClusters::note) of the [clusters](super::DependencyManager::clusters) (S3.090, S3.095).
    #[must_use]
    pub fn message(&self, note: &ResolutionNote) -> String {
        let (Self::Listener(error) | Self::Routes(error)) = self else { return self.to_string() };
        let rest = note.beside(error);
        match error {
            // It names the node itself.
            DependencyError::Watch(_) if rest.is_bare() => self.to_string(),
            _ => format!("{self} (resolution note: {rest})"),
        }
    }
}

/// Why a cluster cannot be used. Calls to it fail with that; the status is UNAVAILABLE (S3.098).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The resource cannot be had.
    #[error(transparent)]
    Resource(#[from] DependencyError),
    /// It is made of clusters that are made of clusters, and so on for too long (A37).
    #[error("made of clusters more than {MAX_AGGREGATE_DEPTH} deep")]
    TooDeep {
        /// What is known to be wrong beside it.
        note: ResolutionNote,
    },
    /// It is made of clusters, none of which can be had (A37).
    #[error("made of clusters none of which can be had")]
    NoLeaves {
        /// What is known to be wrong beside it.
        note: ResolutionNote,
    },
}

impl ClusterError {
    /// What is known to be wrong beside it: of the listener, the routes and the cluster (S3.093). `None` if the
    /// error itself says all that there is of the cluster.
    #[must_use]
    pub const fn note(&self) -> Option<&ResolutionNote> {
        match self {
            Self::Resource(_) => None,
            Self::TooDeep { note } | Self::NoLeaves { note } => Some(note),
        }
    }
}
