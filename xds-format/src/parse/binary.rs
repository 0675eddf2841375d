//! Reader of encoded `DiscoveryResponse`s. The bytes of their resources are kept.

use super::Result;
use super::collector::{Collector, Place};
use crate::error::{ErrorKind, Fault, Path};
use crate::resource::check;
use crate::resource::document::{
    RESPONSE_NONCE, RESPONSE_RESOURCES, RESPONSE_TYPE_URL, RESPONSE_VERSION_INFO, read_any,
};
use crate::schema::{DISCOVERY_RESPONSE, Schema};
use crate::wire::{Fields, Payload, WireError};

/// Reads a response and checks every resource. If it was encoded from text, `offsets` has the byte
/// offsets of the resources in that text.
pub(crate) fn response(
    schema: &Schema,
    input: &[u8],
    offsets: &[usize],
    collector: &mut Collector<'_>,
) -> Result<()> {
    if input.is_empty() {
        return Err(Fault::new(None, &Path::Root, ErrorKind::Empty));
    }
    let (head, resources) = split(input)
        .map_err(|e| Fault::new(None, &Path::Root, ErrorKind::corrupt(DISCOVERY_RESPONSE, e)))?;
    collector.response(&head, Place { offset: None, path: &Path::Root })?;

    let path = Path::Field(&Path::Root, "resources");
    for (index, any) in resources.into_iter().enumerate() {
        let path = Path::Index(&path, index);
        let offset = offsets.get(index).copied();
        let fault = |kind| Fault::new(offset, &path, kind);
        let (type_url, value) =
            read_any(any).map_err(|e| fault(ErrorKind::corrupt("google.protobuf.Any", e)))?;
        let message = schema.require_url(type_url).map_err(fault)?;
        check::message(schema, &message, value, &path)?;
        collector.push(type_url, value.to_vec(), Place { offset, path: &path })?;
    }
    Ok(())
}

/// Splits a response into its encoded scalar fields and its resources.
fn split(input: &[u8]) -> Result<(Vec<u8>, Vec<&[u8]>), WireError> {
    let (mut head, mut resources) = (Vec::new(), Vec::new());
    for field in Fields::new(input) {
        let field = field?;
        match (field.number, field.payload) {
            (RESPONSE_RESOURCES, Payload::Len(any)) => resources.push(any),
            (RESPONSE_VERSION_INFO | RESPONSE_TYPE_URL | RESPONSE_NONCE, Payload::Len(_)) => {
                head.extend_from_slice(field.raw);
            }
            _ => {}
        }
    }
    Ok((head, resources))
}
