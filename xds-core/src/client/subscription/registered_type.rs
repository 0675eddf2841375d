//! State of one registered resource type.

use alloc::sync::Arc;

use super::TypeInterest;
use crate::client::{
    ResourceStatus,
    cache::{Cache, entry::CacheEntry},
    config::resource_type::ResourceType,
};

/// State of one registered type.
#[derive(Debug)]
pub(crate) struct RegisteredType {
    /// Hash seed of tables that are created for a single response.
    pub(crate) seed: u64,
    pub(crate) resource_type: Arc<dyn ResourceType>,
    pub(crate) cache: Cache,
    pub(crate) interest: TypeInterest,
}

impl RegisteredType {
    /// Returns whether the resource is watched.
    pub(crate) fn covers(&self, entry: &CacheEntry) -> bool {
        self.interest.covers(entry, &self.cache.globs)
    }

    /// Returns the status of all resources that are watched.
    pub(crate) fn status(&self) -> impl Iterator<Item = ResourceStatus<'_>> {
        self.cache.iter().filter_map(|(_, entry)| self.status_of_entry(entry))
    }

    /// Returns the status of a resource, unless it is not watched.
    pub(crate) fn status_of(&self, name: &str) -> Option<ResourceStatus<'_>> {
        self.status_of_entry(self.cache.get(self.cache.find(name)?)?)
    }

    fn status_of_entry<'a>(&'a self, entry: &'a CacheEntry) -> Option<ResourceStatus<'a>> {
        self.covers(entry).then(|| ResourceStatus {
            type_url: self.resource_type.type_url(),
            name: &entry.name,
            state: entry.state,
            bytes: entry.bytes.as_ref(),
            version: self.cache.version_of(entry),
            updated: self.cache.updated(entry),
            control_plane: self.cache.control_plane_of(entry),
            error: entry.error(),
            failed: entry.failed(),
        })
    }
}
