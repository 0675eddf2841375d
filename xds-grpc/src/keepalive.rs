//! How both sides find out that a connection is dead.

use core::time::Duration;

/// HTTP/2 pings that find out when the other side is gone (B59).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Keepalive {
    /// How often the other side is pinged.
    pub interval: Duration,
    /// How long the answer may take.
    pub timeout: Duration,
}

impl Keepalive {
    /// What a client does unless told otherwise: a ping every five minutes, which is as often as gRPC
    /// servers put up with. The operating system's own probes, which they do not see, find a host
    /// that is gone within a minute.
    pub const CLIENT: Self = Self::new(Duration::from_secs(300), Duration::from_secs(20));

    /// What a server does unless told otherwise: a ping every 30 s.
    pub const SERVER: Self = Self::new(Duration::from_secs(30), Duration::from_secs(10));

    /// Pings after `interval` of silence; the answer may take `timeout`.
    #[must_use]
    pub const fn new(interval: Duration, timeout: Duration) -> Self {
        Self { interval, timeout }
    }
}
