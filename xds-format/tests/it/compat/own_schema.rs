//! This project's own schema is a compatible subset of Envoy's.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use protox::Compiler;
use xds_format::{Axis, Schema, compare};

fn files_below(folder: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, found);
        } else if path.extension().is_some_and(|it| it == "proto") {
            found.insert(path);
        }
    }
}

#[test]
fn own_schema_is_a_subset_of_envoys() {
    /// Packages of version 2, which Envoy no longer has. `xtask` compares them with version 3.
    const OLDER: [&str; 3] =
        ["envoy.api.v2.", "envoy.service.discovery.v2.", "envoy.type.SemanticVersion"];

    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto");
    let mut files = BTreeSet::new();
    files_below(&folder, &mut files);
    // The API of etcd, which is no part of Envoy's.
    files.retain(|file| !file.starts_with(folder.join("etcd")));
    let mut compiler = Compiler::new([&folder]).unwrap();
    compiler.include_imports(true).open_files(files).unwrap();
    let ours = Schema::from_descriptor_set(&compiler.encode_file_descriptor_set()).unwrap();
    let resources = ["DiscoveryRequest", "DeltaDiscoveryRequest", "DiscoveryResponse"];
    for name in resources {
        assert!(ours.message(&format!("envoy.service.discovery.v3.{name}")).is_some(), "{name}");
    }

    // This project's schema has no constraints, and file moves only affect generated code.
    let breaks: Vec<_> = compare(&ours, Schema::envoy())
        .into_iter()
        .filter(|it| !it.broken.without(Axis::Validation).without(Axis::Code).is_empty())
        .map(|it| it.to_string())
        .filter(|it| !OLDER.iter().any(|package| it.starts_with(package)))
        .collect();
    assert_eq!(breaks, [""; 0]);
    println!("covers: S4.037 S4.038");
}
