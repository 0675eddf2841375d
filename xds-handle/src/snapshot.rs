//! Snapshots of a client's resources.

use std::time::SystemTime;

use bytes::Bytes;
use xds_core::{
    ResourceName, TypeUrl, Version,
    client::{FailedUpdate, ResourceState, ResourceStatus, WatchError},
};

use crate::wall_clock::ClockReading;

/// One known resource at the time of the call, as its watchers see it.
// IC32
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceSnapshot {
    /// Resource type.
    pub type_url: TypeUrl,
    /// Resource name.
    pub name: ResourceName,
    /// State of the resource.
    pub state: ResourceState,
    /// Resource in use, as received. An earlier one may stay in use after the resource was rejected
    /// or deleted.
    pub bytes: Option<Bytes>,
    /// Version of the resource in use; empty if there is none.
    pub version: Version,
    /// Arrival time of the last response that contained the resource in use.
    pub updated: Option<SystemTime>,
    /// Current error: why the newest version was rejected, or why the resource does not exist.
    pub error: Option<WatchError>,
    /// Update that caused the error; `None` if no update caused it, for example because the
    /// resource was never received.
    pub failed: Option<FailedSnapshot>,
}

/// Update of a resource that did not come into use: a rejected version, or a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedSnapshot {
    /// Version of the response, or of the resource in the incremental variant.
    pub version: Version,
    /// Arrival time of the response.
    pub received: SystemTime,
    /// Rejected resource as received, if it was [kept](xds_core::client::FailedUpdate::bytes).
    pub bytes: Option<Bytes>,
}

impl ResourceSnapshot {
    /// Creates a snapshot at a reading of the clocks.
    pub(crate) fn new(status: &ResourceStatus<'_>, clock: ClockReading) -> Self {
        let failed = |failed: &FailedUpdate| FailedSnapshot {
            version: failed.version.clone(),
            received: clock.date_of(failed.received),
            bytes: failed.bytes.clone(),
        };
        Self {
            type_url: status.type_url.clone(),
            name: status.name.clone(),
            state: status.state,
            bytes: status.bytes.cloned(),
            version: status.version.clone(),
            updated: status.updated.map(|updated| clock.date_of(updated)),
            error: status.error.cloned(),
            failed: status.failed.map(failed),
        }
    }
}
