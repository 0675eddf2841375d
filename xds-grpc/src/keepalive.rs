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
    /// How the operating system probes a silent connection.
    pub probes: TcpProbes,
}

/// `SO_KEEPALIVE`, as far as the operating system can be told. What is not stated is the adapter's choice for
/// clients, which is 30 s, 10 s and 3, and the system's for servers. All times count in whole seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcpProbes {
    /// How long a connection is silent before the first probe.
    pub after: Option<Duration>,
    /// How long between two.
    pub interval: Option<Duration>,
    /// So many without an answer end the connection.
    pub count: Option<u32>,
}

impl TcpProbes {
    /// States all three: `tcp_keepalive` of a cluster in a proxy's bootstrap (S0.175).
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
    /// What a client does unless told otherwise: a ping every five minutes, which is as often as gRPC
    /// servers put up with. The operating system's own probes, which they do not see, find a host
    /// that is gone within a minute.
    pub const CLIENT: Self = Self::new(Duration::from_secs(300), Duration::from_secs(20));

    /// What a server does unless told otherwise: a ping every 30 s.
    pub const SERVER: Self = Self::new(Duration::from_secs(30), Duration::from_secs(10));

    /// Pings after `interval` of silence; the answer may take `timeout`.
    #[must_use]
    pub const fn new(interval: Duration, timeout: Duration) -> Self {
        let probes = TcpProbes { after: None, interval: None, count: None };
        Self { interval, timeout, probes }
    }

    /// Sets how the operating system probes.
    #[must_use]
    pub const fn with_probes(mut self, probes: TcpProbes) -> Self {
        self.probes = probes;
        self
    }
}
