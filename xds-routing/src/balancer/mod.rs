//! Endpoint selection within a cluster, and the connections it requires: priorities ([gRFC A27],
//! [gRFC A56]), weighted localities, and round robin, least request ([gRFC A48]) or pick first ([gRFC
//! A62]) of endpoints.
//!
//! The inputs of a [`Balancer`] are the cluster with its endpoints, and the events of connections.
//! Its outputs are instructions to connect and disconnect, and a new [`Picker`] whenever the
//! serving endpoints change. It opens no connections and has no clock.
//!
//! [gRFC A27]: https://github.com/grpc/proposal/blob/master/A27-xds-global-load-balancing.md
//! [gRFC A48]: https://github.com/grpc/proposal/blob/master/A48-xds-least-request-lb-policy.md
//! [gRFC A56]: https://github.com/grpc/proposal/blob/master/A56-priority-lb-policy.md
//! [gRFC A62]: https://github.com/grpc/proposal/blob/master/A62-pick-first.md
//!
//! | topic | file |
//! |---|---|
//! | failover between priorities | `priority.rs` |
//! | connections and their backoff | `connection.rs` |
//! | policies | `policy.rs` |
//! | picker | `picker.rs` |
//! | counters of active calls, for shared limits | `counters.rs` |
//! | clusters and their endpoints as priorities | `sources.rs` |
//! | clusters and endpoints from a configuration | `configure.rs` |
//!
//! Three [policies](crate::cluster::BalancingPolicy) are implemented, round robin, least request and
//! pick first: within a locality that is chosen by weight, or over all localities of a priority. Pick
//! first is one connection with the addresses of all endpoints, to the first one that answers; it is
//! made anew if the addresses change. Calls to a cluster with any other policy fail.

mod configure;
mod connection;
mod counters;
mod picker;
mod policy;
mod priority;
mod sources;
mod times;

use alloc::{
    collections::{BTreeSet, VecDeque},
    format,
    sync::Arc,
    vec::Vec,
};
use core::sync::atomic::AtomicU32;

use xds_core::{ResourceName, Time};

pub use self::{
    connection::{ConnectionEvent, ConnectionId, ConnectorId},
    counters::CallCounters,
    picker::{CallPermit, EndpointPick, PickAttempt, Picker},
    policy::can_balance,
    sources::{Source, leaves},
    times::BalancerTimes,
};
use self::{
    connection::{ConnectionState, Connections},
    counters::UnsharedCounters,
    picker::{Limits, PickEndpoint, PickLocality},
    priority::Priorities,
};
use crate::{random::Random, scalars::SocketAddress};

/// Instruction to the owner of the connections.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum BalancerOutput {
    /// Connect with this connector to the first of these addresses that answers, and report the
    /// outcome to [`Balancer::handle_connection`].
    Connect(ConnectionId, ConnectorId, Vec<SocketAddress>),
    /// Send no new calls on this connection. Active calls may finish. Events of the connection need
    /// not be reported any more.
    Disconnect(ConnectionId),
    /// Use this picker from now on, also for waiting calls. Precedes the
    /// [`Disconnect`](Self::Disconnect)s that follow from it.
    Pick(Picker),
}

type Counted = ((ResourceName, Option<ResourceName>), Arc<AtomicU32>);

/// Chooses endpoints for the calls of a cluster.
#[derive(Clone, Debug)]
pub struct Balancer {
    times: BalancerTimes,
    priorities: Priorities,
    connections: Connections,
    outputs: VecDeque<BalancerOutput>,
    seed: u64,
    random: Random,
    /// Counters of active calls, by cluster and the name of its EDS resource.
    requests: Vec<Counted>,
    counters: Arc<dyn CallCounters>,
    /// Connections that get calls by the newest picker.
    serving: BTreeSet<ConnectionId>,
    /// Whether some connections exist only because they are serving.
    has_unwanted: bool,
    /// Time of the last connection event that outputs do not reflect yet.
    unsettled: Option<Time>,
}

impl Balancer {
    /// Creates a balancer without endpoints. Calls wait until the first picker. `seed` is for
    /// random choices.
    #[must_use]
    pub fn new(times: BalancerTimes, seed: u64) -> Self {
        Self {
            times,
            priorities: Priorities::default(),
            connections: Connections::default(),
            outputs: VecDeque::new(),
            seed,
            random: Random::new(seed),
            requests: Vec::new(),
            counters: Arc::new(UnsharedCounters),
            serving: BTreeSet::new(),
            has_unwanted: false,
            unsettled: None,
        }
    }

    /// Sets the source of the counters of active calls. By default they are not shared with other
    /// balancers.
    #[must_use]
    pub fn with_counters(mut self, counters: Arc<dyn CallCounters>) -> Self {
        self.counters = counters;
        self
    }

    /// Sets the clusters that calls are balanced over, with their endpoints: one cluster, or the
    /// members of an aggregate cluster, whose priorities are concatenated (gRFC A37).
    ///
    /// Connections to unchanged endpoints are kept. A cluster that cannot be used counts as one
    /// failed priority, so the others serve (gRFC A75).
    pub fn update(&mut self, sources: &[Source<'_>], now: Time) {
        let mut priorities = Vec::new();
        let mut requests = Vec::new();
        for source in sources {
            let cluster = source.cluster;
            let key = (cluster.name.clone(), cluster.endpoints().cloned());
            let known = self.requests.iter().find(|(known, _)| *known == key);
            let counter = match known {
                Some((_, counter)) => Arc::clone(counter),
                None => self.counters.counter(&key.0, key.1.as_ref()),
            };
            requests.push((key, Arc::clone(&counter)));
            let (drops, max) = (source.endpoints.drops.clone(), cluster.max_requests);
            let cluster = cluster.name.clone();
            let limits = Arc::new(Limits { cluster, drops, requests: counter, max });
            priorities.extend(source.priorities(&limits, self.seed));
        }
        self.requests = requests;
        self.priorities.replace(priorities);
        self.settle(now);
    }

    /// Removes all endpoints until the next [`update`](Self::update). All connections are released,
    /// and calls fail.
    pub fn clear(&mut self, now: Time) {
        self.priorities.replace(Vec::new());
        self.settle(now);
    }

    /// Handles an event of a connection. An unknown or disconnected one is ignored.
    ///
    /// The next [`poll_output`](Self::poll_output) computes the outputs of all preceding events.
    /// Pass all known events before polling, because the cost of a computation grows with the
    /// number of endpoints.
    pub fn handle_connection(&mut self, id: ConnectionId, event: ConnectionEvent, now: Time) {
        if self.connections.handle(id, event, &self.times, &mut self.random) {
            self.unsettled = Some(now);
        }
    }

    /// Returns the next instruction.
    pub fn poll_output(&mut self) -> Option<BalancerOutput> {
        if let Some(now) = self.unsettled {
            self.settle(now);
        }
        self.outputs.pop_front()
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let timers =
            [self.unsettled, self.priorities.next_timer(), self.connections.next_attempt()];
        timers.into_iter().flatten().min()
    }

    /// Retries failed connections, fails over to the next priority, and closes connections that
    /// have been kept long enough. Calling early is harmless.
    pub fn handle_timeout(&mut self, now: Time) {
        self.settle(now);
    }

    /// Brings priorities, picker and connections up to date.
    fn settle(&mut self, now: Time) {
        self.unsettled = None;
        self.priorities.choose(&self.connections, &self.times, now);
        let picker = self.picker();
        self.outputs.push_back(BalancerOutput::Pick(picker));
        if self.priorities.take_changed() || self.has_unwanted {
            let wanted = self.priorities.wanted();
            wanted.iter().for_each(|peer| self.connections.add(peer));
            let unwanted = self.connections.take_unwanted(&wanted, &self.serving);
            self.has_unwanted = self.connections.len() > wanted.len();
            self.outputs.extend(unwanted.into_iter().map(BalancerOutput::Disconnect));
        }
        for (id, (connector, addresses)) in self.connections.start(now) {
            self.outputs.push_back(BalancerOutput::Connect(id, connector, addresses));
        }
    }

    /// Returns a connection as an endpoint for calls, if it is ready.
    fn endpoint(&self, id: ConnectionId) -> Option<PickEndpoint> {
        let calls = self.connections.calls_if_ready(id)?;
        Some(PickEndpoint { id, calls: Arc::clone(calls) })
    }

    /// Creates the picker. While no endpoint of the current priority is ready but some are
    /// connecting, the previous connections keep serving, as in gRPC's round robin (make before
    /// break).
    fn picker(&mut self) -> Picker {
        let before = core::mem::take(&mut self.serving);
        let Some(current) = self.priorities.current() else {
            return Picker::failing("there are no endpoints".into());
        };
        if let Some(why) = &current.failure {
            return Picker::failing(why.clone());
        }
        let (mut ready, policy) = (Vec::new(), current.policy);
        let (mut sum, mut is_waiting) = (0_u32, false);
        let mut why = None;
        for locality in &current.localities {
            let mut endpoints = Vec::new();
            for peer in &locality.endpoints {
                match self.connections.state(peer) {
                    Some((id, ConnectionState::Ready)) => {
                        endpoints.extend(self.endpoint(id));
                    }
                    Some((_, ConnectionState::Failed(reason))) => why = Some(reason),
                    Some((_, ConnectionState::Connecting)) | None => is_waiting = true,
                }
            }
            if !endpoints.is_empty() {
                sum = sum.saturating_add(locality.weight);
                ready.push(PickLocality::new(sum, endpoints, policy, &mut self.random));
            }
        }
        if ready.is_empty() && is_waiting {
            let kept: Vec<_> = before.into_iter().filter_map(|id| self.endpoint(id)).collect();
            if !kept.is_empty() {
                ready.push(PickLocality::new(1, kept, policy, &mut self.random));
            }
        }
        self.serving = ready.iter().flat_map(PickLocality::endpoints).collect();
        match (ready.is_empty(), is_waiting, why) {
            (false, ..) => Picker::ready(ready, Arc::clone(&current.limits)),
            (true, true, _) => Picker::queueing(),
            (true, false, Some(why)) => {
                Picker::failing(format!("connections to all endpoints failed; the last: {why}"))
            }
            (true, false, None) => Picker::failing("there are no endpoints".into()),
        }
    }
}
