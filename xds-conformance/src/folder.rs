//! A temporary directory for one test case.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicUsize, Ordering},
};

pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("xds-conformance-{}-{count}", process::id()));
        fs::create_dir_all(&path).expect("a place for files");
        Self(path)
    }

    /// Replaces a file atomically, as operators do: writes a new file and renames it.
    pub(crate) fn put(&self, name: &str, content: &str) -> PathBuf {
        let (path, new) = (Path::join(&self.0, name), Path::join(&self.0, "new"));
        fs::write(&new, content).expect("a new file");
        fs::rename(new, &path).expect("the new file in its place");
        path
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        Path::join(&self.0, name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
