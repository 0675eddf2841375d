//! Snapshots: complete sets of resources for a view, as opposed to changes.

use alloc::collections::BTreeMap;

use bytes::Bytes;

use super::{
    Store,
    contents::LayerContents,
    resource_options::ResourceOptions,
    transaction::{Transaction, TransactionError},
};
use crate::{
    text::{ResourceName, TypeUrl, Version, ViewName},
    xdstp,
};

/// All resources of a view, for [`Server::set_snapshot`](crate::server::Server::set_snapshot).
///
/// The snapshot is compared with the current contents of the view, once for all of its clients.
/// The difference is applied as a [`Transaction`], so unchanged resources are not sent again.
// M216
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    resources: BTreeMap<TypeUrl, BTreeMap<ResourceName, (Bytes, ResourceOptions)>>,
    versions: BTreeMap<TypeUrl, Version>,
    /// First name that was inserted twice.
    duplicate: Option<(TypeUrl, ResourceName)>,
}

impl Snapshot {
    /// Returns an empty snapshot.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a resource. `payload` is the encoded message of the type `type_url`. A name must not
    /// occur more than once per type; otherwise the snapshot is rejected when it is applied.
    pub fn insert(
        &mut self,
        type_url: impl Into<TypeUrl>,
        name: impl Into<ResourceName>,
        payload: impl Into<Bytes>,
    ) -> &mut Self {
        self.insert_with(type_url, name, payload, ResourceOptions::default())
    }

    /// Adds a resource with options. A name must not occur more than once per type.
    pub fn insert_with(
        &mut self,
        type_url: impl Into<TypeUrl>,
        name: impl Into<ResourceName>,
        payload: impl Into<Bytes>,
        options: ResourceOptions,
    ) -> &mut Self {
        let (type_url, name) = (type_url.into(), name.into());
        // As in a transaction, malformed names are rejected when the snapshot is applied.
        let name = xdstp::canonical(&name).unwrap_or(name);
        let resources = self.resources.entry(type_url.clone()).or_default();
        if resources.insert(name.clone(), (payload.into(), options)).is_some() {
            self.duplicate.get_or_insert((type_url, name));
        }
        self
    }

    /// Sets the version of the resources of a type, if the type has application-defined versions.
    /// See [`Transaction::set_version`].
    pub fn set_version(
        &mut self,
        type_url: impl Into<TypeUrl>,
        version: impl Into<Version>,
    ) -> &mut Self {
        self.versions.insert(type_url.into(), version.into());
        self
    }

    /// Number of resources.
    #[must_use]
    pub fn len(&self) -> usize {
        self.resources.values().map(BTreeMap::len).sum()
    }

    /// Whether the snapshot has neither resources nor versions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.versions.is_empty()
    }

    fn has(&self, type_url: &TypeUrl, name: &ResourceName) -> bool {
        self.resources.get(type_url).is_some_and(|resources| resources.contains_key(name))
    }

    /// Returns a transaction that makes the view equal to the snapshot. It includes unchanged
    /// resources, which are detected when it is applied.
    pub(crate) fn difference(
        self,
        view: &ViewName,
        store: &Store,
    ) -> Result<Transaction, TransactionError> {
        let arenas = store.find_view(view).and_then(|slot| store.view(slot));
        let arenas = arenas.map(super::view::View::arenas).unwrap_or_default();
        let arenas = arenas.iter().filter_map(|&slot| store.arena(slot));
        let names = arenas.flat_map(|arena| arena.held_names().map(|name| (&arena.type_url, name)));
        self.replacing(view, names, |_, _, _| false)
    }

    /// Returns a transaction that changes a view with the contents `current` to the snapshot,
    /// without unchanged resources.
    pub(crate) fn difference_from(
        self,
        view: &ViewName,
        current: &LayerContents,
    ) -> Result<Transaction, TransactionError> {
        let held = current.by_name();
        self.replacing(view, current.names(), |key, value, options| {
            held.get(&key).is_some_and(|payload| payload.is(value, options))
        })
    }

    fn replacing<'a>(
        self,
        view: &ViewName,
        names: impl Iterator<Item = (&'a TypeUrl, &'a ResourceName)>,
        is_there: impl Fn((&TypeUrl, &ResourceName), &Bytes, &ResourceOptions) -> bool,
    ) -> Result<Transaction, TransactionError> {
        if let Some((type_url, name)) = self.duplicate {
            return Err(TransactionError::DuplicateName { type_url, name });
        }
        let mut transaction = Transaction::in_view(view.clone());
        for (type_url, name) in names.filter(|(type_url, name)| !self.has(type_url, name)) {
            transaction.remove(type_url.clone(), name.clone());
        }
        for (type_url, resources) in self.resources {
            for (name, (payload, options)) in resources {
                if !is_there((&type_url, &name), &payload, &options) {
                    transaction.set_with(type_url.clone(), name, payload, options);
                }
            }
        }
        for (type_url, version) in self.versions {
            transaction.set_version(type_url, version);
        }
        Ok(transaction)
    }
}
