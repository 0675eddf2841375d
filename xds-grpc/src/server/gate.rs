//! Limit of the number of connections.

use core::time::Duration;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast};
use tracing::{debug, warn};

use super::{handle::Observed, log::Address, peer::Peer};

/// Connection limit of all listeners of a server.
#[derive(Debug)]
pub(super) struct Gate {
    places: Arc<Semaphore>,
    limit: usize,
    observations: broadcast::WeakSender<Observed>,
    warned: Mutex<Option<Instant>>,
}

/// Minimum time between warnings, because clients control the number of refused connections.
const BETWEEN_WARNINGS: Duration = Duration::from_secs(10);

impl Gate {
    pub(super) fn new(limit: usize, observations: broadcast::WeakSender<Observed>) -> Self {
        let places = Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS)));
        Self { places, limit, observations, warned: Mutex::default() }
    }

    /// Returns a permit for one more connection, to be held while it is open. At the limit, reports
    /// the refusal and returns `None`.
    pub(super) fn admit(&self, peer: &Peer, now: Instant) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        let place = Arc::clone(&self.places).try_acquire_owned().ok();
        if place.is_none() {
            self.tell_refused(peer, now);
        }
        place
    }

    fn tell_refused(&self, peer: &Peer, now: Instant) {
        let limit = self.limit;
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.is_none_or(|at| now.saturating_duration_since(at) >= BETWEEN_WARNINGS) {
            *warned = Some(now);
            warn!(peer = %Address(peer), limit, "too many connections: refused one");
        } else {
            debug!(peer = %Address(peer), limit, "too many connections: refused one");
        }
        drop(warned);
        if let Some(observations) = self.observations.upgrade() {
            // There may be no receivers.
            let address = peer.address;
            let _ = observations.send(Observed::ConnectionRefused { address, limit });
        }
    }
}
