//! Conversion of requests and responses between protobuf and JSON.
// S0.203

use prost::Message as _;
use xds_core::{service::rest_type_at, types::v3_type_url};
use xds_format::{
    Format, FormatError, InexactNumbers, ParseOptions, PrintOptions, Redaction, Schema,
    UnknownFields, UnknownTypes, encode_message_with, message_to_json,
};

const REQUEST: &str = "envoy.service.discovery.v3.DiscoveryRequest";
const RESPONSE: &str = "envoy.service.discovery.v3.DiscoveryResponse";

/// Converts the JSON of a `DiscoveryRequest` to protobuf.
pub(crate) fn read_request(schema: &Schema, body: &[u8]) -> Result<Vec<u8>, FormatError> {
    read(schema, "request", REQUEST, body)
}

/// Converts the JSON of a `DiscoveryResponse` to protobuf.
pub(crate) fn read_response(schema: &Schema, body: &[u8]) -> Result<Vec<u8>, FormatError> {
    read(schema, "response", RESPONSE, body)
}

/// Maximum number of characters of a type in an error. The type is chosen by the server.
const MOST_OF_A_TYPE: usize = 200;

/// Type of a `DiscoveryResponse`. Its other fields are skipped.
#[derive(prost::Message)]
struct ResponseType {
    #[prost(string, tag = "4")]
    type_url: String,
}

/// Returns an error if a `DiscoveryResponse` states another type than that of the requested path. It
/// may state none, or the type of another version of the API.
pub(crate) fn other_type(path: &str, response: &[u8]) -> Option<String> {
    let expected = rest_type_at(path)?;
    let stated = ResponseType::decode(response).ok()?.type_url;
    let is_same = stated.is_empty() || v3_type_url(&stated) == v3_type_url(expected);
    (!is_same).then(|| {
        let shown: String = stated.chars().take(MOST_OF_A_TYPE).collect();
        format!("the response has type {shown}, but {expected} was requested")
    })
}

pub(crate) fn print_request(schema: &Schema, message: &[u8]) -> Result<Vec<u8>, FormatError> {
    print(schema, REQUEST, message, &for_programs(PrintOptions::default()))
}

/// Converts a `DiscoveryResponse` to JSON.
pub(crate) fn print_response(
    schema: &Schema,
    message: &[u8],
    options: &PrintOptions,
) -> Result<Vec<u8>, FormatError> {
    print(schema, RESPONSE, message, options)
}

fn read(schema: &Schema, what: &str, name: &str, body: &[u8]) -> Result<Vec<u8>, FormatError> {
    // The peer may use a newer API (M183), and writes numbers as programs do.
    let options = ParseOptions::default()
        .with_unknown_fields(UnknownFields::Skipped)
        .with_inexact_numbers(InexactNumbers::Rounded);
    encode_message_with(schema, what, name, Format::Json, body, options)
}

fn print(
    schema: &Schema,
    name: &str,
    message: &[u8],
    options: &PrintOptions,
) -> Result<Vec<u8>, FormatError> {
    let json = message_to_json(schema, name, message, options)?;
    Ok(json.to_string().into_bytes())
}

/// Returns the options for output that a program reads: secrets shown, and unknown types rejected.
pub(crate) fn for_programs(options: PrintOptions) -> PrintOptions {
    options.with_redaction(Redaction::Shown).with_unknown_types(UnknownTypes::Refused)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // M183
    #[test]
    fn unknown_enum_name_and_inexact_number_do_not_lose_a_message() {
        let cluster = |more: serde_json::Value| {
            let mut cluster = json!({
                "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
                "name": "a",
            });
            let (fields, more) = (cluster.as_object_mut().unwrap(), more.as_object().unwrap());
            fields.extend(more.clone());
            json!({"version_info": "7", "resources": [cluster]}).to_string()
        };
        let read = |text: String| read_response(Schema::envoy(), text.as_bytes());
        let future = cluster(json!({"lb_policy": "FUTURE", "type": "EDS"}));
        assert_eq!(read(future), read(cluster(json!({"type": "EDS"}))));

        let request = |id: u64| {
            let node = json!({"id": "n", "metadata": {"id": id}});
            read_request(Schema::envoy(), json!({"node": node}).to_string().as_bytes())
        };
        let (odd, even) = (request((1 << 53) + 1), request(1 << 53));
        assert_eq!(odd, even, "rounded to even");
        assert!(odd.is_ok());
    }
}
