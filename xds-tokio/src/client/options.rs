//! How a client's transport behaves. What is said on it is the core's matter.

use core::time::Duration;
use std::sync::Arc;

use crate::{
    keepalive::Keepalive,
    payload::{PayloadPrinter, Printer},
};

/// How a client connects, and what it logs.
///
/// The longest response it takes is part of what it is protected by, and therefore in the core's
/// [`ClientLimits::response_bytes`](xds_core::client::ClientLimits::response_bytes): 256 MiB by
/// default, not gRPC's 4 MiB, which an ordinary mesh exceeds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientOptions {
    /// What the core's randomness starts from; `None`, the default, draws it. Two clients with one
    /// seed would come back to a restarted server at the same moment.
    pub seed: Option<u64>,
    /// How long connecting may take, name resolution included; 20 s by default, as in gRPC.
    pub connect_timeout: Duration,
    /// How a dead connection is found out; without it a server that vanished is never noticed.
    pub keepalive: Keepalive,
    /// The longest request that is sent, in bytes; 256 MiB by default. A subscription that exceeds
    /// it ends the stream with `RESOURCE_EXHAUSTED`.
    pub max_request_bytes: usize,
    pub(crate) printer: Printer,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            seed: None,
            connect_timeout: Duration::from_secs(20),
            keepalive: Keepalive::CLIENT,
            max_request_bytes: 256 << 20,
            printer: Printer::default(),
        }
    }
}

impl ClientOptions {
    /// Fixes the core's randomness.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets how long connecting may take.
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how a dead connection is found out.
    #[must_use]
    pub fn with_keepalive(mut self, keepalive: Keepalive) -> Self {
        self.keepalive = keepalive;
        self
    }

    /// Sets the longest request that is sent, in bytes.
    #[must_use]
    pub fn with_max_request_bytes(mut self, bytes: usize) -> Self {
        self.max_request_bytes = bytes;
        self
    }

    /// Sets what logs at the level TRACE show of resources; by default their sizes.
    #[must_use]
    pub fn with_payload_printer(mut self, printer: impl PayloadPrinter + 'static) -> Self {
        self.printer = Printer(Arc::new(printer));
        self
    }
}
