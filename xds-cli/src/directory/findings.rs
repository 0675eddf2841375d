//! Findings about valid resources, each with the file that defines the resource.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use xds_core::{
    references::{Consistency, Finding, ResourceId},
    server::ViewContents,
};
use xds_format::{deprecated_uses, nearest};

use super::{
    parse::Key,
    places::{Part, Unplaced, placed},
    sources::Sources,
};
use crate::{
    diagnostic::{Diagnostic, Level, Rule},
    resource_types::Validation,
    schema::schema,
    text::count,
    views::Views,
};

/// Maximum number of missing names for which a similar name is looked up.
const MOST_SUGGESTIONS: usize = 100;
/// Number of unchecked references that a note names.
const MOST_NAMED: usize = 3;

/// Broken files. Their resources are unknown, so references into them cannot be checked.
#[derive(Debug, Default)]
pub(super) struct Broken {
    /// Each file with its text. `None` if it cannot be read.
    files: Vec<(PathBuf, Option<String>)>,
}

impl Broken {
    pub(super) fn of(sources: &Sources) -> Self {
        let text = |file: &Path| {
            let documents = sources.documents(file);
            let text =
                |(_, _, content): &(_, _, &Bytes)| String::from_utf8_lossy(content).into_owned();
            let texts: Vec<_> = documents.iter().map(text).collect();
            (!texts.is_empty()).then(|| texts.join("\n"))
        };
        Self { files: sources.broken().map(|file| (file.to_owned(), text(file))).collect() }
    }

    /// Returns a file that may define, or refer to, a resource of this name: a file that contains
    /// the name, or that cannot be read.
    fn that_may_have(&self, name: &str) -> Option<&Path> {
        let may_have = |text: &Option<String>| text.as_ref().is_none_or(|it| has_word(it, name));
        self.files.iter().find(|(_, text)| may_have(text)).map(|(file, _)| file.as_path())
    }
}

/// Whether a text contains a name that is not part of a longer one.
pub(crate) fn has_word(text: &str, name: &str) -> bool {
    let is_part = |it: char| it.is_alphanumeric() || it == '_' || it == '-';
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let behind = text[at + name.len()..].chars().next();
        !before.is_some_and(is_part) && !behind.is_some_and(is_part)
    })
}

/// Returns the dangling references of the resources that the files define.
pub(super) fn dangling(
    sources: &Sources,
    contents: &ViewContents,
    consistency: &Consistency<'_>,
    broken: &Broken,
) -> Vec<Diagnostic> {
    let mut found = contents.check(consistency);
    found.retain(|finding| matches!(finding, Finding::Missing { .. }));
    let names = contents.iter().map(|(type_url, name, _)| (type_url.as_str(), name.as_str()));
    let names = Names::new(names);
    let (found, notes) = without_cascade(found, broken);
    let by_file = sources.resources_in(contents.view());
    let by_file = by_file.iter().map(|it| (it.file, it.key, it.bytes));
    [placed(sources, in_files(by_file, &found, &names)), notes].concat()
}

/// Returns all findings, sorted by file. With `consistency`, references are checked within each view
/// that clients can have; without `views`, within each view of the files.
pub(crate) fn findings(
    sources: &Sources,
    consistency: Option<&Consistency<'_>>,
    validation: Validation,
    views: Option<&Views>,
) -> Vec<Diagnostic> {
    let rejected = sources.by_file().flat_map(|(file, key, bytes)| {
        let reasons = validation.violations(key.type_url.as_str(), bytes);
        reasons.into_iter().map(|why| {
            let resource = ResourceId { type_url: key.type_url.clone(), name: key.name.clone() };
            let text = format!("clients reject {resource}: {why}");
            let found = Diagnostic::new(Rule::RejectedResource, Level::Error, file, text);
            let found = found.about(resource).in_field(why.path());
            Unplaced { place: Part::Field(why.path().to_owned()), found }
        })
    });
    let deprecated = sources.by_file().flat_map(|(file, key, bytes)| {
        // A resource that does not decode has already been reported as a broken file.
        let uses = deprecated_uses(schema(), key.type_url.as_str(), bytes);
        uses.unwrap_or_default().into_iter().map(|it| {
            let resource = ResourceId { type_url: key.type_url.clone(), name: key.name.clone() };
            let (level, text) = match &it.current {
                None => (Level::Warning, format!("{resource} uses a deprecated element: {it}")),
                Some(current) if it.path.is_empty() => {
                    let text = format!(
                        "{resource} is of the type `{}`, which only clients of an earlier version \
                         of the API receive: use `{current}` for others",
                        it.full_name
                    );
                    (Level::Warning, text)
                }
                // Clients of version 3 do not know it.
                Some(_) => (Level::Error, format!("{resource}: {it}")),
            };
            let found = Diagnostic::new(Rule::Deprecated, level, file, text);
            let found = found.about(resource).in_field(it.path.as_str());
            Unplaced { place: Part::Field(it.path), found }
        })
    });
    let inconsistent = consistency.map(|it| inconsistent(sources, it, views));
    let (inconsistent, notes) = inconsistent.unwrap_or_default();
    let mut findings = placed(sources, rejected.chain(deprecated).chain(inconsistent).collect());
    findings.extend(notes);
    findings.sort_by(|a, b| a.file.cmp(&b.file));
    findings
}

/// Checks the references within each view that clients can have.
fn inconsistent(
    sources: &Sources,
    consistency: &Consistency<'_>,
    views: Option<&Views>,
) -> (Vec<Unplaced>, Vec<Diagnostic>) {
    let broken = Broken::of(sources);
    let (mut unplaced, mut notes) = (Vec::<Unplaced>::new(), Vec::<Diagnostic>::new());
    // Resources of each file to which something refers in one of the views.
    let mut referenced: BTreeSet<(&Path, &Key)> = BTreeSet::new();
    for view in sources.all_views() {
        if !views.is_none_or(|views| views.selected().contains(view)) {
            continue;
        }
        let resources = sources.resources_in(view);
        let set =
            resources.iter().map(|it| (it.key.type_url.clone(), it.key.name.clone(), it.bytes));
        let names = resources.iter().map(|it| (it.key.type_url.as_str(), it.key.name.as_str()));
        let (found, more) = without_cascade(consistency.check(set), &broken);
        let unused: BTreeSet<(&str, &str)> = found
            .iter()
            .filter(|finding| matches!(finding, Finding::Unreferenced { .. }))
            .map(|it| (it.resource().type_url.as_str(), it.resource().name.as_str()))
            .collect();
        let is_used = |key: &Key| !unused.contains(&(key.type_url.as_str(), key.name.as_str()));
        let used = resources.iter().filter(|it| is_used(it.key));
        referenced.extend(used.map(|it| (it.file, it.key)));
        let by_file = resources.iter().map(|it| (it.file, it.key, it.bytes));
        let mut found = in_files(by_file, &found, &Names::new(names));
        // Views with the same base have findings in common.
        let known: HashSet<_> =
            unplaced.iter().map(|it| (&it.found.file, &it.found.text)).collect();
        found.retain(|it| !known.contains(&(&it.found.file, &it.found.text)));
        unplaced.extend(found);
        let more: Vec<_> = more.into_iter().filter(|note| !notes.contains(note)).collect();
        notes.extend(more);
    }
    unplaced.retain(|it| {
        let Some(resource) = &it.found.resource else { return true };
        let key = Key { type_url: resource.type_url.clone(), name: resource.name.clone() };
        it.found.rule != Rule::UnreferencedResource
            || !referenced.contains(&(it.found.file.as_path(), &key))
    });
    (unplaced, notes)
}

/// Separates findings that a broken file may have caused, and returns one note for each such file.
fn without_cascade(found: Vec<Finding>, broken: &Broken) -> (Vec<Finding>, Vec<Diagnostic>) {
    let mut unchecked: BTreeMap<&Path, Vec<String>> = BTreeMap::new();
    let mut kept = Vec::new();
    for finding in found {
        let (name, shown) = match &finding {
            Finding::Missing { name: Some(name), type_url, .. } => {
                let missing = ResourceId { type_url: type_url.clone(), name: name.clone() };
                (name.as_str(), missing.to_string())
            }
            Finding::Unreferenced { resource } => (resource.name.as_str(), resource.to_string()),
            _ => {
                kept.push(finding);
                continue;
            }
        };
        match broken.that_may_have(name) {
            None => kept.push(finding),
            Some(file) => unchecked.entry(file).or_default().push(shown),
        }
    }
    let note = |(file, mut names): (&Path, Vec<String>)| {
        let references = count(names.len() as u64, "reference");
        names.dedup();
        let more = names.len().saturating_sub(MOST_NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        names.truncate(MOST_NAMED);
        let text =
            format!("{references} not checked until this is valid: {}{more}", names.join(", "));
        Diagnostic::new(Rule::UncheckedReference, Level::Note, file, text)
    };
    (kept, unchecked.into_iter().map(note).collect())
}

/// Names of all resources by type, for suggestions.
struct Names<'n>(HashMap<&'n str, Vec<&'n str>>);

impl<'n> Names<'n> {
    fn new(names: impl Iterator<Item = (&'n str, &'n str)>) -> Self {
        let mut by_type: HashMap<_, Vec<_>> = HashMap::new();
        names.for_each(|(type_url, name)| by_type.entry(type_url).or_default().push(name));
        Self(by_type)
    }

    fn nearest(&self, type_url: &str, name: &str) -> Option<&'n str> {
        nearest(name, self.0.get(type_url)?.iter().copied())
    }
}

fn in_files<'s>(
    by_file: impl Iterator<Item = (&'s Path, &'s Key, &'s Bytes)>,
    found: &[Finding],
    names: &Names<'_>,
) -> Vec<Unplaced> {
    let files: HashMap<_, &Path> =
        by_file.map(|(file, key, _)| ((&key.type_url, &key.name), file)).collect();
    let mut suggestions_left = MOST_SUGGESTIONS;
    let found = found.iter().map(|finding| {
        let resource = finding.resource().clone();
        let file = files
            .get(&(&resource.type_url, &resource.name))
            .copied()
            .unwrap_or_else(|| Path::new(""));
        let mut text = finding.to_string();
        let (rule, place) = match finding {
            Finding::Missing { type_url, name: Some(name), .. } => {
                let similar = || names.nearest(type_url.as_str(), name.as_str());
                suggestions_left = suggestions_left.saturating_sub(1);
                if suggestions_left > 0
                    && let Some(similar) = similar()
                {
                    text += &format!(", did you mean `{similar}`?");
                }
                let place = Part::Reference { type_url: type_url.clone(), name: name.clone() };
                (Rule::DanglingReference, place)
            }
            Finding::Missing { .. } => (Rule::DanglingReference, Part::Resource),
            Finding::Unreferenced { .. } => (Rule::UnreferencedResource, Part::Resource),
            _ => (Rule::MalformedResource, Part::Resource),
        };
        let level = Level::from(finding.severity());
        Unplaced { place, found: Diagnostic::new(rule, level, file, text).about(resource) }
    });
    found.collect()
}
