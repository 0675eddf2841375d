//! Views made of layers.
//!
//! A name in a layered view refers to the resource or error in the topmost layer that has either.
//! A layered view has arenas of its own only for types with subscribers, and these share their
//! payloads with the layers. A change in a layer updates the arenas above it if they show
//! something else now. The cost is proportional to the change and to the number of layered views
//! with subscribers of the type.
// M222, M224

use alloc::vec::Vec;
use core::num::NonZeroU64;

use bytes::Bytes;
use thiserror::Error;

use super::{ChangeSet, Store, arena::ResourceEntry, version::content::TypeVersion, view::View};
use crate::{
    server::config::{ServerConfig, VersionMode},
    slab::Slot,
    text::{ResourceName, TypeUrl, Version, ViewName},
    xdstp,
};

/// Reason for which layers cannot be set for a view. Nothing has changed in this case.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LayersError {
    /// The view has resources of its own. Remove them first, or move them to a layer.
    #[error("view {view:?} has resources of its own")]
    OwnResources {
        /// View with resources.
        view: ViewName,
    },
    /// A layer has layers itself, or the view is a layer of another view.
    #[error("view {view:?} cannot both be a layer and have layers")]
    Nested {
        /// View that would be a layer and have layers.
        view: ViewName,
    },
    /// A layer is listed twice.
    #[error("layer {layer:?} is listed twice")]
    Duplicate {
        /// Layer that is listed twice.
        layer: ViewName,
    },
    /// Some of the views do not exist yet, and creating them would exceed the limit.
    #[error("more than {limit} views")]
    TooManyViews {
        /// Configured maximum number of views.
        limit: usize,
    },
}

impl Store {
    /// Sets the layers of a view, topmost first. Without layers, it becomes a view without
    /// resources.
    pub(crate) fn set_layers(
        &mut self,
        name: &ViewName,
        layers: &[ViewName],
        config: &ServerConfig,
    ) -> Result<ChangeSet, LayersError> {
        self.check_layers(name, layers, config.limits.views)?;
        let mut change_set = ChangeSet::default();
        let Some(view) = self.open_view(name) else { return Ok(change_set) };
        let layers: Vec<_> = layers.iter().filter_map(|layer| self.open_view(layer)).collect();
        for &layer in &layers {
            if let Some(layer) = self.views.at_mut(layer) {
                layer.uses += 1;
            }
            self.note_view(layer);
        }
        let arenas = self.arenas_of(view);
        for &arena in &arenas {
            let type_url = self.arenas.at(arena).map(|arena| arena.type_url.clone());
            self.leave_layers(arena, view, &type_url.unwrap_or_default());
        }
        let Some(state) = self.views.at_mut(view) else { return Ok(change_set) };
        state.is_dropped = false;
        let before = core::mem::replace(&mut state.layers, layers);
        self.sequence += 1;
        for arena in arenas {
            self.show_layers(arena, config, &mut change_set);
        }
        self.end_uses(before);
        self.release_view(view);
        Ok(change_set)
    }

    fn check_layers(
        &self,
        name: &ViewName,
        layers: &[ViewName],
        limit: usize,
    ) -> Result<(), LayersError> {
        let view = self.find_view(name).and_then(|slot| self.views.at(slot));
        if !layers.is_empty() && view.is_some_and(|view| view.uses > 0) {
            return Err(LayersError::Nested { view: name.clone() });
        }
        for (position, layer) in layers.iter().enumerate() {
            let state = self.find_view(layer).and_then(|slot| self.views.at(slot));
            if layer == name || state.is_some_and(|state| !state.layers.is_empty()) {
                return Err(LayersError::Nested { view: layer.clone() });
            }
            if layers.iter().take(position).any(|other| other == layer) {
                return Err(LayersError::Duplicate { layer: layer.clone() });
            }
        }
        let mut own = self.find_view(name).into_iter().flat_map(|view| self.arenas_in(view));
        if own.any(|arena| !arena.shows_layers && arena.held() > 0) {
            return Err(LayersError::OwnResources { view: name.clone() });
        }
        let new = layers.iter().chain([name]).filter(|name| self.find_view(name).is_none()).count();
        if new > 0 && self.views.len() + new > limit {
            return Err(LayersError::TooManyViews { limit });
        }
        Ok(())
    }

    /// Registers an arena with those of its view's layers and updates its contents from them.
    /// Without layers, it becomes empty and can be changed by transactions.
    pub(crate) fn show_layers(
        &mut self,
        slot: Slot,
        config: &ServerConfig,
        change_set: &mut ChangeSet,
    ) {
        let Some(arena) = self.arenas.at_mut(slot) else { return };
        let (view, type_url) = (arena.view, arena.type_url.clone());
        arena.shows_layers = true;
        arena.versions.own = None;
        let shown: Vec<_> = arena.held_names().cloned().collect();
        let layers = self.layers_of(view);
        let (mut names, mut source) = (Vec::new(), None);
        for &layer in layers.iter().rev() {
            let below = self.open_arena(layer, type_url.as_str(), config);
            if let Some(below) = below.and_then(|below| self.arenas.at_mut(below)) {
                below.above.insert(slot);
                names.extend(below.held_names().cloned());
                source = source.max(below.source_revision());
            }
        }
        names.extend(shown);
        for name in &names {
            self.show(slot, name, self.sequence, source, change_set);
        }
        if layers.is_empty()
            && let Some(arena) = self.arenas.at_mut(slot)
        {
            arena.shows_layers = false;
        }
    }

    /// Updates the arenas above a layer after a name changed in it.
    pub(crate) fn show_above(
        &mut self,
        layer: Slot,
        name: &ResourceName,
        sequence: u64,
        change_set: &mut ChangeSet,
    ) {
        let above: Vec<_> =
            self.arenas.at(layer).into_iter().flat_map(|it| it.above.iter().copied()).collect();
        let source = self.arenas.at(layer).and_then(|it| it.source_revision());
        for arena in above {
            self.show(arena, name, sequence, source, change_set);
        }
    }

    /// Updates a name in an arena from its view's layers, at a revision of the source.
    fn show(
        &mut self,
        slot: Slot,
        name: &ResourceName,
        sequence: u64,
        source: Option<NonZeroU64>,
        change_set: &mut ChangeSet,
    ) {
        let shown = self.arenas.at(slot).and_then(|arena| {
            self.topmost(self.views.at(arena.view)?, arena.type_url.as_str(), name.as_str())
        });
        let contents = shown.map(ResourceEntry::effective_contents).unwrap_or_default();
        let now = self.clock.next();
        let Some(arena) = self.arenas.at_mut(slot) else { return };
        arena.note_source_revision(source);
        if let Some(what) = arena.show(name, contents, now, &mut self.pool) {
            self.clock = now;
            change_set.add(slot, arena, sequence, what);
        }
    }

    /// Returns the resource or error in the topmost layer that has one.
    fn topmost(&self, view: &View, type_url: &str, name: &str) -> Option<&ResourceEntry> {
        view.layers.iter().find_map(|&layer| {
            self.entry(layer, type_url, name).filter(|resource| resource.is_held())
        })
    }

    /// Returns a resource of a view, layered or not.
    pub(crate) fn resource_in(
        &self,
        view: &ViewName,
        type_url: &str,
        name: &str,
    ) -> Option<&Bytes> {
        let name = xdstp::canonical(&name.into()).ok()?;
        let name = name.as_str();
        let view = self.find_view(view)?;
        let state = self.views.at(view)?;
        let resource = match state.layers.is_empty() {
            false => self.topmost(state, type_url, name)?,
            true => self.entry(view, type_url, name)?,
        };
        resource.payload.as_ref().map(|payload| &payload.value)
    }

    /// Returns the version of a type in a view, layered or not, if it has any resource of the
    /// type. For a layered view without subscribers it is computed from all resources of the
    /// layers, and unknown if versions are counted.
    pub(crate) fn version_in(&self, view: &ViewName, type_url: &str) -> Option<Version> {
        let view = self.find_view(view)?;
        if let Some(arena) = self.find_arena(view, type_url).and_then(|slot| self.arenas.at(slot)) {
            return (arena.existing() > 0).then(|| arena.current_version());
        }
        let state = self.views.at(view)?;
        let (mut version, mut existing) = (TypeVersion::default(), false);
        let mut source = None;
        for &layer in &state.layers {
            let Some(below) = self.find_arena(layer, type_url) else { continue };
            let Some(below) = self.arenas.at(below) else { continue };
            if below.config.versions == VersionMode::Counter {
                return None;
            }
            source = source.max(below.source_revision());
            for resource in below.held_resources() {
                let name = resource.name.as_str();
                if let Some(top) = self.topmost(state, type_url, name)
                    && core::ptr::eq(top, resource)
                    && let Some(payload) = &resource.payload
                {
                    version.add(name, payload.hash);
                    existing = true;
                }
            }
        }
        existing.then(|| version.stated().to_version(source))
    }

    /// Unregisters an arena of a layered view from those of the layers.
    pub(crate) fn leave_layers(&mut self, slot: Slot, view: Slot, type_url: &TypeUrl) {
        for layer in self.layers_of(view) {
            let Some(below) = self.find_arena(layer, type_url.as_str()) else { continue };
            if let Some(below) = self.arenas.at_mut(below) {
                below.above.remove(&slot);
            }
            self.release_arena(below);
        }
    }

    pub(super) fn end_uses(&mut self, layers: Vec<Slot>) {
        for layer in layers {
            if let Some(state) = self.views.at_mut(layer) {
                state.uses -= 1;
            }
            self.update_retention(layer);
        }
    }

    /// Returns an arena and those of the layers that it shows.
    pub(crate) fn with_layers(&self, slot: Slot) -> Vec<Slot> {
        let mut shown = Vec::from([slot]);
        let Some(arena) = self.arenas.at(slot) else { return shown };
        let layers = self.views.at(arena.view).map(|view| &*view.layers).unwrap_or_default();
        let type_url = arena.type_url.as_str();
        shown.extend(layers.iter().filter_map(|&layer| self.find_arena(layer, type_url)));
        shown
    }

    fn layers_of(&self, view: Slot) -> Vec<Slot> {
        self.views.at(view).map(|view| view.layers.clone()).unwrap_or_default()
    }
}
