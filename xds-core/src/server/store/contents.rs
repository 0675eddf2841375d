//! Contents of entire views, current or after a transaction.
//!
//! Sorting the contents costs much more than copying references to them. The copy is therefore
//! made first, and the server can continue while the copy is sorted elsewhere.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};

use bytes::Bytes;

use super::{
    Store,
    encode::body::Payload,
    transaction::{ChangeContent, ResourceChange, Transaction, TransactionError},
};
use crate::{
    references::{Consistency, Finding},
    server::config::ServerConfig,
    slab::Slot,
    text::{ResourceName, TypeUrl, ViewName},
};

/// Payloads of one type by name; `None` for a name with an error.
type TypeContents = Vec<(ResourceName, Option<Payload>)>;

/// Contents of a view without layers, by type.
#[derive(Clone, Debug, Default)]
pub(crate) struct LayerContents {
    types: Vec<(TypeUrl, TypeContents)>,
}

/// Contents of some views, and pending changes of one of the layers.
#[derive(Clone, Debug, Default)]
pub(crate) struct CapturedViews {
    /// Views sorted by name, each with its layers, topmost first.
    views: Vec<(ViewName, Vec<Arc<LayerContents>>)>,
    /// Changes that would be made in this layer.
    changed: Option<(Arc<LayerContents>, Vec<ResourceChange>)>,
}

impl Store {
    /// Returns the names of all views, sorted.
    pub(crate) fn view_list(&self) -> Vec<ViewName> {
        self.view_names.keys().cloned().collect()
    }

    /// Returns the contents of a view.
    pub(crate) fn capture(&self, view: &ViewName) -> CapturedViews {
        let slots = self.find_view(view).into_iter();
        let mut captured =
            CapturedViews { views: self.copy(slots, &mut BTreeMap::new()), changed: None };
        if captured.views.is_empty() {
            captured.views.push((view.clone(), Vec::new()));
        }
        captured
    }

    /// Returns the contents that the views affected by a transaction would have after it.
    pub(crate) fn preview(
        &self,
        transaction: &Transaction,
        config: &ServerConfig,
    ) -> Result<CapturedViews, TransactionError> {
        let removals = self.removals_of(transaction)?;
        let (view, changes) = self.validate(transaction, &removals, config)?;
        let changes = changes.into_iter().cloned().collect();
        let Some(view) = view else {
            let layer = Arc::new(LayerContents::default());
            let views = Vec::from([(transaction.view().clone(), Vec::from([layer.clone()]))]);
            return Ok(CapturedViews { views, changed: Some((layer, changes)) });
        };
        let is_affected = |slot: Slot| match self.views.at(slot) {
            Some(state) if slot == view => state.uses == 0 || state.streams > 0,
            Some(state) => state.layers.contains(&view),
            None => false,
        };
        let slots = self.views.iter().map(|(slot, _)| slot).filter(|&slot| is_affected(slot));
        let mut layers = BTreeMap::new();
        let views = self.copy(slots, &mut layers);
        Ok(CapturedViews { views, changed: layers.remove(&view).map(|layer| (layer, changes)) })
    }

    /// Copies the contents of these views, sorted by name. Common layers are shared.
    fn copy(
        &self,
        slots: impl Iterator<Item = Slot>,
        copied: &mut BTreeMap<Slot, Arc<LayerContents>>,
    ) -> Vec<(ViewName, Vec<Arc<LayerContents>>)> {
        let mut views = Vec::new();
        for (slot, state) in slots.filter_map(|slot| Some((slot, self.views.at(slot)?))) {
            let own = [slot];
            let layers = if state.layers.is_empty() { &own[..] } else { &state.layers };
            let layers = layers.iter().map(|&layer| {
                let copy = copied.entry(layer).or_insert_with(|| Arc::new(self.layer(layer)));
                copy.clone()
            });
            views.push((state.name.clone(), layers.collect()));
        }
        views.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        views
    }

    /// Returns the contents of a view's arenas. For a layered view, only types with arenas are
    /// included.
    pub(crate) fn layer(&self, view: Slot) -> LayerContents {
        let types = self.arenas_in(view).map(|arena| {
            let held = arena.held_resources().map(|it| {
                let payload = it.payload.as_ref().filter(|_| it.error.is_none());
                (it.name.clone(), payload.cloned())
            });
            (arena.type_url.clone(), held.collect())
        });
        LayerContents { types: types.collect() }
    }
}

impl LayerContents {
    /// Returns the names in the layer, by type.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&TypeUrl, &ResourceName)> {
        self.types.iter().flat_map(|(type_url, held)| held.iter().map(move |it| (type_url, &it.0)))
    }

    /// Returns the payloads in a map by type and name.
    pub(crate) fn by_name(&self) -> BTreeMap<(&TypeUrl, &ResourceName), &Payload> {
        let all = self.types.iter().flat_map(|(type_url, held)| {
            held.iter().map(move |(name, it)| ((type_url, name), it.as_ref()))
        });
        all.filter_map(|(key, payload)| Some((key, payload?))).collect()
    }
}

impl CapturedViews {
    /// Returns the contents of each view.
    pub(crate) fn contents(&self) -> Vec<ViewContents> {
        let of = |(view, layers): &(ViewName, Vec<Arc<LayerContents>>)| {
            let mut contents = ViewContents::of(view.clone());
            // Upper layers take precedence over lower ones.
            for layer in layers.iter().rev() {
                let changed = self.changed.as_ref().filter(|(it, _)| Arc::ptr_eq(it, layer));
                layer.fill(changed.map_or(&[][..], |(_, changes)| changes), &mut contents);
            }
            contents
        };
        self.views.iter().map(of).collect()
    }
}

impl LayerContents {
    /// Adds the contents of the layer as they are after these changes.
    fn fill(&self, changes: &[ResourceChange], contents: &mut ViewContents) {
        let changed: BTreeSet<_> = changes.iter().map(|it| (&it.type_url, &it.name)).collect();
        for (type_url, held) in &self.types {
            let kept = held.iter().filter(|(name, _)| !changed.contains(&(type_url, name)));
            for (name, payload) in kept {
                match payload {
                    Some(payload) => contents.insert(type_url, name, &payload.value),
                    None => contents.remove(type_url, name),
                }
            }
        }
        for ResourceChange { type_url, name, content, .. } in changes {
            match content {
                ChangeContent::Resource(value, _) => contents.insert(type_url, name, value),
                ChangeContent::Error(_) => contents.remove(type_url, name),
                ChangeContent::Nothing => {}
            }
        }
    }
}

/// Resources of a view at one point in time, by type and name. The payloads are shared with the
/// server, so this can be kept and used elsewhere while the server goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewContents {
    view: ViewName,
    resources: BTreeMap<TypeUrl, BTreeMap<ResourceName, Bytes>>,
}

impl ViewContents {
    pub(crate) fn of(view: ViewName) -> Self {
        Self { view, resources: BTreeMap::new() }
    }

    pub(crate) fn insert(&mut self, type_url: &TypeUrl, name: &ResourceName, payload: &Bytes) {
        let resources = self.resources.entry(type_url.clone()).or_default();
        resources.insert(name.clone(), payload.clone());
    }

    pub(crate) fn remove(&mut self, type_url: &TypeUrl, name: &ResourceName) {
        if let Some(resources) = self.resources.get_mut(type_url) {
            resources.remove(name);
        }
    }

    /// Returns the name of the view.
    #[must_use]
    pub fn view(&self) -> &ViewName {
        &self.view
    }

    /// Returns the resources with their encoded bytes, sorted by type and name.
    pub fn iter(&self) -> impl Iterator<Item = (&TypeUrl, &ResourceName, &Bytes)> {
        self.resources.iter().flat_map(|(type_url, resources)| {
            resources.iter().map(move |(name, payload)| (type_url, name, payload))
        })
    }

    /// Returns the encoded bytes of a resource.
    #[must_use]
    pub fn get(&self, type_url: &TypeUrl, name: &ResourceName) -> Option<&Bytes> {
        self.resources.get(type_url)?.get(name)
    }

    /// Number of resources of a type.
    #[must_use]
    pub fn len_of(&self, type_url: &TypeUrl) -> usize {
        self.resources.get(type_url).map_or(0, BTreeMap::len)
    }

    /// Number of resources.
    #[must_use]
    pub fn len(&self) -> usize {
        self.resources.values().map(BTreeMap::len).sum()
    }

    /// Whether the view has no resources.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks the resources for inconsistencies, in particular dangling references.
    #[must_use]
    pub fn check(&self, consistency: &Consistency<'_>) -> Vec<Finding> {
        consistency.check(self.iter().map(|(ty, name, it)| (ty.clone(), name.clone(), it)))
    }
}
