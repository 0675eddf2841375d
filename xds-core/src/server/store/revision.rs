//! Positions in the history of the store, and what is remembered of resources that came and went.

use crate::slab::Slot;

/// A position in the history of the store: every change or deletion of a resource has its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(u64);

impl Stamp {
    /// Before any change.
    pub(crate) const START: Self = Self(0);
    /// After every change.
    pub(crate) const MAX: Self = Self(u64::MAX);

    /// The position before, if this is not the first.
    pub(crate) const fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    pub(crate) fn as_u64(self) -> u64 {
        self.0
    }

    /// The next position.
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Since when a name has had a resource, as far as it is remembered: tells who has been sent it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Life {
    first: Stamp,
    /// The last gap: from a deletion to the creation after it.
    buried: Stamp,
    born: Stamp,
}

impl Life {
    /// The resource is created, after an earlier one was deleted if there was one.
    pub(crate) fn begin(&mut self, deleted: Stamp, now: Stamp) {
        if self.first == Stamp::START {
            self.first = now;
        }
        (self.buried, self.born) = (deleted, now);
    }

    /// Whether the name has had a resource, and is not forgotten yet.
    pub(crate) fn is_remembered(self) -> bool {
        self.first != Stamp::START
    }

    /// Whether every resource of the name, as far as it is remembered, was created after `position`.
    pub(crate) fn began_after(self, position: Stamp) -> bool {
        self.is_remembered() && self.first > position
    }

    /// When the newest resource of the name was created.
    pub(crate) fn born(self) -> Stamp {
        self.born
    }

    /// When the last resource of the name but this was deleted, if there was one.
    pub(crate) fn buried(self) -> Option<Stamp> {
        Some(self.buried).filter(|&buried| buried != Stamp::START)
    }

    /// Whether the newest resource of the name is not its first, and was created after `position`.
    pub(crate) fn came_back_after(self, position: Stamp) -> bool {
        self.buried != Stamp::START && self.born > position
    }

    /// Whether who was sent everything up to `sent`, and told of deletions up to `told`, was sent the
    /// resource and not told that it is gone. Of several gaps only the last one is known; in doubt, he
    /// was.
    pub(crate) fn is_known(self, sent: Stamp, told: Stamp) -> bool {
        let told_in_gap = self.buried().is_some_and(|buried| (buried..self.born).contains(&told));
        // Who is told again, from a gap on, may have been sent what was created after it.
        let since = if told_in_gap { self.born } else { self.first };
        self.is_remembered() && sent >= since
    }
}

/// A deletion. Void if the name has changed since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grave {
    pub(crate) stamp: Stamp,
    pub(crate) resource: Slot,
}
