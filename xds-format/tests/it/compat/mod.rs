//! Breaking changes between two versions of a schema, with a fixture for each rule.

mod constraints;
mod fields;
mod names;
mod own_schema;
mod removals;
mod services;

use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::common::protos::schema;
use xds_format::{Axis, Exemption, Rule, Schema, compare};

/// Formats each finding as `rule element: broken axes`, without the package.
pub(crate) fn found(old: &Schema, new: &Schema) -> Vec<String> {
    let short = |name: &str| name.replace("acme.v1.", "");
    compare(old, new)
        .iter()
        .map(|it| format!("{} {}: {}", it.rule, short(&it.element), it.broken))
        .collect()
}

#[track_caller]
pub(crate) fn expect(old: &str, new: &str, expected: &[&str]) {
    assert_eq!(found(&schema(old), &schema(new)), expected, "\n{old}\n{new}");
    SHOWN.with_borrow_mut(|shown| {
        shown.extend(expected.iter().filter_map(|it| it.split(' ').next()).map(str::to_owned));
    });
}

thread_local! {
    /// Rules that this test has reported.
    static SHOWN: RefCell<BTreeSet<String>> = RefCell::default();
}

#[test]
fn equal_schemas_have_no_breaks() {
    let thing = "message Thing { string name = 1; repeated int32 sizes = 2; map<string, Thing> parts = 3; \
                 oneof kind { bool a = 4; bool b = 5; } optional int32 weight = 6; Colour colour = 7; }\n\
                 enum Colour { UNSPECIFIED = 0; RED = 1; }";
    expect(thing, thing, &[]);
    assert_eq!(found(Schema::envoy(), Schema::envoy()), [""; 0]);
}

#[test]
fn additions_are_compatible() {
    expect(
        "message Thing { string name = 1; oneof kind { bool a = 2; } }\n\
         enum Colour { UNSPECIFIED = 0; }\n\
         service Things { rpc Get(Thing) returns (Thing); }",
        "message Thing { string name = 1; oneof kind { bool a = 2; bool b = 3; } int32 size = 4; Part part = 5; }\n\
         message Part { Thing thing = 1; }\n\
         enum Colour { UNSPECIFIED = 0; RED = 1; }\n\
         service Things { rpc Get(Thing) returns (Thing); rpc Put(Thing) returns (Thing); }\n\
         service Others { rpc Get(Thing) returns (Thing) { option (google.api.http).post = \"/v1/others\"; } }",
        &[],
    );
    println!("covers: S4.036 S4.043");
}

#[test]
fn unstable_parts_are_exempt() {
    let exemptions = |old: &str, new: &str| -> Vec<_> {
        let found = compare(&schema(old), &schema(new));
        assert!(found.iter().all(|it| it.counts() == it.exemption.is_none()));
        found.into_iter().map(|it| it.exemption).collect()
    };
    let alpha = "package acme.thing.v2alpha;\n";
    assert_eq!(
        exemptions(
            &format!("{alpha}message Thing {{ int32 a = 1; }}"),
            &format!("{alpha}message Thing {{ int32 a = 2; }}")
        ),
        [Some(Exemption::Alpha)]
    );
    let new = "message Thing { int32 a = 2; int32 b = 3; }";
    for (status, expected) in [
        (
            "option (xds.annotations.v3.file_status).work_in_progress = true; message Thing { int32 a = 1; int32 b = 2; }",
            [Some(Exemption::WorkInProgress); 2],
        ),
        (
            "message Thing { option (xds.annotations.v3.message_status).work_in_progress = true; int32 a = 1; int32 b = 2; }",
            [Some(Exemption::WorkInProgress); 2],
        ),
        (
            "message Thing { int32 a = 1; int32 b = 2 [(xds.annotations.v3.field_status).work_in_progress = true]; }",
            [None, Some(Exemption::WorkInProgress)],
        ),
        // A new work-in-progress annotation exempts nothing.
        ("message Thing { int32 a = 1; int32 b = 2; }", [None, None]),
    ] {
        assert_eq!(exemptions(status, new), expected, "{status}");
    }
    println!("covers: B16");
}

#[test]
fn every_rule_has_a_fixture() {
    fields::fields();
    fields::retypes();
    fields::into_oneof();
    fields::oneofs();
    fields::to_repeated();
    fields::shapes();
    removals::removals();
    removals::reuse();
    names::renames();
    names::enums();
    names::moves();
    services::rest_paths();
    services::methods();
    constraints::constraints();
    // Rules that need several files are not tested through `expect`.
    let elsewhere = [Rule::EnumMoved, Rule::FileMoved];
    let shown = SHOWN.take();
    let missing: Vec<_> = Rule::ALL
        .iter()
        .filter(|rule| !shown.contains(rule.id()) && !elsewhere.contains(rule))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    println!("covers: S4.064");
}

/// The style guide and the checker have the same rules.
#[test]
fn style_guide_names_every_rule_and_axis() {
    let guide = include_str!("../../../../docs/API_EVOLUTION.md");
    let rules = Rule::ALL.iter().map(|rule| rule.id());
    let axes = Axis::ALL.iter().map(|axis| axis.id());
    let missing: Vec<_> =
        rules.chain(axes).filter(|id| !guide.contains(&format!("`{id}`"))).collect();
    assert_eq!(missing, [""; 0]);
    println!("covers: S4.063");
}
