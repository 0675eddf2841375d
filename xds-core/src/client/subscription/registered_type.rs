//! State of one registered resource type.

use alloc::sync::Arc;

use super::TypeInterest;
use crate::client::{
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
}
