//! Note on the state of the configuration, for the messages of failed calls.

use alloc::{sync::Arc, vec::Vec};
use core::fmt;

use xds_core::client::WatchError;

use super::DependencyError;

/// Known errors of the configuration of a cluster, for the messages of failed calls. Without it,
/// users could not see that calls fail because the management server is unreachable.
///
/// The errors are those of the listener, the routes, and the cluster and its endpoints. If there
/// are none, the note is the xDS node ID, by which the management server knows the client.
// S3.090, S3.093, S3.095
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolutionNote {
    node_id: Arc<str>,
    missing: Option<DependencyError>,
    errors: Vec<WatchError>,
}

impl ResolutionNote {
    pub(super) const fn new(
        node_id: Arc<str>,
        missing: Option<DependencyError>,
        errors: Vec<WatchError>,
    ) -> Self {
        Self { node_id, missing, errors }
    }

    /// Returns the node ID of the client.
    #[must_use]
    pub fn node_id(&self) -> &str {
        &self.node_id
    }

    /// Returns the note without this error.
    pub(super) fn without(&self, error: &DependencyError) -> Self {
        let DependencyError::Watch(known) = error else { return self.clone() };
        let errors = self.errors.iter().filter(|error| *error != known).cloned();
        Self { errors: errors.collect(), ..self.clone() }
    }

    /// Whether the note has no errors, only the node ID.
    pub(super) fn is_bare(&self) -> bool {
        self.missing.is_none() && self.errors.is_empty()
    }

    /// Returns the reason why there are no endpoints.
    #[must_use]
    pub const fn missing(&self) -> Option<&DependencyError> {
        self.missing.as_ref()
    }

    /// Returns the ambient errors of resources in use: those of the listener, the routes, the
    /// cluster and the endpoints.
    #[must_use]
    pub fn errors(&self) -> &[WatchError] {
        &self.errors
    }
}

impl fmt::Display for ResolutionNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        if let Some(missing) = &self.missing {
            write!(f, "{missing}")?;
            separator = "; ";
        }
        for error in &self.errors {
            write!(f, "{separator}{error}")?;
            separator = "; ";
        }
        if separator.is_empty() {
            write!(f, "xDS node ID: {}", self.node_id)?;
        }
        Ok(())
    }
}
