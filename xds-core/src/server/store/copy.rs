//! Copies of views.

use super::{
    Store,
    transaction::{ChangeContent, ResourceChange, Transaction},
};
use crate::text::ViewName;

impl Store {
    /// Returns the transactions that make the view `to` a copy of `from`, which has no layers: its
    /// resources, and then the errors of names that also have a resource.
    pub(crate) fn copied(&self, from: &ViewName, to: &ViewName) -> [Transaction; 2] {
        let mut resources = Transaction::snapshot(to.clone());
        let mut errors = Transaction::in_view(to.clone());
        for arena in self.find_view(from).into_iter().flat_map(|view| self.arenas_in(view)) {
            if let Some(own) = arena.own_version() {
                resources.set_version(arena.type_url.clone(), own.clone());
            }
            for entry in arena.held_resources() {
                let change = |content, changed_at| {
                    let (type_url, name) = (arena.type_url.clone(), entry.name.clone());
                    ResourceChange { type_url, name, content, changed_at }
                };
                if let Some(payload) = &entry.payload {
                    let content = ChangeContent::Resource(payload.value.clone(), payload.options());
                    resources.changes.push(change(content, payload.source_revision));
                }
                if let Some(error) = &entry.error {
                    let list = if entry.payload.is_some() { &mut errors } else { &mut resources };
                    list.changes.push(change(ChangeContent::Error((**error).clone()), None));
                }
            }
        }
        [resources, errors]
    }
}
