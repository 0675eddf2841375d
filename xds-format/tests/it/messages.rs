//! Files read as messages, and the fields that no text format has.

use xds_format::{
    ErrorKind, Format, ParseOptions, Schema, TypedMessage, parse_messages, unknown_fields,
};

const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
const RESPONSE: &str = "type.googleapis.com/envoy.service.discovery.v3.DiscoveryResponse";

fn read(
    untyped: Option<&str>,
    format: Format,
    input: &str,
) -> Result<Vec<(String, Vec<u8>)>, String> {
    let input = input.as_bytes();
    parse_messages(Schema::envoy(), "f", untyped, format, input, ParseOptions::default())
        .map(|all| all.into_iter().map(|it| (it.type_url, it.bytes.to_vec())).collect())
        .map_err(|why| why.to_string())
}

fn one(type_url: &str, bytes: &[u8]) -> Result<Vec<(String, Vec<u8>)>, String> {
    Ok(vec![(type_url.to_owned(), bytes.to_vec())])
}

#[test]
fn message_type_comes_from_the_file_then_from_the_caller() {
    let cluster = Some("envoy.config.cluster.v3.Cluster");
    let text = Format::Text;
    for (untyped, format, input, expected) in [
        (None, Format::Yaml, "resources: []\nnonce: m\n", one(RESPONSE, b"\x2a\x01m")),
        (None, Format::Json, r#"{"resources": [], "nonce": "m"}"#, one(RESPONSE, b"\x2a\x01m")),
        (None, text, "nonce: 'm'", one(RESPONSE, b"\x2a\x01m")),
        (None, Format::Binary, "\x2a\x01m", one(RESPONSE, b"\x2a\x01m")),
        (cluster, Format::Yaml, "name: a", one(CLUSTER, b"\x0a\x01a")),
        (cluster, text, "name: 'a'", one(CLUSTER, b"\x0a\x01a")),
        (cluster, text, "", one(CLUSTER, b"")),
        (cluster, Format::Binary, "\x0a\x01a", one(CLUSTER, b"\x0a\x01a")),
        (
            cluster,
            text,
            "# proto-message: google.protobuf.Duration\nseconds: 1",
            one("type.googleapis.com/google.protobuf.Duration", b"\x08\x01"),
        ),
        (
            cluster,
            Format::Yaml,
            "\"@type\": x/google.protobuf.Duration\nvalue: 1s",
            one("x/google.protobuf.Duration", b"\x08\x01"),
        ),
    ] {
        assert_eq!(read(untyped, format, input), expected, "{input}");
    }
    let list = "- name: a\n- name: a\n---\nname: b\n";
    let all = read(cluster, Format::Yaml, list).unwrap();
    assert_eq!(all.iter().map(|(_, it)| &it[2..]).collect::<Vec<_>>(), [b"a", b"a", b"b"]);
}

#[test]
fn message_errors_have_their_place() {
    for (untyped, format, input, expected) in [
        (None, Format::Yaml, "", "f: the file is empty"),
        (None, Format::Text, "", "f: the file is empty"),
        (None, Format::Binary, "", "f: the file is empty"),
        (
            None,
            Format::Yaml,
            "---\nname: a",
            "f:2:1: expected an object with `@type`, a list of such objects, or an object with `resources`, found an object with neither",
        ),
        (Some("a.B"), Format::Yaml, "name: a", "f:1:1: unknown type `a.B`"),
        (Some("a.B"), Format::Binary, "", "f: unknown type `a.B`"),
        (
            Some("envoy.config.cluster.v3.Cluster"),
            Format::Yaml,
            "- name: 1.5\n- nam: x",
            "f:2:3: [1]: unknown field `nam`",
        ),
        (None, Format::Text, "# proto-message: a.B\n", "f:1:3: the header `# proto-message: a.B`"),
        (None, Format::Binary, "\x12\x02\x0a\x05", "f: resources[0]: "),
    ] {
        let error = read(untyped, format, input).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn packed_response_states_a_common_type() {
    let of = |type_url: &str| {
        let yaml = format!("\"@type\": {type_url}\nname: a\n");
        parse_messages(
            Schema::envoy(),
            "f",
            None,
            Format::Yaml,
            yaml.as_bytes(),
            ParseOptions::default(),
        )
        .unwrap()
        .remove(0)
    };
    let cluster = of(CLUSTER);
    let listener = of("type.googleapis.com/envoy.config.listener.v3.Listener");
    let has_type = |messages: &[TypedMessage]| {
        let packed = TypedMessage::response_of(messages);
        assert_eq!(packed.type_url, RESPONSE);
        let text =
            xds_format::to_text(Schema::envoy(), RESPONSE, &packed.bytes, &Default::default());
        text.unwrap().contains(&format!("\ntype_url: \"{CLUSTER}\""))
    };
    assert!(has_type(&[cluster.clone(), cluster.clone()]));
    assert!(!has_type(&[cluster, listener]));
    assert!(TypedMessage::response_of(&[]).bytes.is_empty());
}

#[test]
fn unknown_fields_are_listed_with_their_paths() {
    let listed = |bytes: &[u8]| {
        let listed = unknown_fields(Schema::envoy(), RESPONSE, bytes).unwrap();
        listed.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(listed(b"\x0a\x017"), [""; 0]);
    // DiscoveryResponse { 1023: "x", resources { Duration { 7: 1 } } }
    let mut bytes = b"\xfa\x3f\x01x\x12\x20\x0a\x1a".to_vec();
    bytes.extend(b"x/google.protobuf.Duration\x12\x02\x38\x01");
    assert_eq!(
        listed(&bytes),
        [
            "the field number 1023 of `envoy.service.discovery.v3.DiscoveryResponse` is not in the schema, so no text format has it",
            "resources[0]: the field number 7 of `google.protobuf.Duration` is not in the schema, so no text format has it",
        ]
    );
    let many = b"\xf8\x3f\x01".repeat(101);
    assert_eq!(listed(&many).len(), 100);
    let error = unknown_fields(Schema::envoy(), "t/a.B", b"").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::UnknownType { .. }), "{error}");
}
