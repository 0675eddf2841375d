//! Persistent vector: a client has a copy of the root, and a change copies the nodes that a client
//! shares.

use std::sync::Arc;

use super::candidate::{Candidate, Payload, Revision, Version};

const BITS: u32 = 5;
const WIDTH: u32 = 1 << BITS;

#[derive(Clone)]
pub(crate) enum Node {
    Branch([Option<Arc<Self>>; WIDTH as usize]),
    Leaf([Option<Arc<Version>>; WIDTH as usize]),
}

pub(crate) struct Tree {
    clock: Revision,
    root: Arc<Node>,
    /// Number of bits of an index below the root.
    shift: u32,
}

fn position(resource: u32, shift: u32) -> usize {
    (resource >> shift & (WIDTH - 1)) as usize
}

impl Node {
    fn new(shift: u32) -> Self {
        match shift {
            0 => Self::Leaf([const { None }; WIDTH as usize]),
            _ => Self::Branch([const { None }; WIDTH as usize]),
        }
    }

    fn set(&mut self, resource: u32, shift: u32, version: Option<Arc<Version>>) {
        let at = position(resource, shift);
        match self {
            Self::Leaf(versions) => versions[at] = version,
            Self::Branch(nodes) => {
                let below = shift - BITS;
                let node = nodes[at].get_or_insert_with(|| Arc::new(Self::new(below)));
                Arc::make_mut(node).set(resource, below, version);
            }
        }
    }

    fn get(&self, resource: u32, shift: u32) -> Option<&Version> {
        let at = position(resource, shift);
        match self {
            Self::Leaf(versions) => versions[at].as_deref(),
            Self::Branch(nodes) => nodes[at].as_deref()?.get(resource, shift - BITS),
        }
    }
}

impl Candidate for Tree {
    type Acked = Arc<Node>;

    const NAME: &'static str = "persistent vector";

    fn new(resources: u32) -> Self {
        let levels = (1..).find(|&levels| u64::from(resources) <= 1 << (BITS * levels));
        let shift = BITS * (levels.unwrap_or(1) - 1);
        let mut tree = Self { clock: 0, root: Arc::new(Node::new(shift)), shift };
        for resource in 0..resources {
            tree.change(resource, Some(Payload::new(u64::from(resource) + 1)));
        }
        tree
    }

    fn change(&mut self, resource: u32, payload: Option<Payload>) {
        self.clock += 1;
        let version = payload.map(|payload| Arc::new(Version { set: self.clock, payload }));
        Arc::make_mut(&mut self.root).set(resource, self.shift, version);
    }

    fn open(&mut self) -> Arc<Node> {
        self.root.clone()
    }

    fn ack(&mut self, acked: &mut Arc<Node>, _: &[u32]) {
        *acked = self.root.clone();
    }

    fn close(&mut self, acked: Arc<Node>) {
        drop(acked);
    }

    fn has<'a>(&'a self, acked: &'a Arc<Node>, resource: u32) -> Option<(Revision, &'a Payload)> {
        let version = acked.get(resource, self.shift)?;
        Some((version.set, &version.payload))
    }
}
