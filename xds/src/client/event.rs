//! Events of a watch.

use core::ops::Deref;
use std::sync::Arc;

use xds_core::{
    ResourceName, Version,
    client::{self, InvalidWatch, Rejection, WatchError},
};

/// Event of a [`Watch`](super::Watch).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<T> {
    /// A resource has a new valid value. Use it instead of the previous one.
    Applied(Resource<T>),
    /// A resource does not exist, or its value must not be used any more.
    ///
    /// By default a client behaves like gRPC ([gRFC A88]): once a resource was received, it stays in
    /// use when the server deletes it or sends an invalid version, which is an
    /// [`Event::Warning`]. With [`Profile::envoy`](client::Profile::envoy), as in Envoy, a deletion
    /// is an `Event::Removed`, and an invalid version is a warning.
    ///
    /// [gRFC A88]: https://github.com/grpc/proposal/blob/master/A88-xds-data-error-handling.md
    Removed {
        /// Name of the resource.
        name: ResourceName,
        /// Reason why there is no value.
        reason: RemovalReason,
    },
    /// The watch has received everything that exists now. Occurs once, after the first complete
    /// answer, even if nothing exists.
    ///
    /// In state of the world, absence says that a resource does not exist only for listeners and
    /// clusters. For other types the client waits for
    /// [`Profile::does_not_exist_timeout`](client::Profile), 15 s by default, and then reports that
    /// the resource, or the whole collection, does not exist. A collection that does not exist is an
    /// [`Event::Warning`] without a name, followed by `Event::Synced`.
    ///
    /// An error of the connection is not an answer. However, with
    /// [`Profile::envoy`](client::Profile::envoy) the timeout starts with the watch, and the initial
    /// fetch timeout also counts as an answer, as in Envoy, even if no server was reached.
    Synced,
    /// An error that does not affect the values in use, such as a lost connection or an invalid new
    /// version.
    Warning {
        /// Name of the resource; `None` if the error concerns the whole collection.
        name: Option<ResourceName>,
        /// The error.
        error: WatchError,
    },
    /// The warning of a resource, or of the whole collection, is over.
    ///
    /// Occurs once after one or more warnings with the same name. If a new value or a removal ends
    /// the warning, `Event::Recovered` precedes the [`Event::Applied`] or [`Event::Removed`] of the
    /// resource. The recovery of a collection that was not received yet precedes [`Event::Synced`].
    /// If another error persists, another [`Event::Warning`] follows.
    Recovered {
        /// Name in the warning.
        name: Option<ResourceName>,
    },
    /// The watch is not possible, and has ended.
    Invalid(InvalidWatch),
}

/// Reason of an [`Event::Removed`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemovalReason {
    /// The resource does not exist, is invalid, or cannot be received.
    #[error(transparent)]
    Error(#[from] WatchError),
    /// The resource was deleted, but the watch lagged too far behind to receive the reason.
    #[error("the resource does not exist any more")]
    Gone,
    /// The resource does not decode to the message type of this watch. The client did not reject
    /// it, because an earlier watch has chosen another message type for these resources.
    #[error("the resource does not decode to the message of the watch: {0}")]
    NotDecoded(Rejection),
}

/// Valid resource. It dereferences to the decoded message.
#[derive(Debug)]
pub struct Resource<T> {
    value: Arc<T>,
    raw: client::Resource,
}

impl<T> Resource<T> {
    pub(super) const fn new(value: Arc<T>, raw: client::Resource) -> Self {
        Self { value, raw }
    }

    /// Returns the name of the resource.
    #[must_use]
    pub const fn name(&self) -> &ResourceName {
        &self.raw.name
    }

    /// Returns the version that the server stated.
    #[must_use]
    pub const fn version(&self) -> &Version {
        &self.raw.version
    }

    /// Returns the decoded message, which is shared by all watches of the resource.
    #[must_use]
    pub const fn value(&self) -> &Arc<T> {
        &self.value
    }

    /// Returns the resource as received, with its bytes and metadata.
    #[must_use]
    pub const fn raw(&self) -> &client::Resource {
        &self.raw
    }
}

impl<T> Clone for Resource<T> {
    fn clone(&self) -> Self {
        Self { value: Arc::clone(&self.value), raw: self.raw.clone() }
    }
}

impl<T> Deref for Resource<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
