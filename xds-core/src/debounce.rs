//! Coalescing of changes that follow each other closely.

use core::time::Duration;

/// Merging of a burst of changes into one: changes of resources into one response per client
/// ([`ServerConfig::debounce`](crate::server::ServerConfig::debounce)), or changes of a file into
/// one read ([`FilePolicy::debounce`](crate::client::FilePolicy::debounce)).
// M225
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Debounce {
    /// Time without a further change after which the changes are sent, or the file is read.
    pub quiet: Duration,
    /// Maximum delay after the first buffered change, even if changes continue to arrive.
    pub max: Duration,
}

impl Debounce {
    /// Creates a policy that waits until `quiet` has passed without a further change, but not longer
    /// than `max`.
    #[must_use]
    pub const fn new(quiet: Duration, max: Duration) -> Self {
        Self { quiet, max }
    }
}
