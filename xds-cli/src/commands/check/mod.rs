//! `xds check`: check of the resources in a directory, or of a bootstrap, before they are used.
//!
//! | file | contents |
//! |---|---|
//! | `report.rs` | the diagnostics of a check, and the forms for people and programs |
//! | `github.rs`, `sarif.rs` | the forms for code review |
//! | `bootstrap.rs`, `bootstrap_file.rs` | detection of the kind of bootstrap, and its file |
//! | `guards.rs` | rules for changes, applied to the whole directory |
//! | `grpc.rs`, `envoy.rs` | checks of the two kinds of bootstrap |
//! | `duplicates.rs` | static resources of an Envoy bootstrap that collide |
//! | `config_sources.rs` | files of resources that a bootstrap names |
//! | `named_files.rs` | certificates, keys, tokens and other files that a bootstrap names |

mod bootstrap;
mod bootstrap_file;
mod config_sources;
mod duplicates;
mod envoy;
mod github;
mod grpc;
mod guards;
mod misspelt;
mod named_files;
mod report;
mod sarif;

use std::path::Path;

use clap::ColorChoice;
use xds_format::Format;
use xds_source::{Subdirectories, read_directory};

use self::report::Report;
use crate::{
    args::CheckArgs,
    diagnostic::{Diagnostic, Level, Rule},
    directory::{Sources, findings},
    failure::{Failure, judged},
    resource_types::Validation,
    text::count,
    views,
};

pub(crate) async fn run(args: CheckArgs, color: ColorChoice) -> Result<(), Failure> {
    let report = match (&args.bootstrap, &args.proxy_bootstrap, &args.directory) {
        (Some(file), _, _) => bootstrap::check(file).await?,
        (None, Some(file), _) => bootstrap::check_of_proxy(file).await?,
        (None, None, Some(directory)) => check(directory, &args)?,
        // The definition of the arguments excludes it.
        (None, None, None) => Report::default(),
    };
    let verdict = match u32::try_from(report.errors()).unwrap_or(u32::MAX) {
        0 => Ok(()),
        errors => Err(Failure::Found(errors)),
    };
    judged(report.print(args.output, color), verdict)
}

fn check(directory: &Path, args: &CheckArgs) -> Result<Report, Failure> {
    let failure = |why| Failure::Directory { directory: directory.to_owned(), why };
    let mut report = Report::default();
    let views = args.views.as_deref().map(views::read);
    let (views, subdirectories) = match views {
        None => (None, Subdirectories::Ignored),
        Some(Ok(views)) => (Some(views), Subdirectories::Views),
        Some(Err(errors)) => {
            report.diagnostics.extend(errors);
            (None, Subdirectories::Views)
        }
    };
    // The bases of the views decide which resources clients have together.
    let is_known = args.views.is_none() || views.is_some();
    let objects = read_directory(directory, subdirectories).map_err(failure)?;
    let read = u32::try_from(objects.len()).unwrap_or(u32::MAX);
    report.diagnostics.extend(unread(directory, read, subdirectories));
    let mut sources = Sources::default();
    sources.set_bases(views.as_ref().map(|views| views.bases().clone()).unwrap_or_default());
    for error in sources.replace(objects) {
        report.add_problems(&error.file, error.problems);
    }
    let validation = Validation::from(args.validate);
    let consistency = args.external.consistency();
    let references = is_known.then_some(&consistency);
    report.diagnostics.extend(findings(&sources, references, validation, views.as_ref()));
    match (&args.views, &views) {
        (_, Some(views)) => report.diagnostics.extend(views.findings(&sources.views())),
        (Some(file), None) => {
            let text = "references and rules of --guard are not checked until this is valid";
            let note = Diagnostic::new(Rule::UncheckedReference, Level::Note, file, text);
            report.diagnostics.push(note);
        }
        (None, None) => {}
    }
    if is_known {
        let guards = args.guards.guards(&consistency);
        report.diagnostics.extend(guards::violations(directory, &sources, &guards, views.as_ref()));
    }
    report.subject =
        format!("{} in {}", count(sources.resources() as u64, "resource"), count(read, "file"));
    Ok(report)
}

/// Returns a warning if no files were read, or else a note about files in subdirectories that were
/// not.
fn unread(directory: &Path, read: u32, subdirectories: Subdirectories) -> Option<Diagnostic> {
    let ignored = match subdirectories {
        Subdirectories::Ignored => files_below(directory),
        Subdirectories::Views => 0,
    };
    let mut parts = Vec::new();
    if read == 0 {
        parts.push(format!("there are no files of resources ({})", Format::SUFFIXES));
    }
    if ignored > 0 {
        let (files, verb) = (count(ignored, "file"), if ignored == 1 { "is" } else { "are" });
        parts.push(format!("{files} in subdirectories {verb} ignored without --views"));
    }
    let level = if read == 0 { Level::Warning } else { Level::Note };
    let text = parts.join("; ");
    (!text.is_empty()).then(|| Diagnostic::new(Rule::NoResources, level, directory, text))
}

/// Number of resource files in the subdirectories that would be views.
fn files_below(directory: &Path) -> u64 {
    let objects = read_directory(directory, Subdirectories::Views).unwrap_or_default();
    let is_below = |file: &str| Path::new(file).parent() != Some(directory);
    objects.iter().filter(|it| is_below(it.id.as_str())).count() as u64
}
