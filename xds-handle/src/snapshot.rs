//! A resource as the client has it, for a look from outside.

use bytes::Bytes;
use xds_core::{
    ResourceName, TypeUrl, Version,
    client::{EntryState, ResourceStatus, WatchError},
};

/// One watched resource at the moment of the question: exactly what its watchers hold (IC32).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceSnapshot {
    /// The resource's type.
    pub type_url: TypeUrl,
    /// The resource's name.
    pub name: ResourceName,
    /// What is known of it.
    pub state: EntryState,
    /// The resource in use, as received; an invalid or deleted one may still have an earlier one.
    pub bytes: Option<Bytes>,
    /// The version of the resource in use; empty if there is none.
    pub version: Version,
    /// What is wrong with the newest version, or with its existence.
    pub error: Option<WatchError>,
}

impl From<ResourceStatus<'_>> for ResourceSnapshot {
    fn from(status: ResourceStatus<'_>) -> Self {
        Self {
            type_url: status.type_url.clone(),
            name: status.name.clone(),
            state: status.state,
            bytes: status.bytes.cloned(),
            version: status.version.clone(),
            error: status.error.cloned(),
        }
    }
}
