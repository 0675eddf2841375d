//! Depths of the directories of globs, by which the globs that match a name are found.
//!
//! Only the directories of a name at depths at which there is a glob are looked up, so a name with
//! many slashes costs no more than another.
// TP1, FE-22

use alloc::collections::BTreeMap;

/// Number of globs by the number of slashes in their directory.
#[derive(Debug, Default)]
pub(crate) struct GlobDepths(BTreeMap<usize, usize>);

fn depth(directory: &str) -> usize {
    directory.matches('/').count()
}

impl GlobDepths {
    /// Adds a glob with this directory, which ends with a slash.
    pub(crate) fn add(&mut self, directory: &str) {
        *self.0.entry(depth(directory)).or_default() += 1;
    }

    pub(crate) fn remove(&mut self, directory: &str) {
        let depth = depth(directory);
        let Some(globs) = self.0.get_mut(&depth) else { return };
        *globs -= 1;
        if *globs == 0 {
            self.0.remove(&depth);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the directories of a path that may be those of a glob, the widest first. A path that
    /// is a directory is not in itself.
    pub(crate) fn directories<'n>(&self, path: &'n str) -> impl Iterator<Item = &'n str> {
        let path = if self.is_empty() { "" } else { path };
        let is_as_deep = |&(depth, _): &(usize, usize)| self.0.contains_key(&depth);
        let slashes = path.match_indices('/').map(|(at, _)| at);
        let directories = (1..).zip(slashes).filter(is_as_deep);
        directories.filter_map(|(_, at)| path.get(..=at).filter(|it| it.len() < path.len()))
    }
}
