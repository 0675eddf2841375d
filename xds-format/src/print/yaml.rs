//! Printer of block YAML in the usual style of Envoy configurations.

use std::fmt::Write as _;

use serde_json::Value as Json;

use crate::tree::yaml::is_string;

/// Prints one document.
pub(crate) fn print(value: &Json) -> String {
    let mut out = String::new();
    match value {
        Json::Object(members) if !members.is_empty() => object(&mut out, members, 0),
        Json::Array(elements) if !elements.is_empty() => list(&mut out, elements, 0),
        scalar => {
            push_scalar(&mut out, scalar);
            out.push('\n');
        }
    }
    out
}

fn object(out: &mut String, members: &serde_json::Map<String, Json>, indent: usize) {
    for (i, (name, value)) in members.iter().enumerate() {
        // The first member follows at the current position: at the margin or after the dash.
        if i > 0 {
            push_indent(out, indent);
        }
        push_string(out, name);
        out.push(':');
        match value {
            Json::Object(members) if !members.is_empty() => {
                out.push('\n');
                push_indent(out, indent + 2);
                object(out, members, indent + 2);
            }
            // The dash of a list serves as its indentation.
            Json::Array(elements) if !elements.is_empty() => {
                out.push('\n');
                push_indent(out, indent);
                list(out, elements, indent);
            }
            scalar => {
                out.push(' ');
                push_scalar(out, scalar);
                out.push('\n');
            }
        }
    }
}

fn list(out: &mut String, elements: &[Json], indent: usize) {
    for (i, element) in elements.iter().enumerate() {
        if i > 0 {
            push_indent(out, indent);
        }
        out.push_str("- ");
        match element {
            Json::Object(members) if !members.is_empty() => object(out, members, indent + 2),
            Json::Array(elements) if !elements.is_empty() => list(out, elements, indent + 2),
            scalar => {
                push_scalar(out, scalar);
                out.push('\n');
            }
        }
    }
}

fn push_scalar(out: &mut String, value: &Json) {
    match value {
        Json::String(text) => push_string(out, text),
        // Numbers, booleans, null, and the two empty collections are written as in JSON.
        other => {
            let _ = write!(out, "{other}");
        }
    }
}

fn push_indent(out: &mut String, indent: usize) {
    let _ = write!(out, "{:indent$}", "");
}

fn push_string(out: &mut String, text: &str) {
    if is_plain(text) {
        out.push_str(text);
        return;
    }
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // Control characters, and characters that YAML treats as line breaks or a byte order
            // mark.
            c if c.is_control()
                || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}'..='\u{ffff}') =>
            {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Whether a string needs no quotes, because every YAML reader reads it as the same string.
fn is_plain(text: &str) -> bool {
    let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:+*=%$@~^()".contains(&byte);
    text.len() <= 1024
        && text
            .as_bytes()
            .first()
            .is_some_and(|&first| first.is_ascii_alphanumeric() || first == b'_' || first == b'/')
        && text.bytes().all(safe)
        && !text.ends_with(':')
        && is_string(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn printed_yaml_looks_like_an_envoy_configuration() {
        let value = json!({
            "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            "name": "backend:80",
            "connect_timeout": "5s",
            "nested": {"list": [{"a": 1, "b": [true, null]}, [1, 2], "on", {}], "empty": []},
            "odd": ["", "0777", "a b", "x:", "- y", "#z", "\u{2028}\n"],
        });
        let yaml = r##""@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
name: backend:80
connect_timeout: 5s
nested:
  list:
  - a: 1
    b:
    - true
    - null
  - - 1
    - 2
  - "on"
  - {}
  empty: []
odd:
- ""
- "0777"
- "a b"
- "x:"
- "- y"
- "#z"
- "\u2028\n"
"##;
        assert_eq!(print(&value), yaml);
        assert_eq!(serde_saphyr::from_str::<Json>(yaml).unwrap(), value);
    }

    /// YAML 1.1 has dates, binary, octal and sexagesimal numbers, `_` in numbers, and special keys;
    /// readers of 1.2 resolve some of them too.
    #[test]
    fn strings_that_a_yaml_reader_may_take_for_something_else_are_quoted() {
        for text in [
            "2020-01-01",
            "2001-12-14T21:59:43Z",
            "2001-12-14t21:59:43.10-05:00",
            "2001-1-1",
            "2001-12-14T21:59:43.1",
            "20201231",
            "1:30",
            "190:20:30",
            "1:30.5",
            "-1:30",
            "0b1010",
            "-0b1",
            "+0b1",
            "0B1",
            "0o17",
            "0O17",
            "-0o17",
            "017",
            "0x1F",
            "0X1F",
            "-0x1f",
            "+0x1F",
            "1_000",
            "1_0.5",
            "0x_1",
            "1e3",
            "1.",
            "1.e3",
            "1.5E+3",
            ".5",
            "+.5",
            "-.5e1",
            ".inf",
            "-.INF",
            ".NaN",
            "y",
            "N",
            "yes",
            "On",
            "off",
            "TRUE",
            "~",
            "null",
            "Null",
            "=",
            "<<",
            "12e03",
            "685_230.15",
            "1__0",
            "0_1",
            "0.",
            "00",
            "09",
            "0x",
            "1e",
            "1e+",
            "e9",
            "E-1",
            "0b",
            "0b2",
            "1-2",
            "1:",
            "0:0",
        ] {
            assert!(!is_plain(text), "{text}");
        }
        for text in [
            "a",
            "web-1",
            "backend:80",
            "5s",
            "10.0.0.0/8",
            "v1.2",
            "a_b",
            "_a",
            "http2",
            "/a",
            "2xx_ok",
            "80ms",
            "0.25s",
            "infra",
            "nano",
            "yesterday",
            "a=b",
            "a.b.v3.C",
            "x-y",
            "d5e6f",
        ] {
            assert!(is_plain(text), "{text}");
        }
    }

    #[test]
    fn scalars_and_empty_collections_print_as_documents() {
        assert_eq!(print(&json!({})), "{}\n");
        assert_eq!(print(&json!([[]])), "- []\n");
        assert_eq!(print(&json!("a")), "a\n");
    }
}
