//! `Any` in every form: empty, of unknown types, and with invalid type URLs.

use serde_json::{Value as Json, json};
use xds_format::{
    ErrorKind, Format, PrintOptions, Redaction, Schema, UnknownTypes, decode_check, encode_message,
    message_to_json, parse, to_json, to_json_string, to_text, to_yaml, unprintable,
};

const EXTENSION: &str = "envoy.config.core.v3.TypedExtensionConfig";
const URL: &str = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig";

/// Encodes an extension with the name `x`, given in the text format.
fn extension(typed_config: &str) -> Vec<u8> {
    let text = format!("name: 'x' typed_config {{ {typed_config} }}");
    encode_message(Schema::envoy(), "f", EXTENSION, Format::Text, text.as_bytes())
        .unwrap_or_else(|why| panic!("{why}"))
}

fn machine_readable() -> PrintOptions {
    let options = PrintOptions::default().with_redaction(Redaction::Shown);
    options.with_unknown_types(UnknownTypes::Refused)
}

fn printed(bytes: &[u8]) -> Json {
    to_json(Schema::envoy(), URL, bytes, &PrintOptions::default()).unwrap()["typed_config"].clone()
}

/// Asserts that output in the given formats parses to the same bytes.
#[track_caller]
fn assert_round_trips(bytes: &[u8], formats: &[Format]) {
    let (schema, options) = (Schema::envoy(), machine_readable());
    for &format in formats {
        let printed = match format {
            Format::Json => to_json_string(schema, URL, bytes, &options),
            Format::Yaml => to_yaml(schema, URL, bytes, &options),
            _ => to_text(schema, URL, bytes, &options),
        };
        let printed = printed.unwrap_or_else(|why| panic!("{format}: {why}"));
        let back = parse(schema, "printed", format, printed.as_bytes())
            .unwrap_or_else(|why| panic!("{why}\n{printed}"));
        assert_eq!(back.resources[0].bytes, bytes, "{printed}");
    }
}

const ALL: [Format; 3] = [Format::Json, Format::Yaml, Format::Text];

#[test]
fn empty_object_encodes_a_present_empty_any() {
    // TypedExtensionConfig { name: "x", typed_config {} }
    let expected = b"\x0a\x01x\x12\x00";
    for (format, file) in [
        (Format::Json, r#"{"name": "x", "typed_config": {}}"#),
        (Format::Yaml, "name: x\ntyped_config: {}\n"),
        (Format::Text, "name: 'x' typed_config { }"),
    ] {
        let bytes = encode_message(Schema::envoy(), "f", EXTENSION, format, file.as_bytes());
        assert_eq!(bytes.unwrap(), expected, "{file}");
    }
    assert_eq!(printed(expected), json!({}));
    let text = to_text(Schema::envoy(), URL, expected, &PrintOptions::default()).unwrap();
    assert!(text.ends_with("name: \"x\"\ntyped_config {\n}\n"), "{text}");
    assert_round_trips(expected, &ALL);
    assert_eq!(unprintable(Schema::envoy(), URL, expected), Ok(Vec::new()));
}

#[test]
fn empty_any_inside_of_an_any_round_trips() {
    let config = "[type.googleapis.com/envoy.config.route.v3.FilterConfig] { config { } }";
    let bytes = extension(config);
    assert_eq!(printed(&bytes)["config"], json!({}));
    assert_round_trips(&bytes, &ALL);
    // Also in lists, in maps, and as the value of an `Any` of type `Any`.
    let any = "[type.googleapis.com/google.protobuf.Any] { }";
    assert_eq!(printed(&extension(any))["value"], json!({}));
    assert_round_trips(&extension(any), &ALL);
    let metadata = "[type.googleapis.com/envoy.config.core.v3.Metadata] { typed_filter_metadata { key: 'k' value { } } }";
    assert_eq!(printed(&extension(metadata))["typed_filter_metadata"], json!({"k": {}}));
    assert_round_trips(&extension(metadata), &ALL);
    let response = json!({"resources": [{}], "type_url": "t"});
    let text = response.to_string();
    let name = "envoy.service.discovery.v3.DiscoveryResponse";
    let bytes = encode_message(Schema::envoy(), "f", name, Format::Json, text.as_bytes()).unwrap();
    assert_eq!(
        message_to_json(Schema::envoy(), name, &bytes, &machine_readable()).unwrap(),
        response
    );
}

/// A resource must have a type.
#[test]
fn empty_object_is_rejected_as_a_resource() {
    for file in [r#"{}"#, r#"[{}]"#, r#"{"resources": [{}]}"#] {
        parse(Schema::envoy(), "f", Format::Json, file.as_bytes()).unwrap_err();
    }
    let object = br#"{"name": "x", "typed_config": {"value": "a"}}"#;
    let error = encode_message(Schema::envoy(), "f", EXTENSION, Format::Json, object).unwrap_err();
    assert_eq!(error.to_string(), "f:1:31: typed_config: missing `@type`");
}

#[test]
fn any_of_an_unknown_type_cannot_be_printed_as_json() {
    for (typed_config, type_url, why) in [
        (
            "type_url: 't/acme.Custom' value: '\\377'",
            "t/acme.Custom",
            "the type `t/acme.Custom` is not in the schema",
        ),
        (
            "type_url: 't/acme.Custom'",
            "t/acme.Custom",
            "the type `t/acme.Custom` is not in the schema",
        ),
        ("type_url: 'acme.Custom' value: 'a'", "acme.Custom", "`acme.Custom` is not a type URL"),
        ("type_url: 't/' value: 'a'", "t/", "`t/` is not a type URL"),
        ("value: 'a'", "", "it has a value but no type URL"),
    ] {
        let bytes = extension(typed_config);
        let expected = format!("typed_config: an `Any` cannot be written as JSON or YAML: {why}");
        let listed = unprintable(Schema::envoy(), URL, &bytes).unwrap();
        assert_eq!(listed.iter().map(ToString::to_string).collect::<Vec<_>>(), [&*expected]);
        for refused in [
            to_json(Schema::envoy(), URL, &bytes, &machine_readable()).map(drop),
            to_yaml(Schema::envoy(), URL, &bytes, &machine_readable()).map(drop),
            message_to_json(Schema::envoy(), EXTENSION, &bytes, &machine_readable()).map(drop),
        ] {
            let refused = refused.unwrap_err();
            assert!(matches!(refused.kind(), ErrorKind::UnprintableAny { .. }), "{refused:?}");
            assert_eq!(refused.to_string(), expected);
        }
        // By default it is marked, and the marked form cannot be parsed.
        let marked = printed(&bytes);
        assert_eq!(marked["@type"], type_url);
        assert!(marked["[unknown type]"].is_string(), "{marked}");
        let marked = to_json_string(Schema::envoy(), URL, &bytes, &PrintOptions::default());
        parse(Schema::envoy(), "f", Format::Json, marked.unwrap().as_bytes()).unwrap_err();
        // The text format prints its bytes.
        assert_round_trips(&bytes, &[Format::Text]);
    }
    println!("covers: S4.050");
}

#[test]
fn unprintable_anys_are_listed_with_their_path() {
    let nested = "[type.googleapis.com/envoy.config.core.v3.Metadata] { \
                  typed_filter_metadata { key: 'a' value { type_url: 't/acme.A' } } \
                  typed_filter_metadata { key: 'b' value { [t/envoy.config.core.v3.TypedExtensionConfig] { \
                  name: 'y' typed_config { type_url: 't/acme.B' } } } } \
                  typed_filter_metadata { key: 'c' value { } } }";
    let listed = unprintable(Schema::envoy(), URL, &extension(nested)).unwrap();
    let paths: Vec<_> = listed.iter().map(|it| it.path().to_owned()).collect();
    assert_eq!(
        paths,
        [
            "typed_config.typed_filter_metadata[\"a\"]",
            "typed_config.typed_filter_metadata[\"b\"].typed_config"
        ]
    );
    let listed = unprintable(Schema::envoy(), "t/acme.A", b"\xff").unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].path(), "");
}

/// The part of a type URL before the last slash is arbitrary.
#[test]
fn any_with_an_unusual_type_url_round_trips() {
    let odd = format!("type_url: 'wow: \\\"]/{EXTENSION}' value: '\\n\\001y'");
    let bytes = extension(&odd);
    assert_eq!(printed(&bytes)["name"], "y");
    assert_round_trips(&bytes, &ALL);
}

/// If the type is known, invalid bytes are an error in parsing and in printing.
#[test]
fn any_of_a_known_type_with_malformed_bytes_is_an_error() {
    let text = |header: &str| {
        format!("{header}name: 'x' typed_config {{ type_url: '{URL}' value: '\\377' }}")
    };
    let corrupt = |why: xds_format::FormatError| {
        assert!(matches!(why.kind(), ErrorKind::Corrupt { .. }), "{why:?}");
        assert_eq!(why.path(), "typed_config");
    };
    let message = text("");
    corrupt(
        encode_message(Schema::envoy(), "f", EXTENSION, Format::Text, message.as_bytes())
            .unwrap_err(),
    );
    let file = text(&format!("# proto-message: {EXTENSION}\n"));
    corrupt(parse(Schema::envoy(), "f", Format::Text, file.as_bytes()).unwrap_err());

    // TypedExtensionConfig { name: "x", typed_config { type_url: URL, value: "\xff" } }
    let url_length = u8::try_from(URL.len()).unwrap();
    let mut bytes = b"\x0a\x01x\x12".to_vec();
    bytes.extend([url_length + 5, 0x0a, url_length]);
    bytes.extend_from_slice(URL.as_bytes());
    bytes.extend_from_slice(b"\x12\x01\xff");
    corrupt(decode_check(Schema::envoy(), URL, &bytes).unwrap_err());
    corrupt(unprintable(Schema::envoy(), URL, &bytes).unwrap_err());
    for options in [PrintOptions::default(), machine_readable()] {
        corrupt(to_json(Schema::envoy(), URL, &bytes, &options).unwrap_err());
        corrupt(to_text(Schema::envoy(), URL, &bytes, &options).unwrap_err());
    }
}
