//! Errors do not contain secrets: a marker in every sensitive field of the Envoy API, in values that
//! the field rejects, appears in no error.

use prost_reflect::prost::Message as _;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor};
use xds_format::{
    Format, Leniency, ParseOptions, Schema, Validator, YamlFile, decode_check, deprecated_uses,
    encode_message_with, parse_all, parse_messages, unknown_fields, unprintable,
};

/// Markers: a text that is neither base64 nor the name of a field, and a number.
const TEXT: &str = "TOP*SECRET";
const NUMBER: &str = "8675309867530986753";
const PREFIX: &str = "type.googleapis.com";
const SECRET: &str = "envoy.extensions.transport_sockets.tls.v3.Secret";

/// Fields with `udpa.annotations.sensitive`.
fn sensitive_fields(schema: &Schema) -> Vec<FieldDescriptor> {
    let sensitive = schema.pool().get_extension_by_name("udpa.annotations.sensitive").unwrap();
    let is_sensitive =
        |field: &FieldDescriptor| field.options().get_extension(&sensitive).as_bool() == Some(true);
    schema
        .pool()
        .all_messages()
        .flat_map(|it| it.fields().collect::<Vec<_>>())
        .filter(is_sensitive)
        .collect()
}

/// JSON values for a field of this kind that contain a marker. Most of them are invalid.
fn values(kind: &Kind, depth: usize) -> Vec<String> {
    let mut values = vec![
        format!("{TEXT:?}"),
        format!("\"-----BEGIN {TEXT}-----\\n\""),
        NUMBER.to_owned(),
        format!("[{TEXT:?}]"),
        format!("[[{NUMBER}]]"),
        format!("{{{TEXT:?}: {TEXT:?}}}"),
        format!("{{{TEXT:?}: 1, {TEXT:?}: 2}}"),
        format!("{{\"@type\": {TEXT:?}}}"),
        format!("{{\"@type\": \"{PREFIX}/{TEXT}\"}}"),
        format!("{{\"@type\": {NUMBER}}}"),
        format!("{{\"@type\": \"{PREFIX}/google.protobuf.BytesValue\", \"value\": {TEXT:?}}}"),
        format!(
            "{{\"@type\": \"{PREFIX}/google.protobuf.Struct\", \"value\": {{{TEXT:?}: {NUMBER}}}}}"
        ),
        format!("{{\"@type\": \"{PREFIX}/google.protobuf.Struct\", \"value\": {TEXT:?}}}"),
    ];
    if let (Kind::Message(message), 1..) = (kind, depth) {
        for field in message.fields() {
            for value in field_values(&field, depth - 1) {
                values.push(format!("{{{:?}: {value}}}", field.name()));
            }
            values.push(format!("{{\"{}x\": {TEXT:?}}}", field.name()));
        }
    }
    values
}

/// JSON values of [`values`], as values, elements or entries of a field.
fn field_values(field: &FieldDescriptor, depth: usize) -> Vec<String> {
    let map_value = |kind: &Kind| match kind {
        Kind::Message(entry) if entry.is_map_entry() => Some(entry.map_entry_value_field().kind()),
        _ => None,
    };
    let mut all = values(&field.kind(), 0);
    match map_value(&field.kind()) {
        Some(kind) => {
            all.extend(values(&kind, depth).iter().map(|it| format!("{{{TEXT:?}: {it}}}")))
        }
        None if field.is_list() => {
            all.extend(values(&field.kind(), depth).iter().map(|it| format!("[{it}]")));
        }
        None => all.extend(values(&field.kind(), depth)),
    }
    all
}

fn assert_quiet(input: &str, error: &dyn std::fmt::Display) {
    let shown = error.to_string();
    for marker in [TEXT, NUMBER, "8675309867530987", "8.67530986753098"] {
        assert!(!shown.contains(marker), "{shown}\nfor {input}");
    }
}

/// Reads a text as this message in every way, and checks the errors, and those of a message that is
/// read.
fn try_text(message: &MessageDescriptor, format: Format, text: &str) {
    let (schema, full_name, input) = (Schema::envoy(), message.full_name(), text.as_bytes());
    let lenient = ParseOptions::default().with_leniency(Leniency::Envoy);
    for options in [ParseOptions::default(), lenient, ParseOptions::envoy()] {
        match encode_message_with(schema, "f", full_name, format, input, options) {
            Ok(bytes) => try_bytes(text, &format!("{PREFIX}/{full_name}"), &bytes),
            Err(error) => assert_quiet(text, &error),
        }
        let named = Some(full_name);
        if let Err(error) = parse_messages(schema, "f", named, format, input, options) {
            assert_quiet(text, &error);
        }
        if let Err(errors) = parse_all(schema, "f", format, input, options, 100) {
            assert_quiet(text, &errors);
        }
    }
    if let (Format::Yaml, Ok(file)) = (format, YamlFile::parse("f", input, Leniency::Envoy))
        && let Err(errors) = file.encode_all(schema, full_name, "", lenient, 100)
    {
        assert_quiet(text, &errors);
    }
}

fn try_bytes(input: &str, type_url: &str, bytes: &[u8]) {
    let schema = Schema::envoy();
    if let Err(error) = decode_check(schema, type_url, bytes) {
        assert_quiet(input, &error);
    }
    for error in Validator::envoy().violations(type_url, bytes).unwrap_or_default() {
        assert_quiet(input, &error);
    }
    for list in [unprintable, unknown_fields] {
        for error in list(schema, type_url, bytes).unwrap_or_default() {
            assert_quiet(input, &error);
        }
    }
    for used in deprecated_uses(schema, type_url, bytes).unwrap_or_default() {
        assert_quiet(input, &used.path);
    }
}

/// Returns JSON as proto text, which has the names of fields without quotes.
fn proto_text(json: &str) -> String {
    let is_name = |text: &str| text.bytes().all(|it| it == b'_' || it.is_ascii_alphanumeric());
    let parts: Vec<_> = json.split('"').collect();
    let pieces = parts.iter().enumerate().map(|(at, part)| match parts.get(at + 1) {
        Some(next) if at % 2 == 1 && next.starts_with(": ") && is_name(part) => (*part).to_owned(),
        _ if at % 2 == 1 => format!("{part:?}"),
        _ => (*part).to_owned(),
    });
    pieces.collect()
}

/// Tries the fields of a message, given as the inner part of a JSON object.
fn try_fields(message: &MessageDescriptor, members: &str) {
    for text in [
        format!("{{{members}}}"),
        format!("{{\"@type\": \"{PREFIX}/{}\", {members}}}", message.full_name()),
    ] {
        try_text(message, Format::Json, &text);
        try_text(message, Format::Yaml, &text);
    }
    try_text(message, Format::Text, &proto_text(members));
}

#[test]
fn no_error_contains_the_content_of_a_sensitive_field() {
    let fields = sensitive_fields(Schema::envoy());
    assert!(fields.len() > 20, "{}", fields.len());
    for field in fields {
        let message = field.parent_message();
        for value in field_values(&field, 2) {
            try_fields(message, &format!("{:?}: {value}", field.name()));
        }
    }
}

#[test]
fn no_error_contains_the_content_of_a_secret_resource() {
    let schema = Schema::envoy();
    let secret = schema.message(SECRET).unwrap();
    for field in secret.fields().filter(|it| it.name() != "name") {
        for value in field_values(&field, 2) {
            try_fields(&secret, &format!("{:?}: {value}", field.name()));
            try_fields(&secret, &format!("{:?}: {value}, \"@type\": 1", field.name()));
        }
    }
}

#[test]
fn no_error_contains_a_violating_value_of_a_secret() {
    let schema = Schema::envoy();
    let text = format!(
        r#"{{"generic_secret": {{"secret": {{"environment_variable": "", "inline_string": {TEXT:?}}}}},
            "validation_context": {{"verify_certificate_spki": [{TEXT:?}], "verify_certificate_hash": [{TEXT:?}]}}}}"#
    );
    let message = schema.message(SECRET).unwrap();
    try_text(&message, Format::Json, &text);
    let hash = format!(r#"{{"validation_context": {{"verify_certificate_hash": [{TEXT:?}]}}}}"#);
    let json: serde_json::Value = serde_json::from_str(&hash).unwrap();
    let message = DynamicMessage::deserialize(message, json).unwrap();
    let violations =
        Validator::envoy().violations(&format!("{PREFIX}/{SECRET}"), &message.encode_to_vec());
    let violations = violations.unwrap();
    assert!(!violations.is_empty());
    violations.iter().for_each(|it| assert_quiet(&hash, it));
}

/// A syntax error has no fields, so it quotes nothing but punctuation.
#[test]
fn no_syntax_error_contains_a_value() {
    for (format, text) in [
        (Format::Text, "password TOP_SECRET"),
        (Format::Text, "password \"TOP*SECRET\" 5"),
        (Format::Text, "password: TOP_SECRET TOP_SECRET, TOP_SECRET"),
        (Format::Text, "password: 1 8675309867530986753"),
        (Format::Text, "password: [TOP_SECRET TOP_SECRET]"),
        (Format::Yaml, "password: !TOP_SECRET 1"),
        (Format::Yaml, "password: *TOP_SECRET"),
        (Format::Yaml, "password: {TOP_SECRET, TOP_SECRET}"),
        (Format::Yaml, "TOP_SECRET"),
        (Format::Yaml, "- TOP_SECRET"),
        (Format::Json, "{\"a\": TOP_SECRET}"),
        (Format::Json, "{\"a\": \"TOP_SECRET}"),
    ] {
        let options = ParseOptions::default();
        let errors = parse_all(Schema::envoy(), "f", format, text.as_bytes(), options, 100);
        let shown = errors.unwrap_err().to_string();
        assert!(!shown.contains("TOP_SECRET") && !shown.contains("8675309"), "{text}: {shown}");
    }
}

#[test]
fn base64_error_of_a_pem_text_names_the_field_for_text() {
    let text = format!("{{\"private_key\": {{\"inline_bytes\": \"-----BEGIN {TEXT}-----\"}}}}");
    let name = "envoy.extensions.transport_sockets.tls.v3.TlsCertificate";
    let options = ParseOptions::default();
    let error =
        encode_message_with(Schema::envoy(), "f", name, Format::Json, text.as_bytes(), options);
    assert_eq!(
        error.unwrap_err().to_string(),
        "f:1:34: private_key.inline_bytes: expected base64 (use `inline_string` for PEM text), found a string"
    );
}

/// A misspelt name is shown, because it is the name of a field.
#[test]
fn unknown_field_of_a_secret_is_named_only_if_it_is_similar_to_a_field() {
    let name = "envoy.config.core.v3.DataSource";
    for (field, shown) in [("inline_sting", "inline_sting"), ("TOPSECRET", "[redacted]")] {
        let text = format!("{{\"generic_secret\": {{\"secret\": {{\"{field}\": \"x\"}}}}}}");
        let options = ParseOptions::default();
        let read = encode_message_with(
            Schema::envoy(),
            "f",
            SECRET,
            Format::Json,
            text.as_bytes(),
            options,
        );
        let error = read.unwrap_err().to_string();
        assert!(error.contains(&format!("unknown field `{shown}` in `{name}`")), "{error}");
    }
}
