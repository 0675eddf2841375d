//! A resource as the client has it, for a look from outside.

use std::time::SystemTime;

use bytes::Bytes;
use xds_core::{
    ResourceName, Time, TypeUrl, Version,
    client::{EntryState, FailedUpdate, ResourceStatus, WatchError},
};

use crate::wall_clock::date_of;

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
    /// When the response arrived that the resource in use last came in.
    pub updated: Option<SystemTime>,
    /// What is wrong with the newest version, or with its existence.
    pub error: Option<WatchError>,
    /// The update that brought the error; `None` if none did, as when the resource never came.
    pub failed: Option<FailedSnapshot>,
}

/// An update of a resource that did not come into use: a rejected version, or a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedSnapshot {
    /// Its version: the response's, or in the incremental variant the resource's own.
    pub version: Version,
    /// When the response arrived.
    pub received: SystemTime,
    /// The rejected resource as received, where it was
    /// [kept](xds_core::client::FailedUpdate::bytes).
    pub bytes: Option<Bytes>,
}

impl ResourceSnapshot {
    /// What the client has at `now`, when the wall clock shows `shown`.
    pub(crate) fn new(status: &ResourceStatus<'_>, shown: SystemTime, now: Time) -> Self {
        let failed = |failed: &FailedUpdate| FailedSnapshot {
            version: failed.version.clone(),
            received: date_of(failed.received, now, shown),
            bytes: failed.bytes.clone(),
        };
        Self {
            type_url: status.type_url.clone(),
            name: status.name.clone(),
            state: status.state,
            bytes: status.bytes.cloned(),
            version: status.version.clone(),
            updated: status.updated.map(|updated| date_of(updated, now, shown)),
            error: status.error.cloned(),
            failed: status.failed.map(failed),
        }
    }
}
