//! All that a view is to have, instead of what is to change.

use alloc::collections::BTreeMap;

use bytes::Bytes;

use super::{
    Store,
    contents::Layer,
    resource_options::ResourceOptions,
    transaction::{Transaction, TransactionError},
};
use crate::{
    text::{ResourceName, TypeUrl, Version, ViewName},
    xdstp,
};

/// All resources of a view, for [`Server::set_snapshot`](crate::server::Server::set_snapshot).
///
/// It is compared with what the view has, once, however many clients see it, and the difference is
/// applied as a [`Transaction`]: what is equal wakes nobody (M216).
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    resources: BTreeMap<TypeUrl, BTreeMap<ResourceName, (Bytes, ResourceOptions)>>,
    versions: BTreeMap<TypeUrl, Version>,
    /// The first name that came twice.
    duplicate: Option<(TypeUrl, ResourceName)>,
}

impl Snapshot {
    /// Nothing at all.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a resource. `payload` is the encoded message that `type_url` names. A name may occur once
    /// per type.
    pub fn insert(
        &mut self,
        type_url: impl Into<TypeUrl>,
        name: impl Into<ResourceName>,
        payload: impl Into<Bytes>,
    ) -> &mut Self {
        self.insert_with(type_url, name, payload, ResourceOptions::default())
    }

    /// Adds a resource that is more than its bytes.
    pub fn insert_with(
        &mut self,
        type_url: impl Into<TypeUrl>,
        name: impl Into<ResourceName>,
        payload: impl Into<Bytes>,
        options: ResourceOptions,
    ) -> &mut Self {
        let (type_url, name) = (type_url.into(), name.into());
        // As in a transaction, by whatever name: what is malformed is refused when it is applied.
        let name = xdstp::canonical(&name).unwrap_or(name);
        let resources = self.resources.entry(type_url.clone()).or_default();
        if resources.insert(name.clone(), (payload.into(), options)).is_some() {
            self.duplicate.get_or_insert((type_url, name));
        }
        self
    }

    /// Says what the version of the resources of a type is, where that is the application's to say
    /// ([`Transaction::set_version`]).
    pub fn set_version(
        &mut self,
        type_url: impl Into<TypeUrl>,
        version: impl Into<Version>,
    ) -> &mut Self {
        self.versions.insert(type_url.into(), version.into());
        self
    }

    /// How many resources there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.resources.values().map(BTreeMap::len).sum()
    }

    /// Whether there are no resources, nor a version.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.versions.is_empty()
    }

    fn has(&self, type_url: &TypeUrl, name: &ResourceName) -> bool {
        self.resources.get(type_url).is_some_and(|resources| resources.contains_key(name))
    }

    /// What has to change in a view for it to have just these. What is equal is found later, by content.
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

    /// The same for a view that has this, without what is equal.
    pub(crate) fn difference_from(
        self,
        view: &ViewName,
        current: &Layer,
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
