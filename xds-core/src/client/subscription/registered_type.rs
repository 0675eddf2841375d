//! State of one registered resource type.

use alloc::sync::Arc;

use super::TypeInterest;
use crate::client::{
    cache::{Cache, entry::Entry},
    config::resource_type::ResourceType,
};

/// What is kept for one registered type.
#[derive(Debug)]
pub(crate) struct TypeState {
    /// Keys the tables that are made for one response only.
    pub(crate) seed: u64,
    pub(crate) resource_type: Arc<dyn ResourceType>,
    pub(crate) cache: Cache,
    pub(crate) interest: TypeInterest,
}

impl TypeState {
    /// Whether anybody watches the resource.
    pub(crate) fn covers(&self, entry: &Entry) -> bool {
        self.interest.covers(entry, &self.cache.globs)
    }
}
