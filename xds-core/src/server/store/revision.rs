//! Revisions of the store.

/// Position in the history of the store. Every change or removal of a resource has its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Revision(u64);

impl Revision {
    /// Revision before any change.
    pub(crate) const START: Self = Self(0);

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
