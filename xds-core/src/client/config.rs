//! What a client is told at construction: who it is, where its server is, and how it behaves where
//! the field disagrees.

use alloc::{string::String, sync::Arc, vec::Vec};
use core::time::Duration;

use prost::Message as _;

use super::{
    backoff::BackoffPolicy,
    features::{ServerFeature, ServerFeatures},
    resource_type::ResourceType,
};
use crate::{proto, service::Variant};

/// Everything a [`Client`](super::Client) needs to know.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientConfig {
    /// Who the client says it is.
    pub node: Node,
    /// The management servers for names without an authority, the preferred first. The others are
    /// turned to while it fails (A71).
    pub servers: Vec<ManagementServer>,
    /// Who answers for names that state an authority (A47).
    pub authorities: Vec<Authority>,
    /// The resource types that can be watched.
    pub types: Vec<Arc<dyn ResourceType>>,
    /// The decisions on which implementations differ.
    pub profile: Profile,
    /// Bounds on what a peer can make the client hold.
    pub limits: ClientLimits,
}

impl ClientConfig {
    /// A client of `server` in gRPC's profile that knows no type yet.
    #[must_use]
    pub fn new(node: Node, server: ManagementServer) -> Self {
        Self {
            node,
            servers: Vec::from([server]),
            authorities: Vec::new(),
            types: Vec::new(),
            profile: Profile::grpc(),
            limits: ClientLimits::default(),
        }
    }

    /// Lets resources of one more type be watched.
    #[must_use]
    pub fn with_type(mut self, resource_type: impl ResourceType + 'static) -> Self {
        self.types.push(Arc::new(resource_type));
        self
    }

    /// Replaces the profile.
    #[must_use]
    pub fn with_profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Adds a server to turn to while those before it fail and something is wanted of which nothing is
    /// known (A71).
    #[must_use]
    pub fn with_fallback(mut self, server: ManagementServer) -> Self {
        self.servers.push(server);
        self
    }

    /// Lets names of one more authority be watched. The first of two with the same name counts.
    #[must_use]
    pub fn with_authority(mut self, authority: Authority) -> Self {
        self.authorities.push(authority);
        self
    }

    pub(crate) fn position_of(&self, type_url: &str) -> Option<usize> {
        self.types.iter().position(|known| known.type_url() == type_url)
    }
}

/// The identity a client presents in the first message of every stream (S0.069, IC5).
///
/// User agent and client features are the library's to state, not the caller's (SB-04).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    message: proto::Node,
}

impl Node {
    /// A node known by `id`.
    #[must_use]
    pub fn new(id: impl Into<String>) -> Self {
        Self { message: proto::Node { id: id.into(), ..Default::default() } }
    }

    /// Names the group of nodes this one belongs to.
    #[must_use]
    pub fn with_cluster(mut self, cluster: impl Into<String>) -> Self {
        self.message.cluster = cluster.into();
        self
    }

    /// States where the node runs.
    #[must_use]
    pub fn with_locality(mut self, locality: proto::Locality) -> Self {
        self.message.locality = Some(locality);
        self
    }

    /// Adds what the management server's own logic needs to know.
    #[must_use]
    pub fn with_metadata(mut self, metadata: proto::Struct) -> Self {
        self.message.metadata = Some(metadata);
        self
    }

    /// The node's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.message.id
    }

    /// The message as it goes on the wire.
    pub(crate) fn to_message(&self, profile: &Profile) -> proto::Node {
        let mut message = self.message.clone();
        message.user_agent_name = USER_AGENT.into();
        message.user_agent_version_type = Some(
            proto::node::UserAgentVersionType::UserAgentVersion(env!("CARGO_PKG_VERSION").into()),
        );
        message.client_features = profile.client_features.clone();
        message
    }

    pub(crate) fn encode(&self, profile: &Profile) -> Vec<u8> {
        self.to_message(profile).encode_to_vec()
    }
}

const USER_AGENT: &str = "xds-core";

/// The client feature of taking resources out of wrappers in SotW (B08).
const RESOURCE_IN_SOTW: &str = "xds.config.resource-in-sotw";
/// The client feature of TTLs and heartbeats (B09).
const RESOURCE_TTL: &str = "xds.config.supports-resource-ttl";

/// A management server as the client sees it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ManagementServer {
    /// What the server is called in errors and logs; adapters dial it.
    pub uri: Arc<str>,
    /// What the server's data errors do to cached resources; `None` follows its features, then the
    /// profile.
    pub data_errors: Option<DataErrorPolicy>,
    /// The variant of the protocol that the server is asked to speak.
    pub variant: Variant,
    /// Whether one stream carries all types.
    pub streams: Streams,
    /// What the bootstrap says the server can do.
    pub features: ServerFeatures,
    /// How the adapter reaches the server.
    pub transport: TransportId,
}

impl ManagementServer {
    /// The server at `uri`, whose form is the adapter's to read.
    #[must_use]
    pub fn new(uri: impl Into<Arc<str>>) -> Self {
        Self {
            uri: uri.into(),
            data_errors: None,
            variant: Variant::default(),
            streams: Streams::default(),
            features: ServerFeatures::NONE,
            transport: TransportId::default(),
        }
    }

    /// States what the server can do.
    #[must_use]
    pub fn with_features(mut self, features: ServerFeatures) -> Self {
        self.features = features;
        self
    }

    /// What the server's data errors do to cached resources (X11).
    pub(crate) fn data_errors(&self, profile: &Profile) -> DataErrorPolicy {
        let fails = self.features.contains(ServerFeature::FailOnDataErrors);
        let by_feature = fails.then_some(DataErrorPolicy::DropCached);
        self.data_errors.or(by_feature).unwrap_or(profile.data_errors)
    }

    /// Chooses the variant of the protocol.
    #[must_use]
    pub fn with_variant(mut self, variant: Variant) -> Self {
        self.variant = variant;
        self
    }

    /// Chooses between one stream for all types and one for each.
    #[must_use]
    pub fn with_streams(mut self, streams: Streams) -> Self {
        self.streams = streams;
        self
    }

    /// Chooses how the adapter reaches the server.
    #[must_use]
    pub fn with_transport(mut self, transport: impl Into<TransportId>) -> Self {
        self.transport = transport.into();
        self
    }
}

/// How an adapter reaches a server: with which credentials, through which services. It is the name of
/// something that the adapter was told of; the empty one is what the adapter does unless told otherwise.
///
/// The core reads nothing into it. Servers that differ in it share no stream (FE-16).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransportId(Arc<str>);

impl TransportId {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the adapter is left to do what it does unless told otherwise.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<&str> for TransportId {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl From<String> for TransportId {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

/// How resource types share streams (S0.164).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Streams {
    /// One stream carries all types: the aggregated discovery service.
    #[default]
    Aggregated,
    /// Each type has a stream of its own, to its own discovery service.
    PerType,
}

/// Who answers for names that state an authority, as `xdstp://NAME/type/id` does (A47).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Authority {
    /// The name as resource names state it; it may be empty (FE-04).
    pub name: Arc<str>,
    /// Its servers, the preferred first. An authority without any uses those of the client (FE-03).
    pub servers: Vec<ManagementServer>,
}

impl Authority {
    /// The authority `name`, answered for by the client's own servers.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), servers: Vec::new() }
    }

    /// Adds a server of its own, to use where those before it fail.
    #[must_use]
    pub fn with_server(mut self, server: ManagementServer) -> Self {
        self.servers.push(server);
        self
    }
}

/// What becomes of a cached resource when the server deletes it or sends an invalid one (X11, A88).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataErrorPolicy {
    /// It stays in use; watchers get an ambient error (gRPC's default).
    KeepCached,
    /// A deleted one is dropped, and watchers are told to stop using it, and so is one that the server
    /// reports as not found; while the newest version is invalid, the last valid one stays (a proxy's
    /// way, S0.018, S0.120).
    DropDeleted,
    /// It is dropped in either case (gRPC's `fail_on_data_errors`).
    DropCached,
}

/// How a subscription to everything of a full-state type is put on the wire (X02).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WildcardForm {
    /// An empty list in the type's first request: understood by servers old and new.
    LegacyEmpty,
    /// The name `*`, as types other than listeners and clusters always need.
    Explicit,
}

/// Whether notices that the application has not handled yet hold back reading (B52, IC34).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadGate {
    /// The next response waits until every notice of the last one was
    /// [handled](super::Client::handled).
    Notices,
    /// Responses are read as they come; watchers see the newest state.
    Off,
}

/// The decisions on which implementations differ, as plain data.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Profile {
    /// What data errors do to cached resources, unless the server's entry says otherwise (X11).
    pub data_errors: DataErrorPolicy,
    /// How a wildcard goes on the wire (X02).
    pub wildcard: WildcardForm,
    /// The code in `error_detail` of a NACK (D3).
    pub nack_code: i32,
    /// How long a subscribed resource may be missing before it is taken not to exist, counted from
    /// the moment the subscription was handed to the transport (S1.025, D10). `None` waits for
    /// ever.
    pub does_not_exist_after: Option<Duration>,
    /// The same where the server has [`ServerFeature::ResourceTimerIsTransientError`], and the
    /// conclusion is that something is wrong with the server (S3.042).
    pub timeout_after: Option<Duration>,
    /// How long a channel without subscriptions stays open (D6). `None` keeps it open.
    pub idle_close: Option<Duration>,
    /// The delays between attempts to reach the server (S1.011, X23).
    pub backoff: BackoffPolicy,
    /// Whether connection trouble is told to watchers (D17).
    pub connectivity_errors: ConnectivityErrors,
    /// Whether unhandled notices hold back reading.
    pub read_gate: ReadGate,
    /// The client features stated in the node (SB-03).
    pub client_features: Vec<String>,
    /// Whether names of the form `xdstp://...` state an authority.
    pub federation: Federation,
    /// Whether servers behind the first one are used.
    pub fallback: Fallback,
    /// Whether errors that a server reports for single resources count.
    pub reported_errors: ReportedErrors,
}

/// Whether `resource_errors` of responses are read (TP3, S3.100).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportedErrors {
    /// They are.
    Used,
    /// They are not: the field is one like any other that is not known.
    Ignored,
}

/// Whether `xdstp://` names are read as such (A47, FE-14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Federation {
    /// They state an authority, which must be configured.
    On,
    /// They are names like any other.
    Off,
}

/// Whether a client turns to further servers while the first one fails (A71, FB-20).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// It does.
    On,
    /// Only the first server of each list is ever used.
    Off,
}

/// Whether watchers learn that the management server cannot be reached (D17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectivityErrors {
    /// They do, once per failure (A57).
    Reported,
    /// They do not: the last configuration stays and only logs tell.
    Hidden,
}

impl Profile {
    /// The behaviour of gRPC clients: the default.
    #[must_use]
    pub fn grpc() -> Self {
        Self {
            data_errors: DataErrorPolicy::KeepCached,
            wildcard: WildcardForm::LegacyEmpty,
            nack_code: 3,
            does_not_exist_after: Some(Duration::from_secs(15)),
            timeout_after: Some(Duration::from_secs(30)),
            idle_close: Some(Duration::from_secs(30)),
            backoff: BackoffPolicy::grpc(),
            connectivity_errors: ConnectivityErrors::Reported,
            read_gate: ReadGate::Notices,
            client_features: Vec::from([
                "envoy.lb.does_not_support_overprovisioning".into(),
                RESOURCE_IN_SOTW.into(),
                RESOURCE_TTL.into(),
            ]),
            federation: Federation::On,
            fallback: Fallback::On,
            reported_errors: ReportedErrors::Used,
        }
    }

    /// The behaviour of a proxy: absence deletes, connection trouble stays out of sight.
    #[must_use]
    pub fn envoy() -> Self {
        Self {
            data_errors: DataErrorPolicy::DropDeleted,
            nack_code: 13,
            idle_close: None,
            connectivity_errors: ConnectivityErrors::Hidden,
            client_features: Vec::from([RESOURCE_IN_SOTW.into(), RESOURCE_TTL.into()]),
            ..Self::grpc()
        }
    }
}

impl Profile {
    /// How long a subscribed resource of the server may be missing.
    pub(crate) fn missing_after(&self, server: &ManagementServer) -> Option<Duration> {
        match server.features.contains(ServerFeature::ResourceTimerIsTransientError) {
            true => self.timeout_after,
            false => self.does_not_exist_after,
        }
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::grpc()
    }
}

/// Bounds on what a peer can make the client hold (contract rule 6).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientLimits {
    /// The longest response, in bytes. A longer one closes the channel.
    pub response_bytes: usize,
    /// The longest version or nonce, in bytes. A response with a longer one closes the channel.
    pub token_bytes: usize,
    /// The longest resource name, in bytes. A longer one makes its resource invalid.
    pub name_bytes: usize,
    /// How many resources of one type are taken under a wildcard. Further ones are invalid. What is
    /// deleted but kept counts until there are more than this many in all; then the newly deleted are
    /// dropped.
    pub resources_per_type: usize,
    /// How many deleted resources are remembered for a wildcard watch that does not catch up; then
    /// it is told to start over.
    pub tombstones_per_type: usize,
    /// The longest message in a NACK, in bytes (AN-09).
    pub nack_message_bytes: usize,
    /// The longest rejected resource, in bytes, that is kept for
    /// [`FailedUpdate::bytes`](super::FailedUpdate::bytes). At most the newest of each resource is.
    pub rejected_resource_bytes: usize,
    /// The longest message of an error that the server reports for a resource, in bytes. What is
    /// longer is cut off.
    pub error_message_bytes: usize,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            response_bytes: 256 << 20,
            token_bytes: 4 << 10,
            name_bytes: 4 << 10,
            resources_per_type: 1 << 20,
            tombstones_per_type: 10_000,
            nack_message_bytes: 4 << 10,
            rejected_resource_bytes: 64 << 10,
            error_message_bytes: 4 << 10,
        }
    }
}
