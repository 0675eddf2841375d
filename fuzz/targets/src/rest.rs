//! Fuzz targets for REST-JSON bodies, parsed and printed as in `xds-rest/src/json.rs`.

use prost::Message as _;
use xds_core::proto::{DiscoveryRequest, DiscoveryResponse};
use xds_format::{
    FieldNames, Format, FormatError, InexactNumbers, ParseOptions, PrintOptions, Redaction, Schema,
    UnknownFields, encode_message_with, message_to_json,
};

use crate::client::polled_response;

const REQUEST: &str = "envoy.service.discovery.v3.DiscoveryRequest";
const RESPONSE: &str = "envoy.service.discovery.v3.DiscoveryResponse";

/// Fuzz target for a request body. A parsed body must decode as a request, and print as
/// the same message.
pub fn rest_request(bytes: &[u8]) {
    if let Some(message) = body(REQUEST, bytes) {
        DiscoveryRequest::decode(&*message).expect("what was read is a request");
    }
}

/// Fuzz target for a response body. A parsed body must decode as a response, be accepted by a
/// polling client, and print as the same message.
pub fn rest_response(bytes: &[u8]) {
    if let Some(message) = body(RESPONSE, bytes) {
        DiscoveryResponse::decode(&*message).expect("what was read is a response");
        polled_response(&message);
    }
}

/// Returns the protobuf encoding of a body, if it can be parsed.
///
/// The printed form of the message must parse to the same message, with either form of the field
/// names, and with unknown fields added. A truncated body must not parse.
// M183
fn body(message: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let encoded = read(message, bytes).ok()?;
    check_cut(message, bytes);
    for names in [FieldNames::Proto, FieldNames::Json] {
        let options =
            PrintOptions::default().with_redaction(Redaction::Shown).with_field_names(names);
        let printed = message_to_json(Schema::envoy(), message, &encoded, &options);
        let mut printed = printed.expect("what was read can be printed");
        check_says(message, &printed.to_string(), &encoded);
        printed["nobody_knows"] = "this field".into();
        check_says(message, &printed.to_string(), &encoded);
    }
    Some(encoded)
}

fn check_says(message: &str, printed: &str, encoded: &[u8]) {
    let back = read(message, printed.as_bytes()).unwrap_or_else(|why| panic!("{why}\n{printed}"));
    assert_eq!(back, encoded, "{printed}");
}

fn check_cut(message: &str, bytes: &[u8]) {
    let bytes = bytes.trim_ascii_end();
    for end in [bytes.len().saturating_sub(1), bytes.len() / 2, bytes.len() / 4] {
        assert!(read(message, &bytes[..end]).is_err(), "the first {end} bytes are a body, too");
    }
}

fn read(message: &str, body: &[u8]) -> Result<Vec<u8>, FormatError> {
    let options = ParseOptions::default()
        .with_unknown_fields(UnknownFields::Skipped)
        .with_inexact_numbers(InexactNumbers::Rounded);
    encode_message_with(Schema::envoy(), "body", message, Format::Json, body, options)
}
