//! Inputs and outputs of a client.

pub(crate) mod error;
pub(crate) mod status;

use alloc::{sync::Arc, vec::Vec};

use bytes::Bytes;
use prost::Message as _;

use self::error::{ChannelError, WatchError};
use super::config::{ServerAddress, resource_type::Value};
use crate::{
    cache_control::CacheControl,
    id::{ChannelId, UpdateId, WatchId},
    proto,
    service::{self, Variant},
    text::{Nonce, ResourceName, TypeUrl, Version},
};

/// Event of a transport, reported by an adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChannelEvent {
    /// The connection is established and the call has started. Do not wait for response headers: a
    /// server may delay them until it has read a request.
    // SB-19
    Opened(ChannelId),
    /// A response arrived.
    Message(ChannelId, Bytes),
    /// A response arrived that the transport could not deliver, for example because of its size.
    /// For a file: it is missing or cannot be parsed; in that case the channel stays open.
    Undeliverable(ChannelId, Arc<str>),
    /// The response to a polling request reported no changes: HTTP status 304 over REST. Only
    /// occurs for polled servers.
    // RJ-03
    Unchanged(ChannelId),
    /// The call ended, or could not be started.
    Closed(ChannelId, ChannelError),
}

/// Action that the driver of a client must perform.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
#[non_exhaustive]
pub enum Output {
    /// Connect to the server, or use a connection to it that is still open, and start the call;
    /// report [`ChannelEvent::Opened`] or [`ChannelEvent::Closed`]. The next attempt after a
    /// failure has a new id and follows after the backoff.
    Open(ChannelId, Call),
    /// End the call, without reporting anything. A [`ChannelEvent::Closed`] that is already on its
    /// way is ignored. No further output names the channel. With an error, the server caused the
    /// end, which should be logged; without one, the channel is no longer needed.
    Close(ChannelId, Option<ChannelError>),
    /// The channel has requests to send: whenever the transport has room, call
    /// [`poll_transmit`](super::Client::poll_transmit) until it returns `None`. Not repeated until
    /// then, so a driver whose transport is full remembers the channel.
    Writable(ChannelId),
    /// Notify the watcher.
    Notify(WatchId, Notice),
    /// A response of a type with [`VerdictSource::External`](super::VerdictSource::External) contains changes. Call
    /// [`submit_verdict`](super::Client::submit_verdict) with the rejected resources. Until then nothing is read
    /// from the channel.
    Update(UpdateId, Update),
}

/// Changes in a response, for an external verdict.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Update {
    /// Type of the resources.
    pub type_url: TypeUrl,
    /// Version of the response. In the incremental variant it is informational, because every
    /// resource has its own version.
    pub version: Version,
    /// Changed resources that are valid and subscribed.
    pub resources: Vec<Resource>,
}

/// Call to open for a channel.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Call {
    /// Server to connect to.
    pub server: Arc<ServerAddress>,
    /// Type of the stream, which determines the discovery service to call; `None` for an aggregated
    /// stream, which carries all types.
    pub type_url: Option<TypeUrl>,
}

impl Call {
    /// Returns the path of the gRPC method to call; `None` if there is no such method, which is a
    /// configuration error.
    #[must_use]
    pub fn grpc_path(&self) -> Option<&'static str> {
        let ServerAddress { variant, transport_api, .. } = *self.server;
        service::grpc_path(self.type_url.as_ref().map(TypeUrl::as_str), variant, transport_api)
    }

    /// Returns the path for REST requests to a polled server; `None` if there is none, which is a
    /// configuration error: REST offers neither aggregated discovery nor the incremental variant.
    // S0.180, S0.204
    #[must_use]
    pub fn rest_path(&self) -> Option<&'static str> {
        let is_sotw = self.server.variant == Variant::StateOfTheWorld;
        let type_url = self.type_url.as_ref().filter(|_| is_sotw)?;
        service::rest_path(type_url.as_str(), self.server.transport_api)
    }
}

/// Notice for one watch. A newer notice replaces an older one that was not polled yet.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Notice {
    /// The resource has a new value, or has none, and a previous value must no longer be used.
    // S3.017, S3.018
    Changed(Result<Resource, WatchError>),
    /// An error that does not affect the use of the value, or, with `None`, the end of such an
    /// error.
    // S3.020, X16
    Ambient(Option<WatchError>),
    /// Changes for the watch of a wildcard or a glob: call
    /// [`next_change`](super::Client::next_change) until it returns `None`.
    ChangesAvailable,
}

/// Change seen by the watch of a wildcard or a glob.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// A resource has a new value, or none any more.
    Resource {
        /// Name of the resource.
        name: ResourceName,
        /// New value, or the reason why there is none.
        result: Result<Resource, WatchError>,
    },
    /// An error of a resource whose value stays in use, or, with `None`, the end of such an error.
    Ambient {
        /// Name of the resource.
        name: ResourceName,
        /// Error of the resource.
        error: Option<WatchError>,
    },
    /// The collection has been received, or is unavailable. `Ok` follows the resources of the first
    /// response, and is also reported for an empty collection.
    ///
    /// The first response has the whole collection only in the state-of-the-world variant for types
    /// in full state (listeners and clusters), in a file, and over REST. Otherwise a server may
    /// split the collection into several responses, and the protocol does not mark the last one.
    Collection(Result<(), WatchError>),
    /// An error of the whole collection, whose resources stay in use, or, with `None`, the end of
    /// such an error.
    CollectionAmbient(Option<WatchError>),
    /// The watch fell too far behind. Forget all resources; the following changes are the complete
    /// state.
    Resync,
}

/// Resource as given to watchers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Resource {
    /// Name of the resource.
    pub name: ResourceName,
    /// Version of the response that last contained the resource; in the incremental variant, the
    /// resource's own version.
    pub version: Version,
    /// Encoded resource as sent by the server. It may be a slice of the response, which then stays
    /// in memory as long as this value.
    pub bytes: Bytes,
    /// Value returned by [`validate`](super::ResourceType::validate).
    pub value: Option<Value>,
    /// Metadata in the resource's wrapper: an encoded [`proto::Metadata`] as received. A change of
    /// the metadata alone causes no notice.
    // B12
    pub metadata: Option<Bytes>,
    /// Whether a relay may cache the resource for other clients. A change of it alone causes no
    /// notice.
    // M249
    pub cache_control: CacheControl,
    /// Identifier of the control plane that sent the resource; empty if it sent none.
    // B12
    pub control_plane: Arc<str>,
}

impl Resource {
    /// Creates a resource as a watcher would get it, for tests of watchers.
    #[must_use]
    pub fn new(
        name: impl Into<ResourceName>,
        version: impl Into<Version>,
        bytes: impl Into<Bytes>,
    ) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            bytes: bytes.into(),
            value: None,
            metadata: None,
            cache_control: CacheControl::Cacheable,
            control_plane: Arc::default(),
        }
    }

    /// Decodes the metadata; empty if there is none.
    ///
    /// # Errors
    ///
    /// Returns an error if the metadata is not a valid message.
    pub fn decode_metadata(&self) -> Result<proto::Metadata, proto::DecodeError> {
        proto::Metadata::decode(self.metadata.as_deref().unwrap_or_default())
    }
}

impl PartialEq for Resource {
    /// Compares name, version and bytes. The value is a function of the bytes.
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.version == other.version && self.bytes == other.bytes
    }
}

/// Summary of a rendered request, for logs.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
#[non_exhaustive]
pub struct Transmit {
    /// Type of the request.
    pub type_url: TypeUrl,
    /// Last accepted version. A state-of-the-world request contains it; an incremental one has no
    /// version.
    pub version: Version,
    /// Nonce in the request.
    pub nonce: Nonce,
    /// Reason for sending the request.
    pub cause: RequestCause,
}

/// Reason for sending a request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RequestCause {
    /// The subscriptions changed, or the stream is new.
    Subscription,
    /// A response was accepted.
    Ack,
    /// Resources of a response were rejected.
    // S0.088, A46
    Nack {
        /// Version of the rejected response. A state-of-the-world request contains
        /// [`Transmit::version`] instead.
        rejected: Version,
        /// Message in `error_detail`: each rejected resource with its reason.
        message: Arc<str>,
    },
}
