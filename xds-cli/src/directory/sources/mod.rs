//! States of all files, and the one set of resources that results from them.
//!
//! The last valid state of a file stays in use while the file is broken. The valid states of all
//! files never define a resource twice: a new state of a file that defines a resource of another
//! file is not used until one of the files no longer defines it.
//!
//! An object of another source than a directory, such as a key of etcd, is handled like a file.
//!
//! A view with a base has the resources of its base as well, except those that it has itself.
//!
//! This module does no I/O and uses no server, so it can be tested without either.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | the states of all files |
//! | `file_state.rs` | the state of one file |
//! | `layers.rs` | the resources of views with a base |
//! | `changes.rs` | changes to apply to the server |

mod changes;
mod file_state;
mod layers;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use xds_core::ViewName;
use xds_format::Format;
use xds_fs::File;
use xds_source::{Content, Object, ObjectChange, Revision, StoredResource};

use self::{changes::ViewKey, file_state::FileState};
pub(crate) use self::{
    changes::{ChangedResources, Changes},
    file_state::FileError,
};
use super::{
    parse::{Key, Problems, already_defined},
    refused::StatedIds,
};
use crate::{resource_types::Validation, views::Bases};

/// States of all files.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    files: BTreeMap<PathBuf, FileState>,
    /// Resources that the server has.
    served: BTreeMap<ViewKey, ServedResource>,
    validation: Validation,
    bases: Bases,
}

/// Resource that the server has.
#[derive(Debug)]
struct ServedResource {
    bytes: Bytes,
    /// File that defined it.
    file: Arc<Path>,
}

/// Objects that were read of a source.
#[derive(Debug)]
pub(super) enum Update {
    /// All objects.
    All(Vec<Object>),
    /// Objects that have changed together.
    Changed(Vec<ObjectChange>),
    /// Report that nothing has changed up to the revision of the source.
    Nothing,
}

/// Revision of a change that was made now.
const NEWEST: Revision = Revision(u64::MAX);

/// Objects that define the resources of each view.
pub(crate) type Owners = HashMap<ViewName, HashMap<Key, PathBuf>>;

impl Sources {
    /// Creates the state without files. With validation, a file with a resource that proxies would
    /// reject is broken.
    pub(crate) fn new(validation: Validation) -> Self {
        Self { validation, ..Self::default() }
    }

    /// Sets the views that have the resources of another view too. Returns the former ones.
    pub(crate) fn set_bases(&mut self, bases: Bases) -> Bases {
        core::mem::replace(&mut self.bases, bases)
    }

    /// Updates the state with the current files, which must be complete. Returns the new errors.
    pub(crate) fn update(&mut self, files: Vec<File>) -> Vec<FileError> {
        let view = ViewName::default();
        self.replace(files.into_iter().map(|file| Object::of_file(file, &view)).collect())
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

    /// Returns the files whose newest content is not in use, with their errors.
    pub(super) fn invalid(&self) -> BTreeMap<PathBuf, String> {
        let invalid = self.files.iter().filter_map(|(path, source)| {
            source.current_error(path).map(|error| (path.clone(), error.to_string()))
        });
        invalid.collect()
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
            _ => Vec::new(),
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

    /// Returns the views of the files, each with its number of resources. Those of a base do not
    /// count.
    pub(crate) fn views(&self) -> BTreeMap<ViewName, usize> {
        let mut views = BTreeMap::new();
        for source in self.files.values() {
            *views.entry(source.view.clone()).or_default() += source.in_force().len();
        }
        views
    }

    /// Number of resources that the server has.
    pub(super) fn served(&self) -> usize {
        self.served.len()
    }

    /// Returns the resources in the valid states of all files, each with its file.
    pub(crate) fn by_file(&self) -> impl Iterator<Item = (&Path, &Key, &Bytes)> {
        self.files.iter().flat_map(|(path, source)| {
            source.in_force().iter().map(move |(key, bytes)| (path.as_path(), key, bytes))
        })
    }

    /// Returns the difference between the valid states of all files and the resources
    /// of the server.
    pub(crate) fn changes(&self) -> Changes {
        let desired = self.desired();
        let changed = desired
            .iter()
            .filter(|(key, it)| self.served.get(*key).is_none_or(|had| had.bytes != *it.bytes))
            .map(|(key, it)| {
                // A resource of a base may replace one of the view, which is newer than it.
                let is_layered = self.bases.contains_key(&key.0) && self.served.contains_key(key);
                let revision = if is_layered { NEWEST } else { it.revision };
                (key.clone(), (Bytes::clone(it.bytes), revision))
            })
            .collect();
        let removed =
            self.served.keys().filter(|key| !desired.contains_key(*key)).cloned().collect();
        let added = desired.keys().filter(|key| !self.served.contains_key(*key)).cloned().collect();
        Changes { changed, removed, added }
    }

    /// Records that the [changes](Self::changes) have been applied to the server.
    pub(crate) fn mark_served(&mut self) {
        let mut files: HashMap<&Path, Arc<Path>> = HashMap::new();
        let desired = self.desired().into_iter();
        let served = desired.map(|(key, it)| {
            let file = files.entry(it.file).or_insert_with(|| it.file.into());
            (key, ServedResource { bytes: it.bytes.clone(), file: Arc::clone(file) })
        });
        self.served = served.collect();
    }

    /// Records that the server has these resources, of an earlier process.
    pub(crate) fn restore_served(&mut self, resources: Vec<StoredResource>) {
        let file: Arc<Path> = Arc::from(Path::new(""));
        let served = resources.into_iter().map(|it| {
            let key = Key { type_url: it.type_url, name: it.name };
            ((it.view, key), ServedResource { bytes: it.bytes, file: Arc::clone(&file) })
        });
        self.served = served.collect();
    }

    /// Returns the files that define changed resources, and those that defined removed ones, sorted.
    pub(super) fn concerned_by(&self, changes: &Changes) -> Vec<PathBuf> {
        let desired = self.desired();
        let changed = changes.changed.iter();
        let changed = changed.filter_map(|(key, _)| desired.get(key).map(|it| it.file));
        let removed = changes.removed.iter();
        let removed = removed.filter_map(|key| self.served.get(key).map(|it| &*it.file));
        let concerned: BTreeSet<&Path> = changed.chain(removed).collect();
        concerned.into_iter().map(Path::to_owned).collect()
    }

    /// Returns the refused changes that are to be served nevertheless.
    pub(super) fn forced(&self) -> StatedIds {
        let objects = self.files.values().filter_map(|source| source.seen.as_ref());
        objects.flat_map(|object| object.forced.split_whitespace()).collect()
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

fn error(path: &Path, key: &Key, owner: &Path) -> Problems {
    Problems { first: vec![already_defined(path, key, owner)], more: 0 }
}

#[cfg(test)]
mod tests;
