//! SARIF 2.1.0: the format in which code review tools exchange results of static analysis.

use std::{env, fmt::Write as _, path::Path};

use serde_json::{Value as Json, json};

use crate::diagnostic::{Diagnostic, Level, Rule};

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// Formats the diagnostics as a log with one run.
pub(super) fn log(diagnostics: &[Diagnostic]) -> Json {
    let rules: Vec<Json> = Rule::ALL
        .into_iter()
        .map(|rule| json!({ "id": rule.id(), "shortDescription": { "text": rule.description() } }))
        .collect();
    let results: Vec<Json> = diagnostics.iter().map(result).collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "xds check",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            } },
            // Columns count characters.
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn result(diagnostic: &Diagnostic) -> Json {
    let level = match diagnostic.level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Note => "note",
    };
    let mut location = json!({ "artifactLocation": { "uri": uri(&diagnostic.file) } });
    if let Some(at) = diagnostic.position {
        location["region"] = json!({ "startLine": at.line, "startColumn": at.column });
    }
    let mut location = json!({ "physicalLocation": location });
    if let Some(resource) = &diagnostic.resource {
        location["logicalLocations"] =
            json!([{ "fullyQualifiedName": resource.to_string(), "kind": "resource" }]);
    }
    json!({
        "ruleId": diagnostic.rule.id(),
        "ruleIndex": Rule::ALL.iter().position(|rule| *rule == diagnostic.rule),
        "level": level,
        "message": { "text": diagnostic.text },
        "locations": [location],
    })
}

/// Returns the path relative to the working directory, if it is below it.
pub(super) fn relative(file: &Path) -> String {
    let below = env::current_dir().ok().and_then(|root| {
        let below = file.strip_prefix(root).ok()?;
        Some(below.to_owned())
    });
    let file = below.unwrap_or_else(|| file.to_owned());
    let text = file.display().to_string();
    text.strip_prefix("./").unwrap_or(&text).to_owned()
}

/// Returns the path as a URI reference, relative to the working directory if it is below it.
fn uri(file: &Path) -> String {
    let path = relative(file);
    let mut uri = String::new();
    if path.starts_with('/') {
        uri += "file://";
    }
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte));
            }
            // Writing to a string cannot fail.
            _ => drop(write!(uri, "%{byte:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_uris_relative_to_the_working_directory() {
        let here = env::current_dir().unwrap();
        assert_eq!(uri(&here.join("a b/c.yaml")), "a%20b/c.yaml");
        assert_eq!(uri(Path::new("./config/ä:.yaml")), "config/%C3%A4%3A.yaml");
        assert_eq!(uri(Path::new("/no/such/x.yaml")), "file:///no/such/x.yaml");
    }
}
