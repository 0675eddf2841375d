//! `weighted_target_experimental`: splits calls between children by weight.
// S2.007

use alloc::{collections::BTreeMap, string::String, vec::Vec};
use core::time::Duration;

use xds_core::Time;

use super::children::{Child, ChildChange, ChildPolicies, ConnectivityState, KEEP_REMOVED};
use crate::random::Random;

/// Target of the configuration: the weight and the configuration of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Target<C> {
    /// Weight of the child.
    pub weight: u32,
    /// Configuration of the child.
    pub config: C,
}

impl<C> Target<C> {
    /// Creates a target.
    #[must_use]
    pub const fn new(weight: u32, config: C) -> Self {
        Self { weight, config }
    }
}

/// Result of a pick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pick<'a, P> {
    /// Delegate to this picker of a child.
    Child(&'a P),
    /// The call waits for the next change.
    Queue,
    /// The [idle children](WeightedTarget::idle_children) must connect (`ExitIdle` in gRPC). The
    /// call waits for the next change.
    Wake,
    /// The policy has no children. The call fails with UNAVAILABLE.
    NoChildren,
}

/// Policy `weighted_target_experimental`, which splits calls between its children at random by
/// weight. `P` is the picker of a child.
///
/// Only ready children get calls. If none is ready, calls wait for a connecting child. If none is
/// connecting either, calls wait and wake the idle children. If all children fail, calls are
/// delegated to the picker of a failed child, which reports the error.
// S2.011, S2.012, S2.017
#[derive(Clone, Debug)]
pub struct WeightedTarget<P> {
    children: ChildPolicies<P>,
    weights: BTreeMap<String, u32>,
}

impl<P> Default for WeightedTarget<P> {
    fn default() -> Self {
        Self::new(KEEP_REMOVED)
    }
}

impl<P> WeightedTarget<P> {
    /// Creates a policy without children. A removed child is kept for `keep`; zero closes it at
    /// once. The default is 15 minutes.
    #[must_use]
    pub const fn new(keep: Duration) -> Self {
        Self { children: ChildPolicies::new(keep), weights: BTreeMap::new() }
    }

    /// Applies a configuration: targets by name. A known name updates its child, a new one creates
    /// a child.
    // S2.009, S2.010
    pub fn update<C>(
        &mut self,
        targets: BTreeMap<String, Target<C>>,
        now: Time,
    ) -> Vec<ChildChange<C>> {
        self.weights = targets.iter().map(|(name, it)| (name.clone(), it.weight)).collect();
        let configs = targets.into_iter().map(|(name, it)| (name, it.config)).collect();
        self.children.update(configs, now)
    }

    /// Sets the state and the picker of a child. Waiting calls must be picked again.
    pub fn child_changed(&mut self, name: &str, state: ConnectivityState, picker: P) {
        if self.children.set_state(name, state) {
            self.children.set_picker(name, picker);
        }
    }

    /// Resets a child that was replaced by another policy of the same name.
    pub(super) fn child_replaced(&mut self, name: &str) {
        self.children.reset(name);
    }

    /// Returns the aggregated state of all children.
    // S2.016
    #[must_use]
    pub fn state(&self) -> ConnectivityState {
        self.children.state()
    }

    /// Picks a child for a call.
    pub fn pick(&self, random: &mut Random) -> Pick<'_, P> {
        let state = self.state();
        match state {
            ConnectivityState::Connecting => return Pick::Queue,
            ConnectivityState::Idle => return Pick::Wake,
            ConnectivityState::Ready | ConnectivityState::TransientFailure => {}
        }
        let mut candidates = Vec::new();
        let mut total: u32 = 0;
        for (name, child) in self.children.in_use().filter(|(_, child)| child.state == state) {
            let weight = self.weights.get(name).copied().unwrap_or_default();
            if let Some(picker) = child.picker.as_ref() {
                total = total.saturating_add(weight);
                candidates.push((total, picker));
            }
        }
        let drawn = random.below(total);
        let place = candidates.partition_point(|&(sum, _)| sum <= drawn);
        candidates.get(place).map_or(Pick::NoChildren, |&(_, picker)| Pick::Child(picker))
    }

    /// Returns the names of the idle children.
    pub fn idle_children(&self) -> impl Iterator<Item = &str> {
        let idle = |(_, child): &(&str, &Child<P>)| child.state == ConnectivityState::Idle;
        self.children.in_use().filter(idle).map(|(name, _)| name)
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) is due to close a removed
    /// child.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.children.next_expiry()
    }

    /// Returns the children to close. Calling early is harmless.
    pub fn handle_timeout(&mut self, now: Time) -> Vec<String> {
        self.children.expire(now)
    }
}
