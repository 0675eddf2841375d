//! Failover between priorities ([gRFC A27], [gRFC A56]).
//!
//! The first priority that is ready, or connecting within its time, is used. A priority that fails
//! or is not ready after 10 s lets the next one start. When a higher priority is ready again, the
//! connections of lower ones are kept for 15 min.
//!
//! [gRFC A27]: https://github.com/grpc/proposal/blob/master/A27-xds-global-load-balancing.md
//! [gRFC A56]: https://github.com/grpc/proposal/blob/master/A56-priority-lb-policy.md

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    sync::Arc,
    vec::Vec,
};
use core::{sync::atomic::AtomicU32, time::Duration};

use xds_core::{ResourceName, Time};

use super::{
    BalancerTimes, ConnectionId,
    by_address::{EndpointLocality, Hostnames},
    connection::{ConnectionState, Connections, Peer},
    counters::EndpointCounters,
    limits::Limits,
    outliers::Outliers,
    policy::EndpointPolicy,
    ring::Ring,
};
use crate::{cluster::OutlierDetection, random::Random};

/// Locality: endpoints with a common weight.
#[derive(Clone, Debug)]
pub(super) struct WeightedPeers {
    pub(super) weight: u32,
    pub(super) endpoints: Vec<Member>,
    /// Ring of the endpoints, if the policy is ring hash.
    pub(super) ring: Option<Arc<Ring>>,
}

/// Endpoint of a locality.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) peer: Peer,
    pub(super) hostnames: Hostnames,
    pub(super) locality: EndpointLocality,
    /// Whether the cluster allows sessions for the health status of the endpoint.
    pub(super) takes_sessions: bool,
}

/// Endpoints of a priority for calls of sessions.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionMembers {
    /// Time for which connections that only sessions need are kept.
    pub(super) idle_timeout: Duration,
    /// Whether the priority has a connection to each of its endpoints. With pick first, it has one
    /// for all.
    pub(super) connects_to_each: bool,
    /// Endpoints that the priority has no connections of their own to.
    pub(super) others: Vec<Member>,
}

/// Cluster of a priority, and its index among the priorities of the cluster.
pub(super) type PriorityName = (ResourceName, usize);

/// Contents of a priority.
#[derive(Clone, Debug)]
pub(super) struct Members {
    pub(super) name: PriorityName,
    pub(super) localities: Vec<WeightedPeers>,
    pub(super) policy: EndpointPolicy,
    pub(super) outliers: Option<OutlierDetection>,
    pub(super) limits: Arc<Limits>,
    pub(super) sessions: SessionMembers,
    /// Reason why calls cannot use the cluster, whatever its endpoints.
    pub(super) failure: Option<String>,
}

impl Members {
    /// Returns a priority of a cluster that calls cannot use.
    pub(super) fn failing(name: PriorityName, limits: Arc<Limits>, why: String) -> Self {
        let (localities, policy) = (Vec::new(), EndpointPolicy::RoundRobin);
        let (sessions, failure) = (SessionMembers::default(), Some(why));
        Self { name, localities, policy, outliers: None, limits, sessions, failure }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Priority {
    pub(super) members: Members,
    phase: Phase,
    pub(super) outliers: Option<Outliers>,
    /// Numbers of the next places of weighted round robin, by the indices of localities.
    pub(super) places: Places,
}

type Places = BTreeMap<usize, Arc<AtomicU32>>;

/// State of an endpoint for calls.
#[derive(Clone, Copy, Debug)]
pub(super) enum EndpointState<'a> {
    Ready(ConnectionId, &'a Arc<EndpointCounters>),
    Connecting,
    /// The connection failed, or the endpoint is ejected, for this reason.
    Failed(&'a str),
}

const EJECTED: &str = "ejected by outlier detection";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The priority is not needed. It has no connections.
    Idle,
    /// Started. The priority must become ready by this time.
    Starting(Time),
    /// Was ready, failed, or did not become ready in time.
    Started(LastOutcome),
    /// A higher priority is ready. Connections are kept until this time.
    Kept(Time, LastOutcome),
}

/// Last outcome of a priority. After `Ready`, a reconnection gets a new failover timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastOutcome {
    Ready,
    Failure,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    Connecting,
    Failed,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Priorities {
    list: Vec<Priority>,
    /// Index of the priority that gets the calls.
    current: Option<usize>,
    /// Whether other endpoints may be needed than at the last [`take_changed`](Self::take_changed).
    is_changed: bool,
}

impl Priorities {
    /// Replaces the priorities. A priority keeps the state of the one with the same name.
    pub(super) fn replace(&mut self, priorities: Vec<Members>) {
        let before = core::mem::take(&mut self.list).into_iter();
        let mut known: BTreeMap<PriorityName, Priority> =
            before.map(|priority| (priority.members.name.clone(), priority)).collect();
        let list = priorities.into_iter().map(|members| {
            let (phase, outliers, mut places) = match known.remove(&members.name) {
                Some(before) => (before.phase, before.outliers, before.places),
                None => (Phase::Idle, None, Places::new()),
            };
            let outliers = members.outliers.clone().map(|rules| match outliers {
                Some(before) => before.with_rules(rules),
                None => Outliers::new(rules),
            });
            places.retain(|index, _| *index < members.localities.len());
            Priority { members, phase, outliers, places }
        });
        self.list = list.collect();
        self.current = None;
        self.is_changed = true;
    }

    /// Chooses the priority that gets the calls, and starts those that are needed.
    pub(super) fn choose(&mut self, connections: &Connections, times: &BalancerTimes, now: Time) {
        self.current = None;
        let mut first_connecting = None;
        let mut ready = None;
        for (index, priority) in self.list.iter_mut().enumerate() {
            let state = priority.state(connections);
            self.is_changed |= priority.phase == Phase::Idle;
            priority.advance(state, times, now);
            match state {
                State::Ready => {
                    ready = Some(index);
                    self.current = Some(index);
                    break;
                }
                State::Connecting => {
                    first_connecting.get_or_insert(index);
                    if matches!(priority.phase, Phase::Starting(_)) {
                        self.current = Some(index);
                        break;
                    }
                }
                State::Failed => {}
            }
        }
        let last = self.list.len().checked_sub(1);
        self.current = self.current.or(first_connecting).or(last);
        for (index, priority) in self.list.iter_mut().enumerate() {
            if ready.is_some_and(|ready| index > ready) {
                priority.keep(times, now);
            } else if matches!(priority.phase, Phase::Starting(_)) {
                // A higher priority may have been added while this one was starting.
                priority.advance(priority.state(connections), times, now);
            }
            if matches!(priority.phase, Phase::Kept(until, _) if until <= now) {
                priority.phase = Phase::Idle;
                priority.outliers.iter_mut().for_each(Outliers::reset);
                self.is_changed = true;
            }
            if priority.phase != Phase::Idle {
                priority.outliers.iter_mut().for_each(|it| it.begin(now));
            }
        }
    }

    /// Returns whether other endpoints may be needed than at the last call.
    pub(super) const fn take_changed(&mut self) -> bool {
        core::mem::replace(&mut self.is_changed, false)
    }

    /// Returns the endpoints that connections are needed for.
    pub(super) fn wanted(&self) -> BTreeSet<&Peer> {
        let started = self.list.iter().filter(|priority| priority.phase != Phase::Idle);
        let localities = started.flat_map(|priority| &priority.members.localities);
        localities.flat_map(|locality| &locality.endpoints).map(|it| &it.peer).collect()
    }

    /// Ejects outliers, and ends ejections, if the interval of a priority has ended.
    pub(super) fn detect_outliers(
        &mut self,
        connections: &Connections,
        random: &mut Random,
        now: Time,
    ) {
        for priority in self.list.iter_mut().filter(|it| it.phase != Phase::Idle) {
            let Some(outliers) = &mut priority.outliers else { continue };
            let localities = &priority.members.localities;
            let members = localities.iter().flat_map(|locality| &locality.endpoints);
            let known = members.filter_map(|it| connections.get(&it.peer));
            let readmitted = outliers.evaluate(|| known.map(|(id, _)| id).collect(), random, now);
            readmitted.into_iter().for_each(|id| connections.begin_blackout(id));
        }
    }

    /// Discards what is known about calls on removed connections.
    pub(super) fn forget(&mut self, connections: &[ConnectionId]) {
        let outliers = self.list.iter_mut().filter_map(|priority| priority.outliers.as_mut());
        outliers.for_each(|it| it.forget(connections));
    }

    /// Returns all priorities.
    pub(super) fn list(&self) -> &[Priority] {
        &self.list
    }

    /// Returns the priority with this index, if it has connections.
    pub(super) fn started(&mut self, index: usize) -> Option<&mut Priority> {
        self.list.get_mut(index).filter(|priority| priority.is_started())
    }

    /// Returns the priority that gets the calls.
    pub(super) fn current(&mut self) -> Option<&mut Priority> {
        self.list.get_mut(self.current?)
    }

    pub(super) fn next_timer(&self) -> Option<Time> {
        let timers = self.list.iter().filter_map(|priority| match priority.phase {
            Phase::Starting(until) | Phase::Kept(until, _) => Some(until),
            Phase::Idle | Phase::Started(_) => None,
        });
        let outliers = self.list.iter().filter_map(|priority| priority.outliers.as_ref());
        timers.chain(outliers.filter_map(Outliers::next_timer)).min()
    }
}

impl Priority {
    /// Whether the priority has connections.
    pub(super) fn is_started(&self) -> bool {
        self.phase != Phase::Idle
    }

    fn state(&self, connections: &Connections) -> State {
        let mut state = State::Failed;
        for locality in &self.members.localities {
            let (mut failed, mut connecting) = (0_u32, 0_u32);
            for member in &locality.endpoints {
                match endpoint_state(self.outliers.as_ref(), connections, member) {
                    EndpointState::Ready(..) => return State::Ready,
                    EndpointState::Failed(_) => failed = failed.saturating_add(1),
                    EndpointState::Connecting => connecting = connecting.saturating_add(1),
                }
            }
            // With ring hash, two failures are enough to fail over (gRFC A42).
            let has_failed = locality.ring.is_some() && failed >= 2;
            if connecting > 0 && !has_failed {
                state = State::Connecting;
            }
        }
        state
    }

    /// Updates the phase of a needed priority.
    fn advance(&mut self, state: State, times: &BalancerTimes, now: Time) {
        let begin = || Phase::Starting(now.after(times.failover));
        self.phase = match (state, self.phase) {
            (State::Ready, _) => Phase::Started(LastOutcome::Ready),
            (State::Failed, _) => Phase::Started(LastOutcome::Failure),
            (State::Connecting, Phase::Idle | Phase::Started(LastOutcome::Ready)) => begin(),
            (State::Connecting, Phase::Kept(_, LastOutcome::Ready)) => begin(),
            (State::Connecting, Phase::Starting(until)) if until <= now => {
                Phase::Started(LastOutcome::Failure)
            }
            (State::Connecting, Phase::Kept(_, LastOutcome::Failure)) => {
                Phase::Started(LastOutcome::Failure)
            }
            (State::Connecting, phase) => phase,
        };
    }

    /// Updates the phase after a higher priority became ready.
    fn keep(&mut self, times: &BalancerTimes, now: Time) {
        let outcome = match self.phase {
            Phase::Idle | Phase::Kept(..) => return,
            Phase::Starting(_) => LastOutcome::Failure,
            Phase::Started(outcome) => outcome,
        };
        self.phase = Phase::Kept(now.after(times.keep), outcome);
    }
}

/// Returns the state of an endpoint. One that outlier detection has ejected counts as failed.
pub(super) fn endpoint_state<'a>(
    outliers: Option<&Outliers>,
    connections: &'a Connections,
    member: &Member,
) -> EndpointState<'a> {
    let Some((id, connection)) = connections.get(&member.peer) else {
        return EndpointState::Connecting;
    };
    match &connection.state {
        _ if outliers.is_some_and(|it| it.is_ejected(id)) => EndpointState::Failed(EJECTED),
        ConnectionState::Ready => EndpointState::Ready(id, &connection.counters),
        ConnectionState::Failed(why) => EndpointState::Failed(why),
        ConnectionState::Connecting => EndpointState::Connecting,
    }
}
