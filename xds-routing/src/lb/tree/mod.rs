//! Tree of LB policies, whose leaves are run by its owner.

use alloc::{
    collections::{BTreeMap, VecDeque},
    string::String,
    vec::Vec,
};
use core::time::Duration;

use xds_core::Time;

use super::{
    children::{ChildChange, ConnectivityState, KEEP_REMOVED},
    config::{LeafPolicyConfig, PolicyConfig},
    routing::{NoPolicyRoute, RoutedPick, XdsRouting},
    weighted_target::{Pick, WeightedTarget},
};
use crate::{matching::Call, pattern::Headers, random::Random};

/// Identifier of a leaf of a tree. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeafId(u64);

/// Instruction to the owner of the leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeafChange {
    /// Create a policy with this configuration.
    Create(LeafId, LeafPolicyConfig),
    /// Pass the newest configuration to the policy.
    Update(LeafId, LeafPolicyConfig),
    /// Close the policy.
    Close(LeafId),
}

/// Result of a pick.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TreePick<'a, P> {
    /// Delegate to this picker of a leaf.
    Leaf(&'a P),
    /// The call waits until [`PolicyTree::generation`] changes.
    Queue,
    /// The given idle leaves must connect (`ExitIdle` in gRPC). The call waits as for
    /// [`Queue`](Self::Queue).
    Wake(Vec<LeafId>),
    /// No route matches. The call fails with UNAVAILABLE.
    NoRoute(NoPolicyRoute),
    /// A policy has no children. The call fails with UNAVAILABLE.
    NoChildren,
}

/// Tree of all policies of a configuration. `P` is the picker of a leaf.
///
/// Clusters are leaves, one for each action that refers to them. Routes share actions, so
/// connections grow with the number of actions, not of routes.
// S2.138, S2.139
#[derive(Clone, Debug)]
pub struct PolicyTree<P> {
    root: Option<PolicyNode<P>>,
    parents: Parents,
    changes: VecDeque<LeafChange>,
    generation: u64,
}

#[derive(Clone, Debug)]
enum PolicyNode<P> {
    // The picker of a child is the child's name, which leads to the next node.
    Routing(XdsRouting<String>, BTreeMap<String, Self>),
    WeightedTarget(WeightedTarget<String>, BTreeMap<String, Self>),
    Leaf(Leaf<P>),
}

/// Policy that the owner of the tree runs.
#[derive(Clone, Debug)]
struct Leaf<P> {
    id: LeafId,
    /// Name of the policy.
    policy: String,
    state: ConnectivityState,
    picker: Option<P>,
    /// Picker of the last failure while the leaf reconnects. Used by a parent that counts the leaf
    /// as failed until it is ready.
    failing: Option<P>,
}

impl<P> Leaf<P> {
    fn set(&mut self, state: ConnectivityState, picker: P) {
        let before = self.picker.replace(picker);
        match (self.state, state) {
            (ConnectivityState::TransientFailure, ConnectivityState::Connecting) => {
                self.failing = before;
            }
            (ConnectivityState::Connecting, ConnectivityState::Connecting) => {}
            _ => self.failing = None,
        }
        self.state = state;
    }
}

/// State that the ancestors of a policy assume.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AssumedState {
    Actual,
    /// Failed, although it may be reconnecting.
    Failing,
}

/// Paths of the leaves, and the parameters for new ones.
#[derive(Clone, Debug)]
struct Parents {
    paths: BTreeMap<LeafId, Vec<String>>,
    next: u64,
    keep: Duration,
}

impl<P> Default for PolicyTree<P> {
    fn default() -> Self {
        Self::new(KEEP_REMOVED)
    }
}

impl<P> PolicyTree<P> {
    /// Creates a tree without policies. A child that a policy removes is kept for `keep`. The
    /// default is 15 minutes.
    // X47
    #[must_use]
    pub const fn new(keep: Duration) -> Self {
        Self {
            root: None,
            parents: Parents { paths: BTreeMap::new(), next: 0, keep },
            changes: VecDeque::new(),
            generation: 0,
        }
    }

    /// Applies a configuration. A policy whose name stays is kept, unless its kind changes: then it
    /// is replaced.
    // S2.009, S2.052
    pub fn update(&mut self, config: PolicyConfig, now: Time) {
        self.generation = self.generation.wrapping_add(1);
        let root = self.root.take();
        let mut work = Work { parents: &mut self.parents, changes: &mut self.changes, now };
        self.root = Some(work.put(root, config, &mut Vec::new()));
    }

    /// Sets the state and the picker of a leaf.
    pub fn leaf_changed(&mut self, leaf: LeafId, state: ConnectivityState, picker: P) {
        let Some((root, path)) = self.root.as_mut().zip(self.parents.paths.get(&leaf)) else {
            return;
        };
        self.generation = self.generation.wrapping_add(1);
        root.set(path, state, picker);
    }

    /// Returns the state of the root policy.
    #[must_use]
    pub fn state(&self) -> ConnectivityState {
        self.root.as_ref().map_or(ConnectivityState::Idle, PolicyNode::state)
    }

    /// Returns a number that changes with every configuration and every new picker of a leaf. All
    /// waiting calls must be picked again then.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Picks a leaf for a call.
    pub fn pick<H: Headers + ?Sized>(
        &self,
        call: &Call<'_, H>,
        random: &mut Random,
    ) -> TreePick<'_, P> {
        let mut node = self.root.as_ref();
        let mut assumed = AssumedState::Actual;
        while let Some(at) = node {
            node = match at {
                PolicyNode::Leaf(leaf) => {
                    let failing =
                        leaf.failing.as_ref().filter(|_| assumed == AssumedState::Failing);
                    let picker = failing.or(leaf.picker.as_ref());
                    return picker.map_or(TreePick::Queue, TreePick::Leaf);
                }
                PolicyNode::Routing(policy, children) => match policy.pick(call, random) {
                    RoutedPick::Child(name) => children.get(name),
                    RoutedPick::Queue => return TreePick::Queue,
                    RoutedPick::NoRoute(why) => return TreePick::NoRoute(why),
                },
                PolicyNode::WeightedTarget(policy, children) => match policy.pick(random) {
                    Pick::Child(name) => {
                        if policy.state() == ConnectivityState::TransientFailure {
                            assumed = AssumedState::Failing;
                        }
                        children.get(name)
                    }
                    Pick::Queue => return TreePick::Queue,
                    Pick::Wake => return TreePick::Wake(at.idle_leaves()),
                    Pick::NoChildren => return TreePick::NoChildren,
                },
            };
        }
        TreePick::Queue
    }

    /// Returns the next instruction for the leaves.
    pub fn poll_change(&mut self) -> Option<LeafChange> {
        self.changes.pop_front()
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) is due to close a removed
    /// child.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.root.as_ref().and_then(PolicyNode::poll_timeout)
    }

    /// Closes the removed children that have been kept long enough. Calling early is harmless.
    pub fn handle_timeout(&mut self, now: Time) {
        let mut work = Work { parents: &mut self.parents, changes: &mut self.changes, now };
        if let Some(root) = self.root.as_mut() {
            work.expire(root);
        }
    }
}

impl<P> PolicyNode<P> {
    fn state(&self) -> ConnectivityState {
        match self {
            Self::Routing(policy, _) => policy.state(),
            Self::WeightedTarget(policy, _) => policy.state(),
            Self::Leaf(leaf) => leaf.state,
        }
    }

    /// Returns the idle leaves below this node.
    fn idle_leaves(&self) -> Vec<LeafId> {
        let (mut idle, mut waiting) = (Vec::new(), Vec::from([self]));
        while let Some(node) = waiting.pop() {
            match node {
                Self::Leaf(leaf) if leaf.state == ConnectivityState::Idle => idle.push(leaf.id),
                Self::Leaf(_) => {}
                Self::Routing(_, children) => waiting.extend(children.values()),
                Self::WeightedTarget(policy, children) => {
                    waiting.extend(policy.idle_children().filter_map(|name| children.get(name)));
                }
            }
        }
        idle.sort_unstable();
        idle
    }

    /// Whether a configuration is for this kind of policy, which can then be kept.
    fn is_for(&self, config: &PolicyConfig) -> bool {
        match (self, config) {
            (Self::Routing(..), PolicyConfig::Routing(_))
            | (Self::WeightedTarget(..), PolicyConfig::WeightedTarget(_)) => true,
            (Self::Leaf(leaf), PolicyConfig::Leaf(config)) => leaf.policy == config.policy(),
            _ => false,
        }
    }

    /// Whether the node has a picker. Policies of this crate always have one, although their state
    /// may change with each update.
    const fn has_picker(&self) -> bool {
        !matches!(self, Self::Leaf(Leaf { picker: None, .. }))
    }

    fn set(&mut self, path: &[String], state: ConnectivityState, picker: P) {
        match self {
            Self::Leaf(leaf) => leaf.set(state, picker),
            Self::Routing(policy, children) => {
                let Some((name, rest)) = path.split_first() else { return };
                let Some(child) = children.get_mut(name) else { return };
                child.set(rest, state, picker);
                policy.child_changed(name, child.state(), name.clone());
            }
            Self::WeightedTarget(policy, children) => {
                let Some((name, rest)) = path.split_first() else { return };
                let Some(child) = children.get_mut(name) else { return };
                child.set(rest, state, picker);
                policy.child_changed(name, child.state(), name.clone());
            }
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        let (own, children) = match self {
            Self::Routing(policy, children) => (policy.poll_timeout(), children),
            Self::WeightedTarget(policy, children) => (policy.poll_timeout(), children),
            Self::Leaf(_) => return None,
        };
        children.values().filter_map(Self::poll_timeout).chain(own).min()
    }
}

/// Whether a child existed before the update.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChildOrigin {
    /// The child is kept.
    Kept,
    /// The child is new, or replaces one of another kind.
    New,
}

/// Update of the tree in progress.
struct Work<'a> {
    parents: &'a mut Parents,
    changes: &'a mut VecDeque<LeafChange>,
    now: Time,
}

impl Work<'_> {
    /// Returns the node for this configuration, updating or replacing the previous one.
    fn put<P>(
        &mut self,
        before: Option<PolicyNode<P>>,
        config: PolicyConfig,
        path: &mut Vec<String>,
    ) -> PolicyNode<P> {
        match (before, config) {
            (Some(PolicyNode::Leaf(leaf)), PolicyConfig::Leaf(config))
                if leaf.policy == config.policy() =>
            {
                self.changes.push_back(LeafChange::Update(leaf.id, config));
                PolicyNode::Leaf(leaf)
            }
            (None, PolicyConfig::Leaf(config)) => {
                let id = LeafId(self.parents.next);
                self.parents.next = self.parents.next.saturating_add(1);
                self.parents.paths.insert(id, path.clone());
                let policy = String::from(config.policy());
                self.changes.push_back(LeafChange::Create(id, config));
                let state = ConnectivityState::Connecting;
                PolicyNode::Leaf(Leaf { id, policy, state, picker: None, failing: None })
            }
            (
                Some(PolicyNode::Routing(mut policy, mut children)),
                PolicyConfig::Routing(config),
            ) => {
                let changes = policy.update(config, self.now);
                for (name, origin) in self.apply(changes, &mut children, path) {
                    if origin == ChildOrigin::New {
                        policy.child_replaced(&name);
                    }
                    if let Some(child) = children.get(&name).filter(|child| child.has_picker()) {
                        policy.child_changed(&name, child.state(), name.clone());
                    }
                }
                PolicyNode::Routing(policy, children)
            }
            (
                Some(PolicyNode::WeightedTarget(mut policy, mut children)),
                PolicyConfig::WeightedTarget(targets),
            ) => {
                let changes = policy.update(targets, self.now);
                for (name, origin) in self.apply(changes, &mut children, path) {
                    if origin == ChildOrigin::New {
                        policy.child_replaced(&name);
                    }
                    if let Some(child) = children.get(&name).filter(|child| child.has_picker()) {
                        policy.child_changed(&name, child.state(), name.clone());
                    }
                }
                PolicyNode::WeightedTarget(policy, children)
            }
            (None, config @ PolicyConfig::Routing(_)) => {
                let node = PolicyNode::Routing(XdsRouting::new(self.parents.keep), BTreeMap::new());
                self.put(Some(node), config, path)
            }
            (None, config @ PolicyConfig::WeightedTarget(_)) => {
                let policy = WeightedTarget::new(self.parents.keep);
                self.put(Some(PolicyNode::WeightedTarget(policy, BTreeMap::new())), config, path)
            }
            (Some(other), config) => {
                self.close(other);
                self.put(None, config, path)
            }
        }
    }

    /// Applies changes to the children of a policy. Returns the existing ones, and whether each was
    /// created.
    fn apply<P>(
        &mut self,
        changes: Vec<ChildChange<PolicyConfig>>,
        children: &mut BTreeMap<String, PolicyNode<P>>,
        path: &mut Vec<String>,
    ) -> Vec<(String, ChildOrigin)> {
        let mut present = Vec::new();
        for change in changes {
            let (name, config) = match change {
                ChildChange::Create(name, config) | ChildChange::Update(name, config) => {
                    (name, config)
                }
                ChildChange::Close(name) => {
                    children.remove(&name).into_iter().for_each(|child| self.close(child));
                    continue;
                }
            };
            let before = children.remove(&name);
            let origin = match before.as_ref().is_some_and(|before| before.is_for(&config)) {
                true => ChildOrigin::Kept,
                false => ChildOrigin::New,
            };
            path.push(name.clone());
            let child = self.put(before, config, path);
            path.pop();
            children.insert(name.clone(), child);
            present.push((name, origin));
        }
        present
    }

    fn expire<P>(&mut self, node: &mut PolicyNode<P>) {
        let (gone, children) = match node {
            PolicyNode::Routing(policy, children) => (policy.handle_timeout(self.now), children),
            PolicyNode::WeightedTarget(policy, children) => {
                (policy.handle_timeout(self.now), children)
            }
            PolicyNode::Leaf(_) => return,
        };
        for name in gone {
            children.remove(&name).into_iter().for_each(|child| self.close(child));
        }
        children.values_mut().for_each(|child| self.expire(child));
    }

    fn close<P>(&mut self, node: PolicyNode<P>) {
        match node {
            PolicyNode::Routing(_, children) | PolicyNode::WeightedTarget(_, children) => {
                children.into_values().for_each(|child| self.close(child));
            }
            PolicyNode::Leaf(leaf) => {
                self.parents.paths.remove(&leaf.id);
                self.changes.push_back(LeafChange::Close(leaf.id));
            }
        }
    }
}
