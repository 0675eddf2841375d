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

use xds_core::{ResourceName, Time};

use super::{
    BalancerTimes,
    connection::{ConnectionState, Connections, Peer},
    picker::Limits,
    policy::EndpointPolicy,
};

/// Locality: endpoints with a common weight.
#[derive(Clone, Debug)]
pub(super) struct WeightedPeers {
    pub(super) weight: u32,
    pub(super) endpoints: Vec<Peer>,
}

/// Cluster of a priority, and its index among the priorities of the cluster.
pub(super) type PriorityName = (ResourceName, usize);

/// Contents of a priority.
#[derive(Clone, Debug)]
pub(super) struct Members {
    pub(super) name: PriorityName,
    pub(super) localities: Vec<WeightedPeers>,
    pub(super) policy: EndpointPolicy,
    pub(super) limits: Arc<Limits>,
    /// Reason why calls cannot use the cluster, whatever its endpoints.
    pub(super) failure: Option<String>,
}

impl Members {
    /// Returns a priority of a cluster that calls cannot use.
    pub(super) fn failing(name: PriorityName, limits: Arc<Limits>, why: String) -> Self {
        let (localities, policy) = (Vec::new(), EndpointPolicy::RoundRobin);
        Self { name, localities, policy, limits, failure: Some(why) }
    }
}

#[derive(Clone, Debug)]
struct Priority {
    members: Members,
    phase: Phase,
}

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
    /// Replaces the priorities. A priority keeps the phase of the one with the same name.
    pub(super) fn replace(&mut self, priorities: Vec<Members>) {
        let before = core::mem::take(&mut self.list).into_iter();
        let phases: BTreeMap<PriorityName, Phase> =
            before.map(|priority| (priority.members.name, priority.phase)).collect();
        let list = priorities.into_iter().map(|members| {
            let phase = phases.get(&members.name).copied().unwrap_or(Phase::Idle);
            Priority { members, phase }
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
                self.is_changed = true;
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
        localities.flat_map(|locality| &locality.endpoints).collect()
    }

    /// Returns the priority that gets the calls.
    pub(super) fn current(&self) -> Option<&Members> {
        Some(&self.list.get(self.current?)?.members)
    }

    pub(super) fn next_timer(&self) -> Option<Time> {
        let timers = self.list.iter().filter_map(|priority| match priority.phase {
            Phase::Starting(until) | Phase::Kept(until, _) => Some(until),
            Phase::Idle | Phase::Started(_) => None,
        });
        timers.min()
    }
}

impl Priority {
    fn state(&self, connections: &Connections) -> State {
        let mut state = State::Failed;
        let localities = self.members.localities.iter();
        for peer in localities.flat_map(|locality| &locality.endpoints) {
            match connections.state(peer) {
                Some((_, ConnectionState::Ready)) => return State::Ready,
                Some((_, ConnectionState::Failed(_))) => {}
                Some((_, ConnectionState::Connecting)) | None => state = State::Connecting,
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
