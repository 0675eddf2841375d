//! Compares the definitions of API version 2 in this repository with a published schema.
//!
//! `interop-version2 DESCRIPTORS PROTO` takes a descriptor set of version 2, and the folder of this
//! repository's schema. It prints one JSON object:
//!
//! | field | contents |
//! |---|---|
//! | `compared` | definitions of this repository that were compared |
//! | `breaks` | differences in the encoding, in texts, names or paths |
//! | `removed` | fields and enum values that version 3 lacks, as paths below each resource type |
//!
//! A path with `..` leads to a recursive message below which such a field occurs again.

use std::{env, error::Error, fs, path::Path};

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use protox::Compiler;
use serde_json::json;
use xds_core::types;
use xds_format::{Axis, Schema, compare};

/// Packages of version 2 in this repository's schema.
const OURS: [&str; 3] = ["envoy.api.v2.", "envoy.service.discovery.v2.", "envoy.type."];

/// Resource types whose removed fields are listed.
const RESOURCES: [&str; 9] = [
    types::LISTENER,
    types::ROUTE_CONFIGURATION,
    types::SCOPED_ROUTE_CONFIGURATION,
    types::VIRTUAL_HOST,
    types::CLUSTER,
    types::CLUSTER_LOAD_ASSIGNMENT,
    types::SECRET,
    types::RUNTIME,
    types::EXTENSION_CONFIG,
];

fn main() -> Result<(), Box<dyn Error>> {
    let [_, published, proto] = &*env::args().collect::<Vec<_>>() else {
        return Err("usage: interop-version2 DESCRIPTORS PROTO".into());
    };
    let published = Schema::from_descriptor_set(&fs::read(published)?)?;
    let ours = our_schema(Path::new(proto))?;
    let is_ours = |name: &String| {
        OURS.iter().any(|package| name.starts_with(package)) && !name.contains(".v3.")
    };
    let messages = ours.pool().all_messages().map(|it| it.full_name().to_owned());
    let enums = ours.pool().all_enums().map(|it| it.full_name().to_owned());
    let services = ours.pool().services().map(|it| it.full_name().to_owned());
    let mut compared: Vec<_> = messages.chain(enums).chain(services).filter(is_ours).collect();
    compared.sort_unstable();
    let is_compared = |element: &str| {
        let is_in = |name: &String| {
            element
                .strip_prefix(&**name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        compared.iter().any(is_in)
    };
    // This schema has no constraints, and the file that defines a message matters only
    // to generated code.
    let breaks: Vec<_> = compare(&ours, &published)
        .into_iter()
        .filter(|it| is_compared(&it.element))
        .filter(|it| !it.broken.without(Axis::Validation).without(Axis::Code).is_empty())
        .map(|it| it.to_string())
        .collect();
    let mut removed = Removed::default();
    for (older, current) in
        RESOURCES.into_iter().filter_map(|it| Some((types::v2_type_url(it)?, it)))
    {
        let message = |schema: &Schema, type_url| {
            schema.message_of(type_url).ok_or_else(|| format!("{type_url} is not there"))
        };
        let (older, current) = (message(&published, older)?, message(Schema::envoy(), current)?);
        removed.message(&older, &current, older.name());
    }
    let removed = removed.lines();
    println!("{}", json!({ "compared": compared, "breaks": breaks, "removed": removed }));
    Ok(())
}

fn our_schema(folder: &Path) -> Result<Schema, Box<dyn Error>> {
    let mut compiler = Compiler::new([folder])?;
    compiler.include_imports(true);
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "proto") {
                compiler.open_file(path)?;
            }
        }
    }
    Ok(Schema::from_descriptor_set(&compiler.encode_file_descriptor_set())?)
}

/// Fields and enum values of older messages that the current messages lack, at any depth.
#[derive(Default)]
struct Removed {
    found: Vec<String>,
    /// Messages on the current path, with their paths, so that a recursive message
    /// is compared once.
    above: Vec<(String, String)>,
    /// Paths of recursive messages, and the paths at which they were compared.
    again: Vec<(String, String)>,
}

impl Removed {
    fn message(&mut self, older: &MessageDescriptor, current: &MessageDescriptor, path: &str) {
        let name = older.full_name();
        if let Some((_, known)) = self.above.iter().find(|(above, _)| above == name) {
            self.again.push((path.to_owned(), known.clone()));
            return;
        }
        self.above.push((name.to_owned(), path.to_owned()));
        for field in older.fields() {
            let path = format!("{path} {}={}", field.name(), field.number());
            match current.get_field(field.number()) {
                None => self.found.push(path),
                Some(now) => self.field(&field, &now, &path),
            }
        }
        self.above.pop();
    }

    fn field(&mut self, older: &FieldDescriptor, current: &FieldDescriptor, path: &str) {
        match (older.kind(), current.kind()) {
            (Kind::Message(older), Kind::Message(current)) => self.message(&older, &current, path),
            (Kind::Enum(older), Kind::Enum(current)) => self.values(&older, &current, path),
            (older, current) if older == current => {}
            (older, current) => self.found.push(format!("{path} {older:?} is {current:?}")),
        }
    }

    fn values(&mut self, older: &EnumDescriptor, current: &EnumDescriptor, path: &str) {
        let is_gone = |number| current.values().all(|now| now.number() != number);
        for value in older.values().filter(|value| is_gone(value.number())) {
            self.found.push(format!("{path} {}={}", value.name(), value.number()));
        }
    }

    fn lines(mut self) -> Vec<String> {
        let comes_again = |known: &String| {
            let below = format!("{known} ");
            self.found.iter().any(|found| found.starts_with(&below))
        };
        let again = self.again.iter().filter(|(_, known)| comes_again(known));
        let again: Vec<_> = again.map(|(path, _)| format!("{path} ..")).collect();
        self.found.extend(again);
        self.found.sort_unstable();
        self.found
    }
}
