//! The three families of errors: the peer's fault, a resource's fault, the caller's misuse.

use alloc::sync::Arc;
use core::{fmt, time::Duration};

use thiserror::Error;

use crate::{
    client::{config::resource_type::Rejection, resource::canonical_name::InvalidStructuredName},
    id::UpdateId,
    text::{ResourceName, TypeUrl},
    types,
    wire::Malformed,
};

/// Why a channel is of no more use: what a transport or a server did.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// No connection could be made.
    #[error("cannot connect: {0}")]
    Unreachable(Arc<str>),
    /// The call ended with a gRPC status; code 0 is an orderly end.
    #[error("stream closed with status {code}{}{message}", if message.is_empty() { "" } else { ": " })]
    Status {
        /// The gRPC status code.
        code: i32,
        /// The status message.
        message: Arc<str>,
    },
    /// A response was not a `DiscoveryResponse`.
    #[error("malformed response: {0}")]
    Malformed(Malformed),
    /// The transport refused to deliver a response.
    #[error("undeliverable response: {0}")]
    Undeliverable(Arc<str>),
    /// A file cannot be read, or does not hold resources; the text names it, and the place in it where one
    /// is known (S0.017).
    #[error("{0}")]
    Unreadable(Arc<str>),
    /// The version or the nonce of a response was longer than the limit.
    #[error("version or nonce of {bytes} bytes exceeds the limit of {limit}")]
    TokenTooLong {
        /// The longer one's length in bytes.
        bytes: usize,
        /// The configured limit in bytes.
        limit: usize,
    },
    /// A response was longer than the limit.
    #[error("response of {bytes} bytes exceeds the limit of {limit}")]
    TooLong {
        /// The response's length in bytes.
        bytes: usize,
        /// The configured limit in bytes.
        limit: usize,
    },
}

impl ChannelError {
    /// Whether it is the same trouble, perhaps in other words: an address or a port in the text makes
    /// no difference to watchers (IC27).
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unreachable(_), Self::Unreachable(_)) => true,
            (Self::Status { code, .. }, Self::Status { code: other, .. }) => code == other,
            _ => self == other,
        }
    }

    /// Whether the peer broke the protocol, rather than being away or ending the stream.
    pub(crate) fn is_fault(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Status { .. } => false,
            Self::Malformed(_)
            | Self::Undeliverable(_)
            | Self::Unreadable(_)
            | Self::TooLong { .. }
            | Self::TokenTooLong { .. } => true,
        }
    }
}

/// Why a watcher's resource, or whole collection, is not to be had or not as it should be.
///
/// There is deliberately no conversion to a gRPC status: what goes wrong in the control plane must
/// not be taken for the status of a call in the data plane (B37, S3.031).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchError {
    kind: WatchErrorKind,
    subject: Option<ResourceName>,
    source: Arc<Source>,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WatchErrorKind {
    /// The server did not send the resource within this time (S1.025).
    #[error("does not exist: not received within {} s", .0.as_secs())]
    DoesNotExist(Duration),
    /// The server, which tells what it does not have, told nothing within this time (S3.043).
    #[error("no answer within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The server deleted the resource (S0.120).
    #[error("does not exist: deleted by the server")]
    Deleted,
    /// The server said that it has no such resource (B03).
    #[error("does not exist: the server has none")]
    Absent,
    /// The resource was not sent again before its time to live ran out (B09).
    #[error("does not exist: not renewed within its time to live")]
    Expired,
    /// The newest version of the resource was rejected.
    #[error("invalid: {0}")]
    Invalid(Rejection),
    /// The server says what is wrong with the resource (TP3).
    #[error("the server reports status {code}{}{message}", if message.is_empty() { "" } else { ": " })]
    Reported {
        /// The gRPC status code; never zero.
        code: i32,
        /// The status message.
        message: Arc<str>,
    },
    /// The server cannot be reached or does not answer.
    #[error("{0}")]
    Unavailable(ChannelError),
}

/// What an error says about the resource that is in use beside it (S3.004-S3.008).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCategory {
    /// Trouble on the way to the resource. It never ends the use of a resource.
    Transient,
    /// The resource is not, or not any more, what it should be. Whether one received earlier stays in
    /// use is a matter of [`DataErrorPolicy`](crate::client::DataErrorPolicy).
    Data,
}

const INVALID_ARGUMENT: i32 = 3;
/// The gRPC status code of what is not there.
pub(crate) const NOT_FOUND: i32 = 5;
const PERMISSION_DENIED: i32 = 7;
const UNAVAILABLE: i32 = 14;

impl WatchErrorKind {
    /// What is wrong, as the number of a gRPC status, for logs, measurements and those who compare
    /// implementations. It is never meant for a call of the data plane: the status of one that fails for
    /// lack of configuration is UNAVAILABLE, whatever this says (B37, X15).
    ///
    /// | what is wrong | code |
    /// |---|---|
    /// | the newest version was rejected (D26) | 3, INVALID_ARGUMENT |
    /// | there is no such resource, for whatever reason | 5, NOT_FOUND |
    /// | the server reports a status | that one |
    /// | no answer in time, no connection, no stream, whatever its status | 14, UNAVAILABLE |
    ///
    /// ```
    /// use xds_core::client::{Rejection, WatchErrorKind};
    ///
    /// assert_eq!(WatchErrorKind::Invalid(Rejection::new("no port")).code(), 3);
    /// assert_eq!(WatchErrorKind::Deleted.code(), 5);
    /// ```
    #[must_use]
    pub const fn code(&self) -> i32 {
        match self {
            Self::Invalid(_) => INVALID_ARGUMENT,
            Self::DoesNotExist(_) | Self::Deleted | Self::Absent | Self::Expired => NOT_FOUND,
            Self::Reported { code, .. } => *code,
            Self::Timeout(_) | Self::Unavailable(_) => UNAVAILABLE,
        }
    }

    /// What the error says about a resource in use. Of the errors that a server reports, only that
    /// there is no such resource, or that it is not for this client, are about the resource (X17).
    #[must_use]
    pub const fn category(&self) -> ErrorCategory {
        match self {
            Self::DoesNotExist(_)
            | Self::Deleted
            | Self::Absent
            | Self::Expired
            | Self::Invalid(_) => ErrorCategory::Data,
            Self::Reported { code: NOT_FOUND | PERMISSION_DENIED, .. } => ErrorCategory::Data,
            Self::Reported { .. } | Self::Timeout(_) | Self::Unavailable(_) => {
                ErrorCategory::Transient
            }
        }
    }
}

/// The names that belong in every message of a type from a server (FM-11).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) type_url: TypeUrl,
    pub(crate) server: Arc<str>,
    pub(crate) node_id: Arc<str>,
}

impl WatchError {
    pub(crate) fn new(
        kind: WatchErrorKind,
        subject: Option<ResourceName>,
        source: &Arc<Source>,
    ) -> Self {
        Self { kind, subject, source: Arc::clone(source) }
    }

    /// What is wrong.
    #[must_use]
    pub fn kind(&self) -> &WatchErrorKind {
        &self.kind
    }

    /// The resource or the glob that it is wrong with; `None` for all of a type.
    #[must_use]
    pub fn name(&self) -> Option<&ResourceName> {
        self.subject.as_ref()
    }
}

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Source { type_url, server, node_id } = &*self.source;
        match types::short_name(type_url.as_str()) {
            Some(short) => f.write_str(short)?,
            None => f.write_str(type_url.message_name())?,
        }
        match &self.subject {
            Some(name) => write!(f, " {name}")?,
            None => f.write_str(" collection")?,
        }
        write!(f, ": {} (node {node_id}, server {server})", self.kind)
    }
}

impl core::error::Error for WatchError {}

/// Why a watch cannot be made. Nothing a peer does leads here.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidWatch {
    /// The type was not registered with the client (CA-14).
    #[error("resource type {0} is not registered")]
    UnknownType(TypeUrl),
    /// Two types are registered under the type URL, and only one can be meant (CA-13).
    #[error("two resource types are registered as {0}")]
    AmbiguousType(TypeUrl),
    /// A name must not be empty, and `*` is asked for as a wildcard.
    #[error("{0:?} is not a resource name")]
    InvalidName(ResourceName),
    /// The name is longer than the limit.
    #[error("resource name of {bytes} bytes exceeds the limit of {limit}")]
    NameTooLong {
        /// The name's length in bytes.
        bytes: usize,
        /// The configured limit in bytes.
        limit: usize,
    },
    /// The name has structure, and it is not one of a resource of the type.
    #[error("{name} cannot be watched: {why}")]
    Structured {
        /// The name.
        name: ResourceName,
        /// What is wrong with it.
        why: InvalidStructuredName,
    },
    /// A glob is asked for in the incremental variant only (TP1, B20): the state of the world cannot say
    /// that a glob has no members, nor, of most types, that one is gone. A server of its authority speaks
    /// that variant.
    #[error("{0} is a glob, and a server of its authority does not speak the incremental variant")]
    GlobNeedsIncremental(ResourceName),
    /// The name states an authority that is not configured (FE-05).
    #[error("the authority of {0} is not configured")]
    UnknownAuthority(ResourceName),
    /// Too many watches exist already.
    #[error("too many watches")]
    TooMany,
    /// The client has been shut down.
    #[error("the client is shut down")]
    ShutDown,
}

/// Why a verdict on a response cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidSettlement {
    /// No such response waits for a verdict: it was given already, or the channel has ended, which
    /// nobody can foresee.
    #[error("no response {0} waits for a verdict")]
    UnknownUpdate(UpdateId),
    /// The response has no such resource, or it was not handed out.
    #[error("resource {0} was not handed out for a verdict")]
    UnknownResource(ResourceName),
}
