//! Conditions of the network between two hosts.

use core::{fmt, time::Duration};

/// Conditions of one direction of a connection. The default is a perfect network: no delay and no
/// limit, except for the sizes of the buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conditions {
    /// Time between a write and the earliest read of its bytes.
    pub latency: Duration,
    /// Additional delay of the first bytes of the direction, for example of a server's SETTINGS.
    pub first_byte_delay: Duration,
    /// Bytes per second; `None` for no limit.
    pub bandwidth: Option<u64>,
    /// Receive window: maximum number of bytes that are in flight or not yet read; 64 KiB by
    /// default, at least 1. Further bytes are sent once the reader has made room and the sender has
    /// been notified of it.
    pub window: usize,
    /// Size of the send buffer: maximum number of bytes that are written but not sent yet; 64 KiB
    /// by default, at least 1.
    pub send_buffer: usize,
    /// Maximum number of bytes that one read or write transfers. At least 1.
    pub chunk: usize,
}

impl Default for Conditions {
    fn default() -> Self {
        Self {
            latency: Duration::ZERO,
            first_byte_delay: Duration::ZERO,
            bandwidth: None,
            window: 1 << 16,
            send_buffer: 1 << 16,
            chunk: usize::MAX,
        }
    }
}

/// Outcome of attempts to connect to an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DialOutcome {
    /// The listener accepts the connection, or the attempt is refused if there is none.
    #[default]
    Open,
    /// The attempt is refused.
    Refused,
    /// The attempt gets no answer.
    Dropped,
    /// The connection is established, but nobody reads from it or writes to it.
    Silent,
}

/// Lists the differences from a perfect network.
impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let perfect = Self::default();
        let Self { latency, first_byte_delay, bandwidth, window, send_buffer, chunk } = *self;
        let mut words = Vec::new();
        if !latency.is_zero() {
            words.push(format!("latency {latency:?}"));
        }
        if !first_byte_delay.is_zero() {
            words.push(format!("first byte after {first_byte_delay:?} more"));
        }
        words.extend(bandwidth.map(|bytes| format!("{bytes} bytes per second")));
        for (name, value, default) in [
            ("window", window, perfect.window),
            ("send buffer", send_buffer, perfect.send_buffer),
            ("chunk", chunk, perfect.chunk),
        ] {
            if value != default {
                words.push(format!("{name} {value}"));
            }
        }
        f.write_str(if words.is_empty() { "perfect" } else { "" })?;
        f.write_str(&words.join(", "))
    }
}
