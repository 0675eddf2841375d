//! Choices of a picker for calls of sessions.

use alloc::{
    collections::BTreeMap,
    string::{String, ToString as _},
    sync::Arc,
    vec::Vec,
};

use xds_core::{ResourceName, Time, proto::Locality};

use super::{
    ConnectionId,
    connection::{ConnectionState, Connections},
    limits::{Limits, PickEndpoint},
    priority::{Priorities, Priority},
    session_endpoints::{SessionEndpoint, SessionEndpoints},
};

/// Session of a call that an endpoint is picked for.
#[derive(Clone, Copy, Debug)]
pub struct SessionPick<'a> {
    addresses: &'a str,
    now: Time,
}

impl<'a> SessionPick<'a> {
    /// Creates the session of a call whose request has a cookie with these
    /// [addresses](crate::filters::Session::addresses), which may be empty. `now` is a time of the
    /// balancer's clock.
    #[must_use]
    pub const fn new(addresses: &'a str, now: Time) -> Self {
        Self { addresses, now }
    }
}

/// Request of a call of a session, for [`Balancer::handle_session`](super::Balancer::handle_session).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRequest {
    /// Cluster and address of the endpoint that the call waits for. `None` if it needs a picker for
    /// sessions.
    pub(super) connect: Option<(ResourceName, String)>,
}

/// Endpoints of the current cluster for calls of sessions.
#[derive(Debug, Default)]
pub(super) struct Overrides {
    endpoints: Arc<SessionEndpoints>,
    /// States of the endpoints, in their order.
    states: Vec<OverrideState>,
    /// Endpoints of connections, and the index of the address that each uses.
    by_connection: BTreeMap<ConnectionId, (usize, usize)>,
    limits: Option<Arc<Limits>>,
}

#[derive(Debug)]
enum OverrideState {
    Unconnected,
    Connecting,
    Ready(PickEndpoint),
    Failed,
}

/// Choice for a call of a session.
pub(super) enum Override<'a> {
    /// The call is sent to this endpoint.
    Endpoint(&'a PickEndpoint, &'a Limits),
    /// The call waits for a connection.
    Queue,
    /// The call waits, and requests a connection.
    Request(SessionRequest),
    /// The LB policy chooses an endpoint.
    None,
}

impl SessionRequest {
    /// Returns the request for a picker with sessions.
    pub(super) const fn for_picker() -> Self {
        Self { connect: None }
    }
}

impl Overrides {
    pub(super) fn new(
        cluster: &ResourceName,
        endpoints: &Arc<SessionEndpoints>,
        priorities: &mut Priorities,
        connections: &Connections,
        now: Time,
    ) -> Self {
        let mut overrides = Self { endpoints: Arc::clone(endpoints), ..Self::default() };
        for endpoint in &endpoints.list {
            let priority = endpoint.priority.and_then(|index| priorities.started(index));
            let state = match priority {
                None if !endpoints.is_used(endpoint, now) => OverrideState::Unconnected,
                priority => overrides.state(endpoint, priority, connections),
            };
            overrides.states.push(state);
        }
        for priority in priorities.list().iter().filter(|it| it.members.name.0 == *cluster) {
            overrides.limits = Some(Arc::clone(&priority.members.limits));
            if priority.is_started() && !priority.members.sessions.connects_to_each {
                overrides.add_shared(priority, connections);
            }
        }
        overrides
    }

    /// Returns the localities of the endpoints. Some may occur more than once.
    pub(super) fn localities(&self) -> impl Iterator<Item = &Arc<Locality>> {
        self.endpoints.list.iter().flat_map(|endpoint| endpoint.locality.all())
    }

    /// Returns the state of an endpoint with a connection of its own.
    fn state(
        &mut self,
        endpoint: &SessionEndpoint,
        priority: Option<&mut Priority>,
        connections: &Connections,
    ) -> OverrideState {
        let Some((id, connection)) = connections.get(&endpoint.peer) else {
            return OverrideState::Unconnected;
        };
        // An ejection by outlier detection does not move sessions (A61).
        match connection.state {
            ConnectionState::Ready => {}
            ConnectionState::Connecting => return OverrideState::Connecting,
            ConnectionState::Failed(_) => return OverrideState::Failed,
        }
        let used = endpoint.index_of(connection.address.as_ref());
        self.by_connection.insert(id, (self.states.len(), used));
        let (mut results, mut loads) = (None, None);
        if let Some(priority) = priority {
            results = priority.outliers.as_mut().map(|it| it.results(id));
            loads = priority.members.policy.weighted_by_responses().cloned();
        }
        OverrideState::Ready(endpoint.ready(id, &connection.counters, results, loads))
    }

    /// Adds the connections of pick first, which have the addresses of several endpoints: each is a
    /// connection of the endpoint that it was made to.
    fn add_shared(&mut self, priority: &Priority, connections: &Connections) {
        let members = priority.members.localities.iter().flat_map(|locality| &locality.endpoints);
        for member in members {
            let Some((id, connection)) = connections.get(&member.peer) else { continue };
            let (ConnectionState::Ready, Some(address)) = (&connection.state, &connection.address)
            else {
                continue;
            };
            let Some(index) = self.endpoints.index(&address.to_string()) else { continue };
            let Some(endpoint) = self.endpoints.list.get(index) else { continue };
            self.by_connection.insert(id, (index, endpoint.index_of(Some(address))));
            let ready = endpoint.ready(id, &connection.counters, None, None);
            if let Some(state) = self.states.get_mut(index) {
                *state = OverrideState::Ready(ready);
            }
        }
    }

    /// Returns the cluster of the endpoints.
    pub(super) fn cluster(&self) -> Option<&ResourceName> {
        self.limits.as_ref().map(|limits| &limits.cluster)
    }

    /// Chooses an endpoint for a call, by the addresses in its cookie.
    pub(super) fn choose(&self, session: &SessionPick<'_>) -> Override<'_> {
        let (mut is_connecting, mut unconnected) = (false, None);
        let Some(limits) = &self.limits else { return Override::None };
        for address in session.addresses.split(',') {
            let Some(index) = self.endpoints.index(address) else { continue };
            if !self.endpoints.list.get(index).is_some_and(|it| it.is_allowed) {
                continue;
            }
            match self.states.get(index) {
                Some(OverrideState::Ready(endpoint)) => {
                    return Override::Endpoint(endpoint, limits);
                }
                Some(OverrideState::Connecting) => is_connecting = true,
                Some(OverrideState::Unconnected) => unconnected = unconnected.or(Some(address)),
                Some(OverrideState::Failed) | None => {}
            }
        }
        match unconnected {
            _ if is_connecting => Override::Queue,
            Some(address) => {
                let connect = Some((limits.cluster.clone(), address.into()));
                Override::Request(SessionRequest { connect })
            }
            None => Override::None,
        }
    }

    /// Stores that a call of a session uses a connection. Returns the addresses of the endpoint.
    pub(super) fn join(
        &self,
        session: &SessionPick<'_>,
        connection: ConnectionId,
    ) -> Option<String> {
        let (index, used) = *self.by_connection.get(&connection)?;
        let endpoint = self.endpoints.list.get(index)?;
        endpoint.use_at(session.now);
        Some(endpoint.address_list(used))
    }
}
