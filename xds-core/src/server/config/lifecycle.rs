//! When streams begin and end, and how fast things may come.

use core::time::Duration;

/// Whether a server answers clients from the start, or only after
/// [`Server::set_ready`](crate::server::Server::set_ready).
///
/// A server that answered before its resources are loaded would send an empty state. A client believes it and deletes
/// what it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Readiness {
    /// Clients are answered from the start.
    #[default]
    Ready,
    /// Streams are accepted. Their requests are held, and answered once the server is ready, in the order in which
    /// the streams came.
    ///
    /// A stream whose request was held for [`ServerLimits::decision`](super::ServerLimits::decision) is closed with
    /// `UNAVAILABLE` ([`CloseReason::NotReady`](crate::server::CloseReason::NotReady)). Set that limit below the time
    /// after which clients take a resource not to exist, which is 15 seconds for Envoy and gRPC: a closed stream
    /// makes a client keep what it has, reconnect, or use a fallback server.
    HoldRequests,
    /// Streams are refused with `UNAVAILABLE` until the server is ready.
    NotReady,
}

/// How often something may happen: a token bucket, which is full at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How often in a second, in the long run; at least 1.
    pub per_second: u32,
    /// How often at once, after a time of rest; at least 1.
    pub burst: u32,
}

/// How old a stream may become, so that clients spread again over the servers there are (M239).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamAge {
    /// The age, give or take the jitter.
    pub age: Duration,
    /// By how much the age of each stream differs, at most, in per cent of it: otherwise streams that came
    /// together would come back together.
    pub jitter_percent: u32,
    /// How long a response that is on its way then may wait for its answer. New requests are not answered meanwhile,
    /// so it should stay below [15 s](super::DOES_NOT_EXIST_TIMER).
    pub grace: Duration,
}

/// How a server ends the streams it has (M14, M238, IS33).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainPlan {
    /// Over what time the streams are ended: each has its part of it, and ends at a random moment of that,
    /// so that the server that takes the clients next is not met by all at once.
    pub over: Duration,
    /// How long a response that is on its way when a stream is to end may wait for its answer. New requests are not
    /// answered meanwhile, so it should stay below [15 s](super::DOES_NOT_EXIST_TIMER).
    pub grace: Duration,
}
