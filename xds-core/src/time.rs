//! Time as input of the cores, and the deadline that they return.

use core::{fmt, time::Duration};

/// Point in time on the driver's monotonic clock, in nanoseconds since an origin that the driver
/// chooses.
///
/// The cores never read a clock. A driver passes the current `Time` with every input; a simulation
/// starts at [`Time::ZERO`] and jumps from deadline to deadline.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// Origin of the driver's clock.
    pub const ZERO: Self = Self(0);

    /// Creates the time `nanos` nanoseconds after the origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the nanoseconds since the origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time `duration` later, or the last representable one.
    #[must_use]
    pub const fn after(self, duration: Duration) -> Self {
        let nanos = duration.as_nanos();
        match nanos < u64::MAX as u128 {
            true => Self(self.0.saturating_add(nanos as u64)),
            false => Self(u64::MAX),
        }
    }

    /// Returns the duration since `earlier`; zero if that is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Time {
    /// Writes seconds with three decimals, for example `15.000s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}s", self.0 / 1_000_000_000, self.0 / 1_000_000 % 1_000)
    }
}

/// Time at which [`handle_timeout`](crate::Client::handle_timeout) is due, and the reason.
///
/// An early or repeated call has no effect; a late call delays actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deadline {
    /// Time of the call; it may be in the past.
    pub at: Time,
    /// Timer that expires then.
    pub why: Timer,
}

/// Timer of a [`Deadline`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Timer {
    /// An output is queued: poll it now.
    // Contract rule 4.
    QueuedOutput,
    /// Client: the backoff ends and a new channel to a management server is opened.
    Reconnect,
    /// Client: a requested resource or collection has not arrived in time ([gRFC A57][A57]).
    ///
    /// [A57]: https://github.com/grpc/proposal/blob/master/A57-xds-client-failure-mode-behavior.md
    DoesNotExist,
    /// Client: a failed server that reconnected has sent nothing for long enough to count as
    /// recovered.
    Recovery,
    /// Client: the TTL of a resource expires.
    TimeToLive,
    /// Client: a request that was delayed by the rate limit may be sent.
    RequestRate,
    /// Client: a NACK that [`ClientConfig::nack_interval`](crate::client::ClientConfig::nack_interval)
    /// has delayed may be sent, and reading resumes.
    RepeatedNack,
    /// Client: a management server is polled again.
    Poll,
    /// Client: a channel without subscriptions is closed.
    Idle,
    /// Server: parts of the work are left, because long requests are processed, and the names of
    /// closed streams freed, in parts
    /// ([`names_per_call`](crate::server::ServerLimits::names_per_call)).
    UnfinishedWork,
    /// Server: a client has not answered a response in time.
    AnswerOverdue,
    /// Server: the planned end of a stream is due.
    StreamEnd,
    /// Server: reading resumes on a stream that exceeded its request rate.
    ResumeReading,
    /// Server: the kept rejections of disconnected clients expire.
    ExpireRejections,
    /// Server: resources with a TTL are renewed by a heartbeat.
    Heartbeat,
    /// Server: a burst of held-back changes is sent.
    Debounce,
    /// Server: a view has had no client for the configured time.
    ViewIdle,
    /// Server: make before break has held back a change for the maximum time.
    StageTimeout,
    /// Server: the delay before a requested name is reported as absent
    /// ([`AbsenceDelay::After`](crate::server::AbsenceDelay::After)), or for which a first response
    /// is held ([`Missing::HoldFor`](crate::server::Missing::HoldFor)), is over.
    Absence,
    /// Server: a request has waited for the server to catch up with its source for the maximum time.
    SourceWait,
    /// Server: the source has been unreachable for the
    /// [maximum time](crate::server::SourcePolicy::max_staleness).
    SourceStale,
    /// Server: retained deletions are discarded, although some clients were not sent them yet.
    DiscardDeletions,
}

impl fmt::Display for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::QueuedOutput => "queued output",
            Self::Reconnect => "reconnect",
            Self::DoesNotExist => "does not exist",
            Self::Recovery => "recovery",
            Self::TimeToLive => "time to live",
            Self::RequestRate => "request rate",
            Self::RepeatedNack => "repeated NACK",
            Self::Poll => "poll",
            Self::Idle => "idle",
            Self::UnfinishedWork => "unfinished work",
            Self::AnswerOverdue => "answer overdue",
            Self::Debounce => "debounce",
            Self::ViewIdle => "view idle",
            Self::StreamEnd => "stream end",
            Self::ResumeReading => "resume reading",
            Self::ExpireRejections => "expire rejections",
            Self::Heartbeat => "heartbeat",
            Self::StageTimeout => "stage timeout",
            Self::SourceWait => "wait for the source",
            Self::SourceStale => "source is stale",
            Self::Absence => "absence",
            Self::DiscardDeletions => "discard deletions",
        })
    }
}

/// Monotonic sequence of the `now` values that a driver passes.
// Contract rule 1.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock(Time);

impl Clock {
    pub(crate) fn starting_at(now: Time) -> Self {
        Self(now)
    }

    /// Advances to the caller's `now` and returns the time, which is the latest one seen if `now`
    /// is earlier.
    pub(crate) fn advance(&mut self, now: Time) -> Time {
        self.0 = self.0.max(now);
        self.0
    }

    pub(crate) fn now(self) -> Time {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use crate::time::*;

    #[test]
    fn clock_does_not_go_backwards() {
        let mut clock = Clock::starting_at(Time::from_nanos(5));
        assert_eq!(clock.advance(Time::from_nanos(9)), Time::from_nanos(9));
        assert_eq!(clock.advance(Time::from_nanos(3)), Time::from_nanos(9));
    }

    #[test]
    fn time_arithmetic_saturates_at_its_bounds() {
        let late = Time::from_nanos(u64::MAX - 1);
        assert_eq!(late.after(Duration::from_secs(9)), Time::from_nanos(u64::MAX));
        assert_eq!(Time::ZERO.since(late), Duration::ZERO);
    }
}
