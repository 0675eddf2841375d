//! Schema that resources are parsed and printed with: Envoy's, plus the types of `--descriptors`.

use std::{fs, path::PathBuf, sync::OnceLock};

use tracing::warn;
use xds_format::{ParseOptions, Schema, Validator};

use crate::{
    failure::Failure,
    text::{count, escaped},
};

/// Parse options of resource files: as Envoy reads them.
pub(crate) const FILES: ParseOptions = ParseOptions::envoy();

static EXTENDED: OnceLock<(Schema, Validator)> = OnceLock::new();

/// Number of unused definitions that a warning names.
const MOST_NAMES: usize = 5;

/// Adds descriptor sets to the schema. Called once, before the first use of the schema.
pub(crate) fn extend(files: &[PathBuf]) -> Result<(), Failure> {
    let Some((first, others)) = files.split_first() else { return Ok(()) };
    let mut schema = with_file(Schema::envoy(), first)?;
    for file in others {
        schema = with_file(&schema, file)?;
    }
    let validator = Validator::new(&schema)?;
    // This is the only place that sets it.
    let _ = EXTENDED.set((schema, validator));
    Ok(())
}

fn with_file(schema: &Schema, file: &PathBuf) -> Result<Schema, Failure> {
    let set = fs::read(file).map_err(|why| Failure::Unreadable { file: file.clone(), why })?;
    let shown = escaped(&file.display().to_string());
    if set.is_empty() {
        return Err(Failure::EmptyDescriptors { file: file.clone() });
    }
    let extended = schema.with_descriptor_set(&set).map_err(|why| why.in_file(&shown))?;
    let lost = schema.ignored_definitions(&set).map_err(|why| why.in_file(&shown))?;
    if !lost.is_empty() {
        let names = lost.iter().take(MOST_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = if lost.len() > MOST_NAMES { ", .." } else { "" };
        warn!(
            "{shown}: {} not used, because the schema has the files in another version: {names}{more}",
            count(lost.len() as u64, "definition")
        );
    }
    Ok(extended)
}

/// Returns the schema.
pub(crate) fn schema() -> &'static Schema {
    EXTENDED.get().map_or_else(|| Schema::envoy(), |(schema, _)| schema)
}

/// Returns the validator of the schema's constraints.
pub(crate) fn validator() -> &'static Validator {
    EXTENDED.get().map_or_else(|| Validator::envoy(), |(_, validator)| validator)
}
