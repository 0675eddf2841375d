//! Tells when something happened to a file or to a directory of files, or to what they link to.
//!
//! A watch on a file dies with the file, and most ways of saving replace it. So directories are
//! watched: the one in which the files lie, and each in which a symbolic link on the way to a file lies, as
//! those of a mounted ConfigMap. Where the directory is missing, the nearest one above it is watched, until
//! what is missing comes.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf, absolute},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use notify::{
    Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _,
    event::{AccessKind, AccessMode, ModifyKind},
};
use xds_format::Format;

use crate::{links, watch::Place};

/// How often links are followed that go on changing.
const MOST_ROUNDS: usize = 16;

/// Watches on directories.
#[derive(Debug)]
pub(crate) struct Watcher {
    place: Place,
    /// `None` if the operating system has no more watches to give, or none at all.
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
    interest: Arc<Mutex<Interest>>,
}

/// Which events count.
#[derive(Debug, Default)]
struct Interest {
    /// The directory in which everything counts.
    directory: Option<PathBuf>,
    /// The file that counts.
    file: Option<PathBuf>,
    /// What makes the place what it is: links and what they lead to, directories, and what is not there yet.
    structure: BTreeSet<PathBuf>,
    /// Some of that has changed: watches may be on what is no longer there.
    is_stale: bool,
    /// Files that somebody has written to and not closed since.
    open: BTreeSet<PathBuf>,
}

/// Whether the operating system tells when a file that was written to is closed.
const TELLS_CLOSING: bool = cfg!(any(target_os = "linux", target_os = "android"));

impl Watcher {
    /// Watches nothing yet. `happened` is called whenever something counts.
    pub(crate) fn new(place: Place, happened: impl Fn() + Send + 'static) -> Self {
        let interest = Arc::<Mutex<Interest>>::default();
        let for_events = Arc::clone(&interest);
        let take = move |event: notify::Result<Event>| {
            let counts = match event {
                Ok(event) => lock(&for_events).counts(&event),
                Err(why) => {
                    tracing::warn!(%why, "trouble with watching files");
                    true
                }
            };
            if counts {
                happened();
            }
        };
        let watcher = notify::recommended_watcher(take)
            .inspect_err(|why| tracing::warn!(%why, "cannot watch files, looking at times instead"))
            .ok();
        Self { place, watcher, watched: BTreeSet::new(), interest }
    }

    /// Whether nothing is ever noticed.
    pub(crate) fn is_blind(&self) -> bool {
        self.watcher.is_none()
    }

    /// Whether somebody has written to what is watched and not closed it, so that there may be more to come.
    pub(crate) fn is_being_written(&self) -> bool {
        !lock(&self.interest).open.is_empty()
    }

    /// Takes what is written to as it is, whether or not it is closed some day.
    pub(crate) fn forget_writers(&self) {
        lock(&self.interest).open.clear();
    }

    /// Has all watches renewed: directories further up, which are not watched, may have been replaced.
    pub(crate) fn distrust(&self) {
        lock(&self.interest).is_stale = true;
    }

    /// Watches what has to be watched now. To be called before files are read, so that nothing happens
    /// unseen in between.
    pub(crate) fn renew(&mut self) {
        // Links may change while they are followed, and directories come to be; what is found first is watched
        // by then.
        for _ in 0..MOST_ROUNDS {
            let (interest, directories) = self.find_interest();
            let is_stale = {
                let mut current = lock(&self.interest);
                let is_stale = current.is_stale;
                let open = core::mem::take(&mut current.open);
                *current = Interest { open, ..interest };
                is_stale
            };
            if is_stale {
                self.unwatch(&BTreeSet::new());
            } else if directories == self.watched {
                return;
            }
            self.watch(&directories);
        }
    }

    /// What counts, and the directories to watch for it.
    fn find_interest(&self) -> (Interest, BTreeSet<PathBuf>) {
        let mut structure = BTreeSet::new();
        let (Place::File(path) | Place::Directory(path)) = &self.place;
        let path = absolute(path).unwrap_or_else(|_| path.clone());
        let real = links::resolve(&path, &mut structure).unwrap_or(path);
        let (file, directory) = match &self.place {
            Place::File(_) => (Some(real.clone()), None),
            Place::Directory(_) => {
                add_links_in(&real, &mut structure);
                (None, Some(real.clone()))
            }
        };
        // The directory may be moved away and another one put in its place, or be yet to come.
        let holder = if file.is_some() { real.parent().unwrap_or(&real) } else { &real };
        structure.insert(holder.to_owned());
        let missing = holder.ancestors().take_while(|it| !it.is_dir()).last();
        structure.extend(missing.map(Path::to_owned));
        let mut directories: BTreeSet<PathBuf> =
            structure.iter().filter_map(|path| path.parent()).map(Path::to_owned).collect();
        directories.insert(holder.to_owned());
        directories.retain(|directory| directory.is_dir());
        (Interest { directory, file, structure, ..Interest::default() }, directories)
    }

    fn watch(&mut self, directories: &BTreeSet<PathBuf>) {
        self.unwatch(directories);
        let Some(watcher) = &mut self.watcher else { return };
        for directory in directories.difference(&self.watched) {
            match watcher.watch(directory, RecursiveMode::NonRecursive) {
                Ok(()) => {}
                Err(why) if lock(&self.interest).is_in(directory) => {
                    let directory = directory.display();
                    tracing::warn!(%directory, %why, "cannot watch the directory");
                }
                // Then only the swap of a link goes unnoticed for a while.
                Err(why) => {
                    let directory = directory.display();
                    tracing::debug!(%directory, %why, "cannot watch a directory on the way");
                }
            }
        }
        self.watched.clone_from(directories);
    }

    fn unwatch(&mut self, except: &BTreeSet<PathBuf>) {
        let Some(watcher) = &mut self.watcher else { return };
        for directory in self.watched.difference(except) {
            // What was deleted is no longer watched anyway.
            let _ = watcher.unwatch(directory);
        }
        self.watched.retain(|directory| except.contains(directory));
    }
}

/// What the symbolic links in a directory are made of.
fn add_links_in(directory: &Path, structure: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_symlink()
            && let Some(target) = links::resolve(&path, structure)
        {
            structure.insert(target);
        }
    }
}

fn lock(interest: &Mutex<Interest>) -> MutexGuard<'_, Interest> {
    // Nothing panics under this lock.
    interest.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Interest {
    fn counts(&mut self, event: &Event) -> bool {
        self.note_writers(event);
        // That a file was opened or read is our own doing.
        let is_read = matches!(event.kind, EventKind::Access(kind)
            if kind != AccessKind::Close(AccessMode::Write));
        if is_read {
            return false;
        }
        if event.need_rescan() {
            // Somebody may have closed a file unseen.
            self.open.clear();
            return true;
        }
        let is_structure = event.paths.iter().any(|path| self.structure.contains(path));
        self.is_stale |= is_structure;
        is_structure || event.paths.iter().any(|path| self.is_meant(path))
    }

    /// Notes who begins to write and who is done. A file that was put in the place of another, or is gone, is
    /// not written to under that name any more.
    fn note_writers(&mut self, event: &Event) {
        let is_written = match event.kind {
            EventKind::Modify(ModifyKind::Data(_)) => TELLS_CLOSING,
            EventKind::Access(AccessKind::Close(AccessMode::Write))
            | EventKind::Create(_)
            | EventKind::Remove(_)
            | EventKind::Modify(ModifyKind::Name(_)) => false,
            _ => return,
        };
        for path in &event.paths {
            if is_written && self.is_read(path) {
                self.open.insert(path.clone());
            } else {
                self.open.remove(path);
            }
        }
    }

    /// Whether the file is one that is read when it is time to look.
    fn is_read(&self, path: &Path) -> bool {
        let is_hidden = path.file_name().is_some_and(|it| it.to_string_lossy().starts_with('.'));
        self.file.as_deref() == Some(path)
            || self.is_meant(path) && !is_hidden && Format::from_path(path).is_ok()
    }

    fn is_meant(&self, path: &Path) -> bool {
        let is_in_directory = self.directory.as_deref().is_some_and(|it| path.parent() == Some(it));
        is_in_directory || self.file.as_deref() == Some(path)
    }

    /// Whether what counts lies directly in the directory.
    fn is_in(&self, directory: &Path) -> bool {
        let of_file = self.file.as_deref().and_then(Path::parent);
        self.directory.as_deref().or(of_file) == Some(directory)
    }
}

#[cfg(test)]
mod tests {
    use notify::event::{CreateKind, DataChange, ModifyKind, RemoveKind, RenameMode};

    use super::*;

    #[test]
    fn what_we_do_ourselves_and_what_lies_elsewhere_does_not_count() {
        let structure = BTreeSet::from(["/etc/xds".into(), "/etc/xds/..data".into()]);
        let directory = Some("/etc/xds".into());
        let mut interest = Interest { directory, structure, ..Interest::default() };
        let mut counts = |kind, path: &str| {
            let counts = interest.counts(&Event::new(kind).add_path(path.into()));
            (counts, core::mem::take(&mut interest.is_stale))
        };
        let (yes, no, structure) = ((true, false), (false, false), (true, true));

        let modified = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        let opened = EventKind::Access(AccessKind::Open(AccessMode::Any));
        let written = EventKind::Access(AccessKind::Close(AccessMode::Write));
        assert_eq!(counts(modified, "/etc/xds/cds.yaml"), yes);
        assert_eq!(counts(written, "/etc/xds/cds.yaml"), yes);
        assert_eq!(counts(opened, "/etc/xds/cds.yaml"), no);
        assert_eq!(counts(opened, "/etc/xds"), no);
        assert_eq!(counts(modified, "/etc/passwd"), no);

        let renamed = EventKind::Modify(ModifyKind::Name(RenameMode::To));
        assert_eq!(counts(renamed, "/etc/xds/..data"), structure);
        assert_eq!(counts(EventKind::Create(CreateKind::Folder), "/etc/xds"), structure);
    }

    #[test]
    fn what_was_written_to_is_open_until_it_is_closed_or_gone() {
        let directory = Some("/etc/xds".into());
        let mut interest = Interest { directory, ..Interest::default() };
        let modified = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        let closed = EventKind::Access(AccessKind::Close(AccessMode::Write));
        let moved = EventKind::Modify(ModifyKind::Name(RenameMode::From));
        let mut open_after = |kind, path: &str| {
            interest.counts(&Event::new(kind).add_path(path.into()));
            interest.open.len()
        };
        for end in [closed, moved, EventKind::Remove(RemoveKind::File)] {
            assert_eq!(open_after(modified, "/etc/xds/cds.yaml"), usize::from(TELLS_CLOSING));
            assert_eq!(open_after(end, "/etc/xds/cds.yaml"), 0);
        }
        // Nobody reads these, and who writes a log never closes it.
        for path in ["/etc/xds/.cds.yaml.swp", "/etc/xds/access.log", "/var/cds.yaml"] {
            assert_eq!(open_after(modified, path), 0, "{path}");
        }
    }
}
