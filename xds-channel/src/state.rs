//! State shared by all calls of a channel.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::uri::Authority;
use tokio::sync::watch;
use xds_grpc::runtime::SharedRuntime;
use xds_routing::Random;

use crate::{metrics::SharedMetrics, routing::Routing, status::Waiting};

/// Request extension for gRPC's wait-for-ready: the call waits instead of failing if something is
/// not available.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitForReady;

/// State shared by all calls of a channel.
#[derive(Debug)]
pub(crate) struct ChannelState {
    pub(crate) routing: watch::Receiver<Routing>,
    pub(crate) authority: Authority,
    pub(crate) node_id: Arc<str>,
    pub(crate) random: Mutex<Random>,
    /// Random number that hash policies use for the channel (gRFC A42).
    pub(crate) channel_id: u64,
    pub(crate) runtime: SharedRuntime,
    /// Target of the channel, for metrics.
    pub(crate) target: Arc<str>,
    pub(crate) metrics: Option<SharedMetrics>,
}

impl ChannelState {
    /// Returns the random number generator.
    pub(crate) fn random(&self) -> MutexGuard<'_, Random> {
        self.random.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state of routing, for error messages.
    pub(crate) fn waiting(&self) -> Waiting {
        match &*self.routing.borrow() {
            Routing::Failing(why) => Waiting::Failing(why.to_string()),
            Routing::Known(table) => Waiting::Noted(table.note.to_string()),
            Routing::Unknown => Waiting::unresolved(&self.node_id),
        }
    }
}

/// Whether a call waits until it can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitMode {
    FailFast,
    WaitForReady,
}
