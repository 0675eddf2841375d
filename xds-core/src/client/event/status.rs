//! Status of cached resources and counters of a client.

use alloc::{string::ToString as _, sync::Arc};
use core::fmt;

use bytes::Bytes;

use super::error::WatchError;
use crate::{
    text::{ResourceName, TypeUrl, Version},
    time::Time,
};

/// State of a resource, in one-to-one correspondence with the states of CSDS.
// S3.058-S3.069
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ResourceState {
    /// Subscribed, not received yet.
    Requested,
    /// Deleted by the server, expired, or not received in time.
    DoesNotExist,
    /// Received and valid.
    Acked,
    /// Newest version rejected.
    Nacked,
    /// Error reported by the server, see
    /// [xRFC TP3](https://github.com/cncf/xds/blob/main/proposals/TP3-xds-error-propagation.md).
    ReceivedError,
    /// Timed out at a server that reports resources that do not exist.
    // S3.067
    Timeout,
}

/// Status of a cached resource, as known to its watchers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ResourceStatus<'a> {
    /// Type of the resource.
    pub type_url: &'a TypeUrl,
    /// Name of the resource.
    pub name: &'a ResourceName,
    /// State of the resource.
    pub state: ResourceState,
    /// Resource in use, as received. Set for an invalid or deleted resource if an earlier version
    /// is still in use.
    pub bytes: Option<&'a Bytes>,
    /// Version of the resource in use; empty if there is none.
    pub version: &'a Version,
    /// Arrival time of the response that last contained the resource in use.
    pub updated: Option<Time>,
    /// Identifier of the control plane that sent the resource in use; empty if it sent none.
    pub control_plane: Arc<str>,
    /// Error of the newest version, or of the existence of the resource.
    pub error: Option<&'a WatchError>,
    /// Update that caused the error; `None` if no update did, for example after a timeout.
    pub failed: Option<&'a FailedUpdate>,
}

/// Rejected version or deletion of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedUpdate {
    /// Version of the response or, in the incremental variant, of the resource.
    pub version: Version,
    /// Arrival time of the response.
    pub received: Time,
    /// Rejected resource as received. `None` if its name was duplicated in the response or it
    /// exceeds [`rejected_resource_bytes`](crate::client::ClientLimits::rejected_resource_bytes).
    pub bytes: Option<Bytes>,
}

impl fmt::Display for ResourceStatus<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {:?}", self.type_url.message_name(), self.name, self.state)?;
        if self.bytes.is_some() {
            write!(f, " version={:?}", self.version.as_str())?;
        }
        if !self.control_plane.is_empty() {
            write!(f, " from={:?}", self.control_plane)?;
        }
        match self.error {
            Some(error) => write!(f, " error={:?}", error.kind().to_string()),
            None => Ok(()),
        }
    }
}

/// Counters since the creation of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientStats {
    /// Well-formed responses of any type.
    pub responses: u64,
    /// Completely accepted responses.
    pub acks: u64,
    /// Responses with rejected resources.
    pub nacks: u64,
    /// Responses for types that are not registered or were never requested. They are not answered.
    pub unsolicited: u64,
    /// Responses that could not be decoded.
    pub malformed: u64,
    /// Valid resources in responses, changed or unchanged.
    pub resources_valid: u64,
    /// Rejected resources in responses.
    pub resources_invalid: u64,
    /// Resources in responses with a type URL of API version 2.
    // S4.011
    pub v2_resources: u64,
    /// Channels that failed to open or ended without a response, or ended because of a protocol
    /// violation by the server.
    pub server_failures: u64,
    /// Ignored events of unknown or closed channels.
    // contract rule 7
    pub ignored_events: u64,
    /// Polling responses that reported no changes.
    pub unchanged: u64,
}
