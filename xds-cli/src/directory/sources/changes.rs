//! Changes between the valid states of all files and the resources of the server.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use xds_core::{ViewName, server::Transaction, types};
use xds_source::Revision;

use crate::directory::parse::Key;

/// View, type and name of a resource.
pub(super) type ViewKey = (ViewName, Key);

fn is_endpoints(key: &Key) -> bool {
    key.type_url.as_str() == types::CLUSTER_LOAD_ASSIGNMENT
}

/// Changes to apply to the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    pub(super) changed: Vec<(ViewKey, (Bytes, Revision))>,
    pub(super) removed: Vec<ViewKey>,
    /// Keys of the changed resources that the server does not have.
    pub(super) added: BTreeSet<ViewKey>,
}

/// Resources that a change concerns, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangedResources {
    pub(crate) added: Vec<Key>,
    pub(crate) changed: Vec<Key>,
    pub(crate) removed: Vec<Key>,
}

impl Changes {
    /// Returns the names of the changed and of the removed resources.
    #[cfg(test)]
    pub(super) fn keys(&self) -> (Vec<&str>, Vec<&str>) {
        let changed = self.changed.iter().map(|((_, key), _)| key.name.as_str()).collect();
        (changed, self.removed.iter().map(|(_, key)| key.name.as_str()).collect())
    }

    /// Returns the resources that the server has and the files no longer define.
    pub(crate) fn removed(&self) -> Vec<Key> {
        self.removed.iter().map(|(_, key)| key.clone()).collect()
    }

    /// Returns the resources that the change concerns.
    pub(crate) fn resources(&self) -> ChangedResources {
        let changed = self.changed.iter().map(|(key, _)| key);
        let changed = changed.filter(|key| !self.added.contains(*key));
        ChangedResources {
            added: self.added.iter().map(|(_, key)| key.clone()).collect(),
            changed: changed.map(|(_, key)| key.clone()).collect(),
            removed: self.removed(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.removed.is_empty()
    }

    /// Whether the change only sets endpoints: it follows the processes behind clusters, and is not an
    /// edit of the configuration.
    pub(crate) fn is_endpoints_only(&self) -> bool {
        self.removed.is_empty() && self.changed.iter().all(|((_, key), _)| is_endpoints(key))
    }

    /// Separates the endpoints to set from all else.
    pub(crate) fn split_endpoints(self) -> (Self, Self) {
        let Self { changed, removed, added } = self;
        let (endpoints, changed) = changed.into_iter().partition(|((_, key), _)| is_endpoints(key));
        let (of_endpoints, added) = added.into_iter().partition(|(_, key)| is_endpoints(key));
        let endpoints = Self { changed: endpoints, added: of_endpoints, ..Self::default() };
        (endpoints, Self { changed, removed, added })
    }

    /// Returns the views that the change concerns.
    pub(crate) fn views(&self) -> BTreeSet<ViewName> {
        let changed = self.changed.iter().map(|((view, _), _)| view);
        changed.chain(self.removed.iter().map(|(view, _)| view)).cloned().collect()
    }

    /// Separates the resources to set from those to remove.
    pub(crate) fn split(self) -> (Self, Self) {
        let Self { changed, removed, added } = self;
        (Self { changed, added, ..Self::default() }, Self { removed, ..Self::default() })
    }

    /// Returns one transaction for each view. Without changes, there is an empty one for the view
    /// without a name. The changes were made up to a revision of the source, if it has any.
    pub(crate) fn into_transactions(self, source: Option<Revision>) -> Vec<Transaction> {
        let source = source.unwrap_or_default();
        let mut transactions: BTreeMap<ViewName, Transaction> = BTreeMap::new();
        let mut in_view = |view: ViewName, change: &dyn Fn(&mut Transaction)| {
            let new = || {
                let mut transaction = Transaction::in_view(view.clone());
                transaction.source_revision(source.0);
                transaction
            };
            change(transactions.entry(view.clone()).or_insert_with(new));
        };
        for ((view, Key { type_url, name }), (bytes, revision)) in self.changed {
            in_view(view, &|transaction| {
                transaction.set(type_url.clone(), name.clone(), bytes.clone());
                if revision < source {
                    transaction.changed_at(revision.0);
                }
            });
        }
        for (view, Key { type_url, name }) in self.removed {
            in_view(view, &|transaction| {
                transaction.remove(type_url.clone(), name.clone());
            });
        }
        if transactions.is_empty() {
            return vec![Transaction::new()];
        }
        transactions.into_values().collect()
    }
}
