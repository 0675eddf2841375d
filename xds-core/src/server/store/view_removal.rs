//! Removal of views: explicitly, by removing all resources, or after the last stream has left.
// M213, M221

use alloc::vec::Vec;

use super::{
    ChangeSet, Store,
    transaction::ResourceChange,
    view::{Retention, View},
};
use crate::{server::config::ServerConfig, slab::Slot};

impl Store {
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

    /// Updates a view after it lost a user. A dropped view is removed with its last user.
    pub(crate) fn update_retention(&mut self, slot: Slot) {
        let is_over = |view: &View| view.retention == Retention::DropWhenUnused && !view.is_used();
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
        view.retention = Retention::DropWhenUnused;
        true
    }

    /// Removes all resources of an unused view.
    fn clear_view(&mut self, slot: Slot) {
        self.drop_layers(slot);
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
}
