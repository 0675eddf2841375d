//! Number of streams and bytes of held requests per node.
// IS24

use alloc::{collections::BTreeMap, sync::Arc};

/// Nodes that have streams, by id.
#[derive(Debug, Default)]
pub(crate) struct NodeQuotas {
    nodes: BTreeMap<Arc<str>, NodeUsage>,
}

#[derive(Debug, Default)]
struct NodeUsage {
    /// Streams with a view.
    streams: usize,
    /// Bytes of requests held on streams without a view.
    held_bytes: usize,
}

impl NodeQuotas {
    /// Adds a stream of a node and returns the number of its streams. Nodes without an id, and
    /// streams without a view, are not counted.
    pub(crate) fn join(&mut self, id: &Arc<str>) -> usize {
        if id.is_empty() {
            return 0;
        }
        let node = self.nodes.entry(Arc::clone(id)).or_default();
        node.streams += 1;
        node.streams
    }

    /// Number of streams of a node.
    pub(crate) fn streams_of(&self, id: &str) -> usize {
        self.nodes.get(id).map_or(0, |node| node.streams)
    }

    /// Removes a stream of a node.
    pub(crate) fn leave(&mut self, id: &str) {
        self.change(id, |node| node.streams = node.streams.saturating_sub(1));
    }

    /// Adds bytes of held requests of a node and returns their sum.
    pub(crate) fn hold_bytes(&mut self, id: &Arc<str>, bytes: usize) -> usize {
        if bytes == 0 {
            return 0;
        }
        let node = self.nodes.entry(Arc::clone(id)).or_default();
        node.held_bytes += bytes;
        node.held_bytes
    }

    /// Subtracts bytes of held requests of a node.
    pub(crate) fn release_bytes(&mut self, id: &str, bytes: usize) {
        self.change(id, |node| node.held_bytes = node.held_bytes.saturating_sub(bytes));
    }

    fn change(&mut self, id: &str, change: impl FnOnce(&mut NodeUsage)) {
        let Some(node) = self.nodes.get_mut(id) else { return };
        change(node);
        if node.streams + node.held_bytes == 0 {
            self.nodes.remove(id);
        }
    }
}
