//! Children of an LB policy by name: active ones, and removed ones that are kept for a while.

use alloc::{collections::BTreeMap, string::String, vec::Vec};
use core::time::Duration;

use xds_core::Time;

/// Connectivity state of an LB policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConnectivityState {
    /// A connection is established: calls can be sent.
    Ready,
    /// A connection is being established.
    Connecting,
    /// No connection exists, and none is attempted until a call arrives.
    Idle,
    /// No connection can be established.
    TransientFailure,
}

/// Instruction to the owner of a policy's children.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChildChange<C> {
    /// Create a child with this name and configuration.
    Create(String, C),
    /// Pass the newest configuration to the child with this name.
    // S2.009
    Update(String, C),
    /// Close the child with this name.
    Close(String),
}

/// Time for which a removed child is kept.
// S2.018, X47
pub(super) const KEEP_REMOVED: Duration = Duration::from_secs(15 * 60);

#[derive(Clone, Debug)]
pub(super) struct Child<P> {
    pub(super) state: ConnectivityState,
    pub(super) picker: Option<P>,
    /// Time at which the child is closed, if it was removed.
    expires: Option<Time>,
}

#[derive(Clone, Debug)]
pub(super) struct ChildPolicies<P> {
    children: BTreeMap<String, Child<P>>,
    keep: Duration,
}

impl<P> ChildPolicies<P> {
    pub(super) const fn new(keep: Duration) -> Self {
        Self { children: BTreeMap::new(), keep }
    }

    /// Replaces the set of children. Removed ones are kept for a while, in case they are added
    /// again.
    // S2.018
    pub(super) fn update<C>(
        &mut self,
        configs: BTreeMap<String, C>,
        now: Time,
    ) -> Vec<ChildChange<C>> {
        for (name, child) in &mut self.children {
            if !configs.contains_key(name) && child.expires.is_none() {
                child.expires = Some(now.after(self.keep));
            }
        }
        let mut changes = Vec::new();
        for (name, config) in configs {
            match self.children.get_mut(&name) {
                Some(child) => {
                    child.expires = None;
                    changes.push(ChildChange::Update(name, config));
                }
                None => {
                    let state = ConnectivityState::Connecting;
                    let child = Child { state, picker: None, expires: None };
                    self.children.insert(name.clone(), child);
                    changes.push(ChildChange::Create(name, config));
                }
            }
        }
        changes.extend(self.expire(now).into_iter().map(ChildChange::Close));
        changes
    }

    /// Sets the state of a child, and returns whether the state took effect. A failed child counts
    /// as failed until it is ready or idle, so calls do not wait for its reconnection attempts. An
    /// unknown child is ignored.
    pub(super) fn set_state(&mut self, name: &str, state: ConnectivityState) -> bool {
        let Some(child) = self.children.get_mut(name) else {
            return false;
        };
        let goes_on_failing = child.state == ConnectivityState::TransientFailure
            && state == ConnectivityState::Connecting;
        if !goes_on_failing {
            child.state = state;
        }
        !goes_on_failing
    }

    /// Resets a child that was replaced by another policy, which has reported no state yet.
    pub(super) fn reset(&mut self, name: &str) {
        if let Some(child) = self.children.get_mut(name) {
            child.state = ConnectivityState::Connecting;
            child.picker = None;
        }
    }

    /// Sets the picker of a child.
    pub(super) fn set_picker(&mut self, name: &str, picker: P) {
        if let Some(child) = self.children.get_mut(name) {
            child.picker = Some(picker);
        }
    }

    /// Returns the newest picker of a child.
    pub(super) fn picker(&self, name: &str) -> Option<&P> {
        self.children.get(name)?.picker.as_ref()
    }

    /// Removes and returns the children whose time is over.
    pub(super) fn expire(&mut self, now: Time) -> Vec<String> {
        let due = |child: &Child<P>| child.expires.is_some_and(|at| at <= now);
        let gone = self.children.iter().filter(|(_, child)| due(child));
        let gone: Vec<String> = gone.map(|(name, _)| name.clone()).collect();
        self.children.retain(|_, child| !due(child));
        gone
    }

    pub(super) fn next_expiry(&self) -> Option<Time> {
        self.children.values().filter_map(|child| child.expires).min()
    }

    /// Returns the active children, sorted by name.
    pub(super) fn in_use(&self) -> impl Iterator<Item = (&str, &Child<P>)> {
        let in_use = self.children.iter().filter(|(_, child)| child.expires.is_none());
        in_use.map(|(name, child)| (name.as_str(), child))
    }

    /// Returns the aggregated state: the best of ready, connecting and idle; transient failure if
    /// all children fail or there are none.
    pub(super) fn state(&self) -> ConnectivityState {
        let states = self.in_use().map(|(_, child)| child.state);
        states.min().unwrap_or(ConnectivityState::TransientFailure)
    }
}
