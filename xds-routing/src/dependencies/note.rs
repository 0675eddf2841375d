//! What calls that fail are told of how the configuration is.

use alloc::{sync::Arc, vec::Vec};
use core::fmt;

use xds_core::client::WatchError;

use super::DependencyError;

/// What is wrong beside the resources of a cluster, for the messages of calls that fail for whatever reason:
/// without it, nobody would see that endpoints are lost because the management server is (S3.090).
///
/// It tells errors of the listener, the routes, and the cluster and its endpoints (S3.093). If there are none,
/// it is the id of the node, by which a management server knows the client (S3.095).
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

    /// The node of the client.
    #[must_use]
    pub fn node_id(&self) -> &str {
        &self.node_id
    }

    /// What is left of it beside this error.
    pub(super) fn beside(&self, error: &DependencyError) -> Self {
        let DependencyError::Watch(known) = error else { return self.clone() };
        let errors = self.errors.iter().filter(|error| *error != known).cloned();
        Self { errors: errors.collect(), ..self.clone() }
    }

    /// Whether there is nothing to tell but whose configuration it is.
    pub(super) fn is_bare(&self) -> bool {
        self.missing.is_none() && self.errors.is_empty()
    }

    /// Why there are no endpoints.
    #[must_use]
    pub const fn missing(&self) -> Option<&DependencyError> {
        self.missing.as_ref()
    }

    /// What is wrong beside resources that are in use: of the listener, of the routes, of the cluster, of the
    /// endpoints.
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
