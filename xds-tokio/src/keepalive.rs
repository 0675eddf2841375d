//! How both sides find out that a connection is dead.

use core::time::Duration;

/// HTTP/2 pings that find out when the other side is gone (B59).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Keepalive {
    /// How long a connection is silent before it is pinged, and at which interval the operating
    /// system probes it; 30 s by default.
    pub interval: Duration,
    /// How long the answer may take; 10 s by default.
    pub timeout: Duration,
}

impl Keepalive {
    /// Pings after `interval` of silence; the answer may take `timeout`.
    #[must_use]
    pub const fn new(interval: Duration, timeout: Duration) -> Self {
        Self { interval, timeout }
    }
}

impl Default for Keepalive {
    fn default() -> Self {
        Self::new(Duration::from_secs(30), Duration::from_secs(10))
    }
}
