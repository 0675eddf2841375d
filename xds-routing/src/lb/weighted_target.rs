//! `weighted_target_experimental`: calls are split between children by weight (S2.007).

use alloc::{collections::BTreeMap, string::String, vec::Vec};
use core::time::Duration;

use xds_core::Time;

use super::children::{Child, ChildChange, Children, ConnectivityState, KEPT};
use crate::random::Random;

/// A child in the configuration: how many calls it gets, and its own configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Target<C> {
    /// Its share of the calls.
    pub weight: u32,
    /// What it is and does.
    pub config: C,
}

impl<C> Target<C> {
    /// A child with this share.
    #[must_use]
    pub const fn new(weight: u32, config: C) -> Self {
        Self { weight, config }
    }
}

/// Who gets a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick<'a, P> {
    /// Ask this picker of a child.
    Child(&'a P),
    /// Nobody yet: the call waits for the next change.
    Queue,
    /// Nobody yet, and no child is at it: the [idle children](WeightedTarget::idle_children) are to connect (gRPC's
    /// ExitIdle), and the call waits for the next change.
    Wake,
    /// Nobody: there are no children. The call fails with UNAVAILABLE.
    Nobody,
}

/// Splits calls between its children, by weight and chance (S2.017). `P` is what a child gives to pick with.
///
/// Only children that are ready get calls (S2.011, S2.012). If none is, calls wait while one is connecting or
/// idle, and wake those that are idle; if all fail, one that fails is asked, and says why.
#[derive(Clone, Debug)]
pub struct WeightedTarget<P> {
    children: Children<P>,
    weights: BTreeMap<String, u32>,
}

impl<P> Default for WeightedTarget<P> {
    fn default() -> Self {
        Self::new(KEPT)
    }
}

impl<P> WeightedTarget<P> {
    /// Without children yet. One that is removed may come back for this long; zero closes it at once. The
    /// default is 15 minutes.
    #[must_use]
    pub const fn new(keep: Duration) -> Self {
        Self { children: Children::new(keep), weights: BTreeMap::new() }
    }

    /// Takes a configuration: targets by name. One whose name is known gets its configuration as an update
    /// (S2.009), a new one is made (S2.010).
    pub fn update<C>(
        &mut self,
        targets: BTreeMap<String, Target<C>>,
        now: Time,
    ) -> Vec<ChildChange<C>> {
        self.weights = targets.iter().map(|(name, it)| (name.clone(), it.weight)).collect();
        let configs = targets.into_iter().map(|(name, it)| (name, it.config)).collect();
        self.children.update(configs, now)
    }

    /// Takes what a child says: how it is, and what to pick with from now on. Calls that wait are to be picked
    /// for again.
    pub fn child_changed(&mut self, name: &str, state: ConnectivityState, picker: P) {
        if self.children.set_state(name, state) {
            self.children.set_picker(name, picker);
        }
    }

    /// A child is another policy now, made anew under the same name.
    pub(super) fn child_replaced(&mut self, name: &str) {
        self.children.reset(name);
    }

    /// How the policy is: all its children taken together (S2.016).
    #[must_use]
    pub fn state(&self) -> ConnectivityState {
        self.children.state()
    }

    /// Who gets a call.
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
        candidates.get(place).map_or(Pick::Nobody, |&(_, picker)| Pick::Child(picker))
    }

    /// The names of the children that wait for a call before they connect.
    pub fn idle_children(&self) -> impl Iterator<Item = &str> {
        let idle = |(_, child): &(&str, &Child<P>)| child.state == ConnectivityState::Idle;
        self.children.in_use().filter(idle).map(|(name, _)| name)
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due: a removed child has had its time.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.children.next_expiry()
    }

    /// Says which children to close. Calling early is harmless.
    pub fn handle_timeout(&mut self, now: Time) -> Vec<String> {
        self.children.expire(now)
    }
}
