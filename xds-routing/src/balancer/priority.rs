//! Which priority is in use (A27, A56).
//!
//! The first that has a connection, or may soon have one, is. One that has none after ten seconds, or that
//! failed, lets the next one be tried; and when one before it is ready again, those after it are kept for
//! a quarter of an hour before their connections are given up.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    sync::Arc,
    vec::Vec,
};

use xds_core::{ResourceName, Time};

use super::{
    BalancerTimes,
    connection::{Connections, Link, Peer},
    picker::Limits,
};

/// Endpoints that are chosen together.
#[derive(Clone, Debug)]
pub(super) struct Locality {
    pub(super) weight: u32,
    pub(super) endpoints: Vec<Peer>,
}

/// The cluster of a priority, and which one of its priorities it is.
pub(super) type PriorityName = (ResourceName, usize);

/// What a priority is made of.
#[derive(Clone, Debug)]
pub(super) struct Members {
    pub(super) name: PriorityName,
    pub(super) localities: Vec<Locality>,
    pub(super) limits: Arc<Limits>,
    /// Why no call can go there, whatever endpoints there are.
    pub(super) failure: Option<String>,
}

#[derive(Clone, Debug)]
struct Priority {
    members: Members,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It was not needed so far, or not any more: there are no connections.
    Idle,
    /// It has until then to be ready.
    Starting(Time),
    /// It was ready, or failed, or had its time.
    Started(Seen),
    /// One before it is ready: connections are kept until then.
    Kept(Time, Seen),
}

/// What was seen last of a priority: whether a time to connect begins when it connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
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
    /// Which one gets the calls.
    current: Option<usize>,
}

impl Priorities {
    /// Takes new endpoints. A priority goes on as that of the same name, wherever that was.
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
    }

    /// Chooses which gets the calls, starting those that are needed for it.
    pub(super) fn choose(&mut self, connections: &Connections, times: &BalancerTimes, now: Time) {
        self.current = None;
        let mut first_connecting = None;
        let mut ready = None;
        for (index, priority) in self.list.iter_mut().enumerate() {
            let state = priority.state(connections);
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
            }
            if matches!(priority.phase, Phase::Kept(until, _) if until <= now) {
                priority.phase = Phase::Idle;
            }
        }
    }

    /// Whom connections are wanted to.
    pub(super) fn wanted(&self) -> BTreeSet<Peer> {
        let started = self.list.iter().filter(|priority| priority.phase != Phase::Idle);
        let localities = started.flat_map(|priority| &priority.members.localities);
        localities.flat_map(|locality| locality.endpoints.iter().cloned()).collect()
    }

    /// Who gets the calls.
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
            match connections.link(peer) {
                Some((_, Link::Ready)) => return State::Ready,
                Some((_, Link::Failed(_))) => {}
                Some((_, Link::Connecting)) | None => state = State::Connecting,
            }
        }
        state
    }

    /// Goes on, now that it is needed and in this state.
    fn advance(&mut self, state: State, times: &BalancerTimes, now: Time) {
        let begin = || Phase::Starting(now.after(times.failover));
        self.phase = match (state, self.phase) {
            (State::Ready, _) => Phase::Started(Seen::Ready),
            (State::Failed, _) => Phase::Started(Seen::Failure),
            (State::Connecting, Phase::Idle | Phase::Started(Seen::Ready)) => begin(),
            (State::Connecting, Phase::Kept(_, Seen::Ready)) => begin(),
            (State::Connecting, Phase::Starting(until)) if until <= now => {
                Phase::Started(Seen::Failure)
            }
            (State::Connecting, Phase::Kept(_, Seen::Failure)) => Phase::Started(Seen::Failure),
            (State::Connecting, phase) => phase,
        };
    }

    /// One before it is ready.
    fn keep(&mut self, times: &BalancerTimes, now: Time) {
        let seen = match self.phase {
            Phase::Idle | Phase::Kept(..) => return,
            Phase::Starting(_) => Seen::Failure,
            Phase::Started(seen) => seen,
        };
        self.phase = Phase::Kept(now.after(times.keep), seen);
    }
}
