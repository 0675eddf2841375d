//! The schema by which resources are read and printed: Envoy's, and what `--descriptors` adds.

use std::{fs, path::PathBuf, sync::OnceLock};

use tracing::warn;
use xds_format::{ParseOptions, Schema, Validator};

use crate::{failure::Failure, text::count};

/// Files are written for Envoy, so they are read as Envoy reads them.
pub(crate) const FILES: ParseOptions = ParseOptions::envoy();

static EXTENDED: OnceLock<(Schema, Validator)> = OnceLock::new();

/// How many definitions that are passed over are named.
const MOST_NAMES: usize = 5;

/// Adds descriptor sets to the schema, once, before anybody asks for it.
pub(crate) fn extend(files: &[PathBuf]) -> Result<(), Failure> {
    let Some((first, others)) = files.split_first() else { return Ok(()) };
    let mut schema = with_file(Schema::envoy(), first)?;
    for file in others {
        schema = with_file(&schema, file)?;
    }
    let validator = Validator::new(&schema)?;
    // Nobody else sets it.
    let _ = EXTENDED.set((schema, validator));
    Ok(())
}

fn with_file(schema: &Schema, file: &PathBuf) -> Result<Schema, Failure> {
    let set = fs::read(file).map_err(|why| Failure::Unreadable { file: file.clone(), why })?;
    let shown = file.display().to_string();
    if set.is_empty() {
        return Err(Failure::EmptyDescriptors { file: file.clone() });
    }
    let extended = schema.with_descriptor_set(&set).map_err(|why| why.in_file(&shown))?;
    let lost = schema.passed_over(&set).map_err(|why| why.in_file(&shown))?;
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

/// The schema.
pub(crate) fn schema() -> &'static Schema {
    EXTENDED.get().map_or_else(|| Schema::envoy(), |(schema, _)| schema)
}

/// The constraints that it states.
pub(crate) fn validator() -> &'static Validator {
    EXTENDED.get().map_or_else(|| Validator::envoy(), |(_, validator)| validator)
}
