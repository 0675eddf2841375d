//! Interface for finding the references in resources.

use core::{fmt::Debug, panic::RefUnwindSafe};

use super::reference::Reference;
use crate::wire::Malformed;

/// Finds the references in resources. [`EnvoyReferences`](super::EnvoyReferences) implements it for the v3 API. For other
/// types, implement it yourself and delegate the rest to that one.
///
/// ```
/// use xds_core::Malformed;
/// use xds_core::references::{EnvoyReferences, Reference, ReferenceExtractor, ReferenceTarget};
/// use xds_core::types;
///
/// /// A type whose resources are the name of a cluster.
/// #[derive(Debug)]
/// struct WithTenants;
///
/// impl ReferenceExtractor for WithTenants {
///     fn references(
///         &self,
///         type_url: &str,
///         resource: &[u8],
///         found: &mut dyn FnMut(Reference<'_>),
///     ) -> Result<(), Malformed> {
///         if type_url == "t/example.Tenant" {
///             let cluster = core::str::from_utf8(resource).unwrap_or_default();
///             found(Reference::new(types::CLUSTER, ReferenceTarget::Name(cluster)));
///         }
///         EnvoyReferences.references(type_url, resource, found)
///     }
/// }
/// ```
pub trait ReferenceExtractor: Debug + Send + Sync + RefUnwindSafe {
    /// Calls `found` for each reference of a resource, in the order in which they occur; repeated
    /// references are reported repeatedly.
    ///
    /// # Errors
    ///
    /// Returns an error if the resource is not a valid message of its type. Only the parts that
    /// contain references are checked.
    fn references(
        &self,
        type_url: &str,
        resource: &[u8],
        found: &mut dyn FnMut(Reference<'_>),
    ) -> Result<(), Malformed>;
}
