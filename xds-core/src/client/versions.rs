//! The responses that resources of a type came in, each kept once: its version, and who sent it.
//!
//! A response renews the version of every resource in it, also of a hundred thousand that did not
//! change. So an entry holds a slot, not a counted pointer.

use alloc::{sync::Arc, vec::Vec};

use crate::{
    slab::{Slab, Slot},
    text::Version,
};

#[derive(Debug)]
pub(crate) struct Versions {
    versions: Slab<Held>,
    /// That of the response under judgement.
    current: Slot,
    /// What the unchanged entries of the response under judgement held before. It counts as held until
    /// the response ends.
    runs: Vec<Run>,
    none: Version,
}

/// Entries, one after another in a response, that held the same version before: mostly all of them.
#[derive(Debug)]
struct Run {
    /// The mark of the first of them.
    first: u64,
    old: Slot,
    entries: usize,
}

#[derive(Debug)]
struct Held {
    version: Version,
    control_plane: Arc<str>,
    /// How many entries hold it.
    holders: usize,
}

impl Default for Versions {
    fn default() -> Self {
        Self {
            versions: Slab::default(),
            current: Slot::NONE,
            runs: Vec::new(),
            none: Version::default(),
        }
    }
}

impl Versions {
    /// Makes `version` the one that entries exchange theirs for.
    pub(crate) fn begin(&mut self, version: Version, control_plane: &str) {
        let last = self.current;
        if self.versions.at(last).is_some_and(|held| held.holders == 0) {
            self.versions.remove(last);
        }
        let held = Held { version, control_plane: Arc::from(control_plane), holders: 0 };
        self.current = self.versions.push_back(held).map_or(Slot::NONE, |key| key.slot());
    }

    pub(crate) fn current(&self) -> Slot {
        self.current
    }

    /// An entry holds the current version instead of `old`.
    pub(crate) fn exchange(&mut self, old: Slot) {
        self.hold(self.current, 1);
        self.release(old, 1);
    }

    /// An entry, marked `mark` in the response, holds the current version instead of `old`, which can
    /// be [taken back](Self::take_back) until the response [ends](Self::end).
    #[inline]
    pub(crate) fn exchange_for_now(&mut self, old: Slot, mark: u64) {
        match self.runs.last_mut() {
            Some(run) if run.old == old => run.entries += 1,
            _ => self.runs.push(Run { first: mark, old, entries: 1 }),
        }
    }

    /// What the entry marked `mark` held before; it holds that again.
    pub(crate) fn take_back(&mut self, mark: u64) -> Slot {
        let runs = self.runs.partition_point(|run| run.first <= mark);
        let Some(run) = runs.checked_sub(1).and_then(|run| self.runs.get_mut(run)) else {
            return Slot::NONE;
        };
        run.entries = run.entries.saturating_sub(1);
        run.old
    }

    /// The response has been judged: nothing is taken back any more.
    pub(crate) fn end(&mut self) {
        for Run { old, entries, .. } in core::mem::take(&mut self.runs) {
            self.hold(self.current, entries);
            self.release(old, entries);
        }
    }

    fn hold(&mut self, version: Slot, entries: usize) {
        if let Some(held) = self.versions.at_mut(version) {
            held.holders += entries;
        }
    }

    /// So many entries no longer hold `version`.
    pub(crate) fn release(&mut self, version: Slot, entries: usize) {
        let Some(held) = self.versions.at_mut(version) else { return };
        held.holders = held.holders.saturating_sub(entries);
        if held.holders == 0 && version != self.current {
            self.versions.remove(version);
        }
    }

    pub(crate) fn get(&self, version: Slot) -> &Version {
        self.versions.at(version).map_or(&self.none, |held| &held.version)
    }

    /// The identifier of the control plane that sent the response; empty where it gave none.
    pub(crate) fn control_plane(&self, version: Slot) -> Arc<str> {
        self.versions.at(version).map_or_else(Arc::default, |held| Arc::clone(&held.control_plane))
    }
}
