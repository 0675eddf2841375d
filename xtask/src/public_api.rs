//! Test that the public API of the core contains no type of a protobuf or gRPC library.
//!
//! Generated messages and their decode error are exported under `xds_core::proto`. Any other type
//! would make a new major version of prost a breaking change of the core.
//!
//! A type must be named to be in a signature. So it is enough that no line outside of the generated
//! code names such a crate, except anonymous imports (`use prost::Message as _`) and the one
//! export, and that no crate is renamed.
// S4.061

use std::fs;
use std::path::{Path, PathBuf};

/// File with the export.
const EXPORTS: &str = "proto/mod.rs";
/// Folder of generated code, which names traits of prost that messages implement.
const GENERATED: &str = "proto/generated";

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the core") {
        let path = entry.expect("an entry of it").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Whether a line of code can bring the name of such a crate into a signature.
fn names_a_library(line: &str) -> bool {
    let code = line.trim();
    let is_anonymous =
        code.starts_with("use prost::") && code.ends_with(" as _;") && !code.contains('{');
    !code.starts_with("//")
        && !is_anonymous
        && ["prost", "tonic"].iter().any(|it| code.contains(it))
}

#[test]
fn core_exposes_no_prost_or_tonic_type() {
    let source = crate::repository::root().join("xds-core/src");
    let mut files = Vec::new();
    sources(&source, &mut files);
    assert!(files.len() > 100, "{}", files.len());
    let mut found = Vec::new();
    for file in files {
        let path = file.strip_prefix(&source).expect("a file below it").display().to_string();
        if path.starts_with(GENERATED) {
            continue;
        }
        let text = fs::read_to_string(&file).expect("a source file");
        // Tests are at the end of the file.
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let is_export = |line: &str| path == EXPORTS && line == "pub use prost::DecodeError;";
        let lines = code.lines().filter(|line| names_a_library(line) && !is_export(line));
        found.extend(lines.map(|line| format!("{path}: {line}")));
    }
    assert_eq!(found, [""; 0]);

    let manifest = fs::read_to_string(crate::repository::root().join("xds-core/Cargo.toml"))
        .expect("a manifest");
    assert!(!manifest.contains("tonic") && !manifest.contains("package ="), "{manifest}");
    println!("covers: S4.061");
}

#[test]
fn exposing_lines_are_distinguished_from_harmless_ones() {
    for leak in [
        "pub fn decode(&self) -> Result<Metadata, prost::DecodeError> {",
        "use prost::DecodeError;",
        "use prost::{Message as _, DecodeError};",
        "pub use prost;",
        "type Status = tonic::Status;",
    ] {
        assert!(names_a_library(leak), "{leak}");
    }
    for harmless in
        ["    use prost::Message as _;", "/// As [`prost::Message`] has it.", "let x = 1;"]
    {
        assert!(!names_a_library(harmless), "{harmless}");
    }
}
