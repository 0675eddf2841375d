//! Errors of channels, of watched resources, and of incorrect calls by the application.

use alloc::sync::Arc;
use core::{fmt, time::Duration};

use thiserror::Error;

use crate::{
    client::{config::resource_type::Rejection, resource::canonical_name::InvalidStructuredName},
    id::UpdateId,
    status_code::StatusCode,
    text::{ResourceName, TypeUrl},
    types,
    wire::Malformed,
};

/// Reason for the end of a channel, caused by the transport or the server.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The connection could not be established.
    #[error("cannot connect: {0}")]
    Unreachable(Arc<str>),
    /// The call ended with a gRPC status; [`Ok`](StatusCode::Ok) is a regular end.
    #[error("stream closed with status {}{}{message}", code.as_i32(), if message.is_empty() { "" } else { ": " })]
    Status {
        /// The gRPC status code.
        code: StatusCode,
        /// The status message.
        message: Arc<str>,
    },
    /// A response could not be decoded as a discovery response.
    #[error("malformed response: {0}")]
    Malformed(Malformed),
    /// The transport failed to deliver a response.
    #[error("undeliverable response: {0}")]
    Undeliverable(Arc<str>),
    /// A file cannot be read or does not contain resources. The text names the file and, if known,
    /// the position of the error.
    // S0.017
    #[error("{0}")]
    Unreadable(Arc<str>),
    /// The version or the nonce of a response exceeds the limit.
    #[error("version or nonce of {bytes} bytes exceeds the limit of {limit}")]
    TokenTooLong {
        /// Length of the version or nonce in bytes.
        bytes: usize,
        /// Configured limit in bytes.
        limit: usize,
    },
    /// The size of a response exceeds the limit.
    #[error("response of {bytes} bytes exceeds the limit of {limit}")]
    TooLong {
        /// Size of the response in bytes.
        bytes: usize,
        /// Configured limit in bytes.
        limit: usize,
    },
}

impl ChannelError {
    /// Returns whether watchers would consider both the same error. Texts are ignored where they
    /// may differ only in an address or a port.
    // IC27
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unreachable(_), Self::Unreachable(_)) => true,
            (Self::Status { code, .. }, Self::Status { code: other, .. }) => code == other,
            _ => self == other,
        }
    }

    /// Returns whether the peer violated the protocol, as opposed to being unreachable or ending
    /// the stream.
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

/// Error of a watched resource or of a whole collection.
///
/// Deliberately not convertible to a gRPC status: a control plane error must not be mistaken for
/// the status of a data plane call.
// B37, S3.031
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchError {
    kind: WatchErrorKind,
    subject: Option<ResourceName>,
    source: Arc<ErrorOrigin>,
}

/// Kind of a [`WatchError`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WatchErrorKind {
    /// The server did not send the resource within this time.
    // S1.025
    #[error("does not exist: not received within {}", Period(*.0))]
    DoesNotExist(Duration),
    /// The resource did not arrive within this time from a server with
    /// `resource_timer_is_transient_error`, which reports missing resources explicitly.
    // S3.043
    #[error("no answer within {}", Period(*.0))]
    Timeout(Duration),
    /// The server deleted the resource.
    // S0.120
    #[error("does not exist: deleted by the server")]
    Deleted,
    /// The server reported that the resource does not exist.
    // B03
    #[error("does not exist: reported missing by the server")]
    Absent,
    /// The TTL of the resource ran out before the server sent it again.
    // B09
    #[error("does not exist: TTL expired")]
    Expired,
    /// The newest version of the resource was rejected.
    #[error("invalid: {0}")]
    Invalid(Rejection),
    /// The server reported an error for the resource, see
    /// [xRFC TP3](https://github.com/cncf/xds/blob/main/proposals/TP3-xds-error-propagation.md).
    #[error("the server reports status {}{}{message}", code.as_i32(), if message.is_empty() { "" } else { ": " })]
    Reported {
        /// gRPC status code; never [`Ok`](StatusCode::Ok).
        code: StatusCode,
        /// Status message.
        message: Arc<str>,
    },
    /// The server cannot be reached or does not respond.
    #[error("{0}")]
    Unavailable(ChannelError),
}

/// Significance of an error for a cached resource.
// S3.004-S3.008
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCategory {
    /// Failure to get the resource. A cached resource stays in use.
    Transient,
    /// The resource is invalid or does not exist. Whether a cached version stays in use depends on
    /// [`DataErrorPolicy`](crate::client::DataErrorPolicy).
    Data,
}

impl WatchErrorKind {
    /// Returns the gRPC status code that corresponds to the error, for logs and metrics.
    ///
    /// Do not use it as the status of a data plane call: a call that fails for lack of
    /// configuration has the status UNAVAILABLE, whatever this returns.
    ///
    /// | error | code |
    /// |---|---|
    /// | newest version rejected | 3, INVALID_ARGUMENT |
    /// | resource does not exist | 5, NOT_FOUND |
    /// | error reported by the server | the reported code |
    /// | timeout, no connection, or stream closed with any status | 14, UNAVAILABLE |
    ///
    /// ```
    /// use xds_core::{
    ///     StatusCode,
    ///     client::{Rejection, WatchErrorKind},
    /// };
    ///
    /// let invalid = WatchErrorKind::Invalid(Rejection::new("no port"));
    /// assert_eq!(invalid.code(), StatusCode::InvalidArgument);
    /// assert_eq!(WatchErrorKind::Deleted.code(), StatusCode::NotFound);
    /// ```
    // D26, X15
    #[must_use]
    pub const fn code(&self) -> StatusCode {
        match self {
            Self::Invalid(_) => StatusCode::InvalidArgument,
            Self::DoesNotExist(_) | Self::Deleted | Self::Absent | Self::Expired => {
                StatusCode::NotFound
            }
            Self::Reported { code, .. } => *code,
            Self::Timeout(_) | Self::Unavailable(_) => StatusCode::Unavailable,
        }
    }

    /// Returns the significance of the error for a cached resource. Errors reported by the server
    /// are data errors only if their code is NOT_FOUND or PERMISSION_DENIED.
    // X17
    #[must_use]
    pub const fn category(&self) -> ErrorCategory {
        match self {
            Self::DoesNotExist(_)
            | Self::Deleted
            | Self::Absent
            | Self::Expired
            | Self::Invalid(_) => ErrorCategory::Data,
            Self::Reported {
                code: StatusCode::NotFound | StatusCode::PermissionDenied, ..
            } => ErrorCategory::Data,
            Self::Reported { .. } | Self::Timeout(_) | Self::Unavailable(_) => {
                ErrorCategory::Transient
            }
        }
    }
}

/// Origin of an error: the type, server and node named in its message.
// FM-11
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ErrorOrigin {
    pub(crate) type_url: TypeUrl,
    pub(crate) server: Arc<str>,
    pub(crate) node_id: Arc<str>,
}

impl WatchError {
    /// Creates an error as a watcher would get it, for tests of watchers: of a resource or, without a
    /// name, of all resources of a type.
    ///
    /// ```
    /// use xds_core::client::{Notice, WatchError, WatchErrorKind};
    /// use xds_core::types;
    ///
    /// let name = Some("web".into());
    /// let error = WatchError::new(WatchErrorKind::Deleted, types::CLUSTER, name, "xds", "node-1");
    /// let expected = "cds web: does not exist: deleted by the server (node node-1, server xds)";
    /// assert_eq!(error.to_string(), expected);
    /// let notice = Notice::Changed(Err(error)); // for example for a `DependencyManager`
    /// # let _ = notice;
    /// ```
    #[must_use]
    pub fn new(
        kind: WatchErrorKind,
        type_url: impl Into<TypeUrl>,
        name: Option<ResourceName>,
        server: impl Into<Arc<str>>,
        node_id: impl Into<Arc<str>>,
    ) -> Self {
        let (type_url, server, node_id) = (type_url.into(), server.into(), node_id.into());
        let source = ErrorOrigin { type_url, server, node_id };
        Self { kind, subject: name, source: Arc::new(source) }
    }

    pub(crate) fn from_origin(
        kind: WatchErrorKind,
        subject: Option<ResourceName>,
        source: &Arc<ErrorOrigin>,
    ) -> Self {
        Self { kind, subject, source: Arc::clone(source) }
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> &WatchErrorKind {
        &self.kind
    }

    /// Returns the name of the resource or glob; `None` for an error of all resources of a type.
    #[must_use]
    pub fn name(&self) -> Option<&ResourceName> {
        self.subject.as_ref()
    }

    /// Returns the type of the resource or collection.
    #[must_use]
    pub fn type_url(&self) -> &TypeUrl {
        &self.source.type_url
    }

    /// Returns the address of the server that the error concerns.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.source.server
    }

    /// Returns the node id of the client.
    #[must_use]
    pub fn node_id(&self) -> &str {
        &self.source.node_id
    }
}

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ErrorOrigin { type_url, server, node_id } = &*self.source;
        match types::short_name(type_url.as_str()) {
            Some(short) => f.write_str(short)?,
            None => f.write_str(type_url.message_name())?,
        }
        match &self.subject {
            Some(name) => write!(f, " {name}")?,
            None => f.write_str(" collection")?,
        }
        write!(f, ": {} (", self.kind)?;
        // The client of a file has no node.
        if !node_id.is_empty() {
            write!(f, "node {node_id}, ")?;
        }
        write!(f, "server {server})")
    }
}

/// Period in a message: in seconds, unless it has a fraction.
struct Period(Duration);

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.subsec_nanos() {
            0 => write!(f, "{} s", self.0.as_secs()),
            _ => write!(f, "{:?}", self.0),
        }
    }
}

impl core::error::Error for WatchError {}

/// Error of starting a watch, always caused by the caller and never by a peer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidWatch {
    /// The type is not registered with the client.
    // CA-14
    #[error("resource type {0} is not registered")]
    UnknownType(TypeUrl),
    /// Two types are registered under the type URL.
    // CA-13
    #[error("two resource types are registered as {0}")]
    AmbiguousType(TypeUrl),
    /// The name is empty or `*`. Use [`Interest::Wildcard`](crate::client::Interest::Wildcard) for
    /// a wildcard.
    #[error("{0:?} is not a resource name")]
    InvalidName(ResourceName),
    /// The name exceeds the limit.
    #[error("resource name of {bytes} bytes exceeds the limit of {limit}")]
    NameTooLong {
        /// Length of the name in bytes.
        bytes: usize,
        /// Configured limit in bytes.
        limit: usize,
    },
    /// The `xdstp` name is not valid for a resource of the type.
    #[error("{name} cannot be watched: {why}")]
    Structured {
        /// Name of the resource.
        name: ResourceName,
        /// Error in the name.
        why: InvalidStructuredName,
    },
    /// A glob was requested, and a server of its authority does not use the incremental variant.
    /// The state-of-the-world variant cannot express that a glob has no members or, for most types,
    /// that a member was deleted.
    // TP1, B20
    #[error("{0} is a glob, but a server of its authority does not use the incremental variant")]
    GlobNeedsIncremental(ResourceName),
    /// The authority of the name is not configured.
    // FE-05
    #[error("the authority of {0} is not configured")]
    UnknownAuthority(ResourceName),
    /// No server is configured for the type and the authority of the name, and there is no static
    /// resource of the type.
    #[error("no server is configured for {0}")]
    NoServer(TypeUrl),
    /// The maximum number of watches is reached.
    #[error("too many watches")]
    TooMany,
    /// The client has been shut down.
    #[error("the client has been shut down")]
    ShutDown,
}

/// Error of a verdict on a response.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidVerdict {
    /// No response with this id waits for a verdict. Either the verdict was given before, or the
    /// channel has ended in the meantime.
    #[error("response {0} is not waiting for a verdict")]
    UnknownUpdate(UpdateId),
    /// The resource was not part of the update.
    #[error("resource {0} is not part of the update")]
    UnknownResource(ResourceName),
}

#[cfg(test)]
mod tests {
    use alloc::{
        format,
        string::{String, ToString},
    };

    use super::*;

    fn message(kind: WatchErrorKind, node_id: &str) -> String {
        let type_url = TypeUrl::from(types::CLUSTER);
        let source = ErrorOrigin { type_url, server: "xds".into(), node_id: node_id.into() };
        WatchError { kind, subject: None, source: source.into() }.to_string()
    }

    #[test]
    fn fraction_of_a_second_is_not_rounded_to_zero() {
        for (milliseconds, expected) in [(15_000, "15 s"), (500, "500ms"), (1_500, "1.5s")] {
            let kind = WatchErrorKind::DoesNotExist(Duration::from_millis(milliseconds));
            let expected = format!("does not exist: not received within {expected}");
            assert_eq!(kind.to_string(), expected);
        }
    }

    #[test]
    fn client_without_a_node_has_no_node_in_its_errors() {
        let with_node = message(WatchErrorKind::Deleted, "n1");
        assert!(with_node.ends_with(" (node n1, server xds)"), "{with_node}");
        let without = message(WatchErrorKind::Deleted, "");
        assert!(without.ends_with(" (server xds)"), "{without}");
    }
}
