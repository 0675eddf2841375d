//! Replicas: servers that follow one source.

use core::time::Duration;

/// Policy of a server whose resources come from a source with revisions that other servers follow
/// too.
///
/// It applies once [`Server::source_reached`](crate::server::Server::source_reached) was called, or
/// if [`confirmation`](Self::confirmation) is on. The documentation of that method describes the
/// whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourcePolicy {
    /// Whether the first request of a stream waits until the source has confirmed that the server is
    /// up to date; off by default.
    pub confirmation: Confirmation,
    /// Time that a request waits for the server to catch up with the source; 4 seconds by default.
    ///
    /// Together with the other delays of an answer it should stay below the [does-not-exist
    /// timer](super::DOES_NOT_EXIST_TIMER) of 15 seconds.
    pub catch_up_timeout: Duration,
    /// Time for which a server whose source is unreachable serves new streams from its last state;
    /// `None`, the default, for no limit. After it new streams are refused. Streams that are open
    /// keep what they have.
    pub max_staleness: Option<Duration>,
}

impl Default for SourcePolicy {
    fn default() -> Self {
        Self {
            confirmation: Confirmation::Off,
            catch_up_timeout: Duration::from_secs(4),
            max_staleness: None,
        }
    }
}

impl SourcePolicy {
    /// Sets whether the first request of a stream waits for a confirmation of the source.
    #[must_use]
    pub fn with_confirmation(mut self, confirmation: Confirmation) -> Self {
        self.confirmation = confirmation;
        self
    }

    /// Sets the time that a request waits for the server to catch up with the source.
    #[must_use]
    pub fn with_catch_up_timeout(mut self, timeout: Duration) -> Self {
        self.catch_up_timeout = timeout;
        self
    }

    /// Sets the time for which new streams are served while the source is unreachable.
    #[must_use]
    pub fn with_max_staleness(mut self, staleness: Duration) -> Self {
        self.max_staleness = Some(staleness);
        self
    }
}

/// Whether streams wait until the source has confirmed that the server is up to date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Confirmation {
    /// A request waits only if it states a version that is newer than the server.
    #[default]
    Off,
    /// The first request of each stream waits for a confirmation that began after it arrived
    /// ([`ServerEvent::ConfirmSource`](crate::server::ServerEvent::ConfirmSource)). Streams that wait
    /// at the same time share one.
    EachStream,
}
