//! What each client has of each resource, for client status discovery as a management server serves it
//! (M234, IS30).
//!
//! Nothing is kept for this: it is read off the sessions when somebody asks, and costs what there is to
//! tell.

use alloc::{string::ToString as _, sync::Arc, vec::Vec};

use bytes::Bytes;

use crate::{
    client::{Contents, WallClock},
    id::StreamId,
    proto::{
        self, ClientResourceStatus, ConfigStatus, UpdateFailureState,
        client_config::GenericXdsConfig,
    },
    server::{
        Server, event::status::ResourceSync, session::client_state::Look,
        store::encode::body::Payload, stream::Stream,
    },
    slab::Slot,
    text::{ResourceName, TypeUrl, Version, ViewName},
    time::Time,
    types,
};

/// One client: one of its streams, and what it has been sent on it.
#[derive(Clone, Copy, Debug)]
pub struct ClientStatus<'a> {
    server: &'a Server,
    state: &'a Stream,
    stream: StreamId,
}

/// What a client has of one resource that it subscribes to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientResource<'a> {
    /// The type.
    pub type_url: &'a TypeUrl,
    /// The name.
    pub name: &'a ResourceName,
    /// How far the client is.
    pub status: ResourceSync,
    /// The resource's own version, as incremental responses state it, of how it is now; whether the client
    /// has that, `status` says.
    pub version: Option<Version>,
    /// The resource as it is now.
    pub bytes: Option<&'a Bytes>,
    /// When the newest response of the type was sent or, once there was one, when its answer came; none if
    /// the client has not been sent the resource as it is now.
    pub updated: Option<Time>,
    /// What the client rejected it for.
    pub error: Option<&'a Arc<str>>,
}

impl Server {
    /// What each client has of each resource, in the order in which the streams came.
    pub fn client_statuses(&self) -> impl Iterator<Item = ClientStatus<'_>> {
        self.streams.iter().filter_map(move |(slot, state)| {
            let stream = StreamId(self.streams.key(slot)?);
            Some(ClientStatus { server: self, state, stream })
        })
    }

    /// What one client has of each resource; `None` if the stream is gone.
    #[must_use]
    pub fn client_status(&self, stream: StreamId) -> Option<ClientStatus<'_>> {
        let state = self.streams.get(stream.0)?;
        Some(ClientStatus { server: self, state, stream })
    }

    fn look(&self, slot: Slot) -> Option<Look<'_>> {
        let subscriptions = &self.subscriptions;
        let session = subscriptions.sessions.at(slot)?;
        let arena = subscriptions.store.arena(session.arena)?;
        let (edges, held) = (&subscriptions.edges, self.rejections.held(slot));
        Some(Look { slot, session, arena, edges, held })
    }
}

impl<'a> ClientStatus<'a> {
    /// The client's stream.
    #[must_use]
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// The id of the client's node; empty if it has given none.
    #[must_use]
    pub fn node_id(&self) -> &'a str {
        self.state.node_id()
    }

    /// What it sees, once that is known.
    #[must_use]
    pub fn view(&self) -> Option<&'a ViewName> {
        Some(&self.server.subscriptions.store.view(self.state.view?)?.name)
    }

    /// All it subscribes to: type by type, in each first what it names, then what else a wildcard covers.
    pub fn resources(&self) -> impl Iterator<Item = ClientResource<'a>> + use<'a> {
        let server = self.server;
        let looks = self.state.sessions.iter().filter_map(move |seat| server.look(seat.session));
        looks.flat_map(|look| {
            look.resources().map(move |(resource, status)| {
                let was_sent = match status {
                    ResourceSync::Missing | ResourceSync::NotSent => false,
                    ResourceSync::Stale | ResourceSync::Synced | ResourceSync::Error => true,
                };
                let is_error = status == ResourceSync::Error;
                ClientResource {
                    type_url: &look.arena.type_url,
                    name: &resource.name,
                    status,
                    version: resource.payload.as_ref().map(Payload::version),
                    bytes: resource.payload.as_ref().map(|payload| &payload.value),
                    updated: look.session.updated().filter(|_| was_sent),
                    error: look.session.last_error().filter(|_| is_error),
                }
            })
        })
    }

    /// The message by which client status discovery tells it. Of the client's node the server keeps the id
    /// alone.
    #[must_use]
    pub fn to_message(&self, contents: Contents, clock: WallClock) -> proto::ClientConfig {
        let node = proto::Node { id: self.node_id().into(), ..proto::Node::default() };
        let configs: Vec<_> =
            self.resources().map(|resource| resource.into_config(contents, clock)).collect();
        proto::ClientConfig {
            node: Some(node),
            generic_xds_configs: configs,
            ..proto::ClientConfig::default()
        }
    }
}

impl ClientResource<'_> {
    fn into_config(self, contents: Contents, clock: WallClock) -> GenericXdsConfig {
        let is_told = match contents {
            Contents::All => true,
            Contents::WithoutSecrets => *self.type_url != types::SECRET,
            Contents::None => false,
        };
        let xds_config = self
            .bytes
            .filter(|_| is_told)
            .map(|bytes| proto::Any { type_url: self.type_url.to_string(), value: bytes.clone() });
        let version_info = self.version.map(|version| version.to_string()).unwrap_or_default();
        let updated = self.updated.map(|updated| clock.timestamp(updated));
        let error_state = self.error.map(|details| UpdateFailureState {
            failed_configuration: xds_config.clone(),
            last_update_attempt: updated,
            details: details.to_string(),
            version_info: version_info.clone(),
        });
        GenericXdsConfig {
            type_url: self.type_url.to_string(),
            name: self.name.to_string(),
            version_info,
            xds_config,
            last_updated: updated,
            config_status: ConfigStatus::from(self.status).into(),
            // What became of it on the client's side is for the client to tell.
            client_status: ClientResourceStatus::Unknown.into(),
            error_state,
            is_static_resource: false,
        }
    }
}

impl From<ResourceSync> for ConfigStatus {
    fn from(status: ResourceSync) -> Self {
        match status {
            ResourceSync::Missing | ResourceSync::NotSent => Self::NotSent,
            ResourceSync::Stale => Self::Stale,
            ResourceSync::Synced => Self::Synced,
            ResourceSync::Error => Self::Error,
        }
    }
}
