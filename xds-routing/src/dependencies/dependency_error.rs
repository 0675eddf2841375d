//! Errors of single resources.

use thiserror::Error;
use xds_core::{
    ResourceName,
    client::{ErrorCategory, InvalidWatch, WatchError, WatchErrorKind},
};

use crate::validation::InvalidResource;

/// Error that prevents a resource from being used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DependencyError {
    /// The client reported an error for the watch.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// The client refused the watch, for example because the authority of the name is unknown.
    #[error("cannot be watched: {0}")]
    Refused(#[from] InvalidWatch),
    /// The resource was received but is invalid. Occurs only if the client does not know the
    /// resource type and therefore did not validate it.
    #[error("invalid: {0}")]
    Invalid(#[from] InvalidResource),
    /// The endpoints resource has no localities. It is used nevertheless; this error occurs only
    /// [in notes](super::ResolutionNote::missing).
    #[error("EDS resource `{0}` has no localities")]
    NoLocalities(ResourceName),
}

impl DependencyError {
    /// Whether the error is transient and says nothing about the resource itself.
    pub(super) fn is_transient(&self) -> bool {
        matches!(self, Self::Watch(error) if error.kind().category() == ErrorCategory::Transient)
    }

    /// Whether the error only means that the server is unreachable.
    pub(super) fn is_out_of_reach(&self) -> bool {
        let Self::Watch(error) = self else { return false };
        matches!(error.kind(), WatchErrorKind::Unavailable(_))
    }
}
