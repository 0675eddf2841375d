//! Conversion of requests and responses between protobuf and JSON.
// S0.203

use xds_format::{
    Format, FormatError, ParseOptions, PrintOptions, Redaction, Schema, UnknownFields,
    UnknownTypes, encode_message_with, message_to_json,
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
    // The peer may use a newer API (M183).
    let options = ParseOptions::default().with_unknown_fields(UnknownFields::Skipped);
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
