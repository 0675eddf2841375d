//! Views: sets of resources served to a client or a group of clients, with one arena per type.
//!
//! A view is removed explicitly, with its last resource, or after it was unused for a time.
// M213, M221

use alloc::{collections::BTreeMap, vec::Vec};

use super::{ChangeSet, Store, transaction::ResourceChange};
use crate::{
    server::config::ServerConfig,
    slab::{Key, Slot},
    text::{TypeUrl, ViewName},
};

/// Set of resources served to some clients.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) name: ViewName,
    /// Arenas by type.
    pub(crate) arenas: BTreeMap<TypeUrl, Slot>,
    /// Number of streams that use the view.
    pub(crate) streams: usize,
    /// Whether the view was dropped while it was in use, and is removed once it is unused.
    // M213
    pub(crate) is_dropped: bool,
    /// Layers of the view, topmost first. Empty if it has resources of its own.
    pub(crate) layers: Vec<Slot>,
    /// Number of views that have this one as a layer.
    pub(crate) uses: usize,
    /// View in whose place the cohort of a rollout sees this one.
    pub(crate) stands_for: Option<Slot>,
    /// Views that the cohorts of rollouts see in place of this one.
    pub(crate) candidates: Vec<Slot>,
}

impl View {
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

impl Store {
    /// Returns the slot of a view, creating the view if needed. Returns `None` only if no slot is
    /// left.
    pub(crate) fn open_view(&mut self, name: &ViewName) -> Option<Slot> {
        if let Some(slot) = self.find_view(name) {
            return Some(slot);
        }
        let slot = self.views.push_back(View { name: name.clone(), ..View::default() })?.slot();
        self.view_names.insert(name.clone(), slot);
        self.note_view(slot);
        Some(slot)
    }

    pub(crate) fn find_view(&self, name: &ViewName) -> Option<Slot> {
        self.view_names.get(name).copied()
    }

    pub(crate) fn view(&self, slot: Slot) -> Option<&View> {
        self.views.at(slot)
    }

    /// Returns the view of streams without an assigned view.
    pub(crate) fn default_view(&self) -> Slot {
        self.default_view
    }

    /// Registers a stream that uses the view.
    pub(crate) fn join_view(&mut self, slot: Slot) {
        if let Some(view) = self.views.at_mut(slot) {
            view.streams += 1;
        }
        self.note_view(slot);
    }

    /// Unregisters a stream. A dropped view is removed with its last user.
    pub(crate) fn leave_view(&mut self, slot: Slot) {
        let Some(view) = self.views.at_mut(slot) else { return };
        view.streams -= 1;
        self.update_retention(slot);
    }

    /// Removes all resources of a view without layers, and the versions that the application has
    /// set. The rules for transactions do not apply, so a view can always be dropped.
    pub(crate) fn empty_view(&mut self, view: Slot, config: &ServerConfig) -> ChangeSet {
        let mut change_set = ChangeSet::default();
        let mut changes = Vec::new();
        for arena in self.arenas_of(view) {
            let Some(arena) = self.arenas.at_mut(arena) else { continue };
            arena.versions.own = None;
            let removal = |name| ResourceChange::removal(&arena.type_url, name);
            changes.extend(arena.held_names().map(removal));
        }
        let changes: Vec<&ResourceChange> = changes.iter().collect();
        self.make_changes(view, &changes, None, config, &mut change_set);
        if !change_set.arenas.is_empty() {
            self.sequence += 1;
        }
        self.release_view(view);
        change_set
    }

    /// Updates a view after it lost a user. A dropped view is removed with its last user, and a layered
    /// one when the last arena that shows its layers is released.
    pub(crate) fn update_retention(&mut self, slot: Slot) {
        let is_over = |view: &View| {
            let shows_layers = !view.layers.is_empty() && !view.arenas.is_empty();
            view.is_dropped && !view.is_used() && !shows_layers
        };
        if self.views.at(slot).is_some_and(is_over) {
            self.clear_view(slot);
        }
        self.note_view(slot);
        self.release_view(slot);
    }

    /// Marks a view for removal once it is unused. Returns whether it is in use; if not, it is
    /// unchanged.
    pub(crate) fn drop_view_when_unused(&mut self, slot: Slot) -> bool {
        let Some(view) = self.views.at_mut(slot).filter(|view| view.is_used()) else {
            return false;
        };
        view.is_dropped = true;
        true
    }

    /// Removes all resources of an unused view.
    fn clear_view(&mut self, slot: Slot) {
        let layers = self.views.at_mut(slot).map(|view| core::mem::take(&mut view.layers));
        self.end_uses(layers.unwrap_or_default());
        for arena_slot in self.arenas_of(slot) {
            let Some(arena) = self.arenas.at_mut(arena_slot) else { continue };
            let names: Vec<_> = arena.held_names().cloned().collect();
            for name in names {
                self.clock = self.clock.next();
                if arena.remove(&name, self.clock, &mut self.pool).is_some() {
                    self.resources -= 1;
                }
            }
            self.release_arena(arena_slot);
        }
    }

    /// Frees a view without resources and streams.
    pub(crate) fn release_view(&mut self, slot: Slot) {
        if slot == self.default_view || !self.views.at(slot).is_some_and(View::is_idle) {
            return;
        }
        self.note_view(slot);
        if let Some(view) = self.views.remove(slot) {
            self.view_names.remove(&view.name);
        }
    }

    /// Records that a view may have become used or unused.
    pub(crate) fn note_view(&mut self, slot: Slot) {
        if let Some(key) = self.views.key(slot) {
            self.noted_views.push(key);
        }
    }

    /// Returns the views that may have become used or unused since the last call, and whether each
    /// exists and is unused.
    pub(crate) fn take_noted_views(&mut self) -> Vec<(Key, bool)> {
        let is_unused = |view: Key| {
            let state = self.views.get(view).filter(|_| view.slot() != self.default_view);
            state.is_some_and(|state| !state.is_used())
        };
        let noted = core::mem::take(&mut self.noted_views);
        noted.into_iter().map(|view| (view, is_unused(view))).collect()
    }
}
