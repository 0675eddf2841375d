//! States of all files, and the one set of resources that results from them.
//!
//! The last valid state of a file stays in use while the file is broken. The valid states of all
//! files never define a resource twice: a new state of a file that defines a resource of another
//! file is not used until one of the files no longer defines it.
//!
//! An object of another source than a directory, such as a key of etcd, is handled like a file.
//!
//! This module does no I/O and uses no server, so it can be tested without either.

use core::fmt;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use xds_core::{ViewName, server::Transaction};
use xds_format::Format;
use xds_fs::File;
use xds_source::{Content, Object, ObjectChange, Revision};

use super::parse::{Key, Problems, Resources, already_defined, parse_object};
use crate::resource_types::Validation;

/// States of all files.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    files: BTreeMap<PathBuf, FileState>,
    /// Resources that the server has.
    served: BTreeMap<ViewKey, Bytes>,
    validation: Validation,
}

/// Objects that were read of a source.
#[derive(Debug)]
pub(super) enum Update {
    /// All objects.
    All(Vec<Object>),
    /// Objects that have changed together.
    Changed(Vec<ObjectChange>),
    /// Report that nothing has changed up to the revision of the source.
    #[cfg_attr(
        not(feature = "etcd"),
        expect(dead_code, reason = "directories report changes only")
    )]
    Nothing,
}

/// Objects that define the resources of each view.
pub(crate) type Owners = HashMap<ViewName, HashMap<Key, PathBuf>>;

/// View, type and name of a resource.
type ViewKey = (ViewName, Key);

/// State of one file.
#[derive(Debug, Default)]
struct FileState {
    /// Newest state.
    seen: Option<Object>,
    /// View of the resources in use.
    view: ViewName,
    /// Last valid state, which is in use; `None` if the file has never been valid.
    good: Option<Resources>,
    /// Newer state that is valid alone but conflicts with another file.
    pending: Option<Resources>,
    /// Current errors, and whether they have been reported.
    error: Option<StateError>,
    /// Whether errors were reported, and the file has not been valid since.
    is_known_as_broken: bool,
}

#[derive(Debug)]
struct StateError {
    problems: Problems,
    is_reported: bool,
}

/// Errors of a file. The last valid state of the file stays in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileError {
    pub(crate) file: PathBuf,
    pub(crate) problems: Problems,
    /// Number of resources of the file that stay in use.
    pub(crate) kept: usize,
}

/// Writes one line for each error.
impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problems { first, more } = &self.problems;
        let lines: Vec<_> = first.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))?;
        match more {
            0 => Ok(()),
            more => write!(f, "\n{}: and {more} more errors", self.file.display()),
        }
    }
}

/// Changes to apply to the server.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    changed: Vec<(ViewKey, (Bytes, Revision))>,
    removed: Vec<ViewKey>,
    /// Keys of the changed resources that the server does not have.
    added: BTreeSet<ViewKey>,
}

/// Resources that a change concerns, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangedResources {
    pub(crate) added: Vec<Key>,
    pub(crate) changed: Vec<Key>,
    pub(crate) removed: Vec<Key>,
}

impl Sources {
    /// Creates the state without files. With validation, a file with a resource that proxies would
    /// reject is broken.
    pub(crate) fn new(validation: Validation) -> Self {
        Self { validation, ..Self::default() }
    }

    /// Updates the state with the current files, which must be complete. Returns the new errors.
    pub(crate) fn update(&mut self, files: Vec<File>) -> Vec<FileError> {
        self.replace(files.into_iter().map(object_of).collect())
    }

    /// Updates the state with all objects of a source. Returns the new errors.
    pub(crate) fn replace(&mut self, objects: Vec<Object>) -> Vec<FileError> {
        let mut objects: BTreeMap<PathBuf, Object> =
            objects.into_iter().map(|object| (object.id.as_str().into(), object)).collect();
        self.files.retain(|path, _| objects.contains_key(path));
        while let Some((path, object)) = objects.pop_first() {
            self.files.entry(path).or_default().examine(object, self.validation);
        }
        self.accept()
    }

    /// Updates the state with changed objects of a source. Returns the new errors.
    pub(crate) fn change(&mut self, changes: Vec<ObjectChange>) -> Vec<FileError> {
        for change in changes {
            let path = PathBuf::from(change.id().as_str());
            match change {
                ObjectChange::Set(object) => {
                    self.files.entry(path).or_default().examine(object, self.validation);
                }
                ObjectChange::Delete(_) => {
                    self.files.remove(&path);
                }
            }
        }
        self.accept()
    }

    fn accept(&mut self) -> Vec<FileError> {
        while self.accept_pending() {}
        self.files.iter_mut().filter_map(|(path, source)| source.take_error(path)).collect()
    }

    /// Returns the files that are valid again since the last call: their errors were reported.
    pub(crate) fn take_repaired(&mut self) -> Vec<PathBuf> {
        let repaired = self.files.iter_mut().filter(|(_, source)| {
            source.is_known_as_broken && source.error.is_none() && source.pending.is_none()
        });
        let repaired = repaired.map(|(path, source)| {
            source.is_known_as_broken = false;
            path.clone()
        });
        repaired.collect()
    }

    /// Returns the files whose newest content is not in use.
    pub(super) fn broken(&self) -> impl Iterator<Item = &Path> {
        let broken = self.files.iter().filter(|(_, source)| source.error.is_some());
        broken.map(|(path, _)| path.as_path())
    }

    /// Returns the newest documents of a file, each with its path. A file is one document, and an
    /// object of another source may have several.
    pub(super) fn documents(&self, path: &Path) -> Vec<(PathBuf, Format, &Bytes)> {
        let seen = self.files.get(path).and_then(|source| source.seen.as_ref());
        match seen.map(|object| &object.content) {
            Some(Content::Document { format, bytes, .. }) => {
                vec![(path.to_owned(), *format, bytes)]
            }
            Some(Content::Documents(documents)) => {
                documents.iter().map(|it| (path.join(&it.name), it.format, &it.bytes)).collect()
            }
            Some(Content::Resources(_) | Content::Invalid(_)) | None => Vec::new(),
        }
    }

    /// Returns the newest documents of a file if its resources are in use.
    pub(super) fn documents_in_use(&self, path: &Path) -> Vec<(PathBuf, Format, &Bytes)> {
        let is_in_use = |source: &FileState| source.error.is_none() && source.pending.is_none();
        match self.files.get(path).is_some_and(is_in_use) {
            true => self.documents(path),
            false => Vec::new(),
        }
    }

    /// Number of resources in the valid states of all files.
    pub(crate) fn resources(&self) -> usize {
        self.files.values().map(|source| source.in_force().len()).sum()
    }

    /// Returns the files that have never been valid, alone or together with the others.
    pub(super) fn never_valid(&self) -> Vec<PathBuf> {
        let never = self.files.iter().filter(|(_, source)| source.good.is_none());
        never.map(|(path, _)| path.clone()).collect()
    }

    /// Number of resources that the server has.
    pub(super) fn served(&self) -> usize {
        self.served.len()
    }

    /// Returns the resources in the valid states of all files, each with its file.
    pub(crate) fn by_file(&self) -> impl Iterator<Item = (&Path, &Key, &Bytes)> {
        self.by_file_of(|_| true)
    }

    /// Returns the files of all resources.
    pub(super) fn owners(&self) -> Owners {
        let mut owners = Owners::new();
        for (path, source) in &self.files {
            let of_view = owners.entry(source.view.clone()).or_default();
            let own = source.in_force().keys().map(|key| (key.clone(), path.clone()));
            of_view.extend(own);
        }
        owners
    }

    /// Returns the resources of one view, each with its file.
    pub(super) fn by_file_in<'s>(
        &'s self,
        view: &'s ViewName,
    ) -> impl Iterator<Item = (&'s Path, &'s Key, &'s Bytes)> {
        self.by_file_of(move |of| of == view)
    }

    fn by_file_of<'s>(
        &'s self,
        is_wanted: impl Fn(&ViewName) -> bool + 's,
    ) -> impl Iterator<Item = (&'s Path, &'s Key, &'s Bytes)> {
        let files = self.files.iter().filter(move |(_, source)| is_wanted(&source.view));
        files.flat_map(|(path, source)| {
            source.in_force().iter().map(move |(key, bytes)| (path.as_path(), key, bytes))
        })
    }

    /// Returns the difference between the valid states of all files and the resources
    /// of the server.
    pub(crate) fn changes(&self) -> Changes {
        let desired = self.desired();
        let changed = desired
            .iter()
            .filter(|(key, (bytes, _))| self.served.get(*key) != Some(bytes))
            .map(|(key, content)| (key.clone(), content.clone()))
            .collect();
        let removed =
            self.served.keys().filter(|key| !desired.contains_key(*key)).cloned().collect();
        let added = desired.keys().filter(|key| !self.served.contains_key(*key)).cloned().collect();
        Changes { changed, removed, added }
    }

    /// Records that the [changes](Self::changes) have been applied to the server.
    pub(crate) fn mark_served(&mut self) {
        let desired = self.desired().into_iter();
        self.served = desired.map(|(key, (bytes, _))| (key, bytes)).collect();
    }

    /// Returns the resources in the valid states of all files, each with the revision at which its
    /// file was changed.
    fn desired(&self) -> BTreeMap<ViewKey, (Bytes, Revision)> {
        let resources = self.files.values().flat_map(|source| {
            let revision = source.seen.as_ref().map(|seen| seen.revision).unwrap_or_default();
            let with_view = move |(key, bytes): (&Key, &Bytes)| {
                ((source.view.clone(), key.clone()), (bytes.clone(), revision))
            };
            source.in_force().iter().map(with_view)
        });
        resources.collect()
    }

    /// Accepts all pending states without a conflict. Returns true if that may have resolved the
    /// conflict of another pending state.
    fn accept_pending(&mut self) -> bool {
        let mut rejected: BTreeMap<PathBuf, Problems> = BTreeMap::new();
        while let Some((path, error)) = self.conflict(&rejected) {
            rejected.insert(path, error);
        }
        let mut accepted = 0;
        for (path, source) in &mut self.files {
            match (rejected.remove(path), source.pending.take()) {
                (Some(problems), Some(pending)) => {
                    source.pending = Some(pending);
                    source.set_error(problems);
                }
                (_, Some(pending)) => {
                    source.good = Some(pending);
                    source.error = None;
                    accepted += 1;
                }
                (_, None) => {}
            }
        }
        accepted > 0 && self.files.values().any(|source| source.pending.is_some())
    }

    /// Returns the first file whose pending state newly defines a resource of another file,
    /// assuming that all pending states except the rejected ones are accepted.
    fn conflict(&self, rejected: &BTreeMap<PathBuf, Problems>) -> Option<(PathBuf, Problems)> {
        let mut owners: HashMap<(&ViewName, &Key), &Path> = HashMap::new();
        let mut candidates = Vec::new();
        for (path, source) in &self.files {
            let of_view = |key| ((&source.view, key), path.as_path());
            match source.pending.as_ref().filter(|_| !rejected.contains_key(path)) {
                None => owners.extend(source.in_force().keys().map(of_view)),
                Some(pending) => {
                    // A resource that a file has and keeps belongs to this file.
                    let kept = pending.keys().filter(|key| source.in_force().contains_key(*key));
                    owners.extend(kept.map(of_view));
                    candidates.push((path, &source.view, pending));
                }
            }
        }
        candidates.into_iter().find_map(|(path, view, pending)| {
            pending.keys().find_map(|key| {
                let owner = *owners.entry((view, key)).or_insert(path);
                (owner != path).then(|| (path.clone(), error(path, key, owner)))
            })
        })
    }
}

impl FileState {
    /// Returns the resources of the last valid state.
    fn in_force(&self) -> &Resources {
        static NONE: Resources = Resources::new();
        self.good.as_ref().unwrap_or(&NONE)
    }

    fn examine(&mut self, object: Object, validation: Validation) {
        let is_known = |seen: &Object| seen.content == object.content && seen.view == object.view;
        if self.seen.as_ref().is_some_and(is_known) {
            return;
        }
        // Earlier errors were about another content.
        self.error = None;
        self.pending = None;
        // The id of an object states its view, so the view of a file never changes.
        self.view = object.view.clone();
        match parse_object(&object, validation) {
            Ok(resources) => self.pending = Some(resources),
            Err(problems) => self.set_error(problems),
        }
        self.seen = Some(object);
    }

    fn set_error(&mut self, problems: Problems) {
        if self.error.as_ref().is_none_or(|error| error.problems != problems) {
            self.error = Some(StateError { problems, is_reported: false });
        }
    }

    fn take_error(&mut self, path: &Path) -> Option<FileError> {
        let error = self.error.as_mut().filter(|error| !error.is_reported)?;
        error.is_reported = true;
        let problems = error.problems.clone();
        self.is_known_as_broken = true;
        Some(FileError { file: path.to_owned(), problems, kept: self.in_force().len() })
    }
}

pub(super) fn object_of(file: File) -> Object {
    let content = match file.content {
        Ok(bytes) => Content::Document { format: file.format, bytes, only: None },
        Err(why) => Content::Invalid(why),
    };
    Object {
        id: file.path.to_string_lossy().into_owned().into(),
        view: ViewName::default(),
        revision: Revision::default(),
        content,
    }
}

fn error(path: &Path, key: &Key, owner: &Path) -> Problems {
    Problems { first: vec![already_defined(path, key, owner)], more: 0 }
}

impl Changes {
    /// Returns the names of the changed and of the removed resources.
    #[cfg(test)]
    fn keys(&self) -> (Vec<&str>, Vec<&str>) {
        let changed = self.changed.iter().map(|((_, key), _)| key.name.as_str()).collect();
        (changed, self.removed.iter().map(|(_, key)| key.name.as_str()).collect())
    }

    /// Returns the resources that the server has and the files no longer define.
    pub(super) fn removed(&self) -> Vec<Key> {
        self.removed.iter().map(|(_, key)| key.clone()).collect()
    }

    /// Returns the resources that the change concerns.
    pub(super) fn resources(&self) -> ChangedResources {
        let changed = self.changed.iter().map(|(key, _)| key);
        let changed = changed.filter(|key| !self.added.contains(*key));
        ChangedResources {
            added: self.added.iter().map(|(_, key)| key.clone()).collect(),
            changed: changed.map(|(_, key)| key.clone()).collect(),
            removed: self.removed(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.removed.is_empty()
    }

    /// Returns one transaction for each view. Without changes, there is an empty one for the view
    /// without a name. The changes were made up to a revision of the source, if it has any.
    pub(crate) fn into_transactions(self, source: Option<Revision>) -> Vec<Transaction> {
        let source = source.unwrap_or_default();
        let mut transactions: BTreeMap<ViewName, Transaction> = BTreeMap::new();
        let mut in_view = |view: ViewName, change: &dyn Fn(&mut Transaction)| {
            let new = || {
                let mut transaction = Transaction::in_view(view.clone());
                transaction.source_revision(source.0);
                transaction
            };
            change(transactions.entry(view.clone()).or_insert_with(new));
        };
        for ((view, Key { type_url, name }), (bytes, revision)) in self.changed {
            in_view(view, &|transaction| {
                transaction.set(type_url.clone(), name.clone(), bytes.clone());
                if revision < source {
                    transaction.changed_at(revision.0);
                }
            });
        }
        for (view, Key { type_url, name }) in self.removed {
            in_view(view, &|transaction| {
                transaction.remove(type_url.clone(), name.clone());
            });
        }
        if transactions.is_empty() {
            return vec![Transaction::new()];
        }
        transactions.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use xds_format::Format;

    use super::*;

    /// Creates a file with clusters, each given as `name` or `name=timeout`.
    fn file(path: &str, clusters: &str) -> File {
        let mut text = "resources:\n".to_owned();
        for cluster in clusters.split_whitespace() {
            let (name, timeout) = cluster.split_once('=').unwrap_or((cluster, "1s"));
            let _ = write!(
                text,
                "- \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n  name: {name}\n  connect_timeout: {timeout}\n"
            );
        }
        raw(path, &text)
    }

    fn raw(path: &str, content: &str) -> File {
        let content = Ok(Bytes::copy_from_slice(content.as_bytes()));
        File { path: path.into(), format: Format::Yaml, content }
    }

    fn broken(path: &str) -> File {
        raw(path, "resources: [")
    }

    #[derive(Default)]
    struct Directory(Sources);

    impl Directory {
        /// Updates and serves. Returns the errors, the changed names and the removed names.
        fn step(&mut self, files: Vec<File>) -> (Vec<String>, String, String) {
            let errors = self.0.update(files).into_iter().map(|error| error.to_string()).collect();
            let changes = self.0.changes();
            let (changed, removed) = changes.keys();
            let step = (errors, changed.join(" "), removed.join(" "));
            self.0.mark_served();
            assert!(self.0.changes().is_empty());
            step
        }

        #[track_caller]
        fn expect(&mut self, files: Vec<File>, changed: &str, removed: &str) {
            assert_eq!(self.step(files), (vec![], changed.into(), removed.into()));
        }

        #[track_caller]
        fn expect_error(&mut self, files: Vec<File>, expected: &str) {
            let (errors, changed, removed) = self.step(files);
            assert_eq!((changed.as_str(), removed.as_str()), ("", ""));
            assert!(errors.len() == 1 && errors[0].contains(expected), "{errors:?}");
        }
    }

    #[test]
    fn files_are_merged_and_only_changes_are_reported() {
        let mut directory = Directory::default();
        directory.expect(vec![file("a", "one two"), file("b", "three")], "one three two", "");
        directory.expect(vec![file("a", "one two"), file("b", "three")], "", "");
        directory.expect(vec![file("b", "three"), file("a", "one=2s")], "one", "two");
        assert_eq!(directory.0.resources(), 2);
        directory.expect(vec![file("b", "three")], "", "one");
    }

    #[test]
    fn equal_value_in_another_spelling_is_no_change() {
        let mut directory = Directory::default();
        directory.expect(vec![file("a", "one=1s")], "one", "");
        directory.expect(vec![file("a", "one=1.000s")], "", "");
    }

    #[test]
    fn broken_file_keeps_its_last_valid_state_and_is_reported_once() {
        let mut directory = Directory::default();
        directory.expect(vec![file("a", "one"), file("b", "two")], "one two", "");
        directory.expect_error(vec![broken("a"), file("b", "two")], "a:");
        directory.expect(vec![broken("a"), file("b", "two three")], "three", "");
        directory.expect_error(vec![raw("a", "resources: {"), file("b", "two three")], "a:");
        directory.expect(vec![file("a", "one=2s"), file("b", "two three")], "one", "");
        directory.expect_error(vec![broken("a"), file("b", "two three")], "a:");
        // A deleted file has no error.
        directory.expect(vec![file("b", "two three")], "", "one");
    }

    #[test]
    fn unreadable_file_counts_as_broken() {
        let unreadable = || File { content: Err("no permission".into()), ..file("a", "") };
        let mut directory = Directory::default();
        directory.expect(vec![file("a", "one")], "one", "");
        directory.expect_error(vec![unreadable()], "a: no permission");
        directory.expect(vec![unreadable()], "", "");
    }

    #[test]
    fn file_counts_as_valid_after_it_was_valid_once() {
        let mut directory = Directory::default();
        let never = |directory: &Directory| {
            let never = directory.0.never_valid();
            never.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
        };
        // Broken, and in conflict with another file.
        directory.step(vec![file("a", "one"), broken("b"), file("c", "one two")]);
        assert_eq!(never(&directory), "b c");
        directory.step(vec![file("a", "one"), file("b", ""), file("c", "two")]);
        assert_eq!(never(&directory), "", "a list without resources is valid");
        directory.step(vec![broken("a"), file("b", ""), raw("c", ""), broken("d")]);
        assert_eq!(never(&directory), "d");
        directory.step(vec![broken("a")]);
        assert_eq!(never(&directory), "", "a file that is gone is waited for no longer");
    }

    #[test]
    fn duplicate_resource_is_rejected_in_the_file_changed_later() {
        let mut directory = Directory::default();
        directory.expect(vec![file("a", "one"), file("b", "two")], "one two", "");
        // The file that was edited later is rejected, whatever its name.
        directory.expect_error(
            vec![file("a", "one two=5s three"), file("b", "two")],
            "a: the cds resource `two` is already defined in b",
        );
        directory.expect(vec![file("a", "one two=5s three"), file("b", "two")], "", "");
        // The state is accepted once the other file no longer defines the resource.
        directory.expect(
            vec![file("a", "one two=5s three"), file("b", "four")],
            "four three two",
            "",
        );
    }

    #[test]
    fn duplicate_in_two_new_files_is_rejected_in_the_later_name() {
        let mut directory = Directory::default();
        let (errors, changed, _) = directory.step(vec![file("b", "one two"), file("a", "one")]);
        assert_eq!(changed, "one");
        assert_eq!(errors, ["b: the cds resource `one` is already defined in a"]);
    }

    /// Creates an object with documents of clusters, each given like those of a file.
    fn with_documents(id: &str, documents: &[(&str, &str)]) -> Object {
        let documents = documents.iter().map(|(name, clusters)| {
            let Ok(bytes) = file(name, clusters).content else { panic!("{name}") };
            let bytes = if clusters.is_empty() { Bytes::from_static(b"a: [") } else { bytes };
            xds_source::Document { name: (*name).to_owned(), format: Format::Yaml, bytes }
        });
        let content = Content::Documents(documents.collect());
        let (view, revision) = (ViewName::default(), Revision::default());
        Object { id: id.into(), view, revision, content }
    }

    #[test]
    fn documents_of_an_object_are_used_together_or_not_at_all() {
        let mut sources = Sources::default();
        let mut step = |documents: &[(&str, &str)]| {
            let errors = sources.replace(vec![with_documents("ConfigMap n/c", documents)]);
            let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
            let changes = sources.changes();
            let (changed, removed) = changes.keys();
            let shown = (errors.join("; "), changed.join(" "), removed.join(" "));
            sources.mark_served();
            shown
        };
        let served =
            |changed: &str, removed: &str| (String::new(), changed.to_owned(), removed.to_owned());
        assert_eq!(step(&[("a.yaml", "one"), ("b.yaml", "two")]), served("one two", ""));
        // One document is broken, and the other one has changed.
        let (errors, changed, removed) = step(&[("a.yaml", "three"), ("b.yaml", "")]);
        assert!(errors.starts_with("ConfigMap n/c/b.yaml:1:"), "{errors}");
        assert_eq!((changed.as_str(), removed.as_str()), ("", ""));
        assert_eq!(step(&[("a.yaml", "three"), ("b.yaml", "two")]), served("three", "one"));
        // A resource in two documents is an error, whichever of them is meant.
        let (errors, changed, removed) = step(&[("a.yaml", "three"), ("b.yaml", "three")]);
        let expected = "ConfigMap n/c/b.yaml: the cds resource `three` is already defined in \
                        ConfigMap n/c/a.yaml";
        assert_eq!(errors, expected);
        assert_eq!((changed.as_str(), removed.as_str()), ("", ""));
        assert_eq!(step(&[]), served("", "three two"));
    }

    #[test]
    fn owner_of_a_resource_is_the_object_that_defines_it() {
        let mut sources = Sources::default();
        let other = Object { view: "canary".into(), ..with_documents("b", &[("a.yaml", "one")]) };
        sources.replace(vec![with_documents("a", &[("a.yaml", "one")]), other]);
        let owners = sources.owners();
        let owner = |view: &str| {
            let key = Key { type_url: xds_core::types::CLUSTER.into(), name: "one".into() };
            owners[&ViewName::from(view)][&key].display().to_string()
        };
        assert_eq!((owner(""), owner("canary")), ("a".to_owned(), "b".to_owned()));
    }

    #[test]
    fn resource_may_move_to_another_file() {
        let mut directory = Directory::default();
        directory.expect(vec![file("a", "one two"), file("b", "three")], "one three two", "");
        // Two resources swapped in one update.
        directory.expect(vec![file("a", "three two"), file("b", "one")], "", "");
        // In two updates, the new file first.
        directory.expect_error(vec![file("a", "three two"), file("b", "one two")], "b: ");
        directory.expect(vec![file("a", "three"), file("b", "one two")], "", "");
        // In two updates, the old file first.
        directory.expect(vec![file("a", ""), file("b", "one two")], "", "three");
        directory.expect(vec![file("a", ""), file("b", "one two three")], "three", "");
        // To a new file, while the old one is deleted.
        directory.expect(vec![file("a", ""), file("c", "one two three")], "", "");
    }

    #[test]
    fn rejected_file_does_not_block_other_files() {
        let mut directory = Directory::default();
        directory.expect(
            vec![file("a", "one"), file("b", "two"), file("c", "three")],
            "one three two",
            "",
        );
        // a needs a resource that b keeps because b itself is rejected: a is rejected too.
        // c may change.
        let (errors, changed, removed) =
            directory.step(vec![file("a", "one two"), file("b", "three"), file("c", "three=9s")]);
        assert_eq!((changed.as_str(), removed.as_str()), ("three", ""));
        assert_eq!(errors.len(), 2, "{errors:?}");
        // Once c no longer defines the resource, both are accepted.
        directory.expect(
            vec![file("a", "one two"), file("b", "three"), file("c", "")],
            "three",
            "",
        );
        assert_eq!(directory.0.resources(), 3);
    }

    #[test]
    fn resource_that_no_server_accepts_is_an_error_of_its_file() {
        let mut directory = Directory::default();
        directory
            .expect_error(vec![file("a", "one '*'")], "a:5:3: the resource name `*` is reserved");
        directory.expect_error(vec![file("a", &"n".repeat(3_000))], "exceeds the limit of 2048");
    }
}
