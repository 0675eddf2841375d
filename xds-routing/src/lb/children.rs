//! The children of a policy by name: those in use, and those that were removed and may come back.

use alloc::{collections::BTreeMap, string::String, vec::Vec};
use core::time::Duration;

use xds_core::Time;

/// How the connections of a policy are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConnectivityState {
    /// There is one: calls can be sent.
    Ready,
    /// One is being made.
    Connecting,
    /// There is none, and none is being made before there is a call.
    Idle,
    /// None can be made.
    TransientFailure,
}

/// What whoever drives a policy does for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChildChange<C> {
    /// Make a child of this name with this configuration.
    Create(String, C),
    /// Give the child of this name its newest configuration (S2.009).
    Update(String, C),
    /// Close the child of this name.
    Close(String),
}

/// How long a child that was removed may come back (S2.018, X47).
pub(super) const KEPT: Duration = Duration::from_secs(15 * 60);

#[derive(Clone, Debug)]
pub(super) struct Child<P> {
    pub(super) state: ConnectivityState,
    pub(super) picker: Option<P>,
    /// When it is closed, if it was removed.
    expires: Option<Time>,
}

#[derive(Clone, Debug)]
pub(super) struct Children<P> {
    children: BTreeMap<String, Child<P>>,
    keep: Duration,
}

impl<P> Children<P> {
    pub(super) const fn new(keep: Duration) -> Self {
        Self { children: BTreeMap::new(), keep }
    }

    /// Takes the children of a new configuration. Those that are no longer in it are kept for a while, in
    /// case that they come back (S2.018).
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

    /// Takes how a child is, and says whether that counts. One that is unknown is ignored. A child that
    /// failed counts as failing until it is ready again, so that trying does not hold calls up.
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

    /// A child is another policy now, which has not said anything yet.
    pub(super) fn reset(&mut self, name: &str) {
        if let Some(child) = self.children.get_mut(name) {
            child.state = ConnectivityState::Connecting;
            child.picker = None;
        }
    }

    /// Takes what to pick with from a child.
    pub(super) fn set_picker(&mut self, name: &str, picker: P) {
        if let Some(child) = self.children.get_mut(name) {
            child.picker = Some(picker);
        }
    }

    /// What a child gave to pick with last.
    pub(super) fn picker(&self, name: &str) -> Option<&P> {
        self.children.get(name)?.picker.as_ref()
    }

    /// Closes what was removed long enough ago.
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

    /// Those in use, in the order of their names.
    pub(super) fn in_use(&self) -> impl Iterator<Item = (&str, &Child<P>)> {
        let in_use = self.children.iter().filter(|(_, child)| child.expires.is_none());
        in_use.map(|(name, child)| (name.as_str(), child))
    }

    /// How the policy is, from how its children are: the best of ready, connecting and idle; failing if all
    /// fail, or if there are none.
    pub(super) fn state(&self) -> ConnectivityState {
        let states = self.in_use().map(|(_, child)| child.state);
        states.min().unwrap_or(ConnectivityState::TransientFailure)
    }
}
