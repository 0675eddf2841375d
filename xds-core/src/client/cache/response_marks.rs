//! Entries in the response in progress, and its effects on resources held from other servers.

use alloc::vec::Vec;

use bytes::Bytes;

use super::{Cache, ListNode};
use crate::{client::event::status::FailedUpdate, slab::Slot, text::Version, time::Time};

/// Number of times that an entry was already found in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occurrence {
    First,
    Second,
    Further,
}

/// Effect of a response on resources held from other servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum EffectOnOthers {
    #[default]
    None,
    /// Some of them are now held from the response's server, changed or unchanged, or were dropped.
    Changed,
}

impl Cache {
    /// Begins a response that arrived at `now` from the server at position `upstream`. No entry is
    /// part of it yet.
    pub(crate) fn begin_response(
        &mut self,
        version: Version,
        control_plane: &str,
        upstream: usize,
        now: Time,
    ) {
        self.source = u32::try_from(upstream).unwrap_or(u32::MAX);
        self.occurrences_before = self.occurrences;
        self.versions.begin(version, control_plane, now);
    }

    /// Sets the version of the following entries of the response in progress.
    pub(crate) fn begin_version(&mut self, version: Version) {
        self.versions.begin_next(version);
    }

    /// Ends the response in progress.
    pub(crate) fn end_response(&mut self) {
        self.versions.end();
    }

    /// Notes that the response contains the entry.
    #[inline]
    pub(crate) fn note_occurrence(&mut self, slot: Slot) -> Occurrence {
        let Some(ListNode::Entry(entry)) = self.nodes.at_mut(slot) else {
            return Occurrence::First;
        };
        if entry.occurrence >> 1 <= self.occurrences_before {
            self.occurrences += 1;
            entry.occurrence = self.occurrences << 1;
            Occurrence::First
        } else if entry.occurrence & 1 == 0 {
            entry.occurrence |= 1;
            Occurrence::Second
        } else {
            Occurrence::Further
        }
    }

    pub(crate) fn is_in_response(&self, slot: Slot) -> bool {
        self.get(slot).is_some_and(|entry| entry.occurrence >> 1 > self.occurrences_before)
    }

    pub(crate) fn is_duplicate(&self, slot: Slot) -> bool {
        self.get(slot).is_some_and(|entry| {
            entry.occurrence >> 1 > self.occurrences_before && entry.occurrence & 1 == 1
        })
    }

    /// Returns whether the response contained all entries except static resources.
    pub(crate) fn is_complete(&self) -> bool {
        self.occurred() + self.static_resources == self.entries
    }

    /// Notes that the response in progress contained the entry's resource.
    pub(crate) fn renew(&mut self, slot: Slot) {
        let (current, source) = (self.versions.current(), self.source);
        let Some(ListNode::Entry(entry)) = self.nodes.at_mut(slot) else { return };
        entry.source = source;
        if entry.version != current {
            self.versions.exchange(core::mem::replace(&mut entry.version, current));
        }
    }

    /// Notes that the response in progress contained the resource in use, unchanged. Can be
    /// reverted if the name turns out to be duplicated.
    #[inline]
    pub(crate) fn renew_unchanged(&mut self, slot: Slot) {
        let (current, source) = (self.versions.current(), self.source);
        let Some(ListNode::Entry(entry)) = self.nodes.at_mut(slot) else { return };
        if entry.source != source {
            self.effect_on_others = EffectOnOthers::Changed;
        }
        entry.source = source;
        let old = core::mem::replace(&mut entry.version, current);
        self.versions.exchange_tentatively(old, entry.occurrence >> 1);
    }

    /// Reverts [`renew_unchanged`](Self::renew_unchanged). Returns whether there was something to
    /// revert.
    pub(crate) fn revert_renewal(&mut self, slot: Slot) -> bool {
        let current = self.versions.current();
        let Some(ListNode::Entry(entry)) = self.nodes.at_mut(slot) else { return false };
        let was_renewed = entry.version == current && !current.is_none();
        if was_renewed {
            entry.version = self.versions.revert(entry.occurrence >> 1);
        }
        was_renewed
    }

    /// Reverts [`renew_unchanged`](Self::renew_unchanged) for all entries of the response in
    /// progress.
    pub(crate) fn revert_renewals(&mut self) {
        if !self.versions.has_renewals() {
            return;
        }
        let unchanged: Vec<Slot> = self
            .iter()
            .filter(|(slot, _)| self.is_in_response(*slot))
            .map(|(slot, _)| slot)
            .collect();
        for slot in unchanged {
            self.revert_renewal(slot);
        }
    }

    /// Forgets which server last mentioned these entries, until one mentions them again. The origin
    /// of a resource in use is kept; only that of its error is forgotten.
    pub(crate) fn forget_origins(&mut self, slots: &[Slot]) {
        for &slot in slots {
            let Some(entry) = self.get_mut(slot) else { continue };
            match entry.bytes {
                None => entry.source = u32::MAX,
                Some(_) => entry.detail().error_source = u32::MAX,
            }
        }
    }

    /// Notes that the response in progress changes an entry held from another server.
    pub(crate) fn note_effect_on_others(&mut self, slot: Slot) {
        let entry = self.get(slot);
        if entry.is_some_and(|it| it.source != self.source && it.source != u32::MAX) {
            self.effect_on_others = EffectOnOthers::Changed;
        }
    }

    /// Takes the effect of the response on resources held from other servers.
    pub(crate) fn take_effect_on_others(&mut self) -> EffectOnOthers {
        core::mem::take(&mut self.effect_on_others)
    }

    /// Notes that the response in progress caused the entry's error.
    pub(crate) fn set_error_source(&mut self, slot: Slot) {
        self.note_effect_on_others(slot);
        let source = self.source;
        if let Some(entry) = self.get_mut(slot) {
            entry.detail().error_source = source;
            if entry.bytes.is_none() {
                entry.source = source;
            }
        }
        let current = self.versions.current();
        let Some(received) = self.versions.received(current) else { return };
        let version = self.versions.get(current).clone();
        if let Some(entry) = self.get_mut(slot) {
            entry.detail().failed = Some(FailedUpdate { version, received, bytes: None });
        }
    }

    /// Keeps a copy of the resource that was just rejected, for status reports.
    pub(crate) fn keep_rejected(&mut self, slot: Slot, bytes: &[u8]) {
        if let Some(detail) = self.get_mut(slot).and_then(|entry| entry.detail.as_mut())
            && let Some(failed) = &mut detail.failed
        {
            failed.bytes = Some(Bytes::copy_from_slice(bytes));
        }
    }
}
