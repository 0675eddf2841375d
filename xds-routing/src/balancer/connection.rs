//! Connections to endpoints: one for each address list and connector, shared by all priorities and
//! localities that contain it.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    sync::Arc,
    vec::Vec,
};
use core::{fmt, time::Duration};

use xds_core::Time;

use super::{BalancerTimes, counters::EndpointCounters};
use crate::{random::Random, scalars::SocketAddress};

/// Identifier of the connection to an endpoint, including its reconnections. Never reused for
/// another endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

impl fmt::Display for ConnectionId {
    /// Formats the number of the connection within its balancer, for logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Identifier of a way to connect to endpoints, for example a TLS configuration. The owner of the
/// connections assigns it. Endpoints with equal addresses and different connectors are different
/// endpoints (gRFC A75).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectorId(pub u32);

/// Event of a connection.
///
/// A [`Connect`](super::BalancerOutput::Connect) leads to [`Connected`](Self::Connected) and, at its
/// end, [`Closed`](Self::Closed), or to [`Failed`](Self::Failed). The owner of the connections does
/// not try again on its own: the balancer outputs `Connect` with the same id after the backoff.
/// Between `Failed` and the next `Connect`, `Closed` and another `Failed` are ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionEvent {
    /// The connection was established, to this address.
    Connected(SocketAddress),
    /// The connection attempt failed, for this reason, which the errors of calls contain. A time
    /// limit of the attempt is up to the owner of the connections.
    Failed(String),
    /// The connection was lost, or the endpoint accepts no new calls on it.
    Closed,
}

/// Endpoint: the connector and the addresses.
pub(super) type Peer = (ConnectorId, Vec<SocketAddress>);

/// State of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ConnectionState {
    /// A connection attempt is in progress or scheduled.
    Connecting,
    Ready,
    /// The last attempt failed. The state stays until a connection is ready, although attempts
    /// continue.
    Failed(String),
}

#[derive(Clone, Debug)]
pub(super) struct EndpointConnection {
    peer: Peer,
    /// Address of the last connection that was established.
    pub(super) address: Option<SocketAddress>,
    pub(super) state: ConnectionState,
    /// Progress of the connection attempt.
    attempt: Attempt,
    failures: u32,
    /// Time at which the last attempt began.
    began: Time,
    pub(super) counters: Arc<EndpointCounters>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    /// Scheduled for this time.
    Due(Time),
    /// In progress or successful.
    Made,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Connections {
    by_id: BTreeMap<ConnectionId, EndpointConnection>,
    by_peer: BTreeMap<Peer, ConnectionId>,
    next: u64,
}

impl Connections {
    pub(super) fn get(&self, peer: &Peer) -> Option<(ConnectionId, &EndpointConnection)> {
        let id = *self.by_peer.get(peer)?;
        Some((id, self.by_id.get(&id)?))
    }

    /// Whether another attempt to connect is due after one that failed.
    pub(super) fn retries(&self, id: ConnectionId, now: Time) -> bool {
        self.by_id.get(&id).is_some_and(|it| {
            it.failures > 0 && matches!(it.attempt, Attempt::Due(at) if at <= now)
        })
    }

    pub(super) fn is_ready(&self, id: ConnectionId) -> bool {
        self.by_id.get(&id).is_some_and(|it| it.state == ConnectionState::Ready)
    }

    /// Begins the blackout of the load reports of an endpoint that calls are sent to again.
    pub(super) fn begin_blackout(&self, id: ConnectionId) {
        if let Some(connection) = self.by_id.get(&id) {
            connection.counters.load.reset();
        }
    }

    /// Adds an endpoint if it is unknown.
    pub(super) fn add(&mut self, peer: &Peer) {
        if self.by_peer.contains_key(peer) {
            return;
        }
        let id = ConnectionId(self.next);
        self.next = self.next.saturating_add(1);
        self.by_peer.insert(peer.clone(), id);
        let connection = EndpointConnection {
            peer: peer.clone(),
            address: None,
            state: ConnectionState::Connecting,
            attempt: Attempt::Due(Time::ZERO),
            failures: 0,
            began: Time::ZERO,
            counters: Arc::default(),
        };
        self.by_id.insert(id, connection);
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Removes and returns the connections that are neither wanted nor serving.
    pub(super) fn take_unwanted(
        &mut self,
        wanted: &BTreeSet<&Peer>,
        serving: &BTreeSet<ConnectionId>,
    ) -> Vec<ConnectionId> {
        let mut unwanted = Vec::new();
        self.by_peer.retain(|peer, id| {
            let stays = wanted.contains(peer) || serving.contains(id);
            if !stays {
                self.by_id.remove(id);
                unwanted.push(*id);
            }
            stays
        });
        unwanted
    }

    /// Returns the connections whose attempts begin now.
    pub(super) fn start(&mut self, now: Time) -> Vec<(ConnectionId, Peer)> {
        let mut started = Vec::new();
        for (id, connection) in &mut self.by_id {
            if matches!(connection.attempt, Attempt::Due(at) if at <= now) {
                connection.attempt = Attempt::Made;
                connection.began = now;
                started.push((*id, connection.peer.clone()));
            }
        }
        started
    }

    pub(super) fn next_attempt(&self) -> Option<Time> {
        let attempts = self.by_id.values().filter_map(|connection| match connection.attempt {
            Attempt::Due(at) => Some(at),
            Attempt::Made => None,
        });
        attempts.min()
    }

    /// Handles an event of a connection. Returns whether it has an effect: the connection is known,
    /// and has not failed already.
    pub(super) fn handle(
        &mut self,
        id: ConnectionId,
        event: ConnectionEvent,
        times: &BalancerTimes,
        random: &mut Random,
    ) -> bool {
        let Some(connection) = self.by_id.get_mut(&id) else {
            return false;
        };
        let has_failed = matches!(connection.state, ConnectionState::Failed(_));
        let is_due = matches!(connection.attempt, Attempt::Due(_));
        match event {
            ConnectionEvent::Connected(address) => {
                connection.address = Some(address);
                connection.state = ConnectionState::Ready;
                connection.counters.load.reset();
                connection.failures = 0;
                connection.attempt = Attempt::Made;
                return true;
            }
            ConnectionEvent::Closed | ConnectionEvent::Failed(_) if has_failed && is_due => {
                return false;
            }
            ConnectionEvent::Closed if has_failed => {}
            // Reconnects at once (A27), but no sooner than the backoff allows.
            ConnectionEvent::Closed => connection.state = ConnectionState::Connecting,
            ConnectionEvent::Failed(why) => {
                connection.state = ConnectionState::Failed(why);
                connection.failures = connection.failures.saturating_add(1);
            }
        }
        let pause = backoff(connection.failures, times, random);
        connection.attempt = Attempt::Due(connection.began.after(pause));
        true
    }
}

/// Returns the time between the beginnings of two attempts, after this number of failures in a row.
fn backoff(failures: u32, times: &BalancerTimes, random: &mut Random) -> Duration {
    let mut pause = times.initial_backoff;
    for _ in 1..failures {
        pause = pause.saturating_add(pause / 5 * 3).min(times.max_backoff);
        if pause == times.max_backoff {
            break;
        }
    }
    random.jittered(pause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unbounded_backoff_does_not_overflow() {
        let never = Duration::MAX;
        let times =
            BalancerTimes { initial_backoff: never, max_backoff: never, ..Default::default() };
        for failures in [1, 2, 50] {
            let pause = backoff(failures, &times, &mut Random::new(7));
            assert!(pause > Duration::from_secs(u64::MAX / 2), "{pause:?} after {failures}");
        }
    }
}
