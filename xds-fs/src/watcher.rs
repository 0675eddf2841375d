//! Detection of changes to a file, to a directory of files, or to the targets of their links.
//!
//! A watch on a file ends when the file is replaced, which is how most programs save. Therefore
//! directories are watched: that of the file, and that of each symbolic link on the path, as in a
//! mounted ConfigMap. While a directory does not exist, its nearest existing ancestor is watched.

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

/// Maximum number of times that changing links are followed.
const MOST_ROUNDS: usize = 16;

/// Operating system watches on directories.
#[derive(Debug)]
pub(crate) struct Watcher {
    place: Place,
    /// `None` if the operating system provides no watcher.
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
    /// Directories whose watch failed at the last attempt.
    failed: BTreeSet<PathBuf>,
    interest: Arc<Mutex<Interest>>,
}

/// The events that count as a change.
#[derive(Debug, Default)]
struct Interest {
    /// Directory in which every event counts.
    directory: Option<PathBuf>,
    /// File whose events count.
    file: Option<PathBuf>,
    /// Paths whose change moves the watched location: links and their targets, directories, and
    /// missing paths.
    structure: BTreeSet<PathBuf>,
    /// Files that links in the directory refer to, and that are read.
    targets: BTreeSet<PathBuf>,
    /// Whether a path in `structure` has changed, so that watches may be on deleted directories.
    is_stale: bool,
    /// Files that were written to and not closed since.
    open: BTreeSet<PathBuf>,
}

/// Whether the operating system reports that a written file is closed.
const REPORTS_CLOSE: bool = cfg!(any(target_os = "linux", target_os = "android"));

impl Watcher {
    /// Creates a watcher without watches. `on_event` is called for every event that counts.
    pub(crate) fn new(place: Place, on_event: impl Fn() + Send + 'static) -> Self {
        let interest = Arc::<Mutex<Interest>>::default();
        let for_events = Arc::clone(&interest);
        let take = move |event: notify::Result<Event>| {
            let counts = match event {
                Ok(event) => lock(&for_events).counts(&event),
                Err(why) => {
                    tracing::warn!(%why, "error while watching files");
                    true
                }
            };
            if counts {
                on_event();
            }
        };
        let watcher = notify::recommended_watcher(take)
            .inspect_err(|why| {
                let (Place::File(path) | Place::Directory(path)) = &place;
                let path = path.display();
                tracing::warn!(
                    %path, %why,
                    "cannot watch files: polling them instead \
                     (on Linux, fs.inotify.max_user_instances is a limit)"
                );
            })
            .ok();
        Self { place, watcher, watched: BTreeSet::new(), failed: BTreeSet::new(), interest }
    }

    /// Creates a watcher that reports no events.
    pub(crate) fn without_events(place: Place) -> Self {
        let interest = Arc::<Mutex<Interest>>::default();
        Self { place, watcher: None, watched: BTreeSet::new(), failed: BTreeSet::new(), interest }
    }

    /// Whether some changes are not reported, because there is no watcher or a directory could not
    /// be watched.
    pub(crate) fn misses_changes(&self) -> bool {
        self.watcher.is_none() || !self.failed.is_empty()
    }

    /// Whether a watched file was written to and is not closed yet.
    pub(crate) fn is_being_written(&self) -> bool {
        !lock(&self.interest).open.is_empty()
    }

    /// Ignores open writers, in case they never close their files.
    pub(crate) fn forget_writers(&self) {
        lock(&self.interest).open.clear();
    }

    /// Marks all watches for renewal. Unwatched ancestor directories may have been replaced.
    pub(crate) fn mark_stale(&self) {
        lock(&self.interest).is_stale = true;
    }

    /// Updates the watches. Call this before reading files, so that no change in between is missed.
    pub(crate) fn renew(&mut self) {
        // Links may change and directories may be created meanwhile; these changes are noticed
        // because the paths found first are watched by then.
        for _ in 0..MOST_ROUNDS {
            let (interest, directories) = self.find_interest();
            let is_stale = {
                let mut current = lock(&self.interest);
                let is_stale = current.is_stale;
                let mut open = core::mem::take(&mut current.open);
                open.retain(|path| interest.is_read(path));
                *current = Interest { open, ..interest };
                is_stale
            };
            if is_stale {
                self.unwatch(&BTreeSet::new());
            } else if directories == &self.watched | &self.failed {
                return;
            }
            self.watch(&directories);
        }
    }

    /// Returns the events that count, and the directories to watch for them.
    fn find_interest(&self) -> (Interest, BTreeSet<PathBuf>) {
        let (mut structure, mut targets) = (BTreeSet::new(), BTreeSet::new());
        let (Place::File(path) | Place::Directory(path)) = &self.place;
        let path = absolute(path).unwrap_or_else(|_| path.clone());
        let real = links::resolve(&path, &mut structure).unwrap_or(path);
        let (file, directory) = match &self.place {
            Place::File(_) => (Some(real.clone()), None),
            Place::Directory(_) => {
                add_links_in(&real, &mut structure, &mut targets);
                (None, Some(real.clone()))
            }
        };
        // The directory may be replaced, or not exist yet.
        let holder = if file.is_some() { real.parent().unwrap_or(&real) } else { &real };
        structure.insert(holder.to_owned());
        let missing = holder.ancestors().take_while(|it| !it.is_dir()).last();
        structure.extend(missing.map(Path::to_owned));
        let mut directories: BTreeSet<PathBuf> =
            structure.iter().filter_map(|path| path.parent()).map(Path::to_owned).collect();
        directories.insert(holder.to_owned());
        directories.retain(|directory| directory.is_dir());
        (Interest { directory, file, structure, targets, ..Interest::default() }, directories)
    }

    fn watch(&mut self, directories: &BTreeSet<PathBuf>) {
        self.unwatch(directories);
        let Some(watcher) = &mut self.watcher else { return };
        self.failed.retain(|directory| directories.contains(directory));
        for directory in directories.difference(&self.watched.clone()) {
            match watcher.watch(directory, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.failed.remove(directory);
                    self.watched.insert(directory.clone());
                }
                Err(why) if self.failed.insert(directory.clone()) => {
                    let directory = directory.display();
                    tracing::warn!(%directory, %why, "cannot watch the directory: polling it instead");
                }
                Err(_) => {}
            }
        }
    }

    fn unwatch(&mut self, except: &BTreeSet<PathBuf>) {
        let Some(watcher) = &mut self.watcher else { return };
        for directory in self.watched.difference(except) {
            // The watch of a deleted directory has already ended.
            let _ = watcher.unwatch(directory);
        }
        self.watched.retain(|directory| except.contains(directory));
    }
}

/// Adds the symbolic links in a directory, and their targets, to `structure`. Also adds the targets
/// that are read to `targets`.
fn add_links_in(
    directory: &Path,
    structure: &mut BTreeSet<PathBuf>,
    targets: &mut BTreeSet<PathBuf>,
) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_symlink()
            && let Some(target) = links::resolve(&path, structure)
        {
            if has_read_name(&path) {
                targets.insert(target.clone());
            }
            structure.insert(target);
        }
    }
}

/// Whether a file with this name in the watched directory is read.
fn has_read_name(path: &Path) -> bool {
    let is_hidden = path.file_name().is_some_and(|it| it.to_string_lossy().starts_with('.'));
    !is_hidden && Format::from_path(path).is_ok()
}

/// Whether an event affects only the content of a file.
const fn is_content(kind: EventKind) -> bool {
    matches!(kind, EventKind::Modify(ModifyKind::Data(_)) | EventKind::Access(_))
}

fn lock(interest: &Mutex<Interest>) -> MutexGuard<'_, Interest> {
    // No code panics while it holds this lock.
    interest.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Interest {
    fn counts(&mut self, event: &Event) -> bool {
        self.note_writers(event);
        // Opening and reading is done by this process.
        let is_read = matches!(event.kind, EventKind::Access(kind)
            if kind != AccessKind::Close(AccessMode::Write));
        if is_read {
            return false;
        }
        if event.need_rescan() {
            // The close event of a file or the replacement of a directory may have been lost.
            self.open.clear();
            self.is_stale = true;
            return true;
        }
        let is_structure = event.paths.iter().any(|path| self.structure.contains(path));
        // A target that was only written to is still in the same place.
        let is_content =
            is_content(event.kind) && event.paths.iter().all(|path| self.targets.contains(path));
        self.is_stale |= is_structure && !is_content;
        is_structure || event.paths.iter().any(|path| self.is_watched(path))
    }

    /// Records which files are being written. A file that is replaced or removed is not.
    fn note_writers(&mut self, event: &Event) {
        let is_written = match event.kind {
            EventKind::Modify(ModifyKind::Data(_)) => REPORTS_CLOSE,
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

    /// Whether the file is read after a change.
    fn is_read(&self, path: &Path) -> bool {
        self.file.as_deref() == Some(path)
            || self.targets.contains(path)
            || self.is_watched(path) && has_read_name(path)
    }

    fn is_watched(&self, path: &Path) -> bool {
        let is_in_directory = self.directory.as_deref().is_some_and(|it| path.parent() == Some(it));
        is_in_directory || self.file.as_deref() == Some(path)
    }
}

#[cfg(test)]
mod tests {
    use notify::event::{CreateKind, DataChange, Flag, ModifyKind, RemoveKind, RenameMode};

    use super::*;

    #[test]
    fn own_reads_and_unrelated_paths_do_not_count_as_changes() {
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
    fn writing_to_a_target_renews_no_watches_and_replacing_it_does() {
        let target = PathBuf::from("/etc/targets/cds.yaml");
        let paths = BTreeSet::from([target.clone()]);
        let directory = Some("/etc/xds".into());
        let structure = paths.clone();
        let mut interest = Interest { directory, structure, targets: paths, ..Interest::default() };
        let mut stale_after = |kind| {
            assert!(interest.counts(&Event::new(kind).add_path(target.clone())));
            (core::mem::take(&mut interest.is_stale), interest.open.len())
        };
        let modified = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        let closed = EventKind::Access(AccessKind::Close(AccessMode::Write));
        assert_eq!(stale_after(modified), (false, usize::from(REPORTS_CLOSE)));
        assert_eq!(stale_after(closed), (false, 0));
        let moved = EventKind::Modify(ModifyKind::Name(RenameMode::From));
        for kind in [moved, EventKind::Remove(RemoveKind::File)] {
            assert_eq!(stale_after(kind), (true, 0));
        }
    }

    #[test]
    fn directory_that_cannot_be_watched_is_tried_again() {
        let base = std::env::temp_dir().join(format!("xds-watcher-{}", std::process::id()));
        fs::create_dir_all(&base).unwrap();
        let missing = base.join("missing");
        let directories = BTreeSet::from([base.clone(), missing.clone()]);
        let mut watcher = Watcher::new(Place::Directory(missing.clone()), || {});
        // It is as if the directory disappeared after it was found, or could not be read.
        watcher.watch(&directories);
        assert!(watcher.misses_changes());
        assert!(watcher.watched.contains(&base) && !watcher.watched.contains(&missing));
        fs::create_dir(&missing).unwrap();
        watcher.watch(&directories);
        assert!(!watcher.misses_changes());
        assert_eq!(watcher.watched, directories);
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn lost_events_renew_all_watches() {
        let mut interest = Interest::default();
        interest.open.insert("/etc/xds/cds.yaml".into());
        assert!(interest.counts(&Event::new(EventKind::Other).set_flag(Flag::Rescan)));
        assert!(interest.is_stale, "directories may have been replaced");
        assert!(interest.open.is_empty(), "files may have been closed");
    }

    #[test]
    fn written_file_counts_as_open_until_closed_or_removed() {
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
            assert_eq!(open_after(modified, "/etc/xds/cds.yaml"), usize::from(REPORTS_CLOSE));
            assert_eq!(open_after(end, "/etc/xds/cds.yaml"), 0);
        }
        // These files are never read, and a log file is never closed.
        for path in ["/etc/xds/.cds.yaml.swp", "/etc/xds/access.log", "/var/cds.yaml"] {
            assert_eq!(open_after(modified, path), 0, "{path}");
        }
    }
}
