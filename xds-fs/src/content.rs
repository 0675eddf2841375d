//! A file into the state of one type, as the bytes of a `DiscoveryResponse`.

use blake3::Hash;
use xds_core::TypeUrl;
use xds_format::{Format, ParseOptions, Schema, parse_with};

/// Files are read as Envoy reads them, which follows the same ones.
pub(crate) const OPTIONS: ParseOptions = ParseOptions::envoy();

/// Ends the names of types that are collections of others.
const COLLECTION: &str = "Collection";

/// What a file says of a type, or why it says nothing; the text begins with the path.
///
/// A single `DiscoveryResponse` is about one type, and what is of another type in it is for the client to
/// reject, as from any server. In a list of resources, or in several responses, those of other types are
/// for others: one file may have the resources of all types. The version is that of the response or, where
/// it states none, begins the hash of the content. Times to live are left out: a file is not sent again.
///
/// A collection, which lists resources that may be in it or elsewhere, is nothing that a type consists of and would be
/// passed over like what is for others; as nobody takes it, it is refused (FS-14).
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
        return Err(format!("{path}: {name} is a {type_url}, and collections are not read"));
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
    document.version_info.get_or_insert_with(|| hash.to_hex()[..16].to_owned());
    Ok(document.to_discovery_response())
}
