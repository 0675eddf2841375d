//! File of a bootstrap with the positions of its fields.

use std::{fs, io, path::Path};

use serde_json::Value as Json;
use xds_format::{Position, YamlFile};

use crate::{
    bounded::read_at_most,
    diagnostic::{Diagnostic, Level, Rule},
};

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
    read_at_most(file, LARGEST)
}
