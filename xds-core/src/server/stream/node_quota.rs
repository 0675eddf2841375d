//! Number of streams and bytes of held requests per node.
// IS24

use alloc::{boxed::Box, collections::BTreeMap, sync::Arc};

/// Streams and held requests of each node.
#[derive(Debug, Default)]
pub(crate) struct NodeQuotas {
    /// Number of streams with a view.
    streams: BTreeMap<NodeKey, u32>,
    /// Bytes of held requests, of nodes that have any.
    held_bytes: BTreeMap<NodeKey, usize>,
}

/// Client that a node is counted for: its id and its authenticated identity, so that a client cannot
/// use up the quota of another one by its node id. The id is empty before the client has sent its
/// node.
///
/// An authenticated identity is boxed, so that the others, one for each node, take two words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NodeKey {
    Anonymous { node_id: Arc<str> },
    Authenticated(Box<AuthenticatedNode>),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AuthenticatedNode {
    principal: Arc<str>,
    node_id: Arc<str>,
}

impl NodeKey {
    /// Returns the key of a node. `principal` is empty without authentication.
    pub(crate) fn new(principal: Arc<str>, node_id: Arc<str>) -> Self {
        match &*principal {
            "" => Self::Anonymous { node_id },
            _ => Self::Authenticated(AuthenticatedNode { principal, node_id }.into()),
        }
    }

    /// Returns the key of the same client before it has sent its node.
    pub(crate) fn without_node(&self) -> Self {
        match self {
            Self::Anonymous { .. } => Self::Anonymous { node_id: Arc::default() },
            Self::Authenticated(node) => Self::new(node.principal.clone(), Arc::default()),
        }
    }

    pub(crate) fn node_id(&self) -> &Arc<str> {
        match self {
            Self::Anonymous { node_id } => node_id,
            Self::Authenticated(node) => &node.node_id,
        }
    }
}

impl NodeQuotas {
    /// Adds a stream of a node and returns the number of its streams. Nodes without an id, and
    /// streams without a view, are not counted.
    pub(crate) fn join(&mut self, key: NodeKey) -> usize {
        if key.node_id().is_empty() {
            return 0;
        }
        let streams = self.streams.entry(key).or_default();
        *streams += 1;
        *streams as usize
    }

    /// Number of streams of a node.
    pub(crate) fn streams_of(&self, key: &NodeKey) -> usize {
        self.streams.get(key).map_or(0, |&streams| streams as usize)
    }

    /// Removes a stream of a node.
    pub(crate) fn leave(&mut self, key: &NodeKey) {
        let Some(streams) = self.streams.get_mut(key) else { return };
        *streams -= 1;
        if *streams == 0 {
            self.streams.remove(key);
        }
    }

    /// Adds bytes of held requests of a node and returns their sum.
    pub(crate) fn hold_bytes(&mut self, key: NodeKey, bytes: usize) -> usize {
        if bytes == 0 {
            return 0;
        }
        let held = self.held_bytes.entry(key).or_default();
        *held += bytes;
        *held
    }

    /// Subtracts bytes of held requests of a node.
    pub(crate) fn release_bytes(&mut self, key: &NodeKey, bytes: usize) {
        let Some(held) = self.held_bytes.get_mut(key) else { return };
        *held = held.saturating_sub(bytes);
        if *held == 0 {
            self.held_bytes.remove(key);
        }
    }
}
