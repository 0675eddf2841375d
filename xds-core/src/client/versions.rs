//! The versions that resources of a type came in, and when, each kept once.
//!
//! A response renews the version of every resource in it, also of a hundred thousand that did not
//! change. So an entry holds a slot, not a counted pointer.

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
    none: Version,
}

#[derive(Debug)]
struct Held {
    version: Version,
    /// When the response arrived.
    received: Time,
    /// How many entries hold it.
    holders: usize,
}

impl Default for Versions {
    fn default() -> Self {
        Self { versions: Slab::default(), current: Slot::NONE, none: Version::default() }
    }
}

impl Versions {
    /// Makes `version`, received at `now`, the one that entries exchange theirs for.
    pub(crate) fn begin(&mut self, version: Version, now: Time) {
        let last = self.current;
        if self.versions.at(last).is_some_and(|held| held.holders == 0) {
            self.versions.remove(last);
        }
        let held = Held { version, received: now, holders: 0 };
        self.current = self.versions.push_back(held).map_or(Slot::NONE, |key| key.slot());
    }

    pub(crate) fn current(&self) -> Slot {
        self.current
    }

    /// An entry holds the current version instead of `old`.
    pub(crate) fn exchange(&mut self, old: Slot) {
        if let Some(held) = self.versions.at_mut(self.current) {
            held.holders += 1;
        }
        self.release(old);
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
}
