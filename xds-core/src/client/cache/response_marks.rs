//! What the response under judgement says of the entries: which it has, how often, and what it changes of
//! what other servers have said.

use alloc::vec::Vec;

use bytes::Bytes;

use super::{Cache, Node};
use crate::{client::event::status::FailedUpdate, slab::Slot, text::Version, time::Time};

/// How often a response has had an entry so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    First,
    Second,
    Further,
}

/// What a response has made of what was held from other servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Overruling {
    #[default]
    Nothing,
    /// Some of it is held from its server now, changed or not, or gone.
    Something,
}

impl Cache {
    /// Begins to judge a response of the server at position `upstream` that arrived at `now`: no
    /// entry is part of it yet.
    pub(crate) fn begin_response(
        &mut self,
        version: Version,
        control_plane: &str,
        upstream: usize,
        now: Time,
    ) {
        self.source = u32::try_from(upstream).unwrap_or(u32::MAX);
        self.marks_before = self.marks;
        self.versions.begin(version, control_plane, now);
    }

    /// The version that entries are given from now on, in the same response.
    pub(crate) fn begin_version(&mut self, version: Version) {
        self.versions.begin_again(version);
    }

    /// The response has been judged.
    pub(crate) fn end_response(&mut self) {
        self.versions.end();
    }

    /// Notes that the response has the entry.
    #[inline]
    pub(crate) fn mark(&mut self, slot: Slot) -> Mark {
        let Some(Node::Entry(entry)) = self.nodes.at_mut(slot) else { return Mark::First };
        if entry.stamp >> 1 <= self.marks_before {
            self.marks += 1;
            entry.stamp = self.marks << 1;
            Mark::First
        } else if entry.stamp & 1 == 0 {
            entry.stamp |= 1;
            Mark::Second
        } else {
            Mark::Further
        }
    }

    pub(crate) fn is_in_response(&self, slot: Slot) -> bool {
        self.get(slot).is_some_and(|entry| entry.stamp >> 1 > self.marks_before)
    }

    pub(crate) fn is_duplicate(&self, slot: Slot) -> bool {
        self.get(slot)
            .is_some_and(|entry| entry.stamp >> 1 > self.marks_before && entry.stamp & 1 == 1)
    }

    /// Whether every entry there is was part of the response, but for those that never are.
    pub(crate) fn is_complete(&self) -> bool {
        self.marked() + self.ours == self.entries
    }

    /// Notes that the entry's resource came in the response under judgement.
    pub(crate) fn renew(&mut self, slot: Slot) {
        let (current, source) = (self.versions.current(), self.source);
        let Some(Node::Entry(entry)) = self.nodes.at_mut(slot) else { return };
        entry.source = source;
        if entry.version != current {
            self.versions.exchange(core::mem::replace(&mut entry.version, current));
        }
    }

    /// Notes that the response under judgement has the resource in use, until it turns out to have
    /// the name twice.
    #[inline]
    pub(crate) fn renew_unchanged(&mut self, slot: Slot) {
        let (current, source) = (self.versions.current(), self.source);
        let Some(Node::Entry(entry)) = self.nodes.at_mut(slot) else { return };
        if entry.source != source {
            self.overruling = Overruling::Something;
        }
        entry.source = source;
        let old = core::mem::replace(&mut entry.version, current);
        self.versions.exchange_for_now(old, entry.stamp >> 1);
    }

    /// Takes [`renew_unchanged`](Self::renew_unchanged) back. False if there is nothing to take back.
    pub(crate) fn take_back_renewal(&mut self, slot: Slot) -> bool {
        let current = self.versions.current();
        let Some(Node::Entry(entry)) = self.nodes.at_mut(slot) else { return false };
        let was_renewed = entry.version == current && !current.is_none();
        if was_renewed {
            entry.version = self.versions.take_back(entry.stamp >> 1);
        }
        was_renewed
    }

    /// Takes back what was noted of every resource that the response under judgement has unchanged.
    pub(crate) fn take_back_renewals(&mut self) {
        if !self.versions.has_renewals() {
            return;
        }
        let unchanged: Vec<Slot> = self
            .iter()
            .filter(|(slot, _)| self.is_in_response(*slot))
            .map(|(slot, _)| slot)
            .collect();
        for slot in unchanged {
            self.take_back_renewal(slot);
        }
    }

    /// Of these entries nothing is known any more from the server that spoke of them, until it does so again. A
    /// resource in use is still the one of the server that sent it.
    pub(crate) fn forget_who_spoke(&mut self, slots: &[Slot]) {
        for &slot in slots {
            let Some(entry) = self.get_mut(slot) else { continue };
            match entry.bytes {
                None => entry.source = u32::MAX,
                Some(_) => entry.detail().blamed_by = u32::MAX,
            }
        }
    }

    /// Notes a change to what another server has said of an entry.
    pub(crate) fn overrule(&mut self, slot: Slot) {
        let entry = self.get(slot);
        if entry.is_some_and(|it| it.source != self.source && it.source != u32::MAX) {
            self.overruling = Overruling::Something;
        }
    }

    /// What the response has made of what was not held from its server.
    pub(crate) fn take_overruling(&mut self) -> Overruling {
        core::mem::take(&mut self.overruling)
    }

    /// Notes that the entry's error came with the response under judgement.
    pub(crate) fn blame_response(&mut self, slot: Slot) {
        self.overrule(slot);
        let source = self.source;
        if let Some(entry) = self.get_mut(slot) {
            entry.detail().blamed_by = source;
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

    /// Keeps a copy of the resource that was rejected just now, for whoever looks inside.
    pub(crate) fn keep_rejected(&mut self, slot: Slot, bytes: &[u8]) {
        if let Some(detail) = self.get_mut(slot).and_then(|entry| entry.detail.as_mut())
            && let Some(failed) = &mut detail.failed
        {
            failed.bytes = Some(Bytes::copy_from_slice(bytes));
        }
    }
}
