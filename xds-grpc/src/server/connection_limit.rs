//! Limit of the number of connections.

use core::time::Duration;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast};
use tracing::{debug, warn};

use super::{log::PeerAddress, observations::Observed, peer::Peer};

/// Connection limit of all listeners of a server.
#[derive(Debug)]
pub(super) struct ConnectionLimit {
    permits: Arc<Semaphore>,
    limit: usize,
    observations: broadcast::WeakSender<Observed>,
    warned: Mutex<Option<Instant>>,
}

/// Minimum time between warnings, because clients control the number of refused connections.
const BETWEEN_WARNINGS: Duration = Duration::from_secs(10);

impl ConnectionLimit {
    pub(super) fn new(limit: usize, observations: broadcast::WeakSender<Observed>) -> Self {
        let permits = Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS)));
        Self { permits, limit, observations, warned: Mutex::default() }
    }

    /// Returns a permit for one more connection, to be held while it is open. At the limit, reports
    /// the refusal and returns `None`.
    pub(super) fn admit(&self, peer: &Peer, now: Instant) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok();
        if permit.is_none() {
            self.report_refused(peer, now);
        }
        permit
    }

    fn report_refused(&self, peer: &Peer, now: Instant) {
        let limit = self.limit;
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.is_none_or(|at| now.saturating_duration_since(at) >= BETWEEN_WARNINGS) {
            *warned = Some(now);
            warn!(peer = %PeerAddress(peer), limit, "too many connections: refused a connection");
        } else {
            debug!(peer = %PeerAddress(peer), limit, "too many connections: refused a connection");
        }
        drop(warned);
        if let Some(observations) = self.observations.upgrade() {
            // There may be no receivers.
            let address = peer.address;
            let _ = observations.send(Observed::ConnectionRefused { address, limit });
        }
    }
}
