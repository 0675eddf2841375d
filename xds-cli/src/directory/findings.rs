//! Findings about valid resources, each with the file that defines the resource.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use xds_core::{
    references::{Consistency, Finding, ResourceId, Severity},
    server::ViewContents,
};

use xds_format::deprecated_uses;

use super::sources::Sources;
use crate::{resource_types::Validation, schema::schema, text::escaped};

/// Finding about a resource in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileFinding {
    /// File that defines the resource.
    pub(crate) file: PathBuf,
    pub(crate) resource: ResourceId,
    pub(crate) severity: Severity,
    /// Description of the finding. It names the resource.
    pub(crate) text: String,
}

impl FileFinding {
    /// Formats the finding as one line that begins with a coloured word, such as `error`.
    pub(crate) fn line(&self, word: &str, colour: impl Fn(&str) -> String) -> String {
        let file = escaped(&self.file.display().to_string());
        format!("{}: {file}: {}", colour(word), escaped(&self.text))
    }
}

/// Returns the dangling references of the resources that the files define.
pub(super) fn dangling(
    sources: &Sources,
    contents: &ViewContents,
    consistency: &Consistency<'_>,
) -> Vec<FileFinding> {
    let mut found = contents.check(consistency);
    found.retain(|finding| matches!(finding, Finding::Missing { .. }));
    in_files(sources, found)
}

/// Returns all findings, sorted by file.
pub(crate) fn findings(
    sources: &Sources,
    consistency: &Consistency<'_>,
    validation: Validation,
) -> Vec<FileFinding> {
    let rejected = sources.by_file().flat_map(|(file, key, bytes)| {
        let reasons = validation.rejections(key.type_url.as_str(), bytes);
        reasons.into_iter().map(|why| {
            let resource = ResourceId { type_url: key.type_url.clone(), name: key.name.clone() };
            let text = format!("clients reject {resource}: {why}");
            FileFinding { file: file.to_owned(), resource, severity: Severity::Error, text }
        })
    });
    let set = sources.by_file().map(|(_, key, it)| (key.type_url.clone(), key.name.clone(), it));
    let inconsistent = in_files(sources, consistency.check(set));
    let deprecated = sources.by_file().flat_map(|(file, key, bytes)| {
        // A resource that does not decode has already been reported as a broken file.
        let uses = deprecated_uses(schema(), key.type_url.as_str(), bytes);
        uses.unwrap_or_default().into_iter().map(|it| {
            let resource = ResourceId { type_url: key.type_url.clone(), name: key.name.clone() };
            let text = format!("{resource} uses a deprecated element: {it}");
            FileFinding { file: file.to_owned(), resource, severity: Severity::Warning, text }
        })
    });
    let mut findings: Vec<_> = rejected.chain(deprecated).chain(inconsistent).collect();
    findings.sort_by(|a, b| a.file.cmp(&b.file));
    findings
}

fn in_files(sources: &Sources, found: Vec<Finding>) -> Vec<FileFinding> {
    let files: HashMap<_, &Path> =
        sources.by_file().map(|(file, key, _)| ((&key.type_url, &key.name), file)).collect();
    let found = found.into_iter().map(|finding| {
        let resource = finding.resource().clone();
        let file = files
            .get(&(&resource.type_url, &resource.name))
            .copied()
            .unwrap_or_else(|| Path::new(""));
        let (severity, text) = (finding.severity(), finding.to_string());
        FileFinding { file: file.to_owned(), resource, severity, text }
    });
    found.collect()
}
