//! Calls of sessions: the choice of an endpoint by its address, and the connections that only
//! sessions need ([gRFC A55], [gRFC A75]).
//!
//! Endpoints of all priorities of a cluster can be chosen, and draining ones if the cluster allows
//! it. A connection that no priority needs is kept while sessions use it, and made when a session
//! needs it. It is not made anew after its end.
//!
//! [gRFC A55]:
//!     https://github.com/grpc/proposal/blob/master/A55-xds-stateful-session-affinity.md
//! [gRFC A75]:
//!     https://github.com/grpc/proposal/blob/master/A75-xds-aggregate-cluster-behavior-fixes.md
// B39a

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};
use xds_core::{ResourceName, Time};

use super::{
    ConnectionId,
    connection::{Connections, Peer},
    overrides::{Overrides, SessionRequest},
    priority::{Priorities, PriorityName},
    session_endpoints::{SHORTEST_SWEEP, SessionEndpoint, SessionEndpoints, of_priorities},
};

/// Sessions of a balancer. They cost nothing until a call uses them.
#[derive(Clone, Debug, Default)]
pub(super) struct Sessions {
    /// Endpoints by leaf cluster. `None` while no call uses sessions.
    clusters: Option<BTreeMap<ResourceName, Arc<SessionEndpoints>>>,
    /// Connections that no priority needs.
    unowned: BTreeMap<ConnectionId, Arc<SessionEndpoint>>,
    /// Time of the next search for unused connections.
    sweep: Option<Time>,
    /// Whether other connections may be needed than at the last [`take_changed`](Self::take_changed).
    is_changed: bool,
}

impl Sessions {
    /// Updates the endpoints after the priorities have changed.
    pub(super) fn rebuild(&mut self, priorities: &Priorities) {
        if let Some(before) = self.clusters.take() {
            self.clusters = Some(of_priorities(priorities, &before));
        }
    }

    /// Handles the request of a call.
    pub(super) fn handle(
        &mut self,
        request: &SessionRequest,
        priorities: &Priorities,
        connections: &mut Connections,
        now: Time,
    ) {
        let clusters =
            self.clusters.get_or_insert_with(|| of_priorities(priorities, &BTreeMap::new()));
        self.is_changed = true;
        let Some((cluster, address)) = &request.connect else { return };
        if let Some(endpoint) = clusters.get(cluster).and_then(|cluster| cluster.get(address)) {
            endpoint.use_at(now);
            connections.add(&endpoint.peer);
        }
    }

    /// Handles the end of a connection. One that no priority needs is released.
    pub(super) fn handle_end(&mut self, id: ConnectionId) {
        if let Some(endpoint) = self.unowned.get(&id) {
            endpoint.forget();
            self.is_changed = true;
        }
    }

    /// Releases failed connections instead of trying again, and prepares the search for unused ones.
    pub(super) fn expire(&mut self, connections: &Connections, now: Time) {
        for (id, endpoint) in &self.unowned {
            if connections.retries(*id, now) {
                endpoint.forget();
                self.is_changed = true;
            }
        }
        if self.sweep.is_some_and(|sweep| sweep <= now) {
            self.is_changed = true;
            let clusters = self.clusters.iter().flat_map(BTreeMap::values);
            if !clusters.into_iter().any(|cluster| cluster.are_used(now)) {
                self.clusters = None;
            }
        }
    }

    /// Returns the choices of a picker whose calls go to this priority.
    pub(super) fn overrides(
        &self,
        current: Option<&PriorityName>,
        priorities: &mut Priorities,
        connections: &Connections,
        now: Time,
    ) -> Option<Overrides> {
        let clusters = self.clusters.as_ref()?;
        let cluster = current.and_then(|(cluster, _)| clusters.get_key_value(cluster));
        Some(match cluster {
            Some((name, endpoints)) => {
                Overrides::new(name, endpoints, priorities, connections, now)
            }
            None => Overrides::default(),
        })
    }

    /// Returns whether other connections may be needed than at the last call.
    pub(super) const fn take_changed(&mut self) -> bool {
        core::mem::replace(&mut self.is_changed, false)
    }

    /// Adds the connections that sessions use to those that priorities need.
    pub(super) fn keep<'a>(
        &'a mut self,
        wanted: &mut BTreeSet<&'a Peer>,
        connections: &Connections,
        now: Time,
    ) {
        self.unowned.clear();
        self.sweep = None;
        let Some(clusters) = &self.clusters else { return };
        let (mut kept, mut end): (Vec<&'a Peer>, _) = (Vec::new(), None);
        for cluster in clusters.values() {
            for endpoint in cluster.used(now).filter(|it| !wanted.contains(&it.peer)) {
                let Some((id, _)) = connections.get(&endpoint.peer) else { continue };
                self.unowned.insert(id, Arc::clone(endpoint));
                kept.push(&endpoint.peer);
                end = end.into_iter().chain(cluster.end_of_use(endpoint)).min();
            }
            let later = now.after(cluster.idle_timeout());
            end = end.into_iter().chain([later]).min();
        }
        wanted.extend(kept);
        self.sweep = end.map(|end| end.max(now.after(SHORTEST_SWEEP)));
    }

    pub(super) const fn next_timer(&self) -> Option<Time> {
        self.sweep
    }
}
