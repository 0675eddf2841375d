//! View: set of resources served to a client or a group of clients, with one arena per type.

use alloc::vec::Vec;

use super::arena::Arena;
use crate::{
    index::NameIndex,
    slab::{Slab, Slot},
    text::ViewName,
    time::Time,
};

/// Set of resources served to some clients.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) name: ViewName,
    types: NameIndex,
    /// Arenas in the order in which the types were first used.
    arenas: Vec<Slot>,
    /// Number of streams that use the view.
    pub(crate) streams: usize,
    pub(crate) retention: Retention,
    /// Layers of the view, topmost first. Empty if it has resources of its own.
    pub(crate) layers: Vec<Slot>,
    /// Number of views that have this one as a layer.
    pub(crate) uses: usize,
    /// View in whose place the cohort of a rollout sees this one.
    pub(crate) stands_for: Option<Slot>,
    /// Views that the cohorts of rollouts see in place of this one.
    pub(crate) candidates: Vec<Slot>,
    /// Time at which the view is dropped if it stays unused until then.
    pub(crate) idle_at: Option<Time>,
}

/// Whether a view is kept when it is no longer used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retention {
    Keep,
    /// The view was dropped while it was in use.
    // M213
    DropWhenUnused,
}

impl View {
    pub(crate) fn new(name: ViewName, seed: u64) -> Self {
        Self {
            name,
            types: NameIndex::new(seed),
            arenas: Vec::new(),
            streams: 0,
            retention: Retention::Keep,
            layers: Vec::new(),
            uses: 0,
            stands_for: None,
            candidates: Vec::new(),
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

    /// Returns the arenas of the view, one per type.
    pub(crate) fn arenas(&self) -> &[Slot] {
        &self.arenas
    }

    /// Whether the view is in use, at least as a layer of another view or in a rollout.
    pub(crate) fn is_used(&self) -> bool {
        let is_in_rollout = self.stands_for.is_some() || !self.candidates.is_empty();
        self.streams + self.uses > 0 || is_in_rollout
    }

    /// Whether there is no reason to keep the view.
    pub(crate) fn is_idle(&self) -> bool {
        self.arenas.is_empty() && self.layers.is_empty() && !self.is_used()
    }
}

fn type_in(arenas: &Slab<Arena>, slot: Slot) -> Option<&str> {
    arenas.at(slot).map(|arena| arena.type_url.as_str())
}
