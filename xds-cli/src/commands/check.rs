//! `xds check`: check of the resources in a directory before they are served.

use std::io;

use clap::ColorChoice;
use serde_json::{Value as Json, json};
use xds_core::references::Severity;
use xds_fs::list;

use crate::{
    args::{CheckArgs, CheckOutput},
    directory::{FileError, FileFinding, Sources, findings},
    failure::Failure,
    output,
    place::Place,
    resource_types::Validation,
    style::Style,
    text::{count, escaped, type_name},
};

pub(crate) fn run(args: CheckArgs, color: ColorChoice) -> Result<(), Failure> {
    let files = list(&args.directory)
        .map_err(|why| Failure::Directory { directory: args.directory.clone(), why })?;
    let read = u32::try_from(files.len()).unwrap_or(u32::MAX);
    let mut sources = Sources::default();
    let validation = Validation::from(args.validate);
    let broken = sources.update(files);
    let findings = findings(&sources, &args.external.consistency(), validation);

    let errors = broken.len() + findings.iter().filter(|it| is_error(it)).count();
    let warnings = broken.len() + findings.len() - errors;
    match args.output {
        CheckOutput::Text => {
            let style = Style::of(color, &io::stdout());
            for error in &broken {
                let (word, text) = (style.bad("error"), escaped(&error.error));
                output::print(&format!("{word}: {text}"))?;
            }
            for finding in &findings {
                output::print(&match finding.severity {
                    Severity::Error => finding.line("error", |word| style.bad(word).to_string()),
                    Severity::Warning => {
                        finding.line("warning", |word| style.notable(word).to_string())
                    }
                })?;
            }
            output::print(&format!(
                "{} in {}: {}, {}",
                count(sources.resources() as u64, "resource"),
                count(read, "file"),
                count(errors as u64, "error"),
                count(warnings as u64, "warning"),
            ))?;
        }
        CheckOutput::Ndjson => {
            broken
                .iter()
                .map(error_object)
                .chain(findings.iter().map(finding_object))
                .try_for_each(|object| output::print(&object.to_string()))?;
        }
    }
    match u32::try_from(errors).unwrap_or(u32::MAX) {
        0 => Ok(()),
        errors => Err(Failure::Found(errors)),
    }
}

fn is_error(finding: &FileFinding) -> bool {
    finding.severity == Severity::Error
}

/// Formats a broken file as an event.
pub(crate) fn error_object(error: &FileError) -> Json {
    let mut object = json!({ "event": "file_error" });
    Place::in_file(&error.file.display().to_string(), &error.error).add_to(&mut object);
    object["error"] = error.error.clone().into();
    object
}

/// Formats a finding as an event.
pub(crate) fn finding_object(finding: &FileFinding) -> Json {
    json!({
        "event": "finding",
        "severity": match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        },
        "file": finding.file.display().to_string(),
        "type": type_name(finding.resource.type_url.as_str()),
        "name": finding.resource.name.as_str(),
        "finding": finding.text,
    })
}
