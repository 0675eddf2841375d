//! All of a view at once, as it is and as it would be.

use alloc::{collections::BTreeMap, vec::Vec};

use bytes::Bytes;

use super::{
    Store,
    transaction::{Change, Content, Transaction, TransactionError},
    view::View,
};
use crate::{
    server::{config::ServerConfig, contents::ViewContents},
    slab::Slot,
    text::{ResourceName, TypeUrl, ViewName},
};

impl Store {
    /// By name.
    pub(crate) fn view_list(&self) -> Vec<ViewName> {
        let mut names: Vec<_> = self.views.iter().map(|(_, view)| view.name.clone()).collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn contents(&self, view: &ViewName) -> ViewContents {
        let mut contents = ViewContents::of(view.clone());
        if let Some(slot) = self.find_view(view) {
            self.fill(slot, None, &mut contents);
        }
        contents
    }

    pub(crate) fn preview(
        &self,
        transaction: &Transaction,
        config: &ServerConfig,
    ) -> Result<Vec<ViewContents>, TransactionError> {
        let (view, changes) = self.vet(transaction, config)?;
        let Some(view) = view else {
            let mut contents = ViewContents::of(transaction.view().clone());
            for change in changes {
                if let Content::Resource(value, _) = &change.content {
                    contents.insert(&change.type_url, &change.name, value);
                }
            }
            return Ok(Vec::from([contents]));
        };
        let is_shown = |slot: Slot| match self.views.at(slot) {
            Some(state) if slot == view => state.uses == 0 || state.streams > 0,
            Some(state) => state.layers.contains(&view),
            None => false,
        };
        let slots = self.views.iter().map(|(slot, _)| slot).filter(|&slot| is_shown(slot));
        let mut shown: Vec<_> = slots
            .map(|slot| {
                let name = self.views.at(slot).map(|state| state.name.clone());
                let mut contents = ViewContents::of(name.unwrap_or_default());
                self.fill(slot, Some((view, &changes)), &mut contents);
                contents
            })
            .collect();
        shown.sort_unstable_by(|a, b| a.view().cmp(b.view()));
        Ok(shown)
    }

    /// Adds what a view shows, if one of its layers or it itself had these changes.
    fn fill(&self, view: Slot, changed: Option<(Slot, &[&Change])>, contents: &mut ViewContents) {
        let Some(state) = self.views.at(view) else { return };
        let own = [view];
        let layers = if state.layers.is_empty() { &own[..] } else { &state.layers };
        // What lies above goes over what lies below.
        for &layer in layers.iter().rev() {
            let changes = changed.filter(|(slot, _)| *slot == layer).map_or(&[][..], |it| it.1);
            for ((type_url, name), payload) in self.layer(layer, changes) {
                match payload {
                    Some(payload) => contents.insert(type_url, name, payload),
                    None => contents.remove(type_url, name),
                }
            }
        }
    }

    /// What a view without layers has, if it had these changes; nothing for a name that an error stands for.
    fn layer<'a>(&'a self, view: Slot, changes: &[&'a Change]) -> Layer<'a> {
        let arenas = self.views.at(view).map(View::arenas).unwrap_or_default();
        let arenas = arenas.iter().filter_map(|&slot| self.arena(slot));
        let held = arenas.flat_map(|arena| {
            arena.held_resources().map(|it| {
                let payload = it.payload.as_ref().filter(|_| it.error.is_none());
                ((&arena.type_url, &it.name), payload.map(|payload| &payload.value))
            })
        });
        let mut layer: Layer<'a> = held.collect();
        for change in changes {
            let key = (&change.type_url, &change.name);
            match &change.content {
                Content::Resource(value, _) => layer.insert(key, Some(value)),
                Content::Nothing => layer.remove(&key),
                Content::Error(_) => layer.insert(key, None),
            };
        }
        layer
    }
}

type Layer<'a> = BTreeMap<(&'a TypeUrl, &'a ResourceName), Option<&'a Bytes>>;
