//! View: set of resources served to a client or a group of clients, with one arena per type.

use alloc::{collections::BTreeMap, vec::Vec};

use crate::{
    slab::Slot,
    text::{TypeUrl, ViewName},
    time::Time,
};

/// Set of resources served to some clients.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) name: ViewName,
    /// Arenas by type.
    pub(crate) arenas: BTreeMap<TypeUrl, Slot>,
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
    pub(crate) fn new(name: ViewName) -> Self {
        Self {
            name,
            arenas: BTreeMap::new(),
            streams: 0,
            retention: Retention::Keep,
            layers: Vec::new(),
            uses: 0,
            stands_for: None,
            candidates: Vec::new(),
            idle_at: None,
        }
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
