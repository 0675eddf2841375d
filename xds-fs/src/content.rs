//! Conversion of a file to a `DiscoveryResponse` with the resources of one type.

use blake3::Hash;
use xds_core::TypeUrl;
use xds_format::{Format, ParseOptions, Schema, parse_with};

/// Files are read as Envoy reads them, because Envoy may use the same files.
pub(crate) const OPTIONS: ParseOptions = ParseOptions::envoy();

/// Suffix of the names of collection types.
const COLLECTION: &str = "Collection";

/// Converts a file to a response for one type, or returns an error text that begins with the path.
///
/// A single `DiscoveryResponse` is for one type: a resource of another type in it is rejected by
/// the client, as from any server. In a list of resources, or in several responses, resources of
/// other types are ignored, so one file may contain the resources of all types. The version is that
/// of the response, or a prefix of the content's hash if the response has none. TTLs are removed,
/// because a file does not send heartbeats.
///
/// A collection, which lists inline or external resources, is rejected. Otherwise it would be
/// silently ignored as a resource of another type.
// FS-14
pub(crate) fn response(
    schema: &Schema,
    path: &str,
    type_url: &TypeUrl,
    content: &[u8],
    hash: &Hash,
) -> Result<Vec<u8>, String> {
    let format = Format::from_path(path).map_err(|why| why.to_string())?;
    let mut document =
        parse_with(schema, path, format, content, OPTIONS).map_err(|why| why.to_string())?;
    let wanted = type_url.as_str();
    if let Some(it) = document.resources.iter().find(|it| it.type_url.ends_with(COLLECTION)) {
        let (name, type_url) = (&it.name, &it.type_url);
        return Err(format!("{path}: {name} is a {type_url}, and collections are not supported"));
    }
    match &document.type_url {
        Some(stated) if document.responses == 1 && stated != wanted => {
            return Err(format!("{path}: the response is of type {stated}, not {wanted}"));
        }
        _ if document.responses != 1 => document.resources.retain(|it| it.type_url == wanted),
        _ => {}
    }
    document.type_url = Some(wanted.to_owned());
    for wrapper in document.resources.iter_mut().filter_map(|resource| resource.wrapper.as_mut()) {
        wrapper.ttl = None;
    }
    document.version_info.get_or_insert_with(|| hash.to_hex().chars().take(16).collect());
    Ok(document.to_discovery_response())
}
