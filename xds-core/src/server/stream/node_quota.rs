//! Number of streams and bytes of held requests per node.
// IS24

use alloc::{collections::BTreeMap, sync::Arc};

/// Nodes that have streams.
#[derive(Debug, Default)]
pub(crate) struct NodeQuotas {
    nodes: BTreeMap<NodeKey, NodeUsage>,
}

/// Client that a node is counted for: its authenticated identity, so that a client cannot use up the
/// quota of another one by its node id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeKey {
    /// Empty without authentication.
    pub(crate) principal: Arc<str>,
    /// Empty before the client has sent its node.
    pub(crate) node_id: Arc<str>,
}

#[derive(Debug, Default)]
struct NodeUsage {
    /// Streams with a view.
    streams: usize,
    /// Bytes of held requests.
    held_bytes: usize,
}

impl NodeQuotas {
    /// Adds a stream of a node and returns the number of its streams. Nodes without an id, and
    /// streams without a view, are not counted.
    pub(crate) fn join(&mut self, key: NodeKey) -> usize {
        if key.node_id.is_empty() {
            return 0;
        }
        let node = self.nodes.entry(key).or_default();
        node.streams += 1;
        node.streams
    }

    /// Number of streams of a node.
    pub(crate) fn streams_of(&self, key: &NodeKey) -> usize {
        self.nodes.get(key).map_or(0, |node| node.streams)
    }

    /// Removes a stream of a node.
    pub(crate) fn leave(&mut self, key: &NodeKey) {
        self.change(key, |node| node.streams = node.streams.saturating_sub(1));
    }

    /// Adds bytes of held requests of a node and returns their sum.
    pub(crate) fn hold_bytes(&mut self, key: NodeKey, bytes: usize) -> usize {
        if bytes == 0 {
            return 0;
        }
        let node = self.nodes.entry(key).or_default();
        node.held_bytes += bytes;
        node.held_bytes
    }

    /// Subtracts bytes of held requests of a node.
    pub(crate) fn release_bytes(&mut self, key: &NodeKey, bytes: usize) {
        self.change(key, |node| node.held_bytes = node.held_bytes.saturating_sub(bytes));
    }

    fn change(&mut self, key: &NodeKey, change: impl FnOnce(&mut NodeUsage)) {
        let Some(node) = self.nodes.get_mut(key) else { return };
        change(node);
        if node.streams + node.held_bytes == 0 {
            self.nodes.remove(key);
        }
    }
}
