//! Schemas written as .proto text, which may import files of the Envoy API.

use std::sync::OnceLock;

use protox::Compiler;
use protox::file::{
    ChainFileResolver, DescriptorSetFileResolver, File, FileResolver, GoogleFileResolver,
};
use xds_format::Schema;

/// Compiles one file `acme/v1/thing.proto`, by default of package `acme.v1` and in proto3.
#[track_caller]
pub(crate) fn schema(text: &str) -> Schema {
    schema_of(&[("acme/v1/thing.proto", text)])
}

/// Compiles the given files, with their imports.
#[track_caller]
pub(crate) fn schema_of(files: &[(&str, &str)]) -> Schema {
    Schema::from_descriptor_set(&descriptor_set(files)).expect("a compiled schema")
}

/// Compiles the given files as `protoc --include_imports` does.
#[track_caller]
pub(crate) fn descriptor_set(files: &[(&str, &str)]) -> Vec<u8> {
    let mut resolver = ChainFileResolver::new();
    resolver
        .add(InMemory(files.iter().map(|&(name, text)| (name.into(), complete(text))).collect()));
    resolver.add(GoogleFileResolver::new());
    resolver.add(Envoy);
    let mut compiler = Compiler::with_file_resolver(resolver);
    compiler.include_imports(true);
    for (name, text) in files {
        if let Err(error) = compiler.open_file(name) {
            panic!("{name}: {error:?}\n{text}");
        }
    }
    compiler.encode_file_descriptor_set()
}

/// First line of a text in proto2.
pub(crate) const PROTO2: &str = "syntax = \"proto2\";";

/// Adds the usual first lines of a file.
fn complete(text: &str) -> String {
    let (syntax, text) = match text.strip_prefix(PROTO2) {
        Some(text) => (PROTO2, text),
        None => ("syntax = \"proto3\";", text),
    };
    let mut out = format!("{syntax}\n");
    if !text.contains("package ") {
        out += "package acme.v1;\n";
    }
    for (word, import) in [
        ("(validate.", "validate/validate.proto"),
        ("(google.api.http)", "google/api/annotations.proto"),
        ("(udpa.annotations.versioning)", "udpa/annotations/versioning.proto"),
        ("(xds.annotations.v3.", "xds/annotations/v3/status.proto"),
        ("google.protobuf.Any", "google/protobuf/any.proto"),
        ("google.protobuf.Duration", "google/protobuf/duration.proto"),
        ("google.protobuf.UInt32Value", "google/protobuf/wrappers.proto"),
    ] {
        if text.contains(word) {
            out += &format!("import \"{import}\";\n");
        }
    }
    out + text
}

struct InMemory(Vec<(String, String)>);

impl FileResolver for InMemory {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        match self.0.iter().find(|(known, _)| known == name) {
            Some((name, text)) => File::from_source(name, text),
            None => Err(protox::Error::file_not_found(name)),
        }
    }
}

struct Envoy;

impl FileResolver for Envoy {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        static ENVOY: OnceLock<DescriptorSetFileResolver> = OnceLock::new();
        let envoy = ENVOY.get_or_init(|| {
            let set = Schema::envoy().pool().encode_to_vec();
            DescriptorSetFileResolver::decode(set.as_slice()).expect("the embedded schema")
        });
        envoy.open_file(name)
    }
}
