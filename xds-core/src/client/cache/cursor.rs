//! Position of a watcher in the list of changed entries.

use alloc::collections::BTreeMap;

use super::entry::CacheEntry;
use crate::slab::Slot;

/// Position of a wildcard or glob watch.
#[derive(Debug)]
pub(crate) struct Cursor {
    /// Marker in the list of entries: the entries after it have not been reported yet. Unused for
    /// globs.
    pub(crate) marker: Slot,
    /// Number of the newest reported change. The watch knows the current state of all entries that
    /// have not changed since.
    pub(crate) passed: u64,
    /// Last reported state of entries that have moved ahead of the watch only because of their
    /// error.
    pub(crate) reported: BTreeMap<Slot, ReportedState>,
    /// Whether the watch fell too far behind and starts over.
    pub(crate) resync: bool,
}

/// State of an entry as last reported to a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReportedState {
    /// Number of the change that set the value.
    pub(crate) value: u64,
    /// Whether an error of the entry was reported.
    pub(crate) has_error: bool,
}

impl Default for Cursor {
    fn default() -> Self {
        Self { marker: Slot::NONE, passed: 0, reported: BTreeMap::new(), resync: false }
    }
}

impl Cursor {
    /// Starts over, as if nothing had been reported.
    pub(crate) fn restart(&mut self) {
        self.passed = 0;
        self.reported.clear();
    }

    /// Notes that the watch has seen every change up to `newest`.
    pub(crate) fn catch_up(&mut self, newest: u64) {
        self.passed = newest;
        self.reported.clear();
    }

    /// Notes the reported state of an entry that is about to move because of its error alone. Does
    /// nothing if the entry is already ahead, because nothing was reported since it moved there.
    pub(crate) fn note_reported(&mut self, slot: Slot, entry: &CacheEntry) {
        if self.passed >= entry.last_change() {
            let reported =
                ReportedState { value: entry.changed, has_error: entry.error().is_some() };
            self.reported.insert(slot, reported);
        }
    }
}
