//! What is held of each node: how many streams, and how much that waits (IS24).

use alloc::{collections::BTreeMap, sync::Arc};

/// The nodes that have streams, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    nodes: BTreeMap<Arc<str>, Node>,
}

#[derive(Debug, Default)]
struct Node {
    /// Those that were let in.
    streams: usize,
    /// Bytes of requests on the others.
    latched: usize,
}

impl Nodes {
    /// One stream more; says how many there are. Who gives no id is not counted, nor who waits to be let in.
    pub(crate) fn join(&mut self, id: &Arc<str>) -> usize {
        if id.is_empty() {
            return 0;
        }
        let node = self.nodes.entry(Arc::clone(id)).or_default();
        node.streams += 1;
        node.streams
    }

    /// How many streams there are of a node.
    pub(crate) fn streams_of(&self, id: &str) -> usize {
        self.nodes.get(id).map_or(0, |node| node.streams)
    }

    /// One stream less.
    pub(crate) fn leave(&mut self, id: &str) {
        self.change(id, |node| node.streams = node.streams.saturating_sub(1));
    }

    /// So many bytes more wait to be let in; says how many do, of the same node.
    pub(crate) fn latch(&mut self, id: &Arc<str>, bytes: usize) -> usize {
        if bytes == 0 {
            return 0;
        }
        let node = self.nodes.entry(Arc::clone(id)).or_default();
        node.latched += bytes;
        node.latched
    }

    /// So many bytes less.
    pub(crate) fn unlatch(&mut self, id: &str, bytes: usize) {
        self.change(id, |node| node.latched = node.latched.saturating_sub(bytes));
    }

    fn change(&mut self, id: &str, change: impl FnOnce(&mut Node)) {
        let Some(node) = self.nodes.get_mut(id) else { return };
        change(node);
        if node.streams + node.latched == 0 {
            self.nodes.remove(id);
        }
    }
}
