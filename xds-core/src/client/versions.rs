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
    /// What entries held before they exchanged it, and from which mark on: runs, since most entries
    /// came in the same response. Each run is a holder of its version.
    exchanged: Vec<(u64, Slot)>,
    none: Version,
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
            exchanged: Vec::new(),
            none: Version::default(),
        }
    }
}

impl Versions {
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
        self.hold(self.current);
        self.release(old);
    }

    /// An entry, marked `mark` in the response, holds the current version instead of `old`, which can
    /// be [taken back](Self::take_back) until the response ends.
    pub(crate) fn exchange_for_now(&mut self, old: Slot, mark: u64) {
        if self.exchanged.last().is_none_or(|&(_, last)| last != old) {
            self.hold(old);
            self.exchanged.push((mark, old));
        }
        self.exchange(old);
    }

    /// What the entry marked `mark` held before; it holds that again.
    pub(crate) fn take_back(&mut self, mark: u64) -> Slot {
        let runs = self.exchanged.partition_point(|&(first, _)| first <= mark);
        let run = runs.checked_sub(1).and_then(|run| self.exchanged.get(run));
        let old = run.map_or(Slot::NONE, |&(_, old)| old);
        self.hold(old);
        self.release(self.current);
        old
    }

    /// The response has been judged: nothing is taken back any more.
    pub(crate) fn end(&mut self) {
        for (_, old) in core::mem::take(&mut self.exchanged) {
            self.release(old);
        }
    }

    fn hold(&mut self, version: Slot) {
        if let Some(held) = self.versions.at_mut(version) {
            held.holders += 1;
        }
    }

    /// An entry no longer holds `version`.
    pub(crate) fn release(&mut self, version: Slot) {
        let Some(held) = self.versions.at_mut(version) else { return };
        held.holders = held.holders.saturating_sub(1);
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
