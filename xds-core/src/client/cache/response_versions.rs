//! Responses that resources of a type came in, each stored once.
//!
//! A response renews the version of every resource in it, even if hundreds of thousands are
//! unchanged. Entries therefore hold a slot instead of a reference-counted pointer.

use alloc::{sync::Arc, vec::Vec};

use crate::{
    slab::{Slab, Slot},
    text::Version,
    time::Time,
};

#[derive(Debug)]
pub(crate) struct ResponseVersions {
    versions: Slab<VersionRecord>,
    /// Version of the response in progress.
    current: Slot,
    /// Previous versions of the unchanged entries of the response in progress, which stay
    /// referenced until the response ends.
    runs: Vec<Run>,
    none: Version,
}

/// Run of consecutive entries in a response with the same previous version, usually all of them.
#[derive(Debug)]
struct Run {
    /// Mark of the first entry.
    first: u64,
    old: Slot,
    entries: usize,
}

#[derive(Debug)]
struct VersionRecord {
    version: Version,
    /// Arrival time of the response.
    received: Time,
    control_plane: Arc<str>,
    /// Number of entries with this version.
    holders: usize,
}

impl Default for ResponseVersions {
    fn default() -> Self {
        Self {
            versions: Slab::default(),
            current: Slot::NONE,
            runs: Vec::new(),
            none: Version::default(),
        }
    }
}

impl ResponseVersions {
    /// Returns whether the response in progress has renewed an unchanged entry.
    pub(crate) fn has_renewals(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Begins a response: entries will get `version`, received at `now`.
    pub(crate) fn begin(&mut self, version: Version, control_plane: &str, now: Time) {
        self.start(VersionRecord {
            version,
            control_plane: Arc::from(control_plane),
            received: now,
            holders: 0,
        });
    }

    /// Sets another version for the following entries of the same response.
    pub(crate) fn begin_next(&mut self, version: Version) {
        let Some(last) = self.versions.at(self.current) else { return };
        let (control_plane, received) = (Arc::clone(&last.control_plane), last.received);
        self.start(VersionRecord { version, control_plane, received, holders: 0 });
    }

    fn start(&mut self, record: VersionRecord) {
        let last = self.current;
        if self.versions.at(last).is_some_and(|record| record.holders == 0) {
            self.versions.remove(last);
        }
        self.current = self.versions.push_back(record).map_or(Slot::NONE, |key| key.slot());
    }

    pub(crate) fn current(&self) -> Slot {
        self.current
    }

    /// Gives the current version to an entry that had `old`.
    pub(crate) fn exchange(&mut self, old: Slot) {
        self.hold(self.current, 1);
        self.release(old, 1);
    }

    /// Gives the current version to the entry with this mark, which had `old`. Can be
    /// [reverted](Self::revert) until the response [ends](Self::end).
    #[inline]
    pub(crate) fn exchange_tentatively(&mut self, old: Slot, occurrence: u64) {
        match self.runs.last_mut() {
            Some(run) if run.old == old => run.entries += 1,
            _ => self.runs.push(Run { first: occurrence, old, entries: 1 }),
        }
    }

    /// Reverts [`exchange_tentatively`](Self::exchange_tentatively) and returns the previous version.
    pub(crate) fn revert(&mut self, occurrence: u64) -> Slot {
        let runs = self.runs.partition_point(|run| run.first <= occurrence);
        let Some(run) = runs.checked_sub(1).and_then(|run| self.runs.get_mut(run)) else {
            return Slot::NONE;
        };
        run.entries = run.entries.saturating_sub(1);
        run.old
    }

    /// Ends the response and makes all exchanges permanent.
    pub(crate) fn end(&mut self) {
        for Run { old, entries, .. } in core::mem::take(&mut self.runs) {
            self.hold(self.current, entries);
            self.release(old, entries);
        }
    }

    fn hold(&mut self, version: Slot, entries: usize) {
        if let Some(record) = self.versions.at_mut(version) {
            record.holders += entries;
        }
    }

    /// Notes that this many entries no longer have `version`.
    pub(crate) fn release(&mut self, version: Slot, entries: usize) {
        let Some(record) = self.versions.at_mut(version) else { return };
        record.holders = record.holders.saturating_sub(entries);
        if record.holders == 0 && version != self.current {
            self.versions.remove(version);
        }
    }

    pub(crate) fn get(&self, version: Slot) -> &Version {
        self.versions.at(version).map_or(&self.none, |record| &record.version)
    }

    /// Returns the arrival time of the response.
    pub(crate) fn received(&self, version: Slot) -> Option<Time> {
        self.versions.at(version).map(|record| record.received)
    }

    /// Returns the identifier of the control plane that sent the response; empty if it sent none.
    pub(crate) fn control_plane(&self, version: Slot) -> Arc<str> {
        self.versions
            .at(version)
            .map_or_else(Arc::default, |record| Arc::clone(&record.control_plane))
    }
}
