//! Numbers, types and cardinality of fields.

use crate::common::protos::PROTO2;
use crate::compat::expect;

#[test]
fn changed_field_number_or_type_is_a_break() {
    fields();
    println!("covers: S4.037 S4.038");
}

pub(crate) fn fields() {
    expect(
        "message Thing { string name = 1; int32 size = 2; }",
        "message Thing { string name = 1; int32 size = 3; }",
        &["field-renumbered Thing.size: binary"],
    );
    expect(
        "message Thing { int32 a = 1; int32 b = 2; }",
        "message Thing { int32 a = 2; int32 b = 1; }",
        &["field-renumbered Thing.a: binary", "field-renumbered Thing.b: binary"],
    );
    // Types with different encodings.
    for (old, new) in [
        ("int32", "string"),
        ("int64", "double"),
        ("fixed64", "bool"),
        ("Thing", "string"),
        ("Thing", "Other"),
    ] {
        expect(
            &format!("message Thing {{ {old} it = 1; }} message Other {{ bool x = 1; }}"),
            &format!("message Thing {{ {new} it = 1; }} message Other {{ bool x = 1; }}"),
            &["field-retyped Thing.it: binary, text, code"],
        );
    }
    // In text, these numbers have the same form.
    for (old, new) in [("int32", "sint32"), ("fixed32", "fixed64"), ("float", "double")] {
        expect(
            &format!("message Thing {{ {old} it = 1; }}"),
            &format!("message Thing {{ {new} it = 1; }}"),
            &["field-retyped Thing.it: binary, code"],
        );
    }
}

#[test]
fn type_changes_with_equal_encoding_have_their_own_rules() {
    retypes();
}

pub(crate) fn retypes() {
    for (old, new) in [("int32", "int64"), ("uint32", "int32"), ("fixed32", "sfixed32")] {
        expect(
            &format!("message Thing {{ {old} it = 1; }}"),
            &format!("message Thing {{ {new} it = 1; }}"),
            &["field-retyped-compatibly Thing.it: code"],
        );
    }
    for (old, new) in [
        ("bool", "int32"),
        ("Colour", "int32"),
        ("string", "bytes"),
        ("Thing", "bytes"),
        ("Colour", "Shade"),
    ] {
        expect(
            &format!(
                "message Thing {{ {old} it = 1; }} enum Colour {{ A = 0; }} enum Shade {{ B = 0; }}"
            ),
            &format!(
                "message Thing {{ {new} it = 1; }} enum Colour {{ A = 0; }} enum Shade {{ B = 0; }}"
            ),
            &["field-retyped-compatibly Thing.it: text, code"],
        );
    }
    expect(
        "message Thing { map<string, int32> it = 1; }",
        "message Thing { map<string, int64> it = 1; }",
        &["field-retyped-compatibly Thing.it: code"],
    );
    expect(
        "message Thing { map<string, int32> it = 1; }",
        "message Thing { map<int32, int32> it = 1; }",
        &["field-retyped Thing.it: binary, text, code"],
    );
}

#[test]
fn moving_a_field_into_its_own_oneof_breaks_only_code() {
    into_oneof();
    println!("covers: S4.039 X40");
}

pub(crate) fn into_oneof() {
    expect(
        "message Thing { string name = 1; int32 size = 2; }",
        "message Thing { oneof kind { string name = 1; bool fresh = 3; } int32 size = 2; }",
        &["field-into-oneof Thing.name: code"],
    );
    // Together with another old field the exception does not apply: both may have been set.
    expect(
        "message Thing { string name = 1; int32 size = 2; }",
        "message Thing { oneof kind { string name = 1; int32 size = 2; } }",
        &[
            "fields-joined-in-oneof Thing.name: binary, text, code",
            "fields-joined-in-oneof Thing.size: binary, text, code",
        ],
    );
    expect(
        "message Thing { oneof kind { string name = 1; } int32 size = 2; }",
        "message Thing { oneof kind { string name = 1; int32 size = 2; } }",
        &[
            "fields-joined-in-oneof Thing.name: binary, text, code",
            "fields-joined-in-oneof Thing.size: binary, text, code",
        ],
    );
}

#[test]
fn changed_oneofs_are_a_break() {
    oneofs();
}

pub(crate) fn oneofs() {
    expect(
        "message Thing { oneof kind { string name = 1; int32 size = 2; } }",
        "message Thing { oneof kind { string name = 1; } int32 size = 2; }",
        &["field-out-of-oneof Thing.size: binary, text, code"],
    );
    expect(
        "message Thing { oneof kind { int32 size = 2; } }",
        "message Thing { int32 size = 2; }",
        &["field-out-of-oneof Thing.size: code"],
    );
    expect(
        "message Thing { oneof kind { int32 size = 2; } }",
        "message Thing { oneof sort { int32 size = 2; } }",
        &["oneof-renamed Thing.size: code"],
    );
}

#[test]
fn making_a_field_repeated_breaks_json_but_not_the_wire() {
    to_repeated();
    println!("covers: S4.040 X40");
}

pub(crate) fn to_repeated() {
    for what in ["string", "bytes", "Thing"] {
        expect(
            &format!("message Thing {{ {what} it = 1; }}"),
            &format!("message Thing {{ repeated {what} it = 1; }}"),
            &["field-to-repeated Thing.it: text, code"],
        );
    }
    // Repeated numbers are packed by default, and then the exception does not apply.
    expect(
        "message Thing { int32 it = 1; }",
        "message Thing { repeated int32 it = 1; }",
        &["field-to-repeated Thing.it: binary, text, code"],
    );
    expect(
        "message Thing { int32 it = 1; }",
        "message Thing { repeated int32 it = 1 [packed = false]; }",
        &["field-to-repeated Thing.it: text, code"],
    );
}

#[test]
fn changed_lists_maps_presence_or_defaults_are_a_break() {
    shapes();
}

pub(crate) fn shapes() {
    expect(
        "message Thing { repeated string it = 1; }",
        "message Thing { string it = 1; }",
        &["field-to-singular Thing.it: binary, text, code"],
    );
    expect(
        "message Thing { map<string, int32> it = 1; }",
        "message Thing { repeated Pair it = 1; } message Pair { string key = 1; int32 value = 2; }",
        &["field-map-changed Thing.it: text, code"],
    );
    expect(
        "message Thing { map<string, int32> it = 1; }",
        "message Thing { repeated string it = 1; }",
        &["field-map-changed Thing.it: binary, text, code"],
    );
    expect(
        "message Thing { int32 it = 1; }",
        "message Thing { optional int32 it = 1; }",
        &["field-presence-changed Thing.it: code"],
    );
    let proto2 = |text: &str| format!("{PROTO2}{text}");
    expect(
        &proto2("message Thing { optional int32 it = 1; required int32 other = 2; }"),
        &proto2(
            "message Thing { required int32 it = 1; optional int32 other = 2; required int32 more = 3; }",
        ),
        &[
            "field-required-changed Thing.it: binary, text",
            "field-required-changed Thing.more: binary, text",
            "field-required-changed Thing.other: binary, text",
        ],
    );
    expect(
        &proto2("message Thing { optional int32 it = 1 [default = 3]; }"),
        &proto2("message Thing { optional int32 it = 1 [default = 4]; }"),
        &["field-default-changed Thing.it: binary, text"],
    );
}
