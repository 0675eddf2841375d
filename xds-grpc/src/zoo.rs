//! Deliberate bugs of drivers, used to verify that the simulation of the drivers finds them.
//!
//! They exist only with the feature `zoo`, which only tests of the simulation enable; otherwise
//! [`is`] is the constant `false`.

#![cfg_attr(
    not(feature = "zoo"),
    expect(unreachable_pub, reason = "used by other crates only with the feature `zoo`")
)]

/// Deliberate bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Bug {
    /// Server: an idle response body registers no waker.
    ResponseWakerLost = 1,
    /// Client: a connection counts as open before the server's SETTINGS have arrived.
    OpenBeforeSettings,
    /// Client: neither HTTP/2 pings nor TCP keepalive detect a lost connection.
    KeepaliveOff,
    /// Client: an attempt to connect has no time limit.
    NoConnectTimeout,
    /// Server: a closed stream is not reported to the core.
    CloseNotReported,
    /// Server: reading stops after the second request of a stream.
    ReadGateStuck,
    /// Server: the driver is not told when a stream can take the next response.
    SlotFreeNotReported,
    /// Client: commands are looked for only in every second iteration of the driver.
    CommandWakerLost,
    /// Server: a listener outlives the shutdown of its server.
    ListenerOutlivesServer,
    /// Client: connections are never closed.
    ConnectionLeaked,
    /// Client: only the first address of a name is tried.
    FirstAddressOnly,
    /// Client: the end of a stream is not reported.
    StreamEndNotReported,
    /// Client: a client goes on after its last handle was dropped.
    HandleDropIgnored,
}

#[cfg(feature = "zoo")]
impl Bug {
    /// All bugs in the order of their numbers, which start at 1.
    pub const ALL: [Self; 13] = [
        Self::ResponseWakerLost,
        Self::OpenBeforeSettings,
        Self::KeepaliveOff,
        Self::NoConnectTimeout,
        Self::CloseNotReported,
        Self::ReadGateStuck,
        Self::SlotFreeNotReported,
        Self::CommandWakerLost,
        Self::ListenerOutlivesServer,
        Self::ConnectionLeaked,
        Self::FirstAddressOnly,
        Self::StreamEndNotReported,
        Self::HandleDropIgnored,
    ];
}

#[cfg(feature = "zoo")]
mod enabled {
    use core::sync::atomic::{AtomicU8, Ordering};

    use super::Bug;

    /// Number of the active bug; 0 for none. Global to the process, like the bugs of the cores.
    static ACTIVE: AtomicU8 = AtomicU8::new(0);

    /// Activates a bug in all drivers of the process, or none.
    pub fn activate(bug: Option<Bug>) {
        ACTIVE.store(bug.map_or(0, |bug| bug as u8), Ordering::Relaxed);
    }

    pub(crate) fn is(bug: Bug) -> bool {
        ACTIVE.load(Ordering::Relaxed) == bug as u8
    }
}

#[cfg(not(feature = "zoo"))]
mod disabled {
    use super::Bug;

    pub(crate) const fn is(_: Bug) -> bool {
        false
    }
}

#[cfg(not(feature = "zoo"))]
pub(crate) use disabled::is;
#[cfg(feature = "zoo")]
pub use enabled::activate;
#[cfg(feature = "zoo")]
pub(crate) use enabled::is;
