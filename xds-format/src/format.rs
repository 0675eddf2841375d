//! The four encodings of resource files, and their file name suffixes.

use core::fmt;
use std::path::Path;

use crate::error::{ErrorKind, FormatError};

/// Encoding of a file of resources.
///
/// [`Format::from_path`] selects the format by the suffix of the file name, as Envoy does.
// S0.013, S0.014, S0.015, S0.016
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Canonical proto3 JSON. Both spellings of a field name are accepted.
    // S4.056
    Json,
    /// YAML that maps to canonical proto3 JSON, with one or several documents.
    // S4.025
    Yaml,
    /// The protobuf text format.
    Text,
    /// The protobuf binary encoding of a `DiscoveryResponse`.
    Binary,
}

impl Format {
    /// Suffixes that [`Format::from_path`] recognises, as an error message lists them.
    pub const SUFFIXES: &str = ".json, .yaml, .yml, .pb_text, .textproto, .txtpb, .pb";

    /// Returns the format for the suffix of a file name, ignoring case.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::UnknownSuffix`] for any other suffix, or none.
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, FormatError> {
        let path = path.as_ref();
        let suffix = path.extension().map(|suffix| suffix.to_string_lossy().into_owned());
        match suffix.as_deref().unwrap_or_default().to_ascii_lowercase().as_str() {
            "json" => Ok(Self::Json),
            "yaml" | "yml" => Ok(Self::Yaml),
            "pb_text" | "textproto" | "txtpb" => Ok(Self::Text),
            "pb" => Ok(Self::Binary),
            _ => {
                Err(FormatError::new(&path.to_string_lossy(), ErrorKind::UnknownSuffix { suffix }))
            }
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Json => "JSON",
            Self::Yaml => "YAML",
            Self::Text => "proto text",
            Self::Binary => "binary protobuf",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_is_derived_from_the_file_suffix() {
        for (name, format) in [
            ("a/lds.json", Format::Json),
            ("lds.yaml", Format::Yaml),
            ("lds.YML", Format::Yaml),
            ("lds.pb_text", Format::Text),
            ("lds.textproto", Format::Text),
            ("lds.txtpb", Format::Text),
            ("lds.pb", Format::Binary),
        ] {
            assert_eq!(Format::from_path(name), Ok(format), "{name}");
        }
    }

    #[test]
    fn unknown_file_suffix_error_lists_the_known_ones() {
        let error = |name| Format::from_path(name).unwrap_err().to_string();
        assert_eq!(
            error("etc/lds.toml"),
            "etc/lds.toml: unknown file suffix `.toml`: expected one of .json, .yaml, .yml, .pb_text, .textproto, .txtpb, .pb"
        );
        assert_eq!(
            error("Makefile"),
            "Makefile: unknown file suffix: expected one of .json, .yaml, .yml, .pb_text, .textproto, .txtpb, .pb"
        );
    }
}
