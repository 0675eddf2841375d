//! The responses that resources of a type came in, each kept once: its version, who sent it, and when.
//!
//! A response renews the version of every resource in it, also of a hundred thousand that did not
//! change. So an entry holds a slot, not a counted pointer.

use alloc::{sync::Arc, vec::Vec};

use crate::{
    slab::{Slab, Slot},
    text::Version,
    time::Time,
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
    /// When the response arrived.
    received: Time,
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
    /// Whether the response under judgement has renewed anything.
    pub(crate) fn has_renewals(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Makes `version`, received at `now`, the one that entries exchange theirs for.
    pub(crate) fn begin(&mut self, version: Version, control_plane: &str, now: Time) {
        self.start(Held {
            version,
            control_plane: Arc::from(control_plane),
            received: now,
            holders: 0,
        });
    }

    /// The same with another version of the same response.
    pub(crate) fn begin_again(&mut self, version: Version) {
        let Some(last) = self.versions.at(self.current) else { return };
        let (control_plane, received) = (Arc::clone(&last.control_plane), last.received);
        self.start(Held { version, control_plane, received, holders: 0 });
    }

    fn start(&mut self, held: Held) {
        let last = self.current;
        if self.versions.at(last).is_some_and(|held| held.holders == 0) {
            self.versions.remove(last);
        }
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

    /// When the response of that version arrived.
    pub(crate) fn received(&self, version: Slot) -> Option<Time> {
        self.versions.at(version).map(|held| held.received)
    }

    /// The identifier of the control plane that sent the response; empty where it gave none.
    pub(crate) fn control_plane(&self, version: Slot) -> Arc<str> {
        self.versions.at(version).map_or_else(Arc::default, |held| Arc::clone(&held.control_plane))
    }
}
