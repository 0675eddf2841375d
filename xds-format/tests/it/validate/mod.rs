//! Validation of resources against the constraints of the schema.

mod scalars;
mod table;

use std::collections::BTreeSet;

use crate::common::protos::schema;
use prost_reflect::ReflectMessage as _;
use xds_format::{ErrorKind, Format, Schema, Validator, encode_message, parse};

/// Creates a message type `Thing` with one field of the given type and rules.
fn thing(of_type: &str, rules: &str) -> Validator {
    let text = format!(
        "message Thing {{ {of_type} it = 1 [(validate.rules).{rules}]; }}\n\
         enum Colour {{ UNSPECIFIED = 0; RED = 1; }}\nmessage Part {{ string name = 1 [(validate.rules).string.min_len = 1]; }}"
    );
    let schema = schema(&text);
    SCHEMA.set(Some(schema.clone()));
    Validator::new(&schema).unwrap()
}

thread_local! {
    static SCHEMA: std::cell::RefCell<Option<Schema>> = const { std::cell::RefCell::new(None) };
}

/// Returns all violations of a `Thing` given in JSON.
#[track_caller]
fn faults(validator: &Validator, json: &str) -> Vec<String> {
    let schema = SCHEMA.with_borrow(|it| it.clone()).unwrap();
    let bytes =
        encode_message(&schema, "f", "acme.v1.Thing", Format::Json, json.as_bytes()).unwrap();
    let faults = validator.violations("t/acme.v1.Thing", &bytes).unwrap();
    let first = validator.check("t/acme.v1.Thing", &bytes).err();
    assert_eq!(first.as_ref(), faults.first());
    faults.iter().map(ToString::to_string).collect()
}

/// Asserts which values a field with the given type and rules accepts, and the reasons for
/// rejection.
#[track_caller]
fn expect(of_type: &str, rules: &str, good: &[&str], bad: &[(&str, &str)]) {
    let validator = thing(of_type, rules);
    let value = |value: &str| match value {
        "" => "{}".to_owned(),
        value => format!("{{\"it\": {value}}}"),
    };
    for good in good {
        assert_eq!(faults(&validator, &value(good)), [""; 0], "{of_type} {rules}: {good}");
    }
    for (bad, reason) in bad {
        assert_eq!(faults(&validator, &value(bad)), [*reason], "{of_type} {rules}: {bad}");
    }
}

#[test]
fn duration_constraints_are_checked() {
    expect(
        "google.protobuf.Duration",
        "duration = { required: true, gt: {} }",
        &["\"0.001s\""],
        &[("\"0s\"", "it: must be greater than 0s, is 0s"), ("", "it: must be set")],
    );
    expect(
        "google.protobuf.Duration",
        "duration = { gte: { nanos: 1000000 }, lt: { seconds: 4 } }",
        &["", "\"0.001s\""],
        &[
            ("\"-1s\"", "it: must be at least 0.001s, is -1s"),
            ("\"4s\"", "it: must be less than 4s, is 4s"),
        ],
    );
    println!("covers: S4.030");
}

#[test]
fn required_oneof_without_a_value_is_a_violation() {
    let schema = schema(
        "message Thing { oneof kind { option (validate.required) = true; bool a = 1; uint32 b = 2 [(validate.rules).uint32.gt = 1]; } \
         Thing inner = 3; }",
    );
    let validator = Validator::new(&schema).unwrap();
    SCHEMA.set(Some(schema));
    assert_eq!(faults(&validator, "{\"a\": false}"), [""; 0], "set to its default is set");
    assert_eq!(faults(&validator, "{\"b\": 0}"), ["b: must be greater than 1, is 0"]);
    assert_eq!(faults(&validator, "{}"), ["must have one of `a`, `b` set"]);
    assert_eq!(
        faults(&validator, "{\"a\": true, \"inner\": {\"a\": true, \"inner\": {}}}"),
        ["inner.inner: must have one of `a`, `b` set"]
    );
    println!("covers: S4.031");
}

#[test]
fn message_list_and_map_constraints_are_checked() {
    let inner = "it: must be set";
    expect(
        "Part",
        "message.required = true",
        &["{\"name\": \"a\"}"],
        &[("", inner), ("{}", "it.name: must not be empty")],
    );
    expect("Part", "message.skip = true", &["", "{}"], &[]);
    expect(
        "repeated Part",
        "repeated.min_items = 1",
        &["[{\"name\": \"a\"}]"],
        &[
            ("", "it: must not be empty, has 0"),
            ("[{\"name\": \"a\"}, {}]", "it[1].name: must not be empty"),
        ],
    );
    expect("repeated Part", "repeated.items.message.skip = true", &["[{}]"], &[]);
    expect(
        "repeated string",
        "repeated = { max_items: 2, unique: true, items { string { min_len: 1 } } }",
        &["", "[\"a\", \"b\"]"],
        &[
            ("[\"a\", \"a\"]", "it[1]: must be unique in the list"),
            ("[\"a\", \"\"]", "it[1]: must not be empty"),
            ("[\"a\", \"b\", \"c\"]", "it: must have at most 2 elements, has 3"),
        ],
    );
    expect(
        "repeated uint32",
        "repeated = { min_items: 2, ignore_empty: true }",
        &["", "[1, 2]"],
        &[("[1]", "it: must have at least 2 elements, has 1")],
    );
    expect(
        "map<string, uint32>",
        "map = { min_pairs: 1, keys { string { min_len: 1 } }, values { uint32 { lt: 4 } } }",
        &["{\"a\": 3}"],
        &[
            ("", "it: must not be empty, has 0"),
            ("{\"\": 3}", "it[\"\"]: must not be empty"),
            ("{\"a\": 3, \"b\": 4}", "it[\"b\"]: must be less than 4, is 4"),
        ],
    );
    expect(
        "map<string, Part>",
        "map.max_pairs = 1",
        &["{\"a\": {\"name\": \"x\"}}"],
        &[("{\"a\": {}}", "it[\"a\"].name: must not be empty")],
    );
    expect(
        "Colour",
        "enum.defined_only = true",
        &["\"RED\"", ""],
        &[("7", "it: must be a value of the enum `acme.v1.Colour`, is 7")],
    );
    expect(
        "Colour",
        "enum = { not_in: [0] }",
        &["\"RED\""],
        &[("", "it: must not be one of 0, is UNSPECIFIED (0)")],
    );
}

#[test]
fn any_constraints_and_content_are_checked() {
    let url = "{\"@type\": \"t/acme.v1.Part\", \"name\": \"a\"}";
    expect(
        "google.protobuf.Any",
        "any.required = true",
        &[url],
        &[
            ("", "it: must be set"),
            ("{\"@type\": \"t/acme.v1.Part\"}", "it.name: must not be empty"),
        ],
    );
    expect(
        "google.protobuf.Any",
        "any = { in: [\"t/acme.v1.Part\"] }",
        &["", url],
        &[(
            "{\"@type\": \"t/acme.v1.Thing\"}",
            "it: must be of type t/acme.v1.Part, is `t/acme.v1.Thing`",
        )],
    );
    expect(
        "google.protobuf.Any",
        "any = { not_in: [\"t/acme.v1.Part\"] }",
        &["{\"@type\": \"t/acme.v1.Thing\"}"],
        &[(url, "it: must not be of type `t/acme.v1.Part`")],
    );
}

#[test]
fn disabled_and_ignored_messages_are_not_validated() {
    for option in ["disabled", "ignored"] {
        let schema = schema(&format!(
            "message Thing {{ Part it = 1; message Part {{ option (validate.{option}) = true; \
             string name = 1 [(validate.rules).string.min_len = 1]; }} }}"
        ));
        let validator = Validator::new(&schema).unwrap();
        SCHEMA.set(Some(schema));
        assert_eq!(faults(&validator, "{\"it\": {}}"), [""; 0], "{option}");
    }
}

/// The rules are read from the schema, so no separate list can be outdated.
#[test]
fn constraints_are_read_from_the_schema() {
    let file = br#"
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  connect_timeout: 0s
  load_assignment:
    cluster_name: c
    endpoints:
    - lb_endpoints:
      - endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 80800}}}
      - load_balancing_weight: 0
"#;
    let document = parse(Schema::envoy(), "f", Format::Yaml, file).map(|it| it.resources);
    // A server cannot serve a cluster without a name.
    assert!(document.is_err());
    let named = String::from_utf8_lossy(file).replace("  connect", "  name: c\n  connect");
    let cluster =
        parse(Schema::envoy(), "f", Format::Yaml, named.as_bytes()).unwrap().resources.remove(0);
    let faults = Validator::envoy().violations(&cluster.type_url, &cluster.bytes).unwrap();
    assert_eq!(
        faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "connect_timeout: must be greater than 0s, is 0s",
            "load_assignment.endpoints[0].lb_endpoints[0].endpoint.address.socket_address.port_value: \
             must be at most 65535, is 80800",
            "load_assignment.endpoints[0].lb_endpoints[1].load_balancing_weight: must be at least 1, is 0",
        ]
    );
    assert_eq!(faults[0].path(), "connect_timeout");
    assert!(matches!(faults[1].kind(), ErrorKind::Constraint { rule: "lte", .. }), "{faults:?}");
    println!("covers: S4.027 S4.032 S4.033");
}

/// Validation is optional: parsing and `decode_check` do not apply constraints.
// B15
#[test]
fn parsing_and_decode_check_do_not_validate_constraints() {
    let file =
        br#"{"@type": "t/envoy.config.cluster.v3.Cluster", "name": "c", "connectTimeout": "0s"}"#;
    let cluster = parse(Schema::envoy(), "f", Format::Json, file).unwrap().resources.remove(0);
    assert!(xds_format::decode_check(Schema::envoy(), &cluster.type_url, &cluster.bytes).is_ok());
    assert!(Validator::envoy().check(&cluster.type_url, &cluster.bytes).is_err());
    println!("covers: B15 X39");
}

#[test]
fn malformed_input_or_invalid_pattern_does_not_panic() {
    let validator = Validator::envoy();
    assert!(
        validator.check("t/acme.Unknown", b"\xff").is_ok(),
        "an unknown type has no constraints"
    );
    let corrupt = validator.check("t/envoy.config.cluster.v3.Cluster", b"\x0a\x05").unwrap_err();
    assert!(matches!(corrupt.kind(), ErrorKind::Corrupt { .. }), "{corrupt}");
    // A schema without `validate/validate.proto` has no constraints.
    let bare = Schema::from_descriptor_set(b"").unwrap();
    assert!(Validator::new(&bare).unwrap().check("t/a.B", b"").is_ok());
    let broken =
        schema("message Thing { string it = 1 [(validate.rules).string.pattern = \"(\"]; }");
    let error = Validator::new(&broken).unwrap_err().to_string();
    assert!(
        error.starts_with("invalid descriptor set: the pattern of acme.v1.Thing.it: "),
        "{error}"
    );
}

#[test]
fn reported_violations_are_limited_to_100() {
    let validator = thing("repeated Part", "repeated.min_items = 0");
    let parts = vec!["{}"; 1_000].join(",");
    assert_eq!(faults(&validator, &format!("{{\"it\": [{parts}]}}")).len(), 100);
}

/// The validator supports all kinds of constraints in the API. A later version of the API with
/// another kind fails this test.
#[test]
fn every_kind_of_constraint_in_the_api_is_supported() {
    const CHECKED: [&str; 32] = [
        "const",
        "lt",
        "lte",
        "gt",
        "gte",
        "in",
        "not_in",
        "ignore_empty",
        "required",
        "skip",
        "len",
        "min_len",
        "max_len",
        "len_bytes",
        "min_bytes",
        "max_bytes",
        "pattern",
        "prefix",
        "suffix",
        "contains",
        "not_contains",
        "well_known_regex",
        "strict",
        "uri",
        "hostname",
        "defined_only",
        "min_items",
        "max_items",
        "unique",
        "min_pairs",
        "max_pairs",
        "address",
    ];
    let extension = Schema::envoy().pool().get_extension_by_name("validate.rules").unwrap();
    let mut fields = 0;
    let mut pending = Vec::new();
    for field in
        Schema::envoy().pool().all_messages().flat_map(|it| it.fields().collect::<Vec<_>>())
    {
        let options = field.options();
        if options.has_extension(&extension) {
            fields += 1;
            pending.push(options.get_extension(&extension).as_message().unwrap().clone());
        }
    }
    assert!(fields > 800, "{fields}");
    let mut unknown = BTreeSet::new();
    while let Some(rules) = pending.pop() {
        // `string { .. }`, and `items`, `keys` and `values` in lists and maps, contain nested
        // rules.
        for (_, kind) in rules.fields() {
            for (member, value) in kind.as_message().unwrap().fields() {
                match value.as_message() {
                    Some(nested) if nested.descriptor().name() == "FieldRules" => {
                        pending.push(nested.clone());
                    }
                    _ if CHECKED.contains(&member.name()) => {}
                    _ => drop(unknown.insert(member.name().to_owned())),
                }
            }
        }
    }
    assert_eq!(unknown, BTreeSet::new());
    println!("covers: S4.033");
}
