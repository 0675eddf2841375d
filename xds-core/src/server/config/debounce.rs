//! How changes are told.

use core::time::Duration;

/// A burst of changes makes one response per client (M225).
///
/// Only telling waits. What is set is set: a client that asks meanwhile is answered at once with what there
/// is, and one that was told to wait is sent the newest.
///
/// A name that a client has asked for and that comes into being waits like any change. So `max` should stay below
/// [15 s](super::DOES_NOT_EXIST_TIMER), after which clients take the resource not to exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Debounce {
    /// Changes are told when none has come for so long.
    pub quiet: Duration,
    /// And no later than so long after the first of them, even if they go on coming.
    pub max: Duration,
}

impl Debounce {
    /// Waits for so long without a change, and no longer than `max` in all.
    #[must_use]
    pub const fn new(quiet: Duration, max: Duration) -> Self {
        Self { quiet, max }
    }
}
