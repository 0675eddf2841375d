//! A look inside: what is known of each resource, and how often things happened.

use alloc::{string::ToString as _, sync::Arc};
use core::fmt;

use bytes::Bytes;

use super::error::WatchError;
use crate::{
    text::{ResourceName, TypeUrl, Version},
    time::Time,
};

/// What is known of a resource: one to one the states of CSDS (S3.058-S3.069).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum EntryState {
    /// Subscribed, not received.
    Requested,
    /// Not received in time, deleted by the server, or expired.
    DoesNotExist,
    /// Received and valid.
    Acked,
    /// The newest version is invalid.
    Nacked,
    /// The server reported what is wrong with the resource (TP3).
    ReceivedError,
    /// Not received in time, from a server that tells what it does not have (S3.067).
    Timeout,
}

/// One resource as the cache has it: exactly what watchers hold.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ResourceStatus<'a> {
    /// The resource's type.
    pub type_url: &'a TypeUrl,
    /// The resource's name.
    pub name: &'a ResourceName,
    /// What is known of it.
    pub state: EntryState,
    /// The resource in use, as received; an invalid or deleted one may still have an earlier one.
    pub bytes: Option<&'a Bytes>,
    /// The version of the resource in use; empty if there is none.
    pub version: &'a Version,
    /// When the response arrived that the resource in use last came in.
    pub updated: Option<Time>,
    /// The identifier of the control plane that sent the resource in use; empty where it gave none.
    pub control_plane: Arc<str>,
    /// What is wrong with the newest version, or with its existence.
    pub error: Option<&'a WatchError>,
    /// The update that brought the error; `None` if none did, as when the resource never came.
    pub failed: Option<&'a FailedUpdate>,
}

/// An update of a resource that did not come into use: a rejected version, or a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedUpdate {
    /// Its version: the response's, or in the incremental variant the resource's own.
    pub version: Version,
    /// When the response arrived.
    pub received: Time,
    /// The rejected resource as received, unless it came twice or is longer than
    /// [`ClientLimits::rejected_resource_bytes`](crate::client::ClientLimits::rejected_resource_bytes).
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

/// How often things happened since the client was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientStats {
    /// Sound responses, of whatever type.
    pub responses: u64,
    /// Responses that were accepted whole.
    pub acks: u64,
    /// Responses in which something was rejected.
    pub nacks: u64,
    /// Responses of types that are not registered or were never asked for; not answered.
    pub unsolicited: u64,
    /// Responses that could not be read.
    pub malformed: u64,
    /// Resources in responses that were valid, changed or not.
    pub resources_valid: u64,
    /// Resources in responses that were rejected.
    pub resources_invalid: u64,
    /// Resources in responses that came under a name of version 2 of the API (S4.011).
    pub older_resources: u64,
    /// Channels that ended, or failed to open, without a response, or for what the server sent.
    pub server_failures: u64,
    /// Events of channels that are closed or never were, which are ignored (contract rule 7).
    pub ignored_events: u64,
    /// Answers of servers that are polled which had nothing new, and no response in them.
    pub unchanged: u64,
}
