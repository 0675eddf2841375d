//! A set of resources that a client, or a group of clients, sees: one arena per type.

use alloc::vec::Vec;

use super::arena::Arena;
use crate::{
    index::NameIndex,
    slab::{Slab, Slot},
    text::ViewName,
    time::Time,
};

/// One view.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) name: ViewName,
    types: NameIndex,
    /// In the order in which the types came.
    arenas: Vec<Slot>,
    /// How many streams see it.
    pub(crate) streams: usize,
    pub(crate) fate: Fate,
    /// What it is made of, the topmost first; nothing if its resources are its own.
    pub(crate) layers: Vec<Slot>,
    /// How many views are made of it.
    pub(crate) uses: usize,
    /// When it is dropped if nobody sees it until then.
    pub(crate) idle_at: Option<Time>,
}

/// Whether a view is kept once nobody sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Stays,
    /// It was dropped while somebody did (M213).
    Doomed,
}

impl View {
    pub(crate) fn new(name: ViewName, seed: u64) -> Self {
        Self {
            name,
            types: NameIndex::new(seed),
            arenas: Vec::new(),
            streams: 0,
            fate: Fate::Stays,
            layers: Vec::new(),
            uses: 0,
            idle_at: None,
        }
    }

    pub(crate) fn find(&self, type_url: &str, arenas: &Slab<Arena>) -> Option<Slot> {
        self.types.find(type_url, |slot| type_in(arenas, slot))
    }

    pub(crate) fn insert(&mut self, type_url: &str, arena: Slot, arenas: &Slab<Arena>) {
        self.arenas.push(arena);
        self.types.insert(type_url, arena, |slot| type_in(arenas, slot));
    }

    pub(crate) fn remove(&mut self, type_url: &str, arena: Slot) {
        self.arenas.retain(|&other| other != arena);
        self.types.remove(type_url, arena);
    }

    /// Its types.
    pub(crate) fn arenas(&self) -> &[Slot] {
        &self.arenas
    }

    /// Whether anybody sees it, if only as a layer of another view.
    pub(crate) fn is_seen(&self) -> bool {
        self.streams + self.uses > 0
    }

    /// Whether there is nothing to keep it for.
    pub(crate) fn is_idle(&self) -> bool {
        self.arenas.is_empty() && self.layers.is_empty() && !self.is_seen()
    }
}

fn type_in(arenas: &Slab<Arena>, slot: Slot) -> Option<&str> {
    arenas.at(slot).map(|arena| arena.type_url.as_str())
}
