//! Numbers, strings and bytes.

use crate::validate::{expect, faults, thing};

#[test]
fn number_interval_is_checked() {
    expect(
        "uint32",
        "uint32 = { gte: 3, lt: 56 }",
        &["3", "55"],
        &[
            ("2", "it: must be at least 3, is 2"),
            ("56", "it: must be less than 56, is 56"),
            ("", "it: must be at least 3, is 0"),
        ],
    );
    println!("covers: S4.028");
}

#[test]
fn number_constraints_are_checked_for_every_type() {
    expect("int64", "int64.gt = -1", &["0", ""], &[("-1", "it: must be greater than -1, is -1")]);
    expect(
        "uint64",
        "uint64.lte = 18446744073709551614",
        &["0"],
        &[(
            "18446744073709551615",
            "it: must be at most 18446744073709551614, is 18446744073709551615",
        )],
    );
    expect(
        "double",
        "double = { gte: 0, lte: 100 }",
        &["0", "99.5", "\"NaN\""],
        &[("100.5", "it: must be at most 100, is 100.5")],
    );
    expect("float", "float.gt = 0", &["1.5"], &[("", "it: must be greater than 0, is 0")]);
    expect("uint32", "uint32 = { in: [1, 4] }", &["4"], &[("2", "it: must be one of 1, 4, is 2")]);
    expect(
        "uint32",
        "uint32 = { not_in: [1, 4] }",
        &["2"],
        &[("4", "it: must not be one of 1, 4, is 4")],
    );
    expect("sint32", "sint32.const = -7", &["-7"], &[("7", "it: must be -7, is 7")]);
    expect(
        "uint32",
        "uint32 = { gt: 9, ignore_empty: true }",
        &["", "10"],
        &[("9", "it: must be greater than 9, is 9")],
    );
    // The range between the bounds is forbidden.
    expect(
        "uint32",
        "uint32 = { lt: 3, gt: 9 }",
        &["2", "10"],
        &[("5", "it: must be greater than 9 or be less than 3, is 5")],
    );
    expect("bool", "bool.const = true", &["true"], &[("", "it: must be true")]);
    // An absent wrapper is not checked.
    expect(
        "google.protobuf.UInt32Value",
        "uint32.gte = 1",
        &["", "1"],
        &[("0", "it: must be at least 1, is 0")],
    );
    expect(
        "optional uint32",
        "uint32.gte = 1",
        &["", "1"],
        &[("0", "it: must be at least 1, is 0")],
    );
}

#[test]
fn minimum_string_length_is_checked() {
    expect("string", "string.min_len = 1", &["\"a\""], &[("", "it: must not be empty")]);
    expect("string", "string.min_bytes = 1", &["\"a\""], &[("", "it: must not be empty")]);
    println!("covers: S4.029");
}

#[test]
fn string_and_bytes_constraints_are_checked() {
    expect(
        "string",
        "string.max_len = 2",
        &["\"äö\""],
        &[("\"äöü\"", "it: must have at most 2 characters, is \"äöü\"")],
    );
    expect(
        "string",
        "string.max_bytes = 2",
        &["\"ä\""],
        &[("\"äb\"", "it: must have at most 2 bytes, is \"äb\"")],
    );
    expect(
        "string",
        "string.len = 2",
        &["\"ab\""],
        &[("\"a\"", "it: must have at least 2 characters, is \"a\"")],
    );
    // The whole text must match, as in Envoy.
    expect(
        "string",
        "string.pattern = \"b+|bc\"",
        &["\"bb\"", "\"bc\""],
        &[("\"abb\"", "it: must match `b+|bc`, is \"abb\"")],
    );
    expect(
        "string",
        "string.pattern = \"^[a-z]+$\"",
        &["\"ab\""],
        &[("\"aB\"", "it: must match `^[a-z]+$`, is \"aB\"")],
    );
    expect(
        "string",
        "string.prefix = \"a\"",
        &["\"ab\""],
        &[("\"b\"", "it: must begin with \"a\", is \"b\"")],
    );
    expect(
        "string",
        "string.suffix = \"b\"",
        &["\"ab\""],
        &[("\"a\"", "it: must end in \"b\", is \"a\"")],
    );
    expect(
        "string",
        "string.contains = \"b\"",
        &["\"abc\""],
        &[("\"a\"", "it: must contain \"b\", is \"a\"")],
    );
    expect(
        "string",
        "string.not_contains = \"b\"",
        &["\"a\""],
        &[("\"abc\"", "it: must not contain \"b\", is \"abc\"")],
    );
    expect(
        "string",
        "string = { in: [\"a\", \"b\"] }",
        &["\"b\""],
        &[("\"c\"", "it: must be one of \"a\", \"b\", is \"c\"")],
    );
    expect(
        "string",
        "string = { not_in: [\"a\"] }",
        &["\"b\""],
        &[("\"a\"", "it: must not be one of \"a\", is \"a\"")],
    );
    expect(
        "string",
        "string = { min_len: 3, ignore_empty: true }",
        &["", "\"abc\""],
        &[("\"a\"", "it: must have at least 3 characters, is \"a\"")],
    );
    expect(
        "bytes",
        "bytes.min_len = 2",
        &["\"YWI=\""],
        &[("\"YQ==\"", "it: must have at least 2 bytes, is 1 byte")],
    );
    expect(
        "bytes",
        "bytes.ipv4 = true",
        &["\"fwAAAQ==\""],
        &[("\"YQ==\"", "it: must be an IPv4 address, is 1 byte")],
    );
}

#[test]
fn well_known_string_formats_are_checked() {
    let forms: [(&str, &str, &[&str], &[&str]); 12] = [
        (
            "well_known_regex = HTTP_HEADER_NAME",
            "the name of an HTTP header",
            &["x-a", ":path"],
            &["a b", "a:", ":", "ä"],
        ),
        (
            "well_known_regex = HTTP_HEADER_VALUE",
            "the value of an HTTP header",
            &["a b\\t", "ä"],
            &["a\\nb", "\\u0000"],
        ),
        ("hostname = true", "a host name", &["a.example", "1.example."], &["a..b", "-a", "a_b"]),
        ("ip = true", "an IP address", &["127.0.0.1", "::1"], &["127.0.0.256", "a"]),
        ("ipv4 = true", "an IPv4 address", &["127.0.0.1"], &["::1"]),
        ("ipv6 = true", "an IPv6 address", &["::1"], &["127.0.0.1"]),
        ("address = true", "a host name or an IP address", &["::1", "a.example"], &["a b"]),
        ("uri = true", "a URI", &["http://a/b", "urn:x"], &["/b", "a b:"]),
        ("uri_ref = true", "a URI reference", &["/b"], &["/b c"]),
        ("email = true", "an e-mail address", &["a@b.example"], &["a", "@b"]),
        ("uuid = true", "a UUID", &["00112233-4455-6677-8899-aabbccddeeff"], &["00112233"]),
        ("well_known_regex = UNKNOWN", "", &["anything"], &[]),
    ];
    for (rule, what, good, bad) in forms {
        let good: Vec<_> = good.iter().map(|it| format!("\"{it}\"")).collect();
        let good: Vec<_> = good.iter().map(String::as_str).collect();
        expect("string", &format!("string.{rule}"), &good, &[]);
        for bad in bad {
            let found = faults(
                &thing("string", &format!("string.{rule}")),
                &format!("{{\"it\": \"{bad}\"}}"),
            );
            assert!(
                found.len() == 1 && found[0].starts_with(&format!("it: must be {what}, is ")),
                "{rule} {bad}: {found:?}"
            );
        }
    }
    let loose = "string = { well_known_regex: HTTP_HEADER_NAME, strict: false }";
    let bad = "it: must be the name of an HTTP header, is \"a\\nb\"";
    expect("string", loose, &["", "\"\"", "\"a b\""], &[("\"a\\nb\"", bad)]);
}
