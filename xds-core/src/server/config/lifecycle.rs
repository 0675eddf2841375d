//! Readiness, age and drain of streams, and the rate type.

use core::time::Duration;

use crate::token_bucket::RateLimit;

/// Whether a server answers clients from the start, or only after
/// [`Server::set_ready`](crate::server::Server::set_ready).
///
/// A server that answers before its resources are loaded sends an empty state, and its clients
/// delete the resources they have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Readiness {
    /// Requests are answered from the start.
    #[default]
    Ready,
    /// Streams are accepted, and their requests are held. Once the server is ready they are
    /// answered in the order in which the streams were opened.
    ///
    /// A stream whose request is held for [`ServerLimits::decision`](super::ServerLimits::decision)
    /// is closed with `UNAVAILABLE`
    /// ([`CloseReason::NotReady`](crate::server::CloseReason::NotReady)). Set that limit below the
    /// does-not-exist timer, which is 15 seconds for Envoy and gRPC. A client whose stream is
    /// closed keeps its resources, reconnects, or uses a fallback server.
    HoldRequests,
    /// Streams are refused with `UNAVAILABLE` until the server is ready.
    NotReady,
}

/// Rate limit, implemented as a token bucket that starts full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Events per second in the long run; at least 1.
    pub per_second: u32,
    /// Size of the bucket: number of events that may occur at once; at least 1.
    pub burst: u32,
}

impl RateLimit for Rate {
    fn interval(self) -> Duration {
        Duration::from_secs(1) / self.per_second.max(1)
    }

    fn burst(self) -> u32 {
        self.burst
    }
}

/// Maximum age of a stream, after which clients reconnect and spread over the available servers.
// M239
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamAge {
    /// Age at which a stream is ended, before jitter.
    pub age: Duration,
    /// Maximum random deviation from `age`, in per cent of it. It keeps streams that were opened
    /// together from being ended together.
    pub jitter_percent: u32,
    /// Time to wait for the answer to a response in flight. New requests are not answered
    /// meanwhile, so keep it below the [does-not-exist timer](super::DOES_NOT_EXIST_TIMER) of 15
    /// seconds.
    pub grace_period: Duration,
}

impl StreamAge {
    /// Creates a maximum age without jitter and without a grace period.
    #[must_use]
    pub const fn new(age: Duration) -> Self {
        Self { age, jitter_percent: 0, grace_period: Duration::ZERO }
    }

    /// Sets the [jitter](Self::jitter_percent), in per cent of the age.
    #[must_use]
    pub const fn with_jitter_percent(mut self, jitter_percent: u32) -> Self {
        self.jitter_percent = jitter_percent;
        self
    }

    /// Sets the [grace period](Self::grace_period).
    #[must_use]
    pub const fn with_grace_period(mut self, grace_period: Duration) -> Self {
        self.grace_period = grace_period;
        self
    }
}

/// Schedule for ending all streams ([`Server::drain`](crate::server::Server::drain)).
// M14, M238, IS33
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DrainPlan {
    /// Period over which the streams are ended. It is divided evenly among them, and each ends at a
    /// random time within its part, so that its clients do not reach the next server all at once.
    pub period: Duration,
    /// Time that a stream waits for the answer to a response in flight. New requests are not
    /// answered meanwhile, so keep it below the [does-not-exist timer](super::DOES_NOT_EXIST_TIMER)
    /// of 15 seconds.
    pub grace_period: Duration,
}

impl DrainPlan {
    /// Creates a plan that ends all streams at once, each after at most this
    /// [grace period](Self::grace_period).
    #[must_use]
    pub const fn new(grace_period: Duration) -> Self {
        Self { period: Duration::ZERO, grace_period }
    }

    /// Sets the [period](Self::period) over which the streams are ended.
    #[must_use]
    pub const fn with_period(mut self, period: Duration) -> Self {
        self.period = period;
        self
    }
}
