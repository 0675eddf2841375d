//! Settings of a server that is polled, as over REST.

use core::time::Duration;

/// How a server that is polled is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PollPolicy {
    /// The pause between an answer and the next request, at least.
    pub refresh_delay: Duration,
    /// How much longer the pause may be, by chance, in per cent of it: so clients that started together do
    /// not stay together (RJ-02).
    pub jitter_percent: u32,
    /// How long an answer may take. The adapter gives up after that, and reports the channel as closed
    /// (RJ-05). For servers that hold requests until something changes, longer than they hold them.
    pub request_timeout: Duration,
    /// What becomes of names that are added while a request is under way, or during a pause.
    pub new_names: NewNames,
    /// What a request says of the response before it.
    pub answers: PollAnswers,
}

/// When the server hears of names that are added between two requests (RJ-08).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NewNames {
    /// At once. A request that is under way is given up for another one.
    #[default]
    AtOnce,
    /// With the next request, whenever that is due.
    NextRequest,
}

/// What a request says of the response before it (B19).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PollAnswers {
    /// What a request on a stream does: its nonce, if it had one, and what was wrong with it.
    #[default]
    Complete,
    /// Nothing but the last accepted version (RJ-01, RJ-07).
    VersionOnly,
}

impl PollPolicy {
    /// Asks again `refresh_delay` after each answer, for which there is a minute of time.
    #[must_use]
    pub const fn new(refresh_delay: Duration) -> Self {
        Self {
            refresh_delay,
            jitter_percent: 100,
            request_timeout: Duration::from_secs(60),
            new_names: NewNames::AtOnce,
            answers: PollAnswers::Complete,
        }
    }

    /// Asks as Envoy does, which waits a second for an answer unless told otherwise (B18).
    #[must_use]
    pub const fn envoy(refresh_delay: Duration) -> Self {
        Self {
            refresh_delay,
            jitter_percent: 100,
            request_timeout: Duration::from_secs(1),
            new_names: NewNames::NextRequest,
            answers: PollAnswers::VersionOnly,
        }
    }

    /// Gives answers this much time.
    #[must_use]
    pub const fn with_request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }
}
