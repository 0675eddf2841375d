//! Which endpoint of a cluster gets a call, and which connections that takes: priorities (A27, A56), localities by
//! weight, endpoints in turn.
//!
//! A [`Balancer`] is told what a cluster and its endpoints are and what becomes of connections; it says which to
//! make and which to end, and gives a [`Picker`] whenever who gets calls has changed. It makes no
//! connections and has no clock.
//!
//! | what | file |
//! |---|---|
//! | which priority is in use; when the next one is tried, and when one is given up | `priority.rs` |
//! | which connections there are, and when one is tried again | `connection.rs` |
//! | who gets a call | `picker.rs` |
//! | how many calls are under way, where several balancers share a limit | `counters.rs` |
//! | from a configuration to the clusters and endpoints that calls go to, and which of them cannot be used | `sources.rs` |
//!
//! Of the ways to choose between endpoints ([`BalancingPolicy`](crate::cluster::BalancingPolicy)) these are here: one
//! after the other, of a locality that is chosen by weight or of all localities together. Calls to a cluster that asks
//! for another one fail.

mod connection;
mod counters;
mod picker;
mod priority;
mod sources;

use alloc::{
    collections::{BTreeSet, VecDeque},
    format,
    string::String,
    sync::Arc,
    vec::Vec,
};
use core::{sync::atomic::AtomicU32, time::Duration};

use xds_core::{ResourceName, Time};

pub use self::{
    connection::{ConnectionId, Way},
    counters::CallCounters,
    picker::{CallPermit, EndpointPick, Picker, Trial},
    sources::{Source, can_balance, leaves},
};
use self::{
    connection::{Connections, Link},
    counters::Own,
    picker::{Limits, PickLocality},
    priority::Priorities,
};
use crate::{random::Random, scalars::SocketAddress};

/// How long a balancer waits for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BalancerTimes {
    /// How long a priority may take to have a connection before the next one is tried beside it.
    pub failover: Duration,
    /// How long the connections of a priority are kept once one before it serves.
    pub keep: Duration,
    /// From one attempt to connect to the next, after the first failure; it grows by three fifths with
    /// each failure, and varies by a fifth.
    pub first_backoff: Duration,
    /// The most that it grows to.
    pub longest_backoff: Duration,
}

impl Default for BalancerTimes {
    /// gRPC's: 10 s, 15 min, 1 s, 2 min.
    fn default() -> Self {
        Self {
            failover: Duration::from_secs(10),
            keep: Duration::from_secs(15 * 60),
            first_backoff: Duration::from_secs(1),
            longest_backoff: Duration::from_secs(120),
        }
    }
}

/// What whoever makes connections does for a balancer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum BalancerOutput {
    /// Connect in this way to the first of these addresses that answers, and say what became of it.
    Connect(ConnectionId, Way, Vec<SocketAddress>),
    /// Nobody is to get calls by this connection any more; those under way go on. Nothing is to be said
    /// of it.
    Disconnect(ConnectionId),
    /// Calls are picked for by this from now on, those that wait as well. Comes before what it
    /// no longer needs is disconnected.
    Pick(Picker),
}

/// What became of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionEvent {
    /// It is there.
    Connected,
    /// It could not be made, for this reason.
    Failed(String),
    /// It is there no more.
    Closed,
}

type Counted = ((ResourceName, Option<ResourceName>), Arc<AtomicU32>);

/// Chooses endpoints for the calls of a cluster.
#[derive(Clone, Debug)]
pub struct Balancer {
    times: BalancerTimes,
    priorities: Priorities,
    connections: Connections,
    outputs: VecDeque<BalancerOutput>,
    random: Random,
    /// Numbers of calls under way, by cluster and the name of its endpoints.
    requests: Vec<Counted>,
    counters: Arc<dyn CallCounters>,
    /// Who gets calls by the newest picker.
    serving: BTreeSet<ConnectionId>,
}

impl Balancer {
    /// Without endpoints: calls wait.
    #[must_use]
    pub fn new(times: BalancerTimes, seed: u64) -> Self {
        Self {
            times,
            priorities: Priorities::default(),
            connections: Connections::default(),
            outputs: VecDeque::new(),
            random: Random::new(seed),
            requests: Vec::new(),
            counters: Arc::new(Own),
            serving: BTreeSet::new(),
        }
    }

    /// Counts calls under way together with others: by default, it does so by itself.
    #[must_use]
    pub fn with_counters(mut self, counters: Arc<dyn CallCounters>) -> Self {
        self.counters = counters;
        self
    }

    /// Takes the clusters that calls are balanced over, with their endpoints: one, or those that an aggregate
    /// is made of, whose priorities come one after the other (A37). Connections to addresses that stay
    /// stay, if the way to them does. One that calls cannot go to is a priority that fails, and the others serve
    /// (A75).
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
            let (drops, most) = (source.endpoints.drops.clone(), cluster.max_requests);
            let limits = Arc::new(Limits { drops, requests: counter, most });
            priorities.extend(source.priorities(&limits));
        }
        self.requests = requests;
        self.priorities.replace(priorities);
        self.settle(now);
    }

    /// Calls are to go nowhere, until the next [`update`](Self::update): no connection is wanted any more.
    pub fn clear(&mut self, now: Time) {
        self.priorities.replace(Vec::new());
        self.settle(now);
    }

    /// Takes what became of a connection. One that was given up is ignored.
    pub fn handle_connection(&mut self, id: ConnectionId, event: ConnectionEvent, now: Time) {
        if self.connections.handle(id, event, &self.times, &mut self.random) {
            self.settle(now);
        }
    }

    /// What is to be done next.
    pub fn poll_output(&mut self) -> Option<BalancerOutput> {
        self.outputs.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let timers = [self.priorities.next_timer(), self.connections.next_attempt()];
        timers.into_iter().flatten().min()
    }

    /// Tries what failed again, turns to the next priority, gives up what was kept long enough. Calling early
    /// is harmless.
    pub fn handle_timeout(&mut self, now: Time) {
        self.settle(now);
    }

    /// Makes everything follow from what is known.
    fn settle(&mut self, now: Time) {
        self.priorities.choose(&self.connections, &self.times, now);
        let wanted = self.priorities.wanted();
        wanted.iter().for_each(|peer| self.connections.want(peer));
        let picker = self.picker();
        let unwanted = self.connections.take_unwanted(&wanted, &self.serving);
        self.outputs.push_back(BalancerOutput::Pick(picker));
        self.outputs.extend(unwanted.into_iter().map(BalancerOutput::Disconnect));
        for (id, (way, addresses)) in self.connections.start(now) {
            self.outputs.push_back(BalancerOutput::Connect(id, way, addresses));
        }
    }

    /// Who gets calls. Where others are to serve and none of them is there yet, it is those that served before,
    /// though they are not wanted any more: make before break, as gRPC's round robin has it.
    fn picker(&mut self) -> Picker {
        let before = core::mem::take(&mut self.serving);
        let Some(current) = self.priorities.current() else {
            return Picker::failing("there are no endpoints".into());
        };
        if let Some(why) = &current.failure {
            return Picker::failing(why.clone());
        }
        let mut ready = Vec::new();
        let (mut sum, mut is_waiting) = (0_u32, false);
        let mut why = None;
        for locality in &current.localities {
            let mut endpoints = Vec::new();
            for peer in &locality.endpoints {
                match self.connections.link(peer) {
                    Some((id, Link::Ready)) => endpoints.push(id),
                    Some((_, Link::Failed(reason))) => why = Some(reason),
                    Some((_, Link::Connecting)) | None => is_waiting = true,
                }
            }
            if !endpoints.is_empty() {
                sum = sum.saturating_add(locality.weight);
                let end = u32::try_from(endpoints.len()).unwrap_or(u32::MAX);
                let first = self.random.below(end);
                ready.push(PickLocality::new(sum, endpoints, first));
            }
        }
        if ready.is_empty() && is_waiting {
            let kept: Vec<_> =
                before.into_iter().filter(|id| self.connections.is_ready(*id)).collect();
            if !kept.is_empty() {
                ready.push(PickLocality::new(1, kept, 0));
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
