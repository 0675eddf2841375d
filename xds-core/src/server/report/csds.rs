//! Client status by resource, for the Client Status Discovery Service of a management server.
//!
//! The report is computed from the sessions on each call; no state is kept for it. It takes time
//! proportional to its size.
// M234, IS30

use alloc::{string::ToString as _, sync::Arc, vec::Vec};

use bytes::Bytes;

use crate::{
    client::{Contents, WallClock},
    id::StreamId,
    proto::{
        self, ClientResourceStatus, ConfigStatus, UpdateFailureState,
        client_config::GenericXdsConfig,
    },
    server::{Server, event::status::ResourceSync, store::encode::body::Payload, stream::Stream},
    text::{ResourceName, TypeUrl, Version, ViewName},
    time::Time,
    types,
};

/// Status of one client, which is one stream.
#[derive(Clone, Copy, Debug)]
pub struct ClientStatus<'a> {
    server: &'a Server,
    state: &'a Stream,
    stream: StreamId,
}

/// Status of one resource that a client subscribes to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientResource<'a> {
    /// Type of the resource.
    pub type_url: &'a TypeUrl,
    /// Name of the resource.
    pub name: &'a ResourceName,
    /// Whether the client has the current content.
    pub status: ResourceSync,
    /// Current version of the resource as stated in incremental responses. `status` tells whether
    /// the client has it.
    pub version: Option<Version>,
    /// Current content of the resource.
    pub bytes: Option<&'a Bytes>,
    /// Time at which the newest response of the type was sent or, once answered, the time of the
    /// answer; `None` if the client has not been sent the current content.
    pub updated: Option<Time>,
    /// Error with which the client rejected the resource.
    pub error: Option<&'a Arc<str>>,
}

impl Server {
    /// Returns the status of all clients, in the order in which their streams were opened.
    pub fn client_statuses(&self) -> impl Iterator<Item = ClientStatus<'_>> {
        self.open_streams().map(|(stream, state)| ClientStatus { server: self, state, stream })
    }

    /// Returns the status of one client; `None` if the stream has ended.
    #[must_use]
    pub fn client_status(&self, stream: StreamId) -> Option<ClientStatus<'_>> {
        let state = self.streams.get(stream.0)?;
        Some(ClientStatus { server: self, state, stream })
    }
}

impl<'a> ClientStatus<'a> {
    /// Returns the stream of the client.
    #[must_use]
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// Returns the id of the client's node; empty if it has none.
    #[must_use]
    pub fn node_id(&self) -> &'a str {
        self.state.node_id()
    }

    /// Returns the view of the client, once assigned. During a rollout this is the candidate if the
    /// client sees that.
    #[must_use]
    pub fn view(&self) -> Option<&'a ViewName> {
        Some(&self.server.subscriptions.store.view(self.state.view?)?.name)
    }

    /// Returns the view that the client would see without a rollout, once assigned.
    #[must_use]
    pub fn stable_view(&self) -> Option<&'a ViewName> {
        let store = &self.server.subscriptions.store;
        Some(&store.view(store.stable_view(self.state.view?))?.name)
    }

    /// Returns all resources that the client subscribes to, by type; within a type, first those
    /// subscribed by name, then those of a wildcard.
    pub fn resources(&self) -> impl Iterator<Item = ClientResource<'a>> + use<'a> {
        self.server.sessions_of(self.stream).flat_map(|client| {
            client.resources().map(move |(resource, status)| {
                let was_sent = match status {
                    ResourceSync::Missing | ResourceSync::NotSent => false,
                    ResourceSync::Stale | ResourceSync::Synced | ResourceSync::Error => true,
                };
                let is_error = status == ResourceSync::Error;
                ClientResource {
                    type_url: &client.arena.type_url,
                    name: &resource.name,
                    status,
                    version: resource.payload.as_ref().map(Payload::version),
                    bytes: resource.payload.as_ref().map(|payload| &payload.value),
                    updated: client.session.updated().filter(|_| was_sent),
                    error: client.session.last_error().filter(|_| is_error),
                }
            })
        })
    }

    /// Converts the status to the `ClientConfig` message of CSDS. Its `node` contains only the id, and
    /// its `client_scope` is the name of the view.
    #[must_use]
    pub fn to_message(&self, contents: Contents, clock: WallClock) -> proto::ClientConfig {
        let node = proto::Node { id: self.node_id().into(), ..proto::Node::default() };
        let configs: Vec<_> =
            self.resources().map(|resource| resource.into_config(contents, clock)).collect();
        proto::ClientConfig {
            node: Some(node),
            generic_xds_configs: configs,
            client_scope: self.view().map(|view| view.as_str().into()).unwrap_or_default(),
            ..proto::ClientConfig::default()
        }
    }
}

impl ClientResource<'_> {
    fn into_config(self, contents: Contents, clock: WallClock) -> GenericXdsConfig {
        let is_included = match contents {
            Contents::All => true,
            Contents::WithoutSecrets => *self.type_url != types::SECRET,
            Contents::None => false,
        };
        let xds_config = self
            .bytes
            .filter(|_| is_included)
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
            // The status on the client's side is unknown to the server.
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
