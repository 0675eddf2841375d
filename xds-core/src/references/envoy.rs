//! References in the resources of the Envoy v3 API.

use alloc::vec::Vec;

use super::{extractor::ReferenceExtractor, reference::Reference, schema::KNOWN, walk::Walk};
use crate::wire::Malformed;

/// References of the Envoy v3 API, as listed in the [module documentation](super). Resources of
/// other types have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EnvoyReferences;

impl ReferenceExtractor for EnvoyReferences {
    fn references(
        &self,
        type_url: &str,
        resource: &[u8],
        found: &mut dyn FnMut(Reference<'_>),
    ) -> Result<(), Malformed> {
        Walk::new(&KNOWN, &mut |reference| found(reference)).resource(type_url, resource)
    }
}

/// Returns the references of a resource of the Envoy v3 API, sorted and without duplicates.
///
/// # Errors
///
/// Returns an error if the resource is not a valid message of its type. Only the parts that contain
/// references are checked.
pub fn references<'a>(type_url: &str, resource: &'a [u8]) -> Result<Vec<Reference<'a>>, Malformed> {
    let mut references = Vec::new();
    Walk::new(&KNOWN, &mut |reference| references.push(reference)).resource(type_url, resource)?;
    references.sort_unstable();
    references.dedup();
    Ok(references)
}
