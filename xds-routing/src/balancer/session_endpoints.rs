//! Endpoints of a cluster that sessions can use, by their addresses.

use alloc::{
    collections::BTreeMap,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};
use core::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use xds_core::{ResourceName, Time};

use super::{
    ConnectionId,
    by_address::{EndpointLocality, Hostnames},
    connection::Peer,
    counters::{CallResults, EndpointCounters},
    limits::PickEndpoint,
    priority::{Member, Priorities},
};
use crate::scalars::SocketAddress;

use crate::cluster::WeightedRoundRobin;

/// Shortest time between two searches for connections that sessions have not used for some time.
pub(super) const SHORTEST_SWEEP: Duration = Duration::from_secs(5);

/// Endpoints of a leaf cluster.
#[derive(Debug, Default)]
pub(super) struct SessionEndpoints {
    idle_timeout: Duration,
    /// Index of the endpoint with each address.
    by_address: BTreeMap<String, usize>,
    pub(super) list: Vec<Arc<SessionEndpoint>>,
}

/// Endpoint that sessions can use.
#[derive(Debug)]
pub(super) struct SessionEndpoint {
    pub(super) peer: Peer,
    pub(super) hostnames: Hostnames,
    pub(super) locality: EndpointLocality,
    /// Addresses as text.
    addresses: Vec<String>,
    /// Whether the cluster allows sessions for the health status of the endpoint.
    pub(super) is_allowed: bool,
    /// Index of the priority that connects to the endpoint.
    pub(super) priority: Option<usize>,
    /// Time of the last call of a session, in nanoseconds plus one. Zero if there was none.
    used: AtomicU64,
}

impl SessionEndpoint {
    /// Returns the endpoint for calls, when its connection is ready.
    pub(super) fn ready(
        &self,
        id: ConnectionId,
        counters: &Arc<EndpointCounters>,
        results: Option<Arc<CallResults>>,
        loads: Option<Arc<WeightedRoundRobin>>,
    ) -> PickEndpoint {
        let (counters, hostnames) = (Arc::clone(counters), self.hostnames.clone());
        PickEndpoint { id, counters, results, hostnames, locality: self.locality.clone(), loads }
    }
}

/// Creates the endpoints of all clusters. The times of their last use are those of `before`.
pub(super) fn of_priorities(
    priorities: &Priorities,
    before: &BTreeMap<ResourceName, Arc<SessionEndpoints>>,
) -> BTreeMap<ResourceName, Arc<SessionEndpoints>> {
    let mut clusters: BTreeMap<ResourceName, SessionEndpoints> = BTreeMap::new();
    for (index, priority) in priorities.list().iter().enumerate() {
        let members = &priority.members;
        let name = &members.name.0;
        let cluster = clusters.entry(name.clone()).or_default();
        cluster.idle_timeout = members.sessions.idle_timeout.max(SHORTEST_SWEEP);
        let before = before.get(name);
        let owned = match members.sessions.connects_to_each {
            true => &members.localities[..],
            false => &[],
        };
        for member in owned.iter().flat_map(|locality| &locality.endpoints) {
            cluster.add(member, Some(index), before);
        }
        for member in &members.sessions.others {
            cluster.add(member, None, before);
        }
    }
    clusters.into_iter().map(|(name, cluster)| (name, Arc::new(cluster))).collect()
}

impl SessionEndpoints {
    fn add(&mut self, member: &Member, priority: Option<usize>, before: Option<&Arc<Self>>) {
        let addresses: Vec<String> = member.peer.1.iter().map(ToString::to_string).collect();
        let known = before.and_then(|it| addresses.iter().find_map(|address| it.get(address)));
        let used = known.map_or(0, |it| it.used.load(Ordering::Relaxed));
        for address in &addresses {
            self.by_address.insert(address.clone(), self.list.len());
        }
        self.list.push(Arc::new(SessionEndpoint {
            peer: member.peer.clone(),
            hostnames: member.hostnames.clone(),
            locality: member.locality.clone(),
            addresses,
            is_allowed: member.takes_sessions,
            priority,
            used: AtomicU64::new(used),
        }));
    }

    /// Returns the index of the endpoint with this address.
    pub(super) fn index(&self, address: &str) -> Option<usize> {
        self.by_address.get(address).copied()
    }

    /// Returns the endpoint with this address.
    pub(super) fn get(&self, address: &str) -> Option<&Arc<SessionEndpoint>> {
        self.list.get(self.index(address)?)
    }

    /// Returns the time for which a connection is kept after a call of a session.
    pub(super) const fn idle_timeout(&self) -> Duration {
        self.idle_timeout
    }

    /// Returns the time until which the last call of a session keeps a connection.
    pub(super) fn end_of_use(&self, endpoint: &SessionEndpoint) -> Option<Time> {
        let used = endpoint.used.load(Ordering::Relaxed).checked_sub(1)?;
        Some(Time::from_nanos(used).after(self.idle_timeout))
    }

    /// Whether a call of a session has used the endpoint recently.
    pub(super) fn is_used(&self, endpoint: &SessionEndpoint, now: Time) -> bool {
        self.end_of_use(endpoint).is_some_and(|end| now < end)
    }

    /// Returns the endpoints that calls of sessions have used recently.
    pub(super) fn used(&self, now: Time) -> impl Iterator<Item = &Arc<SessionEndpoint>> {
        self.list.iter().filter(move |endpoint| self.is_used(endpoint, now))
    }

    pub(super) fn are_used(&self, now: Time) -> bool {
        self.used(now).next().is_some()
    }
}

impl SessionEndpoint {
    /// Returns the index of the address that a connection uses. Zero if it is not among them.
    pub(super) fn index_of(&self, used: Option<&SocketAddress>) -> usize {
        let index = used.and_then(|used| self.peer.1.iter().position(|address| address == used));
        index.unwrap_or_default()
    }

    /// Returns the addresses, separated by commas. The one at `first`, which the connection uses, is
    /// the first.
    pub(super) fn address_list(&self, first: usize) -> String {
        let mut list = self.addresses.get(first).cloned().unwrap_or_default();
        for (_, address) in self.addresses.iter().enumerate().filter(|(index, _)| *index != first) {
            list.push(',');
            list.push_str(address);
        }
        list
    }

    /// Stores the time of a call of a session.
    pub(super) fn use_at(&self, now: Time) {
        self.used.fetch_max(now.as_nanos().saturating_add(1), Ordering::Relaxed);
    }

    /// Discards the time of the last call, so that the connection is not kept.
    pub(super) fn forget(&self) {
        self.used.store(0, Ordering::Relaxed);
    }
}
