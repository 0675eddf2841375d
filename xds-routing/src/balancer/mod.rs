//! Endpoint selection within a cluster, and the connections it requires: priorities ([gRFC A27],
//! [gRFC A56]), weighted localities, the choice of an endpoint by round robin, weighted round robin
//! ([gRFC A58]), ring hash ([gRFC A42]), least request ([gRFC A48]) or pick first ([gRFC A62]), and
//! outlier detection ([gRFC A50]). Calls of a [session](crate::filters::Session) go to the endpoint
//! of the session if it can be used ([gRFC A55], [gRFC A75]).
//!
//! The inputs of a [`Balancer`] are the cluster with its endpoints, and the events of connections.
//! Its outputs are instructions to connect and disconnect, and a new [`Picker`] whenever the
//! serving endpoints may have changed. It opens no connections and has no clock.
//!
//! # How to drive it
//!
//! - Create a balancer for each cluster that routes name, and [configure](Balancer::configure) it
//!   with each new configuration.
//! - After every input, poll the outputs until there are none. `poll_timeout` does not state that
//!   outputs are queued.
//! - Call [`Balancer::handle_timeout`] at the time of [`Balancer::poll_timeout`].
//! - Report the outcome of each attempt to connect, and the end of each connection, as
//!   [`ConnectionEvent`]s.
//! - Pick an endpoint for each call with the newest picker, and hold the permit until the call ends.
//!   A call for which the picker returns [`EndpointPick::Queue`] waits, and is picked for again with
//!   each new picker. A retry by a policy is picked for like a new call. A picker never blocks;
//!   clones of it can be used by other threads.
//! - Pass the request of an [`EndpointPick::Request`] to [`Balancer::handle_session`]. The call waits
//!   like a queued one.
//!
//! ```
//! use xds_core::Time;
//! use xds_routing::{Random, balancer::*};
//!
//! # use xds_core::proto::{Locality, UInt32Value};
//! # use xds_routing::{Rules, cluster::Cluster, endpoint::ClusterLoadAssignment};
//! # use xds_routing::proto::envoy::config::{cluster::v3 as cds, core::v3 as core, endpoint::v3 as eds};
//! # let ads = core::config_source::ConfigSourceSpecifier::Ads(Default::default());
//! # let ads = core::ConfigSource { config_source_specifier: Some(ads), ..Default::default() };
//! # let schema = cds::Cluster {
//! #     name: "carts".into(),
//! #     cluster_discovery_type: Some(cds::cluster::ClusterDiscoveryType::Type(3)),
//! #     eds_cluster_config: Some(cds::cluster::EdsClusterConfig {
//! #         eds_config: Some(ads),
//! #         ..Default::default()
//! #     }),
//! #     ..Default::default()
//! # };
//! # let cluster = Cluster::from_schema(&schema, &Rules::default())?;
//! # let address = core::SocketAddress {
//! #     address: "10.0.0.1".into(),
//! #     port_specifier: Some(core::socket_address::PortSpecifier::PortValue(80)),
//! #     ..Default::default()
//! # };
//! # let address = core::Address { address: Some(core::address::Address::SocketAddress(address)) };
//! # let endpoint = eds::Endpoint { address: Some(address), ..Default::default() };
//! # let endpoint = eds::LbEndpoint {
//! #     host_identifier: Some(eds::lb_endpoint::HostIdentifier::Endpoint(endpoint)),
//! #     ..Default::default()
//! # };
//! # let locality = eds::LocalityLbEndpoints {
//! #     locality: Some(Locality::default()),
//! #     load_balancing_weight: Some(UInt32Value { value: 1 }),
//! #     lb_endpoints: vec![endpoint],
//! #     ..Default::default()
//! # };
//! # let schema = eds::ClusterLoadAssignment {
//! #     cluster_name: "carts".into(),
//! #     endpoints: vec![locality],
//! #     ..Default::default()
//! # };
//! # let endpoints = ClusterLoadAssignment::from_schema(&schema, &Rules::default())?;
//! let now = Time::ZERO; // a driver reads its monotonic clock before every call
//! let mut balancer = Balancer::new(BalancerTimes::default(), 42);
//! balancer.update(&[Source::new(&cluster, &endpoints)], now);
//!
//! let mut newest = None;
//! while let Some(output) = balancer.poll_output() {
//!     match output {
//!         BalancerOutput::Pick(picker) => newest = Some(picker),
//!         BalancerOutput::Connect(id, _, addresses) => {
//!             assert_eq!(addresses[0].to_string(), "10.0.0.1:80");
//!             // A driver starts to connect here, and reports the outcome when it is known.
//!             balancer.handle_connection(id, ConnectionEvent::Connected(addresses[0].clone()), now);
//!         }
//!         _ => {}
//!     }
//! }
//! let picker = newest.expect("the first output of a configured balancer");
//! let EndpointPick::Endpoint(_connection, mut permit) = picker.pick(&mut Random::new(7)) else {
//!     panic!("the connection is ready")
//! };
//! // Send the call on the connection. After the response:
//! permit.set_outcome(CallOutcome::Success);
//! drop(permit);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Policies
//!
//! Each of these [policies](crate::cluster::BalancingPolicy) applies within a locality that is chosen
//! by weight, or over all localities of a priority. Calls to a cluster with any other policy fail.
//!
//! - Pick first is one connection with the addresses of all endpoints, to the first one that answers;
//!   it is made anew if the addresses change. Its endpoint is never ejected.
//! - Weighted round robin uses the loads that endpoints report ([`Picker::loads`]): with their
//!   responses ([`CallPermit::report_load`]) or on streams ([`LoadRecorder`]).
//! - Ring hash connects to all endpoints at once, not when a call needs one. A ring has at most 4,096
//!   hashes, gRPC's default. Clients with equal endpoints and weights have the same ring as other
//!   implementations of gRPC. A priority without a ready endpoint fails over if two have failed.
//!
//! [gRFC A27]: https://github.com/grpc/proposal/blob/master/A27-xds-global-load-balancing.md
//! [gRFC A42]: https://github.com/grpc/proposal/blob/master/A42-xds-ring-hash-lb-policy.md
//! [gRFC A48]: https://github.com/grpc/proposal/blob/master/A48-xds-least-request-lb-policy.md
//! [gRFC A50]: https://github.com/grpc/proposal/blob/master/A50-xds-outlier-detection.md
//! [gRFC A55]: https://github.com/grpc/proposal/blob/master/A55-xds-stateful-session-affinity.md
//! [gRFC A56]: https://github.com/grpc/proposal/blob/master/A56-priority-lb-policy.md
//! [gRFC A58]: https://github.com/grpc/proposal/blob/master/A58-client-side-weighted-round-robin-lb-policy.md
//! [gRFC A62]: https://github.com/grpc/proposal/blob/master/A62-pick-first.md
//! [gRFC A75]: https://github.com/grpc/proposal/blob/master/A75-xds-aggregate-cluster-behavior-fixes.md
//!
//! # Source layout
//!
//! | topic | file |
//! |---|---|
//! | failover between priorities | `priority.rs` |
//! | connections and their backoff | `connection.rs` |
//! | policies | `policy.rs` |
//! | localities with ready endpoints | `localities.rs` |
//! | endpoints that are ready, limits of clusters | `limits.rs` |
//! | picker, and the choice among the ready endpoints | `picker.rs`, `ring.rs`, `stride.rs` |
//! | load reports and weights | `load.rs` |
//! | calls of sessions | `sessions.rs`, `session_endpoints.rs`, `overrides.rs` |
//! | ejection of endpoints whose calls fail | `outliers.rs` |
//! | host names and localities of endpoints | `by_address.rs` |
//! | counters of calls | `counters.rs` |
//! | clusters and their endpoints as priorities | `sources.rs` |
//! | clusters and endpoints from a configuration | `configure.rs` |

mod by_address;
mod configure;
mod connection;
mod counters;
mod limits;
mod load;
mod localities;
mod outliers;
mod overrides;
mod picker;
mod policy;
mod priority;
mod ring;
mod session_endpoints;
mod sessions;
mod sources;
mod stride;
mod times;

use alloc::{collections::VecDeque, format, sync::Arc, vec::Vec};
use core::sync::atomic::AtomicU32;

use xds_core::{ResourceName, Time};

use self::{
    connection::Connections,
    counters::UnsharedCounters,
    limits::Limits,
    localities::PickLocalities,
    picker::Choice,
    priority::{Members, Priorities},
    sessions::Sessions,
};
pub use self::{
    connection::{ConnectionEvent, ConnectionId, ConnectorId},
    counters::{CallCounters, LoadRecorder},
    load::{LoadReport, LoadSource},
    overrides::{SessionPick, SessionRequest},
    picker::{CallOutcome, CallPermit, EndpointPick, PickArguments, PickAttempt, Picker},
    policy::can_balance,
    sources::{Source, leaves},
    times::BalancerTimes,
};
use crate::{random::Random, scalars::SocketAddress};

/// Instruction to the owner of the connections.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum BalancerOutput {
    /// Connect with this connector to the first of these addresses that answers, and report the
    /// outcome to [`Balancer::handle_connection`]. After the end of a connection, or a failure, the
    /// same id is output again for the next attempt.
    Connect(ConnectionId, ConnectorId, Vec<SocketAddress>),
    /// Send no new calls on this connection, or cancel the attempt to connect. Active calls may
    /// finish. Events of the connection need not be reported any more.
    Disconnect(ConnectionId),
    /// Use this picker from now on, also for waiting calls. Precedes the
    /// [`Disconnect`](Self::Disconnect)s that follow from it. Timers and events produce a picker even
    /// if it has the same endpoints as the last one.
    Pick(Picker),
}

type Counted = ((ResourceName, Option<ResourceName>), Arc<AtomicU32>);

/// Chooses endpoints for the calls of a cluster.
#[derive(Clone, Debug)]
pub struct Balancer {
    times: BalancerTimes,
    priorities: Priorities,
    sessions: Sessions,
    connections: Connections,
    outputs: VecDeque<BalancerOutput>,
    seed: u64,
    random: Random,
    /// Counters of active calls, by cluster and the name of its EDS resource.
    requests: Vec<Counted>,
    counters: Arc<dyn CallCounters>,
    /// Newest picker.
    picker: Picker,
    /// Time at which the picker gets new weights.
    reweigh: Option<Time>,
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
            sessions: Sessions::default(),
            connections: Connections::default(),
            outputs: VecDeque::new(),
            seed,
            random: Random::new(seed),
            requests: Vec::new(),
            counters: Arc::new(UnsharedCounters),
            picker: Picker::new(Choice::Queue, None),
            reweigh: None,
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
        self.replace(priorities, now);
    }

    /// Removes all endpoints until the next [`update`](Self::update). All connections are released,
    /// and calls fail.
    pub fn clear(&mut self, now: Time) {
        self.replace(Vec::new(), now);
    }

    fn replace(&mut self, priorities: Vec<Members>, now: Time) {
        self.priorities.replace(priorities);
        self.sessions.rebuild(&self.priorities);
        self.settle(now);
    }

    /// Handles an event of a connection. An unknown or disconnected one is ignored.
    ///
    /// The next [`poll_output`](Self::poll_output) computes the outputs of all preceding events.
    /// Pass all known events before polling, because the cost of a computation grows with the
    /// number of endpoints.
    pub fn handle_connection(&mut self, id: ConnectionId, event: ConnectionEvent, now: Time) {
        let is_end = matches!(event, ConnectionEvent::Closed);
        if self.connections.handle(id, event, &self.times, &mut self.random) {
            self.unsettled = Some(now);
            if is_end {
                self.sessions.handle_end(id);
            }
        }
    }

    /// Handles the request of a call of a session. The next [`poll_output`](Self::poll_output)
    /// computes the outputs, among them a picker for the call.
    pub fn handle_session(&mut self, request: &SessionRequest, now: Time) {
        self.sessions.handle(request, &self.priorities, &mut self.connections, now);
        self.unsettled = Some(now);
    }

    /// Returns the next instruction.
    pub fn poll_output(&mut self) -> Option<BalancerOutput> {
        if let Some(now) = self.unsettled {
            self.settle(now);
        }
        self.outputs.pop_front()
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) is due. It may be in the
    /// past. Queued outputs do not count: poll them first.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let timers = [
            self.unsettled,
            self.reweigh,
            self.priorities.next_timer(),
            self.sessions.next_timer(),
            self.connections.next_attempt(),
        ];
        timers.into_iter().flatten().min()
    }

    /// Retries failed connections, fails over to the next priority, ejects outliers, renews weights,
    /// and closes connections that have been kept long enough. Calling early is harmless.
    pub fn handle_timeout(&mut self, now: Time) {
        self.settle(now);
    }

    /// Brings priorities, picker and connections up to date.
    fn settle(&mut self, now: Time) {
        self.unsettled = None;
        self.priorities.detect_outliers(&self.connections, &mut self.random, now);
        self.priorities.choose(&self.connections, &self.times, now);
        self.sessions.expire(&self.connections, now);
        self.picker = self.create_picker(now);
        self.outputs.push_back(BalancerOutput::Pick(self.picker.clone()));
        let (by_priority, by_session) =
            (self.priorities.take_changed(), self.sessions.take_changed());
        if by_priority || by_session || self.has_unwanted {
            let mut wanted = self.priorities.wanted();
            wanted.iter().for_each(|peer| self.connections.add(peer));
            self.sessions.keep(&mut wanted, &self.connections, now);
            let serving = self.picker.endpoints().map(|it| it.id).collect();
            let unwanted = self.connections.take_unwanted(&wanted, &serving);
            self.has_unwanted = self.connections.len() > wanted.len();
            self.priorities.forget(&unwanted);
            self.outputs.extend(unwanted.into_iter().map(BalancerOutput::Disconnect));
        }
        for (id, (connector, addresses)) in self.connections.start(now) {
            self.outputs.push_back(BalancerOutput::Connect(id, connector, addresses));
        }
    }

    /// Creates the picker. While no endpoint of the current priority is ready but some are
    /// connecting, the previous connections keep serving, as in gRPC's round robin (make before
    /// break).
    fn create_picker(&mut self, now: Time) -> Picker {
        let choice = self.create_choice(now);
        let current = self.priorities.current().map(|it| it.members.name.clone());
        let priorities = &mut self.priorities;
        let overrides =
            self.sessions.overrides(current.as_ref(), priorities, &self.connections, now);
        Picker::new(choice, overrides)
    }

    fn create_choice(&mut self, now: Time) -> Choice {
        self.reweigh = None;
        let Some(current) = self.priorities.current() else {
            return Choice::Fail("there are no endpoints".into());
        };
        if let Some(why) = &current.members.failure {
            return Choice::Fail(why.clone());
        }
        let weighted = current.members.policy.weighted().cloned();
        let reweigh = weighted.as_ref().map(|rules| now.after(rules.update));
        let PickLocalities { mut ready, is_waiting, why } =
            current.localities(&self.connections, &mut self.random, now);
        if ready.is_empty() && is_waiting {
            let is_ejected = |id| current.outliers.as_ref().is_some_and(|it| it.is_ejected(id));
            let serves = |id| self.connections.is_ready(id) && !is_ejected(id);
            ready = self.picker.retain(serves, &mut self.random);
        }
        self.reweigh = reweigh.filter(|_| !ready.is_empty());
        match (ready.is_empty(), is_waiting, why) {
            (false, ..) => Choice::Ready(ready, Arc::clone(&current.members.limits), weighted),
            (true, true, _) => Choice::Queue,
            (true, false, Some(why)) => {
                Choice::Fail(format!("connections to all endpoints failed; the last: {why}"))
            }
            (true, false, None) => Choice::Fail("there are no endpoints".into()),
        }
    }
}
