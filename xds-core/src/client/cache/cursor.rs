//! Position of a watcher in the list of changed entries.

use alloc::collections::BTreeMap;

use super::entry::Entry;
use crate::slab::Slot;

/// Where a watch of many resources stands.
#[derive(Debug)]
pub(crate) struct Cursor {
    /// What lies behind it in the list has yet to be passed. The watch of a glob has none.
    pub(crate) marker: Slot,
    /// The number of the newest change that was passed: an entry that has not moved since is known to
    /// the watch as it is.
    pub(crate) passed: u64,
    /// What was told of entries that lie ahead only for what is wrong beside them.
    pub(crate) told: BTreeMap<Slot, Told>,
    /// The watch fell too far behind and starts over.
    pub(crate) resync: bool,
}

/// What a watch of many was told of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// The number of the change that brought the value.
    pub(crate) value: u64,
    /// Whether the watch was last told that something is wrong beside it.
    pub(crate) is_wrong: bool,
}

impl Default for Cursor {
    fn default() -> Self {
        Self { marker: Slot::NONE, passed: 0, told: BTreeMap::new(), resync: false }
    }
}

impl Cursor {
    /// Starts over: nothing has been told.
    pub(crate) fn restart(&mut self) {
        self.passed = 0;
        self.told.clear();
    }

    /// The watch has seen every change up to the one numbered `newest`.
    pub(crate) fn catch_up(&mut self, newest: u64) {
        self.passed = newest;
        self.told.clear();
    }

    /// Notes what the watch was told of an entry that is about to move for its error alone. If it lies
    /// ahead already, nothing was told of it since that was noted last.
    pub(crate) fn note_told(&mut self, slot: Slot, entry: &Entry) {
        if self.passed >= entry.moved() {
            let told = Told { value: entry.changed, is_wrong: entry.error().is_some() };
            self.told.insert(slot, told);
        }
    }
}
