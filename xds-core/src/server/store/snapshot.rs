//! Snapshots: transactions that replace all resources of a view.
// M216

use alloc::vec::Vec;

use super::{
    Store,
    contents::LayerContents,
    transaction::{ChangeContent, ResourceChange, Transaction, TransactionError},
};
use crate::text::{ResourceName, TypeUrl, ViewName};

impl Store {
    /// Returns the removals of the resources that a snapshot does not contain. There are none for
    /// other transactions.
    pub(crate) fn removals_of(
        &self,
        transaction: &Transaction,
    ) -> Result<Vec<ResourceChange>, TransactionError> {
        if !transaction.is_snapshot() {
            return Ok(Vec::new());
        }
        let view = self.find_view(transaction.view());
        let arenas = view.into_iter().flat_map(|view| self.arenas_in(view));
        let names = arenas.flat_map(|arena| arena.held_names().map(|name| (&arena.type_url, name)));
        transaction.removals_from(names)
    }

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
                    let content =
                        ChangeContent::Resource(payload.value.clone(), payload.options().clone());
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

impl Transaction {
    /// Returns the transaction that changes a view with the contents `current` to this snapshot,
    /// without changes that have no effect. Other transactions are returned unchanged.
    pub(crate) fn difference_from(
        mut self,
        view: &ViewName,
        current: &LayerContents,
    ) -> Result<Self, TransactionError> {
        if !self.is_snapshot {
            return Ok(self);
        }
        let removals = self.removals_from(current.names())?;
        let held = current.by_name();
        self.changes.retain(|ResourceChange { type_url, name, content, .. }| match content {
            ChangeContent::Resource(value, options) => {
                held.get(&(type_url, name)).is_none_or(|payload| !payload.is(value, options))
            }
            ChangeContent::Nothing | ChangeContent::Error(_) => true,
        });
        self.changes.splice(..0, removals);
        self.view = view.clone();
        self.is_snapshot = false;
        Ok(self)
    }

    /// Returns the removals of those of the names that the transaction does not contain. A
    /// snapshot must contain each name once.
    // M219
    fn removals_from<'a>(
        &self,
        names: impl Iterator<Item = (&'a TypeUrl, &'a ResourceName)>,
    ) -> Result<Vec<ResourceChange>, TransactionError> {
        let mut own: Vec<_> = self.changes.iter().map(|it| (&it.type_url, &it.name)).collect();
        own.sort_unstable();
        let mut pairs = own.iter().zip(own.iter().skip(1));
        if let Some(((type_url, name), _)) = pairs.find(|(one, next)| one == next) {
            let (type_url, name) = ((*type_url).clone(), (*name).clone());
            return Err(TransactionError::DuplicateName { type_url, name });
        }
        let gone = names.filter(|key| own.binary_search(key).is_err());
        Ok(gone.map(|(type_url, name)| ResourceChange::removal(type_url, name)).collect())
    }
}
