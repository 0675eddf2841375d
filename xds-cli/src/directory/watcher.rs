//! Tells when something happened to a directory of files, or to what its files link to.
//!
//! A watch on a file dies with the file, and most ways of saving replace it. So directories are
//! watched: the one asked for, and each in which a symbolic link on the way to a file lies, as those
//! of a mounted ConfigMap. What happened is not asked; the files are read again, and compared.

use core::time::Duration;
use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf, absolute},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use notify::{
    Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _,
    event::{AccessKind, AccessMode},
};
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use super::links;

/// How long nothing may happen before the files are read: an editor that saves in place leaves a
/// file empty for a moment, and several files are often written together.
const QUIET: Duration = Duration::from_millis(100);
/// After this time they are read although something is always happening.
const PATIENCE: Duration = Duration::from_secs(1);
/// Some file systems, above all those over a network, tell nothing.
const LOOK_ANYWAY: Duration = Duration::from_secs(30);
/// How often to look if watching is not possible at all.
const LOOK_OFTEN: Duration = Duration::from_secs(2);

/// A watch on a directory.
#[derive(Debug)]
pub(crate) struct DirectoryWatcher {
    directory: PathBuf,
    /// `None` if the operating system has no more watches to give, or none at all.
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
    shared: Arc<Shared>,
}

/// What the watcher's own thread uses.
#[derive(Debug, Default)]
struct Shared {
    interest: Mutex<Interest>,
    happened: Notify,
}

/// Which events count.
#[derive(Debug, Default)]
struct Interest {
    /// The directory in which everything counts.
    directory: PathBuf,
    /// Single paths in other directories: links, and what they lead to.
    paths: BTreeSet<PathBuf>,
    /// A link or a directory was moved: watches may be on what is no longer there.
    is_stale: bool,
}

impl DirectoryWatcher {
    pub(crate) fn new(directory: &Path) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let for_events = Arc::clone(&shared);
        let watcher = notify::recommended_watcher(move |event| for_events.take(event))
            .inspect_err(|why| tracing::warn!(%why, "cannot watch files, looking at times instead"))
            .ok();
        let directory = absolute(directory)?;
        let mut this = Self { directory, watcher, watched: BTreeSet::new(), shared };
        this.renew();
        Ok(this)
    }

    /// Watches what has to be watched now. To be called before the files are read, so that nothing
    /// happens unseen in between.
    pub(crate) fn renew(&mut self) {
        // Links may change while they are followed; those found first are watched by then.
        for _ in 0..3 {
            let (interest, directories) = self.find_interest();
            let is_stale = {
                let mut current = self.shared.interest();
                let is_stale = current.is_stale;
                *current = interest;
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

    /// Waits until something has happened and then nothing more for a moment.
    pub(crate) async fn changed(&self) {
        let longest = if self.watcher.is_some() { LOOK_ANYWAY } else { LOOK_OFTEN };
        if timeout(longest, self.shared.happened.notified()).await.is_ok() {
            self.shared.quiet().await;
        }
    }

    /// What counts, and the directories to watch for it.
    fn find_interest(&self) -> (Interest, BTreeSet<PathBuf>) {
        let mut paths = BTreeSet::new();
        let real = links::resolve(&self.directory, &mut paths);
        let directory = real.unwrap_or_else(|| self.directory.clone());
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_symlink()
                && let Some(target) = links::resolve(&path, &mut paths)
            {
                paths.insert(target);
            }
        }
        // The directory itself may be moved away and another one put in its place.
        paths.insert(directory.clone());
        let mut directories: BTreeSet<PathBuf> =
            paths.iter().filter_map(|path| path.parent()).map(Path::to_owned).collect();
        directories.insert(directory.clone());
        directories.retain(|directory| directory.is_dir());
        (Interest { directory, paths, is_stale: false }, directories)
    }

    fn watch(&mut self, directories: &BTreeSet<PathBuf>) {
        self.unwatch(directories);
        let Some(watcher) = &mut self.watcher else { return };
        for directory in directories.difference(&self.watched) {
            match watcher.watch(directory, RecursiveMode::NonRecursive) {
                Ok(()) => {}
                Err(why) if *directory == *self.shared.interest().directory => {
                    let directory = directory.display();
                    tracing::warn!(%directory, %why, "cannot watch the directory");
                }
                // Then only the swap of a link goes unnoticed for a while.
                Err(why) => {
                    let directory = directory.display();
                    tracing::debug!(%directory, %why, "cannot watch a directory with a link");
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

impl Shared {
    fn interest(&self) -> MutexGuard<'_, Interest> {
        // Nothing panics under this lock.
        self.interest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nothing has happened for a moment, but not for ever.
    async fn quiet(&self) {
        let latest = Instant::now() + PATIENCE;
        while Instant::now() < latest && timeout(QUIET, self.happened.notified()).await.is_ok() {}
    }

    fn take(&self, event: notify::Result<Event>) {
        let counts = match event {
            Ok(event) => self.interest().counts(&event),
            Err(why) => {
                tracing::warn!(%why, "trouble with watching files");
                true
            }
        };
        if counts {
            self.happened.notify_one();
        }
    }
}

impl Interest {
    fn counts(&mut self, event: &Event) -> bool {
        // That a file was opened or read is our own doing.
        let is_read = matches!(event.kind, EventKind::Access(kind)
            if kind != AccessKind::Close(AccessMode::Write));
        if is_read {
            return false;
        }
        if event.need_rescan() {
            return true;
        }
        let is_structure = event.paths.iter().any(|path| self.paths.contains(path));
        self.is_stale |= is_structure;
        is_structure || event.paths.iter().any(|path| path.parent() == Some(&*self.directory))
    }
}

#[cfg(test)]
mod tests {
    use notify::event::{CreateKind, DataChange, ModifyKind, RenameMode};

    use super::*;

    #[test]
    fn what_we_do_ourselves_and_what_lies_elsewhere_does_not_count() {
        let paths = BTreeSet::from(["/etc/xds".into(), "/etc/xds/..data".into()]);
        let mut interest = Interest { directory: "/etc/xds".into(), paths, is_stale: false };
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

    #[tokio::test(start_paused = true)]
    async fn files_are_read_when_there_is_quiet_or_patience_ends() {
        let shared = Arc::new(Shared::default());
        let pause = QUIET * 9 / 10;
        // Somebody writes never, five times, again and again.
        for (writes, expected) in [(0, QUIET), (5, pause * 5 + QUIET), (1_000, PATIENCE)] {
            let for_writer = Arc::clone(&shared);
            let writer = tokio::spawn(async move {
                for _ in 0..writes {
                    tokio::time::sleep(pause).await;
                    for_writer.happened.notify_one();
                }
            });
            let start = Instant::now();
            shared.quiet().await;
            let took = start.elapsed();
            assert!(took >= expected && took < expected + QUIET, "{writes} writes: {took:?}");
            writer.abort();
        }
    }
}
