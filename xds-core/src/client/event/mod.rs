//! Everything that goes into a client and comes out of it, with who sends it and when.

pub(crate) mod error;
pub(crate) mod status;

use alloc::{sync::Arc, vec::Vec};

use bytes::Bytes;
use prost::Message as _;

use self::error::{ChannelError, WatchError};
use super::config::{ManagementServer, resource_type::Value};
use crate::{
    cache_control::CacheControl,
    id::{ChannelId, UpdateId, WatchId},
    proto,
    service::{self, Variant},
    text::{Nonce, ResourceName, TypeUrl, Version},
};

/// News of a transport, from an adapter.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ChannelEvent {
    /// The connection is up and the call has started. Response headers are not waited for: a server
    /// may hold them back until it has read a request (SB-19).
    Opened(ChannelId),
    /// One response arrived.
    Message(ChannelId, Bytes),
    /// A response arrived that the transport could not deliver, as one over its size limit. Of a server
    /// that is a file: it is missing, or what is in it cannot be read; the channel stays then.
    Malformed(ChannelId, Arc<str>),
    /// The answer to a request says that there is nothing new, and has no response in it: status 304 over
    /// REST (RJ-03). Only a server that is polled says so.
    Unchanged(ChannelId),
    /// The call ended, or could not be started, with this gRPC status.
    Closed(ChannelId, ChannelError),
}

/// What a driver does next for a client.
#[derive(Clone, Debug)]
#[must_use]
#[non_exhaustive]
pub enum Output {
    /// Dial the server and start the call; answer with [`ChannelEvent::Opened`] or
    /// [`ChannelEvent::Closed`]. A failed channel is never tried again: the next attempt comes as a
    /// new channel after its backoff.
    Open(ChannelId, Call),
    /// End the call. Nothing more is said about the channel. With an error, because of what the
    /// server did, which is worth a line in the log; otherwise because nothing is wanted of it.
    Close(ChannelId, Option<ChannelError>),
    /// The channel has something to send: call
    /// [`poll_transmit`](super::Client::poll_transmit) when the transport has room, until it
    /// returns `None`.
    Writable(ChannelId),
    /// A watcher has news.
    Notify(WatchId, Notice),
    /// A response of a type with [`Verdict::External`](super::Verdict) brings something new: say what
    /// of it is rejected with [`settle`](super::Client::settle). Until then nothing more is read on
    /// its channel.
    Update(UpdateId, Update),
}

/// What a response would change, for a verdict from outside.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Update {
    /// The type of the resources.
    pub type_url: TypeUrl,
    /// The version of the response. That of an incremental one is for people and logs: its resources
    /// carry versions of their own.
    pub version: Version,
    /// The resources that are valid, wanted, and not in use as they are.
    pub resources: Vec<Resource>,
}

/// The stream that a channel stands for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Call {
    /// Where to dial.
    pub server: Arc<ManagementServer>,
    /// The one type that the stream carries, which names the service to call; `None` is the
    /// aggregated stream, for all types.
    pub type_url: Option<TypeUrl>,
}

impl Call {
    /// The path of the gRPC method to call; `None` if there is no such method, which is an error of
    /// the configuration.
    #[must_use]
    pub fn grpc_path(&self) -> Option<&'static str> {
        let ManagementServer { variant, transport_api, .. } = *self.server;
        service::grpc_path(self.type_url.as_ref().map(TypeUrl::as_str), variant, transport_api)
    }

    /// The path that requests are posted to where the server is polled; `None` if there is none, which is an
    /// error of the configuration: everything at once, and the incremental variant, are not served over
    /// REST (S0.180, S0.204).
    #[must_use]
    pub fn rest_path(&self) -> Option<&'static str> {
        let is_sotw = self.server.variant == Variant::StateOfTheWorld;
        let type_url = self.type_url.as_ref().filter(|_| is_sotw)?;
        service::rest_path(type_url.as_str(), self.server.transport_api)
    }
}

/// News for one watch. The newest replaces whatever was not polled yet.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Notice {
    /// The resource has a new value, or cannot be had and a value given earlier must no longer be
    /// used (S3.017, S3.018).
    Changed(Result<Resource, WatchError>),
    /// Something is wrong that does not change the use of the value (S3.020), or, with `None`, no
    /// longer is (X16).
    Ambient(Option<WatchError>),
    /// The watch of a wildcard or a glob: call [`next_change`](super::Client::next_change) until it returns `None`.
    Behind,
}

/// One step of the watch of a wildcard or a glob.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// A resource has a new value, or none any more.
    Resource {
        /// The resource's name.
        name: ResourceName,
        /// The value, or why there is none.
        result: Result<Resource, WatchError>,
    },
    /// Something is wrong with a resource whose value stays in use, or, with `None`, no longer is.
    Ambient {
        /// The resource's name.
        name: ResourceName,
        /// What is wrong.
        error: Option<WatchError>,
    },
    /// The collection as a whole has been received, or cannot be had. `Ok` follows the resources of the first
    /// response, and comes for an empty collection as well.
    Collection(Result<(), WatchError>),
    /// Something is wrong with the whole collection, whose resources stay in use, or no longer is.
    CollectionAmbient(Option<WatchError>),
    /// The watch fell too far behind: forget all resources, what follows is the complete state.
    Resync,
}

/// A resource as its watchers get it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Resource {
    /// The resource's name.
    pub name: ResourceName,
    /// The version of the response it last came in.
    pub version: Version,
    /// The encoded resource, as the server sent it. It may be a slice of the response it came in,
    /// which lives as long as this does.
    pub bytes: Bytes,
    /// What [`validate`](super::ResourceType::validate) made of it.
    pub value: Option<Value>,
    /// What the server says about the resource beside it: an encoded [`proto::Metadata`], as it came
    /// (B12). A change of it alone is no news, so it is that of the moment when the notice was made.
    pub metadata: Option<Bytes>,
    /// Whether a relay may keep the resource for others than those who ask for it (M249). As for the
    /// metadata, a change of it alone is no news.
    pub cache_control: CacheControl,
    /// The identifier of the control plane that sent the resource; empty where it gave none (B12).
    pub control_plane: Arc<str>,
}

impl Resource {
    /// A resource as a watcher would get it, for tests of watchers.
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
            cache_control: CacheControl::MayKeep,
            control_plane: Arc::default(),
        }
    }

    /// The metadata, decoded; empty if there is none.
    ///
    /// # Errors
    ///
    /// The server sent something else in its place.
    pub fn decode_metadata(&self) -> Result<proto::Metadata, proto::DecodeError> {
        proto::Metadata::decode(self.metadata.as_deref().unwrap_or_default())
    }
}

impl PartialEq for Resource {
    /// By name, version and bytes: the value is a function of the bytes.
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.version == other.version && self.bytes == other.bytes
    }
}

/// What a rendered request is, for logs.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
#[non_exhaustive]
pub struct Transmit {
    /// The type the request is about.
    pub type_url: TypeUrl,
    /// The version it states: the last accepted one.
    pub version: Version,
    /// The nonce it carries: that of the newest response it answers.
    pub nonce: Nonce,
    /// Why it is sent.
    pub cause: RequestCause,
}

/// Why a request is sent.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RequestCause {
    /// The names of interest changed, or the stream is new.
    Subscription,
    /// A response was accepted.
    Ack,
    /// A response had bad resources; the others are used (S0.088, A46).
    Nack {
        /// The version of the rejected response; the request itself states the accepted one.
        rejected: Version,
        /// The message in `error_detail`: each bad resource with its reason.
        message: Arc<str>,
    },
}
