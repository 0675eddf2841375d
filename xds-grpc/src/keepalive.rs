//! Keepalive settings: HTTP/2 pings and TCP keepalive probes.

use core::time::Duration;

/// Settings of HTTP/2 keepalive pings, which detect a dead connection.
// B59
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Keepalive {
    /// Time without received data after which a ping is sent.
    pub interval: Duration,
    /// Maximum time to wait for the answer to a ping.
    pub timeout: Duration,
    /// TCP keepalive probes by the operating system.
    pub probes: TcpProbes,
}

/// Settings of TCP keepalive probes (`SO_KEEPALIVE`). Settings that the operating system does not
/// support are ignored.
///
/// For a value of `None`, clients use 30 s (or [`Keepalive::interval`] if shorter), 10 s and 3
/// probes. Servers use [`Keepalive::interval`] and the operating system's defaults for the other
/// two. Times are rounded down to whole seconds, at least one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcpProbes {
    /// Idle time of a connection before the first probe.
    pub after: Option<Duration>,
    /// Time between probes.
    pub interval: Option<Duration>,
    /// Number of unanswered probes that end the connection.
    pub count: Option<u32>,
}

impl TcpProbes {
    /// Creates the settings from the three values of a cluster's `tcp_keepalive` in an Envoy
    /// bootstrap.
    // S0.175
    #[must_use]
    pub const fn new(
        after: Option<Duration>,
        interval: Option<Duration>,
        count: Option<u32>,
    ) -> Self {
        Self { after, interval, count }
    }
}

impl Keepalive {
    /// Default of a client: a ping after 300 s without received data, answered within 20 s.
    ///
    /// gRPC servers tolerate no shorter interval by default. TCP keepalive probes, which servers do
    /// not count, detect a dead host within a minute.
    pub const CLIENT: Self = Self::new(Duration::from_secs(300), Duration::from_secs(20));

    /// Default of a server: a ping after 30 s without received data, answered within 10 s.
    pub const SERVER: Self = Self::new(Duration::from_secs(30), Duration::from_secs(10));

    /// Creates settings with a ping after `interval` without received data, to be answered within
    /// `timeout`.
    #[must_use]
    pub const fn new(interval: Duration, timeout: Duration) -> Self {
        let probes = TcpProbes { after: None, interval: None, count: None };
        Self { interval, timeout, probes }
    }

    /// Sets the TCP keepalive probes.
    #[must_use]
    pub const fn with_probes(mut self, probes: TcpProbes) -> Self {
        self.probes = probes;
        self
    }
}
