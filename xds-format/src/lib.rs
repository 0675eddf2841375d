//! Conversion of xDS resources between files (JSON, YAML, proto text, binary) and protobuf bytes.
//!
//! An xDS server sends *resources*: protobuf messages of the Envoy API, each with a name and a type
//! URL, packed into a `google.protobuf.Any`. Resources are written by hand as YAML, exchanged as
//! JSON over REST, and kept as proto text in test suites. This crate parses all of these into
//! `(type URL, name, bytes)` and prints bytes as readable text. It does no I/O and implements no
//! xDS protocol; clients and servers use it to read and print resources.
//!
//! ```
//! # #[cfg(feature = "envoy")] {
//! use xds_format::{Format, PrintOptions, Schema, parse, to_yaml};
//!
//! let file = br#"
//! version_info: "7"
//! resources:
//! - "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
//!   name: backend
//!   connect_timeout: 0.25s
//!   type: EDS
//! "#;
//!
//! let document = parse(Schema::envoy(), "cds.yaml", Format::from_path("cds.yaml")?, file)?;
//! assert_eq!(document.version_info.as_deref(), Some("7"));
//!
//! let cluster = &document.resources[0];
//! assert_eq!(cluster.name, "backend");
//!
//! let yaml = to_yaml(Schema::envoy(), &cluster.type_url, &cluster.bytes, &PrintOptions::default())?;
//! assert!(yaml.contains("connect_timeout: 0.250s"));
//!
//! // An error has a position and a path.
//! let error = parse(Schema::envoy(), "cds.yaml", Format::Yaml, b"resources:\n- name: backend\n").unwrap_err();
//! assert_eq!(error.to_string(), "cds.yaml:2:3: resources[0]: missing `@type`");
//! # }
//! # Ok::<(), xds_format::FormatError>(())
//! ```
//!
//! # Schema
//!
//! Message types are data, not generated code: a [`Schema`] consists of protobuf descriptors.
//! [`Schema::envoy`] is the full Envoy v3 API (feature `envoy`, on by default). `build.rs` extracts
//! its descriptors from the sources of the `envoy-types` package, which is not linked. The messages
//! of cncf/xds that are missing there, because the Envoy API names them only inside an `Any`, come
//! from this repository's `proto/`. [`Schema::with_descriptor_set`] adds contrib extensions and
//! your own types.
//!
//! # Parsing steps
//!
//! [`parse`] works in three steps, each in its own folder: `tree/` parses text into a tree of
//! values with positions, `encode/` encodes a tree as a message, and `parse/` recognises the shape
//! of a file and builds a [`Document`]. Binary input skips the first two. [`decode_check`] and the
//! printers work on encoded bytes.
//!
//! # Deterministic encoding
//!
//! Content versions are hashes of the resource bytes, so encoding is deterministic. JSON, YAML and
//! proto text with the same meaning encode to the same bytes in every process, however the file is
//! ordered or spelt: fields are ordered by number, map entries by key, and default values are
//! omitted. Binary input keeps its bytes.
//!
//! # What is accepted
//!
//! The parser accepts both spellings of field names, durations as `5s` and as `{seconds: 5}`, enums
//! by name and by number, 64-bit integers as numbers and as strings, and `{}` for an empty `Any`.
//! YAML scalars are read as Envoy reads them (`on` is a boolean), and `<<` merges mappings.
//! Everything else is an error, in particular input that would otherwise be lost silently: unknown
//! fields, types and enum values, and duplicate keys.
//!
//! Envoy accepts more. To read files written for Envoy, use [`parse_with`] with
//! [`Leniency::Envoy`]: it accepts the same spellings as Envoy, except those that lose data. The
//! repository's `docs/FORMATS.md` lists the spellings.
//!
//! # Beyond the encoding
//!
//! [`Validator`] checks resources against the constraints in the schema (`validate.rules`). It is
//! optional: parsing does not apply it. [`compare`] lists the breaking changes between two versions
//! of a schema.
//!
//! # Limits
//!
//! No input causes a panic. Text nests at most 200 lists and objects. Messages nest at most 100
//! levels (as in other decoders), where an `Any` starts the count anew, and at most 300 levels in
//! total. A file has at most 20 million values. YAML aliases expand to at most 64 MiB.
// S4.056, S0.176

#![deny(missing_docs)]
// Code that may panic states why it cannot.
#![cfg_attr(
    not(test),
    warn(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

mod compat;
mod encode;
mod error;
mod faults;
mod format;
mod options;
mod parse;
mod path;
mod print;
mod resource;
mod schema;
mod suggest;
mod time;
mod tree;
mod validate;
mod wire;

/// Reflection library that provides the descriptors of [`Schema::pool`] and [`Schema::message`].
pub use prost_reflect;

pub use compat::{Axes, Axis, Break, Exemption, Rule, compare};
pub use error::{ErrorKind, FormatError, Position};
pub use faults::FormatErrors;
pub use format::Format;
pub use options::{InexactNumbers, Leniency, ParseOptions, UnknownFields};
pub use parse::{
    ResourcePositions, TypedMessage, YamlFile, encode_message, encode_message_with, parse,
    parse_all, parse_messages, parse_with,
};
pub use path::REDACTED;
pub use print::{
    FieldNames, PrintOptions, Redaction, UNKNOWN_TYPE, UnknownTypes, has_sensitive_fields,
    json_to_yaml, message_to_json, to_json, to_json_string, to_text, to_yaml,
};
pub use resource::{
    check::{decode_check, unknown_fields, unprintable},
    document::{Document, Resource, Wrapper},
    name::resource_name,
};
pub use schema::Schema;
pub use suggest::nearest;
pub use validate::{Deprecated, Validator, deprecated_uses};
