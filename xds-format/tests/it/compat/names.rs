//! Names of fields, values, messages, packages and files.

use xds_format::{Axis, Break, Rule, compare};

use crate::common::protos::{schema, schema_of};
use crate::compat::{expect, found};

#[test]
fn renaming_a_field_breaks_json_yaml_and_text_but_not_the_wire() {
    renames();
    let old = schema("message Thing { string cluster_name = 1; }");
    let new = schema("message Thing { string cluster_names = 1; }");
    let found = compare(&old, &new);
    let [Break { rule: Rule::FieldRenamed, broken, .. }] = found.as_slice() else {
        panic!("{found:?}")
    };
    // Wire compatibility is not sufficient.
    assert!(!broken.contains(Axis::Binary) && broken.contains(Axis::Text) && found[0].counts());
    assert_eq!(
        found[0].to_string(),
        "acme.v1.Thing.cluster_name: is now called `cluster_names` (field-renamed; breaks text, code)"
    );
    println!("covers: S4.052 S4.053 S4.057 S4.066");
}

pub(crate) fn renames() {
    expect(
        "message Thing { string cluster_name = 1; }",
        "message Thing { string cluster_names = 1; }",
        &["field-renamed Thing.cluster_name: text, code"],
    );
    expect(
        "message Thing { string cluster_name = 1; }",
        "message Thing { string cluster_name = 1 [json_name = \"cluster\"]; }",
        &["field-json-name-changed Thing.cluster_name: text"],
    );
    expect(
        "enum Colour { UNSPECIFIED = 0; RED = 1; }",
        "enum Colour { UNKNOWN = 0; SCARLET = 1; }",
        &["enum-value-renamed RED: text, code", "enum-value-renamed UNSPECIFIED: text, code"],
    );
}

#[test]
fn changed_enum_zero_value_is_a_break() {
    enums();
    println!("covers: S4.042");
}

pub(crate) fn enums() {
    expect(
        "enum Colour { UNSPECIFIED = 0; RED = 1; }",
        "enum Colour { RED = 0; UNSPECIFIED = 1; }",
        &[
            "enum-default-changed Colour: binary, text",
            "enum-value-renumbered RED: binary",
            "enum-value-renumbered UNSPECIFIED: binary",
        ],
    );
    expect(
        "enum Colour { UNSPECIFIED = 0; RED = 1; }",
        "enum Colour { UNSPECIFIED = 0; RED = 2; }",
        &["enum-value-renumbered RED: binary"],
    );
}

#[test]
fn changed_package_breaks_messages_in_any() {
    moves();
    println!("covers: S4.048 S4.049 S4.067");
}

pub(crate) fn moves() {
    let thing = "message Thing { string name = 1; Part part = 2; Colour colour = 3; message Part { int32 size = 1; } }\n\
                 enum Colour { A = 0; }\nmessage User { Thing thing = 1; map<string, Colour> colours = 2; }";
    let of =
        |package: &str, path: &str| schema_of(&[(path, &format!("package {package};\n{thing}"))]);
    let old = of("acme.v1", "acme/v1/thing.proto");
    // To another package and file: the wire format is not affected.
    assert_eq!(
        found(&old, &of("acme.thing.v1", "acme/thing/v1/thing.proto")),
        [
            "enum-moved Colour: code",
            "message-moved Thing: type-url, code",
            "message-moved Thing.Part: type-url, code",
            "message-moved User: type-url, code",
        ]
    );
    // To another file only.
    assert_eq!(
        found(&old, &of("acme.v1", "acme/v1/things.proto")),
        ["file-moved acme/v1/thing.proto: code"]
    );
    let rest = ("acme/v1/thing.proto", "message Other {}");
    let both = schema_of(&[rest, ("acme/v1/old.proto", "message Thing {} message Third {}")]);
    let moved = schema_of(&[
        ("acme/v1/thing.proto", "message Other {} message Thing {}"),
        ("acme/v1/old.proto", "message Third {}"),
    ]);
    assert_eq!(found(&both, &moved), ["file-moved Thing: code"]);
    // To another name in the same scope: its content is compared all the same.
    expect(
        "message Thing { string name = 1; } message User { Thing thing = 1; }",
        "message Item { string name = 1; } message User { Item thing = 1; }",
        &["message-moved Thing: type-url, code"],
    );
    // By an annotation with the previous name.
    assert_eq!(
        found(
            &schema("message Thing { string name = 1; }"),
            &schema(
                "message Entirely { option (udpa.annotations.versioning).previous_message_type = \"acme.v1.Thing\"; \
                 string title = 1; }"
            ),
        ),
        ["message-moved Thing: type-url, code", "field-renamed Thing.name: text, code"]
    );
}

#[test]
fn source_only_breaks_affect_only_the_code_axis() {
    let old = schema("message Thing { int32 size = 1; }");
    let new = schema_of(&[("acme/v1/other.proto", "message Thing { int64 size = 1; }")]);
    for found in compare(&old, &new) {
        assert!(found.broken.contains(Axis::Code), "{found}");
        assert!(found.broken.without(Axis::Code).is_empty(), "{found}");
    }
    assert_eq!(compare(&old, &new).len(), 2);
    println!("covers: S4.060");
}
