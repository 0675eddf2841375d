//! Lints that keep panics out of the libraries.
//!
//! Cargo's table of lints applies to the tests and the examples of a crate too, which may panic. So
//! each library has an attribute with these lints instead, and this check compares the copies.

use crate::source::File;

/// Attribute of each library. A library may warn of more lints.
const LINTS: [&str; 6] = [
    "clippy::expect_used",
    "clippy::indexing_slicing",
    "clippy::panic",
    "clippy::string_slice",
    "clippy::unreachable",
    "clippy::unwrap_used",
];

/// Libraries for tests, which report failures by panics.
const FOR_TESTS: [&str; 2] = ["xds-conformance/src/lib.rs", "xds-sim/src/lib.rs"];

/// Returns a line for each library that does not warn of all lints.
pub(super) fn findings(files: &[File]) -> Vec<String> {
    let lacking = files.iter().filter(|file| is_library(&file.path) && !warns(&file.text));
    let finding = |file: &File| {
        format!("{} does not warn of {} outside of tests", file.path, LINTS.join(", "))
    };
    lacking.map(finding).collect()
}

fn is_library(path: &str) -> bool {
    path.starts_with("xds") && path.ends_with("/src/lib.rs") && !FOR_TESTS.contains(&path)
}

fn warns(text: &str) -> bool {
    let attribute = text.split_once("#![cfg_attr(\n    not(test),\n    warn(");
    let lints = attribute.and_then(|(_, rest)| rest.split_once(')'));
    lints.is_some_and(|(lints, _)| {
        LINTS.iter().all(|lint| lints.split(',').any(|it| it.trim() == *lint))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_without_a_lint_is_a_finding() {
        let file = |path: &str, text: String| File { path: path.into(), text };
        let attribute = |lints: &str| {
            format!("#![cfg_attr(\n    not(test),\n    warn(\n        {lints}\n    )\n)]\nmod a;\n")
        };
        let all = LINTS.join(",\n        ");
        let found = findings(&[
            file("xds-a/src/lib.rs", attribute(&all)),
            file("xds-b/src/lib.rs", attribute(&format!("clippy::more,\n{all}"))),
            file("xds-c/src/lib.rs", attribute("clippy::panic")),
            file("xds-d/src/lib.rs", "mod a;\n".into()),
            file("xds-sim/src/lib.rs", "mod a;\n".into()),
            file("xds-d/src/a.rs", String::new()),
        ]);
        let paths: Vec<_> = found.iter().filter_map(|it| it.split(' ').next()).collect();
        assert_eq!(paths, ["xds-c/src/lib.rs", "xds-d/src/lib.rs"]);
    }
}
