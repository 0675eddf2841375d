//! Revisions of the store, and the history of resources that were removed and created again.

use crate::slab::Slot;

/// Position in the history of the store. Every change or removal of a resource has its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(u64);

impl Stamp {
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
pub(crate) struct Life {
    first: Stamp,
    /// Start of the last gap, which is from a removal to the next creation.
    buried: Stamp,
    born: Stamp,
}

impl Life {
    /// Records the creation of a resource, and the removal of an earlier one, if any.
    pub(crate) fn begin(&mut self, deleted: Stamp, now: Stamp) {
        if self.first == Stamp::START {
            self.first = now;
        }
        (self.buried, self.born) = (deleted, now);
    }

    /// Whether the name is known to have had a resource.
    pub(crate) fn is_remembered(self) -> bool {
        self.first != Stamp::START
    }

    /// Whether every known resource of the name was created after `position`.
    pub(crate) fn began_after(self, position: Stamp) -> bool {
        self.is_remembered() && self.first > position
    }

    /// Returns the revision at which the newest resource of the name was created.
    pub(crate) fn born(self) -> Stamp {
        self.born
    }

    /// Returns the revision at which the previous resource of the name was removed, if there was
    /// one.
    pub(crate) fn buried(self) -> Option<Stamp> {
        Some(self.buried).filter(|&buried| buried != Stamp::START)
    }

    /// Whether the newest resource of the name is not its first, and was created after
    /// `position`.
    pub(crate) fn came_back_after(self, position: Stamp) -> bool {
        self.buried != Stamp::START && self.born > position
    }

    /// Whether a client that was sent everything up to `sent`, and removals up to `told`, was
    /// sent the resource and not its removal. Only the last of several gaps is known; if in
    /// doubt, returns true.
    pub(crate) fn is_known(self, sent: Stamp, told: Stamp) -> bool {
        let told_in_gap = self.buried().is_some_and(|buried| (buried..self.born).contains(&told));
        // A client whose removals are repeated from a gap on may have been sent a later resource.
        let since = if told_in_gap { self.born } else { self.first };
        self.is_remembered() && sent >= since
    }
}

/// Tombstone of a removed resource. It is void if the name has changed since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grave {
    pub(crate) stamp: Stamp,
    pub(crate) resource: Slot,
}
