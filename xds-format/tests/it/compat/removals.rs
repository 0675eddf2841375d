//! Removed definitions and their replacements.

use crate::compat::expect;

#[test]
fn removal_requires_a_previous_deprecation() {
    removals();
    println!("covers: S4.045");
}

pub(crate) fn removals() {
    let reserved = "message Thing { reserved 2; reserved \"size\"; string name = 1; }";
    expect(
        "message Thing { string name = 1; int32 size = 2; }",
        reserved,
        &["field-removed Thing.size: text, code, policy"],
    );
    expect(
        "message Thing { string name = 1; int32 size = 2 [deprecated = true]; }",
        reserved,
        &["field-removed Thing.size: text, code"],
    );
    let colours = "enum Colour { A = 0; reserved 1; reserved \"B\"; }";
    expect("enum Colour { A = 0; B = 1; }", colours, &["enum-value-removed B: text, code, policy"]);
    expect(
        "enum Colour { A = 0; B = 1 [deprecated = true]; }",
        colours,
        &["enum-value-removed B: text, code"],
    );
    expect(
        "message Thing { string name = 1; } message Old { option deprecated = true; string x = 1; } message Older {}",
        "message Thing { string name = 1; }",
        &["message-removed Old: type-url, code", "message-removed Older: type-url, code, policy"],
    );
    expect("enum Colour { A = 0; }", "", &["enum-removed Colour: code, policy"]);
    expect(
        "message M {} service S { rpc A(M) returns (M) { option deprecated = true; } rpc B(M) returns (M); \
         rpc C(M) returns (M) { option (google.api.http).post = \"/c\"; } rpc D(M) returns (M); }\n\
         service T { option deprecated = true; rpc A(M) returns (M); }",
        "message M {} service S { rpc D(M) returns (M); }",
        &[
            "method-removed S.A: service-path, code",
            "method-removed S.B: service-path, code, policy",
            "method-removed S.C: service-path, rest-path, code, policy",
            "service-removed T: service-path, code",
        ],
    );
}

#[test]
fn reused_field_number_is_a_break() {
    reuse();
    println!("covers: S4.041");
}

pub(crate) fn reuse() {
    // Removed, and the number reused in the same change.
    expect(
        "message Thing { string name = 1; int32 size = 2; }",
        "message Thing { string name = 1; bool fresh = 2; }",
        &["number-reused Thing.size: binary, text, code, policy"],
    );
    // Removed, and the number taken by another old field.
    expect(
        "message Thing { string name = 1; string title = 2; }",
        "message Thing { string title = 1; }",
        &[
            "number-reused Thing.name: binary, text, code, policy",
            "field-renumbered Thing.title: binary",
        ],
    );
    // Renumbered, and the old number taken by a new field.
    expect(
        "message Thing { string name = 1; }",
        "message Thing { string name = 2; string title = 1; }",
        &[
            "field-renumbered Thing.name: binary",
            "number-reused Thing.name: binary, text, code, policy",
        ],
    );
    // First: removed and reserved in an earlier change. Then: removed now and not reserved.
    expect(
        "message Thing { reserved 2; reserved \"size\"; string name = 1; }",
        "message Thing { string name = 1; int32 size = 2; }",
        &["number-reused Thing.size: binary, policy", "name-reused Thing.size: text, policy"],
    );
    expect(
        "message Thing { string name = 1; int32 size = 2 [deprecated = true]; }",
        "message Thing { string name = 1; reserved \"size\"; }",
        &["removal-not-reserved Thing.size: policy", "field-removed Thing.size: text, code"],
    );
    expect(
        "enum Colour { A = 0; B = 1; reserved 2; reserved \"C\"; }",
        "enum Colour { A = 0; B = 1; C = 2; }",
        &["number-reused C: binary, policy", "name-reused C: text, policy"],
    );
    expect(
        "enum Colour { A = 0; B = 1; C = 2; }",
        "enum Colour { A = 0; C = 1; }",
        &["number-reused B: binary, text, code, policy", "enum-value-renumbered C: binary"],
    );
}
