//! Rendered responses, and the reasons for which they are sent.

use core::fmt;

use crate::{
    service::Variant,
    text::{Nonce, TypeUrl, Version},
};

/// Description of a rendered response, for logs and tests.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct ServerTransmit {
    /// Type of the response.
    pub type_url: TypeUrl,
    /// Version that the response states: that of all resources of the type or, for a client that
    /// subscribes to a full-state type by name, of its resources. See
    /// [`VersionMode`](crate::server::VersionMode).
    // M72
    pub version: Version,
    /// Nonce that the client returns in its answer; unique on the stream.
    // M62
    pub nonce: Nonce,
    /// Protocol variant, which is the type of the message.
    pub variant: Variant,
    /// Number of resources.
    pub resources: usize,
    /// Number of names reported as not existing, in `removed_resources` or as empty resources;
    /// incremental responses only.
    pub removed: usize,
    /// Number of resource errors, each in place of a resource.
    // TP3
    pub errors: usize,
    /// Reason for which it is sent.
    pub cause: ResponseCause,
}

/// Reason for which a response is sent. If several apply, the first in this order is stated.
// IS5: no response without a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ResponseCause {
    /// Part of the first answer to the subscription.
    First,
    /// A subscribed resource was created, changed or, in full state, deleted.
    Changed,
    /// The client subscribed to more resources, or again to resources that it had unsubscribed
    /// from.
    Resubscribed,
    /// The client may be warming clusters and wait for their endpoints.
    // M151, M152
    Warming,
    /// Custom message of the application, without version and nonce.
    // M21
    CustomMessage,
    /// Heartbeat that renews the TTL of the client's resources.
    // M161
    Heartbeat,
    /// Resource of a rejected response, sent alone to find the invalid one; or a rejected full
    /// state, sent again without the resources that the client unsubscribed from since.
    // M108, M107
    Recovery,
}

impl fmt::Display for ResponseCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "first",
            Self::Changed => "changed",
            Self::Resubscribed => "resubscribed",
            Self::Warming => "warming",
            Self::CustomMessage => "custom-message",
            Self::Heartbeat => "heartbeat",
            Self::Recovery => "recovery",
        })
    }
}
