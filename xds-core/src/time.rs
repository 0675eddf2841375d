//! Time as the cores see it: a number handed in with every call, and one deadline handed out.

use core::{fmt, time::Duration};

/// An instant on the driver's monotonic clock, in nanoseconds since an origin the driver chooses.
///
/// The cores never read a clock. A driver passes `Time` into every input; a simulation starts at
/// [`Time::ZERO`] and jumps from deadline to deadline.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The origin of the driver's clock.
    pub const ZERO: Self = Self(0);

    /// The instant `nanos` nanoseconds after the origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The instant `duration` later, or the last representable one.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }

    /// How long after `earlier` this instant is; zero if it is not later.
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
    /// Seconds with three decimals, as in `15.000s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}s", self.0 / 1_000_000_000, self.0 / 1_000_000 % 1_000)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// When a core wants [`handle_timeout`](crate::Client::handle_timeout) to be called, and why.
///
/// Calling early or twice is harmless and wasteful; calling late is harmful.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// The instant at which the call is due; it may already have passed.
    pub at: Time,
    /// What will happen then.
    pub why: Timer,
}

/// What a [`Deadline`] is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Timer {
    /// An output is queued: poll it now (contract rule 4).
    QueuedOutput,
    /// The backoff towards a management server ends and a new channel is opened.
    Reconnect,
    /// A subscribed resource or collection has not arrived in time (gRFC A57).
    DoesNotExist,
    /// A management server that was in trouble has kept a stream for a while without a word.
    Silence,
    /// A resource has not been renewed within its time to live.
    TimeToLive,
    /// A request that had to wait may be sent.
    RequestRate,
    /// A response is rejected that came soon after another one of its type that was.
    RepeatedNack,
    /// A management server that is polled is asked again.
    Poll,
    /// A channel on which nothing has been subscribed for a while is closed.
    Idle,
    /// A management server's client has not answered a response in time.
    AnswerOverdue,
    /// A management server ends a stream, by plan.
    StreamEnd,
    /// A management server would read on from a client that sent too many requests.
    ReadAgain,
    /// A management server forgets what clients rejected that have gone.
    ForgetRejections,
    /// Clients of a management server are to be told that they may go on using a resource.
    Heartbeat,
    /// Changes that came one after the other are told.
    Debounced,
    /// A management server's view has not been seen by anybody for a while.
    ViewIdle,
    /// A management server has held something back for as long as it may.
    Held,
    /// A management server tells a client that a name it asked for a while ago does not exist.
    Absence,
    /// A management server forgets what was deleted, whoever has not been told.
    ForgetDeletions,
}

impl fmt::Display for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::QueuedOutput => "queued output",
            Self::Reconnect => "reconnect",
            Self::DoesNotExist => "does not exist",
            Self::Silence => "silence",
            Self::TimeToLive => "time to live",
            Self::RequestRate => "request rate",
            Self::RepeatedNack => "repeated NACK",
            Self::Poll => "poll",
            Self::Idle => "idle",
            Self::AnswerOverdue => "answer overdue",
            Self::Debounced => "debounced",
            Self::ViewIdle => "view idle",
            Self::StreamEnd => "stream end",
            Self::ReadAgain => "read again",
            Self::ForgetRejections => "forget rejections",
            Self::Heartbeat => "heartbeat",
            Self::Held => "held back",
            Self::Absence => "absence",
            Self::ForgetDeletions => "forget deletions",
        })
    }
}

/// The monotonic view of the `now`s a driver passes in: it never goes back (contract rule 1).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock(Time);

impl Clock {
    pub(crate) fn starting_at(now: Time) -> Self {
        Self(now)
    }

    /// Takes the caller's `now`, or the latest one seen if the caller's lies before it.
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
    use super::*;

    #[test]
    fn a_clock_that_goes_back_stands_still() {
        let mut clock = Clock::starting_at(Time::from_nanos(5));
        assert_eq!(clock.advance(Time::from_nanos(9)), Time::from_nanos(9));
        assert_eq!(clock.advance(Time::from_nanos(3)), Time::from_nanos(9));
    }

    #[test]
    fn the_end_of_time_is_not_passed() {
        let late = Time::from_nanos(u64::MAX - 1);
        assert_eq!(late.after(Duration::from_secs(9)), Time::from_nanos(u64::MAX));
        assert_eq!(Time::ZERO.since(late), Duration::ZERO);
    }
}
