//! Deprecated fields and values that resources use.
// S4.011

use crate::common::protos::schema;
use serde_json::json;
use xds_format::{Format, Schema, deprecated_uses, encode_message, parse};

const THING: &str = "acme.v1.Thing";
const URL: &str = "type.googleapis.com/acme.v1.Thing";

const MESSAGES: &str = "message Thing { string name = 1; string old = 2 [deprecated = true]; \
    repeated Part parts = 3; map<string, Part> by_name = 4; google.protobuf.Any any = 5; Colour colour = 6; \
    repeated Colour colours = 7; }\n\
    message Part { uint32 weight = 1 [deprecated = true]; uint32 mass = 2; }\n\
    enum Colour { NONE = 0; RED = 1; PINK = 2 [deprecated = true]; }";

#[test]
fn deprecated_fields_and_values_are_found_at_any_depth() {
    let schema = schema(MESSAGES);
    let uses = |json: &serde_json::Value| -> Vec<String> {
        let text = json.to_string();
        let bytes = encode_message(&schema, "f", THING, Format::Json, text.as_bytes()).unwrap();
        let found = deprecated_uses(&schema, URL, &bytes).unwrap();
        found.iter().map(ToString::to_string).collect()
    };
    let part = "type.googleapis.com/acme.v1.Part";
    let everywhere = json!({
        "name": "t", "old": "o", "parts": [{"mass": 1}, {"weight": 1}],
        "by_name": {"a": {"weight": 2}}, "any": {"@type": part, "weight": 3},
        "colour": "PINK", "colours": ["RED", "PINK"],
    });
    assert_eq!(
        uses(&everywhere),
        [
            "old: `acme.v1.Thing.old` is deprecated",
            "parts[1].weight: `acme.v1.Part.weight` is deprecated",
            "by_name[\"a\"].weight: `acme.v1.Part.weight` is deprecated",
            "any.weight: `acme.v1.Part.weight` is deprecated",
            "colour: `acme.v1.PINK` is deprecated",
            "colours[1]: `acme.v1.PINK` is deprecated",
        ]
    );
    assert!(uses(&json!({"name": "t", "parts": [{"mass": 1}], "colour": "RED"})).is_empty());
    let many: Vec<_> = (0..500).map(|_| json!({"weight": 1})).collect();
    assert_eq!(uses(&json!({ "parts": many })).len(), 100, "what one resource can say is bounded");
    println!("covers: S4.011");
}

/// A resource of version 2 may have types of version 2.
#[test]
fn type_of_an_earlier_version_is_found_with_the_current_one() {
    let schema = Schema::envoy();
    let manager = |version: u8, path: &str| {
        format!("envoy.{path}http_connection_manager.v{version}.HttpConnectionManager")
    };
    let (older, current) =
        (manager(2, "config.filter.network."), manager(3, "extensions.filters.network."));
    let used = |listener: &str, manager: &str| -> Vec<String> {
        let url = format!("type.googleapis.com/{listener}");
        let json = json!({
            "@type": url, "name": "l",
            "api_listener": {"api_listener": {"@type": format!("type.googleapis.com/{manager}")}},
        });
        let document = parse(schema, "f", Format::Json, json.to_string().as_bytes()).unwrap();
        let found = deprecated_uses(schema, &url, &document.resources[0].bytes).unwrap();
        found.iter().map(ToString::to_string).collect()
    };
    let listener = "envoy.config.listener.v3.Listener";
    assert_eq!(used(listener, &current), [""; 0]);
    let why = "is a type of an earlier version of the API: use";
    assert_eq!(
        used(listener, &older),
        [format!("api_listener.api_listener: `{older}` {why} `{current}`")]
    );
    assert_eq!(
        used("envoy.api.v2.Listener", &older),
        [format!("`envoy.api.v2.Listener` {why} `{listener}`")]
    );
}

#[test]
fn malformed_message_is_an_error_and_unknown_type_has_no_uses() {
    let schema = schema(MESSAGES);
    assert!(deprecated_uses(&schema, URL, &[0x0a, 0x7f]).is_err());
    assert_eq!(deprecated_uses(&schema, "type.googleapis.com/acme.v1.Other", &[0x0a]).unwrap(), []);
}
