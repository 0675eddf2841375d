//! Views made of layers (M222, M224): what a name stands for is what it stands for in the topmost layer
//! that has it, be it a resource or an error.
//!
//! A layered view has arenas of its own only for types that somebody subscribes to there, and these share
//! their payloads with the layers. A change in a layer is shown in the arenas above it, if what they show is
//! another thing then: it costs what changed, times the layered views with subscribers of the type.

use alloc::vec::Vec;

use bytes::Bytes;
use thiserror::Error;

use super::{
    Store, Touched,
    arena::{Origin, Resource, Shown},
    version::content::TypeVersion,
    view::{Fate, View},
};
use crate::{
    server::config::{ServerConfig, VersionMode},
    slab::Slot,
    text::{ResourceName, TypeUrl, Version, ViewName},
    xdstp,
};

/// Why a view cannot be made of these layers; nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LayersError {
    /// The view has resources of its own. Remove them first, or make them a layer.
    #[error("view {view:?} has resources of its own")]
    OwnResources {
        /// The view.
        view: ViewName,
    },
    /// A layer is itself made of layers, or the view is a layer of another one.
    #[error("view {view:?} would be both a layer and made of layers")]
    Nested {
        /// The view that would be both.
        view: ViewName,
    },
    /// A layer is listed twice.
    #[error("layer {layer:?} is listed twice")]
    Duplicate {
        /// The layer.
        layer: ViewName,
    },
    /// Some of the views do not exist yet, and there would be too many.
    #[error("more than {limit} views")]
    TooManyViews {
        /// The configured limit.
        limit: usize,
    },
}

impl Store {
    /// Makes a view show these others, the topmost first. No layers at all, and it is a view without
    /// resources.
    pub(crate) fn set_layers(
        &mut self,
        name: &ViewName,
        layers: &[ViewName],
        config: &ServerConfig,
    ) -> Result<Touched, LayersError> {
        self.check_layers(name, layers, config.limits.views)?;
        let mut touched = Touched::default();
        let Some(view) = self.open_view(name) else { return Ok(touched) };
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
        let Some(state) = self.views.at_mut(view) else { return Ok(touched) };
        state.fate = Fate::Stays;
        let before = core::mem::replace(&mut state.layers, layers);
        self.sequence += 1;
        for arena in arenas {
            self.show_layers(arena, config, &mut touched);
        }
        self.end_uses(before);
        self.release_view(view);
        Ok(touched)
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
        let arenas = view.map(|view| view.arenas()).unwrap_or_default();
        let own = arenas.iter().filter_map(|&slot| self.arenas.at(slot));
        if own.into_iter().any(|arena| arena.origin == Origin::Set && arena.held() > 0) {
            return Err(LayersError::OwnResources { view: name.clone() });
        }
        let new = layers.iter().chain([name]).filter(|name| self.find_view(name).is_none()).count();
        if new > 0 && self.views.len() + new > limit {
            return Err(LayersError::TooManyViews { limit });
        }
        Ok(())
    }

    /// Ties an arena to those of its view's layers and makes it show what they have. Without layers, it
    /// shows nothing and is free for transactions.
    pub(crate) fn show_layers(&mut self, slot: Slot, config: &ServerConfig, touched: &mut Touched) {
        let Some(arena) = self.arenas.at_mut(slot) else { return };
        let (view, type_url) = (arena.view, arena.type_url.clone());
        arena.origin = Origin::Layers;
        arena.versions.own = None;
        let shown: Vec<_> = arena.held_names().cloned().collect();
        let layers = self.layers_of(view);
        let mut names = Vec::new();
        for &layer in layers.iter().rev() {
            let below = self.open_arena(layer, type_url.as_str(), config);
            if let Some(below) = below.and_then(|below| self.arenas.at_mut(below)) {
                below.above.insert(slot);
                names.extend(below.held_names().cloned());
            }
        }
        names.extend(shown);
        for name in &names {
            self.show(slot, name, self.sequence, touched);
        }
        if layers.is_empty()
            && let Some(arena) = self.arenas.at_mut(slot)
        {
            arena.origin = Origin::Set;
        }
    }

    /// A name has changed in a layer: shows that in the arenas above.
    pub(crate) fn show_above(
        &mut self,
        layer: Slot,
        name: &ResourceName,
        sequence: u64,
        touched: &mut Touched,
    ) {
        let above: Vec<_> =
            self.arenas.at(layer).into_iter().flat_map(|it| it.above.iter().copied()).collect();
        for arena in above {
            self.show(arena, name, sequence, touched);
        }
    }

    /// Makes an arena show what its view's layers have under a name.
    fn show(&mut self, slot: Slot, name: &ResourceName, sequence: u64, touched: &mut Touched) {
        let shown = self.effective(slot, name);
        let now = self.clock.next();
        let Some(arena) = self.arenas.at_mut(slot) else { return };
        if let Some(what) = arena.show(name, shown, now, &mut self.pool) {
            self.clock = now;
            touched.add(slot, arena, sequence, what);
        }
    }

    /// What the view of an arena shows under a name.
    fn effective(&self, slot: Slot, name: &ResourceName) -> Shown {
        let found = self.arenas.at(slot).and_then(|arena| {
            self.topmost(self.views.at(arena.view)?, arena.type_url.as_str(), name.as_str())
        });
        found.map_or_else(Shown::default, |resource| resource.shown())
    }

    /// What the topmost layer has that has anything.
    fn topmost(&self, view: &View, type_url: &str, name: &str) -> Option<&Resource> {
        view.layers.iter().find_map(|&layer| {
            let below = self.arenas.at(self.find_arena(layer, type_url)?)?;
            below.at(below.find(name)?).filter(|resource| resource.is_held())
        })
    }

    /// A resource of a view, layered or not.
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
            true => {
                let arena = self.arenas.at(self.find_arena(view, type_url)?)?;
                arena.at(arena.find(name)?)?
            }
        };
        resource.payload.as_ref().map(|payload| &payload.value)
    }

    /// The version of a type in a view, layered or not, if it has any resource of it. For layers that
    /// nobody subscribes to it is made of all there is.
    pub(crate) fn version_in(&self, view: &ViewName, type_url: &str) -> Option<Version> {
        let view = self.find_view(view)?;
        if let Some(arena) = self.find_arena(view, type_url).and_then(|slot| self.arenas.at(slot)) {
            return (arena.existing() > 0).then(|| arena.current_version());
        }
        let state = self.views.at(view)?;
        let (mut version, mut existing) = (TypeVersion::default(), false);
        for &layer in &state.layers {
            let Some(below) = self.find_arena(layer, type_url) else { continue };
            let Some(below) = self.arenas.at(below) else { continue };
            if below.config.versions == VersionMode::Counter {
                return None;
            }
            for name in below.held_names() {
                let top = self.topmost(state, type_url, name.as_str());
                let own = below.find(name.as_str()).and_then(|slot| below.at(slot));
                if let (Some(top), Some(own)) = (top, own)
                    && core::ptr::eq(top, own)
                    && let Some(payload) = &own.payload
                {
                    version.add(name.as_str(), payload.hash);
                    existing = true;
                }
            }
        }
        existing.then(|| version.stated().to_version())
    }

    /// Unties an arena of a layered view from those below it.
    pub(crate) fn leave_layers(&mut self, slot: Slot, view: Slot, type_url: &TypeUrl) {
        for layer in self.layers_of(view) {
            let Some(below) = self.find_arena(layer, type_url.as_str()) else { continue };
            if let Some(below) = self.arenas.at_mut(below) {
                below.above.remove(&slot);
            }
            self.release_arena(below);
        }
    }

    /// A view that nobody sees is made of nothing any more.
    pub(crate) fn drop_layers(&mut self, slot: Slot) {
        let Some(view) = self.views.at_mut(slot) else { return };
        let layers = core::mem::take(&mut view.layers);
        self.end_uses(layers);
    }

    fn end_uses(&mut self, layers: Vec<Slot>) {
        for layer in layers {
            if let Some(state) = self.views.at_mut(layer) {
                state.uses -= 1;
            }
            self.settle_fate(layer);
        }
    }

    /// An arena, and those below it that it shows.
    pub(crate) fn shown_in(&self, slot: Slot) -> Vec<Slot> {
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

    fn arenas_of(&self, view: Slot) -> Vec<Slot> {
        self.views.at(view).map(|view| view.arenas().to_vec()).unwrap_or_default()
    }
}
