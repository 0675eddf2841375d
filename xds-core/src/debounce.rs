//! Coalescing of changes before they are sent.

use core::time::Duration;

/// Merges a burst of changes into one response per client.
///
/// Only the sending of changes is delayed. A transaction takes effect at once: a client that sends
/// a request meanwhile is answered with the current state, and delayed clients receive the newest
/// state.
///
/// A requested name that is created is delayed like any other change. Keep `max` below the
/// [does-not-exist timer](super::DOES_NOT_EXIST_TIMER) of 15 seconds, after which clients conclude
/// that the resource does not exist.
// M225
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Debounce {
    /// Time without a change after which the changes are sent.
    pub quiet: Duration,
    /// Maximum delay after the first buffered change, even if changes continue to arrive.
    pub max: Duration,
}

impl Debounce {
    /// Creates a policy that sends changes after `quiet` without a change, and at the latest after
    /// `max`.
    #[must_use]
    pub const fn new(quiet: Duration, max: Duration) -> Self {
        Self { quiet, max }
    }
}
