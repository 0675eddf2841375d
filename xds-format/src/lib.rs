//! xDS resources as files: JSON, YAML, proto text and binary into the bytes that travel, and back.
//!
//! An xDS server sends *resources*: protobuf messages of the Envoy API, each with a name and a type
//! URL, each packed into a `google.protobuf.Any`. People write them as YAML, programs exchange them
//! as JSON over REST, test suites keep them as proto text. This crate turns all of those into
//! `(type URL, name, bytes)` and prints bytes for people to read. It knows no protocol; servers and
//! clients put it in front of theirs.
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
//! // An error knows its place.
//! let error = parse(Schema::envoy(), "cds.yaml", Format::Yaml, b"resources:\n- name: backend\n").unwrap_err();
//! assert_eq!(error.to_string(), "cds.yaml:2:3: resources[0]: missing `@type`");
//! # }
//! # Ok::<(), xds_format::FormatError>(())
//! ```
//!
//! # Schema
//!
//! Which messages exist is data, not code: a [`Schema`] is made of descriptors. [`Schema::envoy`]
//! is the full Envoy v3 API (feature `envoy`, on by default): build.rs takes it out of the sources
//! of the `envoy-types` package, nothing of which is linked. The messages of cncf/xds that are missing there, as that API
//! names them only inside an `Any`, come from this repository's `proto/`. Contrib extensions and types of one's own
//! come from descriptor sets: [`Schema::with_descriptor_set`].
//!
//! # The way of a file
//!
//! [`parse`] goes through three steps, each in a folder of its own: `tree/` turns a text into a
//! tree of values that know where they stand; `encode/` turns a tree and a descriptor into bytes;
//! `parse/` recognises the shape of a file and gathers a [`Document`]. Binary input skips the first
//! two. [`decode_check`] and the printers go the other way.
//!
//! # The same bytes
//!
//! Content versions are hashes of bytes, so bytes must not depend on chance. JSON, YAML and proto
//! text that mean the same give the same bytes: fields by number, map entries by key, defaults left
//! out, however the file is ordered or spelt, in every process. Binary input is never encoded
//! again; its bytes stay.
//!
//! # What is accepted
//!
//! Both spellings of field names (S4.056), durations as `5s` and as `{seconds: 5}` (S0.176), enums
//! by name and number, 64-bit integers as numbers and strings, `{}` for an `Any` that is present and empty. YAML scalars are read as Envoy reads
//! them (`on` is a boolean), with `<<` merged. Everything else is an error, most of all what would
//! otherwise be lost silently: unknown fields, types and enum values, keys that stand twice.
//!
//! Envoy accepts more, and files are written for it. [`Leniency::Envoy`] accepts the same, except what loses something:
//! [`parse_with`]. The repository's `docs/FORMATS.md` lists the spellings.
//!
//! # Beyond the encoding
//!
//! [`Validator`] holds resources against the constraints that the schema states (`validate.rules`),
//! for those who ask for it. [`compare`] tells what breaks between two versions of a schema.
//!
//! # Limits
//!
//! No input panics, whatever it is. Texts nest at most 200 lists and objects, messages at most 100
//! (as in other decoders) before an `Any` starts anew; one file has at most 20 million values; YAML
//! aliases may expand to 64 MiB.

#![deny(missing_docs)]

mod check;
mod compat;
mod deprecated;
mod document;
mod encode;
mod error;
mod format;
mod name;
mod options;
mod parse;
mod print;
mod schema;
mod suggest;
mod time;
mod tree;
mod validate;
mod wire;

/// The reflection library whose descriptors [`Schema::pool`] and [`Schema::message`] give.
pub use prost_reflect;

pub use check::{decode_check, unprintable};
pub use compat::{Axes, Axis, Break, Exemption, Rule, compare};
pub use deprecated::{Deprecated, deprecated_uses};
pub use document::{Document, Resource, Wrapper};
pub use error::{ErrorKind, FormatError, Position};
pub use format::Format;
pub use name::resource_name;
pub use options::{Leniency, ParseOptions, UnknownFields};
pub use parse::{YamlFile, encode_message, encode_message_with, parse, parse_with};
pub use print::{
    FieldNames, PrintOptions, REDACTED, Redaction, UNKNOWN_TYPE, UnknownTypes,
    has_sensitive_fields, message_to_json, to_json, to_json_string, to_text, to_yaml,
};
pub use schema::Schema;
pub use validate::Validator;
