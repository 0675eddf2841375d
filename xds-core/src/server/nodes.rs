//! How many streams there are of each node (IS24).

use alloc::{collections::BTreeMap, sync::Arc};

/// The nodes that have streams, by their ids. Who gives none is not counted, nor who waits to be let in.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    streams: BTreeMap<Arc<str>, usize>,
}

impl Nodes {
    /// One stream more; says how many there are.
    pub(crate) fn join(&mut self, id: &Arc<str>) -> usize {
        if id.is_empty() {
            return 0;
        }
        let streams = self.streams.entry(Arc::clone(id)).or_default();
        *streams += 1;
        *streams
    }

    /// How many streams there are of a node.
    pub(crate) fn streams_of(&self, id: &str) -> usize {
        self.streams.get(id).copied().unwrap_or_default()
    }

    /// One stream less.
    pub(crate) fn leave(&mut self, id: &str) {
        if let Some(streams) = self.streams.get_mut(id) {
            *streams -= 1;
            if *streams == 0 {
                self.streams.remove(id);
            }
        }
    }
}
