//! Tightened constraints.

use crate::compat::expect;

#[test]
fn tighter_constraints_break_only_the_constraint_axis() {
    constraints();
    println!("covers: S4.062 X40");
}

pub(crate) fn constraints() {
    let of = |rules: &str| {
        let options =
            if rules.is_empty() { String::new() } else { format!("[(validate.rules).{rules}]") };
        let (of_type, rules) = rules.split_once(['.', ' ']).unwrap_or(("uint32", ""));
        let of_type = match of_type {
            "duration" => "google.protobuf.Duration",
            "any" => "google.protobuf.Any",
            "message" => "Thing",
            "repeated" if rules.contains("string") => "repeated string",
            "repeated" => "repeated uint32",
            "map" => "map<string, uint32>",
            "enum" => "Colour",
            scalar => scalar,
        };
        format!("message Thing {{ {of_type} it = 1 {options}; }} enum Colour {{ A = 0; }}")
    };
    for (looser, tighter) in [
        ("uint32.lt = 56", "uint32.lt = 55"),
        ("uint32.lt = 56", "uint32 = { lt: 56, gte: 3 }"),
        ("uint32.gte = 3", "uint32.gt = 3"),
        // If the lower bound exceeds the upper one, the range between them is forbidden.
        ("uint32 = { gt: 10, lt: 5 }", "uint32 = { gt: 5, lt: 10 }"),
        ("uint32 = { gt: 5, lt: 10 }", "uint32 = { gt: 10, lt: 5 }"),
        ("uint32 = { gt: 10, lt: 5 }", "uint32 = { gt: 11, lt: 5 }"),
        ("uint32 = { gt: 10, lt: 5 }", "uint32 = { gt: 10, lt: 4 }"),
        ("uint32 = { gt: 10, lt: 5 }", "uint32.gt = 3"),
        ("uint32.lt = 6", "uint32 = { gt: 10, lt: 5 }"),
        ("uint32.gte = 10", "uint32 = { gt: 10, lt: 5 }"),
        ("uint32.not_in = 7", "uint32 = { not_in: [7], gt: 10, lt: 5 }"),
        ("double = { gte: 10, lte: 5 }", "double = { gte: 10, lt: 5 }"),
        ("double.lte = 5", "double = { gte: 10, lt: 5 }"),
        ("uint32 = { in: [1, 2] }", "uint32 = { in: [1] }"),
        ("uint32 = { not_in: [1] }", "uint32 = { not_in: [1, 2] }"),
        ("uint32 = { gt: 0, ignore_empty: true }", "uint32.gt = 0"),
        ("double.lte = 1.5", "double.lt = 1.5"),
        ("string.max_len = 8", "string.min_len = 1"),
        ("string.max_bytes = 8", "string.max_bytes = 7"),
        ("string.prefix = \"a\"", "string.pattern = \"^a\""),
        (
            "string = { well_known_regex: HTTP_HEADER_NAME, strict: false }",
            "string.well_known_regex = HTTP_HEADER_NAME",
        ),
        ("string.prefix = \"a\"", "string.prefix = \"ab\""),
        ("bytes.min_len = 1", "bytes.min_len = 2"),
        ("duration.gte = {}", "duration.gt = {}"),
        ("duration.gt = {}", "duration = { required: true, gt: {} }"),
        ("message.skip = true", "message.required = true"),
        ("repeated.max_items = 4", "repeated.unique = true"),
        ("repeated.items.string.min_len = 1", "repeated.items.string.min_len = 2"),
        ("map.min_pairs = 1", "map.keys.string.min_len = 1"),
        ("map.values.uint32.lt = 4", "map.values.uint32.lt = 3"),
        ("enum.not_in = 3", "enum.defined_only = true"),
        ("any.not_in = \"a\"", "any.required = true"),
        ("bool.const = true", "bool.const = false"),
    ] {
        expect(&of(looser), &of(tighter), &["constraint-tightened Thing.it: validation"]);
    }
    for (tighter, looser) in [
        ("uint32.lt = 56", "uint32.lt = 57"),
        ("uint32.gt = 3", "uint32.gte = 4"),
        ("uint32.lte = 3", "uint32.lt = 4"),
        ("uint32 = { gte: 3, lt: 9 }", "uint32.lt = 9"),
        ("uint32.gt = 0", "uint32 = { gt: 0, ignore_empty: true }"),
        ("string.min_len = 2", "string.min_bytes = 0"),
        (
            "string.well_known_regex = HTTP_HEADER_NAME",
            "string = { well_known_regex: HTTP_HEADER_NAME, strict: false }",
        ),
        ("message.required = true", "message.skip = true"),
        ("repeated = { min_items: 2, unique: true }", "repeated.min_items = 1"),
        ("uint32.lt = 56", ""),
        ("uint32 = { gt: 11, lt: 4 }", "uint32 = { gt: 10, lt: 5 }"),
        ("uint32 = { gt: 10, lt: 5 }", "uint32 = { gte: 11, lte: 4 }"),
        ("uint32 = { gt: 10, lt: 5 }", ""),
        ("uint32.gt = 10", "uint32 = { gt: 10, lt: 5 }"),
        ("uint32 = { gte: 1, lte: 4 }", "uint32 = { gt: 10, lt: 5 }"),
        ("double.lt = 5", "double = { gte: 10, lt: 5 }"),
        // The range between these bounds is empty.
        ("uint32 = { gte: 2, lte: 9 }", "uint32 = { gte: 6, lte: 5 }"),
    ] {
        expect(&of(tighter), &of(looser), &[]);
    }
    // A new field whose absence is rejected. Writers of the old version do not set it.
    for (field, is_refused) in [
        ("string x = 2 [(validate.rules).string.min_len = 1];", true),
        ("uint32 x = 2 [(validate.rules).uint32.gt = 0];", true),
        ("Thing x = 2 [(validate.rules).message.required = true];", true),
        ("repeated string x = 2 [(validate.rules).repeated.min_items = 1];", true),
        ("uint32 x = 2 [(validate.rules).uint32.lt = 9];", false),
        ("optional string x = 2 [(validate.rules).string.min_len = 1];", false),
        ("oneof kind { string x = 2 [(validate.rules).string.min_len = 1]; }", false),
        ("repeated string x = 2 [(validate.rules).repeated.items.string.min_len = 1];", false),
    ] {
        let expected = ["constraint-tightened Thing.x: validation"];
        expect(
            "message Thing { string name = 1; }",
            &format!("message Thing {{ string name = 1; {field} }}"),
            if is_refused { &expected } else { &[] },
        );
    }
    // On a oneof and on a message.
    expect(
        "message Thing { oneof kind { bool a = 1; } }",
        "message Thing { oneof kind { option (validate.required) = true; bool a = 1; } }",
        &["constraint-tightened Thing: validation"],
    );
    expect(
        "message Thing { option (validate.disabled) = true; bool a = 1; }",
        "message Thing { bool a = 1; }",
        &["constraint-tightened Thing: validation"],
    );
}
