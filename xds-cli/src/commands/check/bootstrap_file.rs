//! File of a bootstrap with the positions of its fields.

use std::{
    fs,
    io::{self, Read as _},
    path::Path,
};

use serde_json::Value as Json;
use xds_format::{Position, YamlFile};

use crate::diagnostic::{Diagnostic, Level, Rule};

/// Maximum size of a bootstrap, and of a file that it names, in bytes.
const LARGEST: u64 = 16 << 20;

/// Bootstrap with the positions of its fields.
pub(super) struct BootstrapFile<'f> {
    pub(super) path: &'f Path,
    pub(super) yaml: YamlFile<'f>,
    pub(super) json: Json,
}

impl BootstrapFile<'_> {
    /// Creates a diagnostic about a field, or about the innermost parent that exists.
    pub(super) fn diagnostic(
        &self,
        rule: Rule,
        level: Level,
        field: &str,
        text: impl Into<String>,
    ) -> Diagnostic {
        let text = text.into();
        let text = if field.is_empty() { text } else { format!("{field}: {text}") };
        Diagnostic::new(rule, level, self.path, text).at(self.position(field)).in_field(field)
    }

    pub(super) fn position(&self, field: &str) -> Option<Position> {
        self.yaml.position(field)
    }
}

/// Reads a file of at most [`LARGEST`] bytes.
pub(super) fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let file = fs::File::open(path)?;
    // Opening a directory succeeds, and reading a pipe may never end.
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > LARGEST {
        true => Err(io::Error::other(format!("it is longer than {LARGEST} bytes"))),
        false => Ok(bytes),
    }
}
