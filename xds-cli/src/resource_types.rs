//! Resource types of the clients: they accept a resource that decodes and, with validation, that
//! satisfies the constraints of the API.

use core::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value as Json;
use xds_core::{
    TypeUrl,
    client::{ClientConfig, Rejection, Resource, ResourceType, ValidationContext, Value},
};
use xds_format::{FormatError, PrintOptions, to_json, unprintable};
use xds_tokio::{PayloadPrinter, Validated};

use crate::{
    schema::{schema, validator},
    text::escaped,
};

/// Resource type of the Envoy API. Resources of a type that the schema lacks are accepted as bytes.
#[derive(Debug)]
pub(crate) struct EnvoyType {
    type_url: TypeUrl,
}

impl EnvoyType {
    pub(crate) fn new(type_url: TypeUrl) -> Self {
        Self { type_url }
    }
}

impl ResourceType for EnvoyType {
    fn type_url(&self) -> &TypeUrl {
        &self.type_url
    }

    /// Decodes the whole resource. The value is the JSON that [`json`] returns.
    fn validate(
        &self,
        resource: &Bytes,
        _context: &ValidationContext<'_>,
    ) -> Result<Option<Value>, Rejection> {
        printed(self.type_url.as_str(), resource)
            .map(|json| Some(Value::new(json)))
            .map_err(|why| Rejection::new(why.to_string()))
    }
}

/// Whether resources are checked against the constraints of the API, as proxies do.
// X39
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Validation {
    #[default]
    Off,
    On,
}

impl Validation {
    /// Adds a resource type to the configuration, with or without the constraints.
    pub(crate) fn register(self, config: ClientConfig, type_url: TypeUrl) -> ClientConfig {
        let plain = EnvoyType::new(type_url);
        match self {
            Self::Off => config.with_type(plain),
            Self::On => config.with_type(Validated::new(plain, validator())),
        }
    }

    /// Returns the reasons why proxies reject a resource: the constraints that it violates, each
    /// with the path of the field.
    pub(crate) fn violations(self, type_url: &str, resource: &[u8]) -> Vec<FormatError> {
        match self {
            Self::Off => Vec::new(),
            Self::On => {
                validator().violations(type_url, resource).unwrap_or_else(|broken| vec![broken])
            }
        }
    }
}

impl From<bool> for Validation {
    fn from(flag: bool) -> Self {
        if flag { Self::On } else { Self::Off }
    }
}

/// Returns a resource of an [`EnvoyType`] as canonical JSON without its secrets.
pub(crate) fn json(resource: &Resource) -> Arc<Json> {
    resource.value.as_ref().and_then(Value::downcast::<Json>).unwrap_or_default()
}

/// Lists the parts of a resource that are printed as bytes: each `Any` of a type that the schema
/// lacks, with its path.
pub(crate) fn shown_as_bytes(type_url: &str, resource: &[u8]) -> Vec<String> {
    // A resource that does not decode is not printed.
    let listed = unprintable(schema(), type_url, resource).unwrap_or_default();
    listed.iter().map(|why| escaped(&why.to_string())).collect()
}

fn printed(type_url: &str, resource: &[u8]) -> Result<Json, FormatError> {
    to_json(schema(), type_url, resource, &PrintOptions::default())
}

/// Printer of resources in logs (`-vv`): JSON on one line, without secrets.
#[derive(Debug)]
pub(crate) struct JsonPayloads;

impl PayloadPrinter for JsonPayloads {
    fn print(&self, type_url: &str, resource: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
        match printed(type_url, resource) {
            Ok(json) => write!(out, "{json}"),
            Err(error) => write!(out, "{} bytes: {error}", resource.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use xds_core::types;

    use super::*;

    #[test]
    fn logged_payloads_hide_secrets_and_never_fail() {
        let print = |type_url, resource: &[u8]| {
            let mut out = String::new();
            JsonPayloads.print(type_url, resource, &mut out).unwrap();
            out
        };
        // Secret { name: "key", generic_secret { secret { inline_string: "hush" } } }
        let secret = b"\x0a\x03key\x2a\x08\x0a\x06\x1a\x04hush";
        let printed = print(types::SECRET, secret);
        assert!(printed.contains("key") && !printed.contains("hush"), "{printed}");
        assert!(print(types::SECRET, b"\x0a\x7f").starts_with("2 bytes: cannot decode"));
        assert!(print("t/example.Custom", b"x").contains("eA=="));
    }
}
