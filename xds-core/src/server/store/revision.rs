//! Revisions of the store, and the history of resources that were removed and created again.

use crate::slab::Slot;

/// Position in the history of the store. Every change or removal of a resource has its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Revision(u64);

impl Revision {
    /// Revision before any change.
    pub(crate) const START: Self = Self(0);
    /// Revision after every change.
    pub(crate) const MAX: Self = Self(u64::MAX);

    /// Returns the previous revision, or this one if it is the first.
    pub(crate) const fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    pub(crate) fn as_u64(self) -> u64 {
        self.0
    }

    /// Returns the next revision.
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Times since which a name has had a resource, as far as is known. They determine which clients
/// were sent it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResourceHistory {
    first: Revision,
    /// Start of the last gap, which is from a removal to the next creation.
    removed_at: Revision,
    created_at: Revision,
}

impl ResourceHistory {
    /// Records the creation of a resource, and the removal of an earlier one, if any.
    pub(crate) fn record_creation(&mut self, deleted: Revision, now: Revision) {
        if self.first == Revision::START {
            self.first = now;
        }
        (self.removed_at, self.created_at) = (deleted, now);
    }

    /// Whether the name is known to have had a resource.
    pub(crate) fn has_existed(self) -> bool {
        self.first != Revision::START
    }

    /// Whether every known resource of the name was created after `position`.
    pub(crate) fn first_created_after(self, position: Revision) -> bool {
        self.has_existed() && self.first > position
    }

    /// Returns the revision at which the newest resource of the name was created.
    pub(crate) fn created_at(self) -> Revision {
        self.created_at
    }

    /// Returns the revision at which the previous resource of the name was removed, if there was
    /// one.
    pub(crate) fn removed_at(self) -> Option<Revision> {
        Some(self.removed_at).filter(|&removed_at| removed_at != Revision::START)
    }

    /// Whether the newest resource of the name is not its first, and was created after
    /// `position`.
    pub(crate) fn recreated_after(self, position: Revision) -> bool {
        self.removed_at != Revision::START && self.created_at > position
    }

    /// Whether a client that was sent everything up to `sent`, and removals up to `removals_to`,
    /// was sent the resource and not its removal. Only the last of several gaps is known; if in
    /// doubt, returns true.
    pub(crate) fn is_known(self, sent: Revision, removals_to: Revision) -> bool {
        let removals_to_in_gap = self
            .removed_at()
            .is_some_and(|removed_at| (removed_at..self.created_at).contains(&removals_to));
        // A client whose removals are repeated from a gap on may have been sent a later resource.
        let since = if removals_to_in_gap { self.created_at } else { self.first };
        self.has_existed() && sent >= since
    }
}

/// Tombstone of a removed resource. It is void if the name has changed since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tombstone {
    pub(crate) revision: Revision,
    pub(crate) resource: Slot,
}
