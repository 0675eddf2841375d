//! Limits of the number of connections.

use core::{net::IpAddr, time::Duration};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Instant,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast};
use tracing::{debug, warn};

use super::handshakes::{Handshake, Handshakes, OpenGuard};
use crate::{
    guard::locked,
    server::{
        access::peer::Peer,
        driver::{log::PeerAddress, observations::Observed},
        memory::transport_stats::{OpenConnection, TransportCounters, TransportEvent},
    },
};

/// Connection limits of all listeners of a server.
#[derive(Debug)]
pub(crate) struct ConnectionLimit {
    permits: Arc<Semaphore>,
    limit: usize,
    per_address: Option<AddressLimit>,
    pub(crate) handshakes: Handshakes,
    observations: broadcast::WeakSender<Observed>,
    counters: TransportCounters,
    warned: Mutex<Option<Instant>>,
}

/// Numbers of connections and handshakes that a server allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionLimits {
    pub(crate) connections: usize,
    pub(crate) connections_per_address: Option<usize>,
    pub(crate) handshakes: usize,
}

/// Limit of the number of connections from one address.
#[derive(Debug)]
struct AddressLimit {
    limit: usize,
    /// Number of connections of each address that has any.
    open: Arc<Mutex<BTreeMap<IpAddr, usize>>>,
}

/// Place of a connection within the limits, to be held while it is open.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
    _of_address: Option<PlaceOfAddress>,
    _counted: OpenConnection,
    // Last, so that the other places are already free when the limit is notified.
    _open: OpenGuard,
}

/// Place of a connection within the limit of its IP address.
#[derive(Debug)]
struct PlaceOfAddress {
    address: IpAddr,
    open: Arc<Mutex<BTreeMap<IpAddr, usize>>>,
}

/// Minimum time between warnings, because clients control the number of refused connections.
const BETWEEN_WARNINGS: Duration = Duration::from_secs(10);

impl ConnectionLimit {
    pub(crate) fn new(
        limits: ConnectionLimits,
        observations: broadcast::WeakSender<Observed>,
        counters: TransportCounters,
    ) -> Self {
        let limit = limits.connections;
        Self {
            permits: Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS))),
            limit,
            per_address: limits
                .connections_per_address
                .map(|limit| AddressLimit { limit, open: Arc::default() }),
            handshakes: Handshakes::new(limits.handshakes),
            observations,
            counters,
            warned: Mutex::default(),
        }
    }

    /// Returns a place for one more connection, and its handshake. If a limit on connections is
    /// reached, reports the refusal and returns `None`. If there are too many handshakes or
    /// connections, the oldest handshake is dropped.
    pub(crate) async fn admit(&self, peer: &Peer, now: Instant) -> Option<(Place, Handshake)> {
        let of_address = match &self.per_address {
            Some(per_address) => match per_address.admit(peer) {
                Ok(place) => place,
                Err(limit) => {
                    self.counters.note(TransportEvent::RefusedConnectionOfOneAddress);
                    let why = "too many connections of one address: refused a connection";
                    self.report_refused(peer, limit, now, why);
                    return None;
                }
            },
            None => None,
        };
        let permit = loop {
            // The semaphore is never closed.
            if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
                break permit;
            }
            if !self.handshakes.drop_oldest().await {
                self.counters.note(TransportEvent::RefusedConnection);
                let why = "too many connections: refused a connection";
                self.report_refused(peer, self.limit, now, why);
                return None;
            }
        };
        let (handshake, open) = self.handshakes.begin().await;
        let counted = self.counters.open_connection();
        let place =
            Place { _permit: permit, _of_address: of_address, _counted: counted, _open: open };
        Some((place, handshake))
    }

    fn report_refused(&self, peer: &Peer, limit: usize, now: Instant, why: &str) {
        let mut warned = locked(&self.warned);
        if warned.is_none_or(|at| now.saturating_duration_since(at) >= BETWEEN_WARNINGS) {
            *warned = Some(now);
            warn!(peer = %PeerAddress(peer), limit, "{why}");
        } else {
            debug!(peer = %PeerAddress(peer), limit, "{why}");
        }
        drop(warned);
        if let Some(observations) = self.observations.upgrade() {
            // There may be no receivers.
            let address = peer.address;
            let _ = observations.send(Observed::ConnectionRefused { address, limit });
        }
    }
}

impl AddressLimit {
    /// Returns a place for one more connection of the peer's address; `None` if the peer has no
    /// address.
    ///
    /// # Errors
    ///
    /// Returns the limit if the address has too many connections.
    fn admit(&self, peer: &Peer) -> Result<Option<PlaceOfAddress>, usize> {
        let Some(address) = peer.address else { return Ok(None) };
        let address = counted_address(address.ip());
        let mut open = locked(&self.open);
        let count = open.get(&address).copied().unwrap_or_default();
        if count >= self.limit {
            return Err(self.limit);
        }
        open.insert(address, count + 1);
        drop(open);
        Ok(Some(PlaceOfAddress { address, open: Arc::clone(&self.open) }))
    }
}

impl Drop for PlaceOfAddress {
    fn drop(&mut self) {
        let mut open = locked(&self.open);
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

/// Returns the key under which connections of an address are counted: an IPv4 address, or the first
/// 64 bits of an IPv6 address, because one host usually controls all addresses of such a network.
fn counted_address(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_ipv6_network_are_counted_together() {
        let of = |text: &str| counted_address(text.parse().expect("an address"));
        assert_eq!(of("2001:db8:1:2::3"), of("2001:db8:1:2:3:4:5:6"));
        assert_ne!(of("2001:db8:1:2::3"), of("2001:db8:1:3::3"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }

    #[test]
    fn address_limit_counts_open_connections_of_each_address() {
        let limit = AddressLimit { limit: 2, open: Arc::default() };
        let peer = |text: &str| Peer::new(Some(text.parse().expect("a socket address")));
        let first = limit.admit(&peer("192.0.2.1:1")).expect("the first");
        let _second = limit.admit(&peer("192.0.2.1:2")).expect("the second");
        assert_eq!(limit.admit(&peer("192.0.2.1:3")).map(drop), Err(2));
        let _other = limit.admit(&peer("192.0.2.2:1")).expect("another address");
        drop(first);
        let third = limit.admit(&peer("192.0.2.1:3")).expect("in place of the first");
        assert!(limit.admit(&Peer::new(None)).is_ok_and(|place| place.is_none()));
        drop((third, _second, _other));
        assert!(limit.open.lock().expect("not poisoned").is_empty());
    }
}
