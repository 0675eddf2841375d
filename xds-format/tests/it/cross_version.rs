//! Two versions of a schema in one conversation: an old client with a new server, and the reverse,
//! in every format.

use crate::common::protos::{schema, schema_of};
use serde_json::{Value as Json, json};
use xds_format::{
    Axis, ErrorKind, Format, ParseOptions, PrintOptions, Schema, UnknownFields, compare,
    decode_check, encode_message, encode_message_with, message_to_json, parse, to_json, to_text,
};

const THING: &str = "acme.v1.Thing";
const URL: &str = "type.googleapis.com/acme.v1.Thing";

/// Schema of the old version.
fn old() -> Schema {
    schema(
        "message Thing { string name = 1; Colour colour = 2; google.protobuf.Any extension = 3; \
         oneof kind { bool round = 4; } repeated Colour colours = 6; }\n\
         enum Colour { UNSPECIFIED = 0; RED = 1; }",
    )
}

/// Schema of the new version, with an additional field, enum value, oneof member and type.
fn new() -> Schema {
    schema(
        "message Thing { string name = 1; Colour colour = 2; google.protobuf.Any extension = 3; \
         oneof kind { bool round = 4; Gadget square = 5; } repeated Colour colours = 6; uint32 size = 7; }\n\
         enum Colour { UNSPECIFIED = 0; RED = 1; GREEN = 2; }\n\
         message Gadget { string label = 1; }",
    )
}

/// A thing that uses all additions of the new version.
fn newest() -> Json {
    json!({
        "name": "t",
        "colour": "GREEN",
        "extension": {"@type": "type.googleapis.com/acme.v1.Gadget", "label": "g"},
        "square": {"label": "s"},
        "colours": ["RED", "GREEN"],
        "size": 7,
    })
}

fn bytes(schema: &Schema, json: &Json) -> Vec<u8> {
    encode_message(schema, "f", THING, Format::Json, json.to_string().as_bytes()).unwrap()
}

fn read(schema: &Schema, bytes: &[u8]) -> Json {
    message_to_json(schema, THING, bytes, &PrintOptions::default()).unwrap()
}

#[test]
fn old_client_decodes_what_a_new_server_sends() {
    let (old, new) = (old(), new());
    assert_eq!(compare(&old, &new), []);
    let sent = bytes(&new, &newest());
    assert!(decode_check(&old, URL, &sent).is_ok());
    // The client sees the known fields. An unknown enum value is a number, and an unknown type
    // bytes.
    assert_eq!(
        read(&old, &sent),
        json!({
            "name": "t",
            "colour": 2,
            "extension": {"@type": "type.googleapis.com/acme.v1.Gadget", "[unknown type]": "CgFn"},
            "colours": ["RED", 2],
        })
    );
    println!("covers: S4.036 S4.044 S4.071");
}

#[test]
fn fields_unknown_to_an_old_relay_are_preserved() {
    let (old, new) = (old(), new());
    let thing = bytes(&new, &newest());
    // A binary response, as in a file or a relay: Any { type_url, value } in field 2.
    let mut response = Vec::new();
    let put = |out: &mut Vec<u8>, tag: u8, value: &[u8]| {
        out.extend([tag, u8::try_from(value.len()).unwrap()]);
        out.extend_from_slice(value);
    };
    let mut any = Vec::new();
    put(&mut any, 0x0a, URL.as_bytes());
    put(&mut any, 0x12, &thing);
    put(&mut response, 0x12, &any);
    let envoy = Schema::envoy().with_descriptor_set(&old.pool().encode_to_vec()).unwrap();
    let document = parse(&envoy, "f", Format::Binary, &response).unwrap();
    assert_eq!(document.resources[0].bytes, thing, "not a byte is lost");
    assert_eq!(read(&new, &document.resources[0].bytes), newest());
    let relayed = parse(&envoy, "f", Format::Binary, &document.to_discovery_response()).unwrap();
    assert_eq!(read(&new, &relayed.resources[0].bytes), newest());
    println!("covers: S4.044 S4.050");
}

/// Text contains names, so unknown names are an error that contains the name.
#[test]
fn old_reader_of_text_reports_the_unknown_name() {
    let old = old();
    let error = |json: Json, unknown_fields| {
        let json = json.to_string();
        let options = ParseOptions::default().with_unknown_fields(unknown_fields);
        encode_message_with(&old, "f", THING, Format::Json, json.as_bytes(), options)
    };
    let strict = |json| error(json, UnknownFields::Refused).unwrap_err();
    let unknown_field = strict(json!({"name": "t", "size": 7}));
    assert!(
        matches!(unknown_field.kind(), ErrorKind::UnknownField { field, .. } if field == "size")
    );
    let unknown_value = strict(json!({"colour": "GREEN"}));
    assert!(
        matches!(unknown_value.kind(), ErrorKind::UnknownEnumValue { value, .. } if value == "GREEN")
    );
    assert_eq!(unknown_value.path(), "colour");
    let gadget = json!({"extension": {"@type": "t/acme.v1.Gadget", "label": "g"}});
    let unknown_type = strict(gadget);
    assert!(
        matches!(unknown_type.kind(), ErrorKind::UnknownType { type_url, .. } if type_url == "t/acme.v1.Gadget")
    );
    assert_eq!(unknown_type.path(), "extension.@type");
    // The writer may use a newer schema; then unknown fields are skipped, as on the wire.
    let skipped = error(json!({"name": "t", "size": 7}), UnknownFields::Skipped).unwrap();
    assert_eq!(read(&old, &skipped), json!({"name": "t"}));
    let skipped = error(
        json!({"name": "t", "colour": "GREEN", "colours": ["RED", "GREEN"]}),
        UnknownFields::Skipped,
    );
    assert_eq!(read(&old, &skipped.unwrap()), json!({"name": "t", "colours": ["RED"]}));
    let wrong = error(json!({"colour": true}), UnknownFields::Skipped).unwrap_err();
    assert!(matches!(wrong.kind(), ErrorKind::WrongValue { .. }), "{wrong}");
    // A number can represent an unknown enum value.
    let numbered = error(json!({"colour": 2}), UnknownFields::Refused).unwrap();
    assert_eq!(read(&new(), &numbered), json!({"colour": "GREEN"}));
    println!("covers: S4.044 S4.050");
}

#[test]
fn new_client_decodes_what_an_old_server_sends() {
    let (old, new) = (old(), new());
    let thing = json!({"name": "t", "colour": "RED", "round": true, "colours": ["RED"]});
    let sent = bytes(&old, &thing);
    assert_eq!(read(&new, &sent), thing);
    assert_eq!(bytes(&new, &thing), sent, "JSON");
    for (format, text) in [
        (Format::Yaml, thing.to_string()),
        (Format::Text, to_text(&old, URL, &sent, &PrintOptions::default()).unwrap()),
    ] {
        let read = encode_message(&new, "f", THING, format, text.as_bytes()).unwrap();
        assert_eq!(read, sent, "{format}");
    }
    println!("covers: S4.036 S4.071");
}

/// A schema change, with messages sent from the old to the new version and back. Each has the
/// message sent and the one read, or `None` if the meaning is not preserved.
struct Change {
    old: &'static str,
    new: &'static str,
    there: (Json, Option<Json>),
    back: (Json, Option<Json>),
    /// Whether text formats can be read in both directions.
    text: bool,
}

/// Reads bytes of one version with the other, and returns whether the meaning is preserved.
#[track_caller]
fn binary_keeps_meaning(from: &Schema, to: &Schema, (said, meant): &(Json, Option<Json>)) -> bool {
    let sent = bytes(from, said);
    let heard = message_to_json(to, THING, &sent, &PrintOptions::default());
    match meant {
        Some(meant) => {
            assert_eq!(heard.as_ref(), Ok(meant));
            true
        }
        None => {
            assert_ne!(heard.as_ref().ok(), Some(said));
            false
        }
    }
}

fn text_can_be_read(from: &Schema, to: &Schema, said: &Json) -> bool {
    let json = said.to_string();
    let text = to_text(from, URL, &bytes(from, said), &PrintOptions::default()).unwrap();
    [(Format::Json, &json), (Format::Yaml, &json), (Format::Text, &text)]
        .into_iter()
        .all(|(format, text)| encode_message(to, "f", THING, format, text.as_bytes()).is_ok())
}

/// The reported axes agree with the actual effect on messages.
#[test]
fn reported_axes_match_the_actual_effect() {
    let same = |json: Json| (json.clone(), Some(json));
    let changes = [
        Change {
            old: "message Thing { string cluster_name = 1; }",
            new: "message Thing { string cluster_names = 1; }",
            there: (json!({"cluster_name": "c"}), Some(json!({"cluster_names": "c"}))),
            back: (json!({"cluster_names": "c"}), Some(json!({"cluster_name": "c"}))),
            text: false,
        },
        Change {
            old: "message Thing { int32 size = 2; }",
            new: "message Thing { int32 size = 3; }",
            there: (json!({"size": 5}), None),
            back: (json!({"size": 5}), None),
            text: true,
        },
        Change {
            old: "message Thing { int32 size = 2; }",
            new: "message Thing { string size = 2; }",
            there: (json!({"size": 5}), None),
            back: (json!({"size": "five"}), None),
            text: false,
        },
        Change {
            old: "message Thing { int32 size = 2; }",
            new: "message Thing { int64 size = 2; }",
            there: (json!({"size": 5}), Some(json!({"size": "5"}))),
            back: (json!({"size": "5"}), Some(json!({"size": 5}))),
            text: true,
        },
        Change {
            old: "message Thing { int32 size = 2; }",
            new: "message Thing { sint32 size = 2; }",
            there: (json!({"size": 5}), None),
            back: (json!({"size": 5}), None),
            text: true,
        },
        Change {
            old: "message Thing { string name = 1; }",
            new: "message Thing { repeated string name = 1; }",
            there: (json!({"name": "a"}), Some(json!({"name": ["a"]}))),
            back: (json!({"name": ["a"]}), Some(json!({"name": "a"}))),
            text: false,
        },
        Change {
            old: "message Thing { int32 size = 1; }",
            new: "message Thing { repeated int32 size = 1; }",
            there: (json!({"size": 1}), Some(json!({"size": [1]}))),
            back: (json!({"size": [1]}), None),
            text: false,
        },
        Change {
            old: "message Thing { string name = 1; }",
            new: "message Thing { oneof kind { string name = 1; bool b = 2; } }",
            there: same(json!({"name": "a"})),
            back: same(json!({"name": "a"})),
            text: true,
        },
        Change {
            old: "message Thing { string name = 1; bool b = 2; }",
            new: "message Thing { oneof kind { string name = 1; bool b = 2; } }",
            there: (json!({"name": "a", "b": true}), None),
            back: same(json!({"name": "a"})),
            text: false,
        },
        Change {
            old: "message Thing { Colour it = 1; } enum Colour { A = 0; B = 1; }",
            new: "message Thing { Colour it = 1; } enum Colour { A = 0; B = 2; }",
            there: (json!({"it": "B"}), None),
            back: (json!({"it": "B"}), None),
            text: true,
        },
        Change {
            old: "message Thing { Colour it = 1; } enum Colour { A = 0; B = 1; }",
            new: "message Thing { Colour it = 1; } enum Colour { A = 0; C = 1; }",
            there: (json!({"it": "B"}), Some(json!({"it": "C"}))),
            back: (json!({"it": "C"}), Some(json!({"it": "B"}))),
            text: false,
        },
    ];
    for change in changes {
        let (old, new) = (schema(change.old), schema(change.new));
        let name = format!("{} -> {}", change.old, change.new);
        let there = binary_keeps_meaning(&old, &new, &change.there);
        let back = binary_keeps_meaning(&new, &old, &change.back);
        let texts = text_can_be_read(&old, &new, &change.there.0)
            && text_can_be_read(&new, &old, &change.back.0);
        assert_eq!(texts, change.text, "{name}");

        let found = compare(&old, &new);
        let breaks = |axis| found.iter().any(|it| it.broken.contains(axis));
        assert_eq!(breaks(Axis::Binary), !(there && back), "{name}: {found:?}");
        assert_eq!(breaks(Axis::Text), !texts, "{name}: {found:?}");
    }
    println!("covers: S4.052 S4.054 S4.055 S4.071 X40");
}

/// On the wire, a package name appears only in an `Any`.
#[test]
fn moved_message_is_unknown_only_inside_any() {
    let thing = "message Thing { string name = 1; } message User { Thing thing = 1; }";
    let of = |package: &str| schema_of(&[("thing.proto", &format!("package {package};\n{thing}"))]);
    let (old, new) = (of("acme.v1"), of("acme.v2"));
    let user = json!({"thing": {"name": "t"}});
    let sent = encode_message(&old, "f", "acme.v1.User", Format::Json, user.to_string().as_bytes())
        .unwrap();
    let options = PrintOptions::default();
    assert_eq!(message_to_json(&new, "acme.v2.User", &sent, &options).unwrap(), user);

    let lost = to_json(&new, "t/acme.v1.User", &sent, &options).unwrap();
    assert_eq!(lost, json!({"@type": "t/acme.v1.User", "[unknown type]": "CgMKAXQ="}));
    let unknown = decode_check(&new, "t/acme.v1.User", &sent).unwrap_err();
    assert_eq!(unknown.to_string(), "unknown type `t/acme.v1.User`, did you mean `acme.v2.User`?");
    assert!(compare(&old, &new).iter().any(|it| it.broken.contains(Axis::TypeUrl)));
    println!("covers: S4.048 S4.049 S4.050 S4.071");
}

/// A message is also known by its previous name: resources of version 2 of the API are parsed and
/// printed with the descriptors of version 3.
#[test]
fn v2_resource_is_parsed_and_printed_under_its_v2_name() {
    let schema = Schema::envoy();
    let older = "type.googleapis.com/envoy.api.v2.Cluster";
    let current = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
    let file = |type_url: &str| {
        let manager = "type.googleapis.com/envoy.config.filter.network.http_connection_manager.v2.HttpConnectionManager";
        let filter = json!({"name": "f", "typed_config": {"@type": manager, "stat_prefix": "p"}});
        json!({"@type": type_url, "name": "c", "connect_timeout": "1s", "filters": [filter]})
    };
    let read = |type_url| {
        let text = file(type_url).to_string();
        let mut document = parse(schema, "f", Format::Json, text.as_bytes()).unwrap();
        document.resources.remove(0)
    };
    let (old, new) = (read(older), read(current));
    assert_eq!((&*old.type_url, &*new.type_url), (older, current), "each keeps its name");
    assert_eq!(old.bytes, new.bytes);
    assert_eq!(old.name, "c");
    let options = PrintOptions::default();
    assert_eq!(to_json(schema, older, &old.bytes, &options).unwrap(), file(older));
    assert!(decode_check(schema, older, &old.bytes).is_ok());
    let text = to_text(schema, older, &old.bytes, &options).unwrap();
    assert!(text.contains("http_connection_manager.v2.HttpConnectionManager"), "{text}");

    // Fields that only version 2 has are unknown, and the error contains their names.
    let hosts = json!({"@type": older, "name": "c", "hosts": []}).to_string();
    let why = parse(schema, "f", Format::Json, hosts.as_bytes()).unwrap_err().to_string();
    assert!(why.contains("hosts") && why.contains("unknown field"), "{why}");
    let nobody = json!({"@type": "type.googleapis.com/envoy.api.v2.Nobody", "name": "c"});
    let why = parse(schema, "f", Format::Json, nobody.to_string().as_bytes()).unwrap_err();
    assert!(matches!(why.kind(), ErrorKind::UnknownType { .. }), "{why}");
    println!("covers: S4.009 S4.010 S4.051 S4.071");
}
