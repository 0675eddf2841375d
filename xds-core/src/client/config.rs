//! What a client is told at construction: who it is, where its servers are, and how much a peer may
//! make it hold. How it behaves where the field disagrees is in `profile.rs`.

use alloc::{collections::BTreeMap, string::String, sync::Arc, vec::Vec};
use core::{fmt, time::Duration};

use prost::Message as _;

pub(super) use super::profile::{
    ConnectivityErrors, DataErrorPolicy, Fallback, Federation, Profile, ReadGate, WildcardForm,
};
use super::{
    features::{ServerFeature, ServerFeatures},
    files::FilePolicy,
    pace::RequestRate,
    polls::PollPolicy,
    resource_type::ResourceType,
};
use crate::{proto, service::Variant, text::TypeUrl};

/// Everything a [`Client`](super::Client) needs to know.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientConfig {
    /// Who the client says it is.
    pub node: Node,
    /// The management servers for names without an authority, the preferred first. The others are
    /// turned to while it fails (A71).
    pub servers: Vec<ManagementServer>,
    /// The management servers of single types, for names without an authority, where they are not
    /// `servers`; the preferred first. Every type of a proxy has a source of its own (S0.052).
    pub sources: BTreeMap<TypeUrl, Vec<ManagementServer>>,
    /// Who answers for names that state an authority (A47).
    pub authorities: Vec<Authority>,
    /// The management servers for names that state an authority which `authorities` does not have (B20), the
    /// preferred first. Without any, such names cannot be watched (FE-05).
    pub other_authorities: Vec<ManagementServer>,
    /// How long a subscribed resource with such a name may be missing.
    pub others_missing_after: MissingAfter,
    /// The resource types that can be watched.
    pub types: Vec<Arc<dyn ResourceType>>,
    /// The decisions on which implementations differ.
    pub profile: Profile,
    /// How long a subscribed resource of one of these types may be missing, whichever server is asked,
    /// instead of what the profile says (B18). `None` waits for ever. An [`Authority`] may say otherwise of its
    /// own.
    pub does_not_exist_after: BTreeMap<TypeUrl, Option<Duration>>,
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
            sources: BTreeMap::new(),
            authorities: Vec::new(),
            other_authorities: Vec::new(),
            others_missing_after: MissingAfter::AsType,
            types: Vec::new(),
            profile: Profile::grpc(),
            does_not_exist_after: BTreeMap::new(),
            limits: ClientLimits::default(),
        }
    }

    /// Lets resources of one more type be watched. What is registered twice under one type URL cannot
    /// be watched at all (CA-13).
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

    /// Says how long a subscribed resource of the type may be missing: Envoy's `initial_fetch_timeout`,
    /// which each source has its own of (B18). `None` waits for ever.
    #[must_use]
    pub fn with_does_not_exist_after(
        mut self,
        type_url: impl Into<TypeUrl>,
        after: Option<Duration>,
    ) -> Self {
        self.does_not_exist_after.insert(type_url.into(), after);
        self
    }

    /// Adds a server to turn to while those before it fail and something is wanted of which nothing is
    /// known (A71).
    #[must_use]
    pub fn with_fallback(mut self, server: ManagementServer) -> Self {
        self.servers.push(server);
        self
    }

    /// Has resources of a type come from this server, unless their names state an authority; another one that
    /// is stated for the same type is a fallback of those before it.
    #[must_use]
    pub fn with_source(mut self, type_url: impl Into<TypeUrl>, server: ManagementServer) -> Self {
        self.sources.entry(type_url.into()).or_default().push(server);
        self
    }

    /// Lets names of all authorities be watched; those without a configuration of their own are asked of this
    /// server. Another one is a fallback of those before it.
    #[must_use]
    pub fn with_other_authorities(mut self, server: ManagementServer) -> Self {
        self.other_authorities.push(server);
        self
    }

    /// Lets names of one more authority be watched. The first of two with the same name counts.
    #[must_use]
    pub fn with_authority(mut self, authority: Authority) -> Self {
        self.authorities.push(authority);
        self
    }

    /// Whether two types are registered under the type URL.
    pub(crate) fn is_ambiguous(&self, type_url: &str) -> bool {
        self.types.iter().filter(|known| known.type_url() == type_url).count() > 1
    }

    /// How long a subscribed resource of the type may be missing at the server, if its name is of the
    /// authority at this position among all.
    pub(crate) fn missing_after(
        &self,
        authority: usize,
        server: &ManagementServer,
        type_index: usize,
    ) -> Option<Duration> {
        // A file says at once what it does not have (FS-11).
        if server.exchange.is_of_files() {
            return None;
        }
        // The first is that of names without an authority, and the last one that of all others.
        let named = authority.checked_sub(1).map(|at| self.authorities.get(at));
        let own = named.map(|it| it.map_or(self.others_missing_after, |it| it.missing_after));
        match own {
            Some(MissingAfter::After(after)) => return Some(after),
            Some(MissingAfter::Never) => return None,
            Some(MissingAfter::AsType) | None => {}
        }
        let known = self.types.get(type_index);
        let own = known.and_then(|known| self.does_not_exist_after.get(known.type_url()));
        own.copied().unwrap_or_else(|| self.profile.missing_after(server))
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

/// A management server as the client sees it.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct ManagementServer {
    /// Adapters dial it. In errors, logs and measurements the server is called the same, without a
    /// `user:password@` that may be in it.
    pub uri: Arc<str>,
    /// What the server's data errors do to cached resources; `None` follows its features, then the
    /// profile.
    pub data_errors: Option<DataErrorPolicy>,
    /// The variant of the protocol that the server is asked to speak.
    pub variant: Variant,
    /// Whether one stream carries all types.
    pub streams: Streams,
    /// How requests and responses follow each other.
    pub exchange: Exchange,
    /// What the bootstrap says the server can do.
    pub features: ServerFeatures,
    /// How fast requests may go to the server; `None` sets no limit.
    pub request_rate: Option<RequestRate>,
    /// Which requests name the node.
    pub node_in: NodeIn,
    /// How the adapter reaches the server.
    pub transport: TransportId,
}

/// Like a derived one, with the URI as it may be shown.
impl fmt::Debug for ManagementServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagementServer")
            .field("uri", &self.name())
            .field("data_errors", &self.data_errors)
            .field("variant", &self.variant)
            .field("streams", &self.streams)
            .field("exchange", &self.exchange)
            .field("features", &self.features)
            .field("request_rate", &self.request_rate)
            .field("node_in", &self.node_in)
            .field("transport", &self.transport)
            .finish()
    }
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
            exchange: Exchange::default(),
            features: ServerFeatures::NONE,
            request_rate: None,
            node_in: NodeIn::default(),
            transport: TransportId::default(),
        }
    }

    /// States what the server can do.
    #[must_use]
    pub fn with_features(mut self, features: ServerFeatures) -> Self {
        self.features = features;
        self
    }

    /// The URI as it may be shown. What comes before an `@` is left out up to the scheme, unless it is a path.
    pub(crate) fn name(&self) -> Arc<str> {
        let is_path = self.uri.starts_with("unix:") || self.exchange.is_of_files();
        let Some((secret, rest)) = self.uri.rsplit_once('@').filter(|_| !is_path) else {
            return Arc::clone(&self.uri);
        };
        match secret.split_once("://") {
            Some((scheme, _)) => alloc::format!("{scheme}://***@{rest}").into(),
            None => alloc::format!("***@{rest}").into(),
        }
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

    /// Says which requests name the node.
    #[must_use]
    pub fn with_node_in(mut self, node_in: NodeIn) -> Self {
        self.node_in = node_in;
        self
    }

    /// Limits how fast requests go to the server, over each stream (BO-10).
    #[must_use]
    pub fn with_request_rate(mut self, rate: RequestRate) -> Self {
        self.request_rate = Some(rate);
        self
    }

    /// Chooses between one stream for all types and one for each.
    #[must_use]
    pub fn with_streams(mut self, streams: Streams) -> Self {
        self.streams = streams;
        self
    }

    /// Has the server asked again and again for each type, instead of over a stream: in the state-of-the-world
    /// variant, which is the only one that there is for that (S0.180, S0.204), and with the node in every
    /// request (M188).
    #[must_use]
    pub fn with_polls(mut self, policy: PollPolicy) -> Self {
        self.exchange = Exchange::Polls(policy);
        self.with_variant(Variant::StateOfTheWorld)
            .with_streams(Streams::PerType)
            .with_node_in(NodeIn::EveryRequest)
    }

    /// Takes the server's URI for the path of a file, which says what there is of each type (S0.010). It is
    /// read at first, and again whenever it changes. Absence from it is what it is in a response of the
    /// state of the world, except that a name of which nothing is known does not exist as soon as the file
    /// was read without it.
    #[must_use]
    pub fn with_files(mut self, policy: FilePolicy) -> Self {
        self.exchange = Exchange::Files(policy);
        self.with_variant(Variant::StateOfTheWorld).with_streams(Streams::PerType)
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

/// How requests and responses follow each other (S0.001).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exchange {
    /// Both sides say something whenever they have something to say, as over gRPC.
    #[default]
    Stream,
    /// Each request is answered once, and after a pause comes the next: REST (S0.199-S0.202).
    Polls(PollPolicy),
    /// The server is a file: there are responses only (S0.010-S0.018). What is rendered goes nowhere. The
    /// adapter reads the file when the cause is [`Subscription`](super::RequestCause::Subscription), even
    /// if it did before, and by itself when the file has changed; each time it passes on what it
    /// found, as a [message](super::ChannelEvent::Message) or as
    /// [malformed](super::ChannelEvent::Malformed). Other causes tell what became of that.
    Files(FilePolicy),
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

/// Which requests of a stream name the node (D4, S0.070).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NodeIn {
    /// The first one.
    #[default]
    FirstRequest,
    /// All of them, for servers that do not remember it.
    EveryRequest,
}

/// Who answers for names that state an authority, as `xdstp://NAME/type/id` does (A47).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Authority {
    /// The name as resource names state it; it may be empty (FE-04).
    pub name: Arc<str>,
    /// Its servers, the preferred first. An authority without any uses those of names without one (FE-03).
    pub servers: Vec<ManagementServer>,
    /// How long a subscribed resource with such a name may be missing.
    pub missing_after: MissingAfter,
}

/// How long a subscribed resource may be missing at its server before it does not exist: Envoy's
/// `initial_fetch_timeout`, which each source has its own of (B18).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MissingAfter {
    /// As long as others of its type.
    #[default]
    AsType,
    /// This long.
    After(Duration),
    /// For ever.
    Never,
}

impl From<Option<Duration>> for MissingAfter {
    /// `None` waits for ever.
    fn from(after: Option<Duration>) -> Self {
        after.map_or(Self::Never, Self::After)
    }
}

impl Authority {
    /// The authority `name`, answered for by the client's own servers.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), servers: Vec::new(), missing_after: MissingAfter::AsType }
    }

    /// Says how long a subscribed resource with such a name may be missing.
    #[must_use]
    pub fn with_missing_after(mut self, after: impl Into<MissingAfter>) -> Self {
        self.missing_after = after.into();
        self
    }

    /// Adds a server of its own, to use where those before it fail.
    #[must_use]
    pub fn with_server(mut self, server: ManagementServer) -> Self {
        self.servers.push(server);
        self
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
    /// How many resources of one type are taken under a wildcard and globs. Further ones are invalid. What is
    /// deleted but kept counts until there are more than this many in all; then the newly deleted are
    /// dropped.
    pub resources_per_type: usize,
    /// How long all resources of one type may be together, in bytes; 2 GiB by default. What would be more is
    /// invalid. It is for what comes bit by bit: a complete state is no longer than its response.
    pub bytes_per_type: usize,
    /// How many deleted resources are remembered for a wildcard watch that does not catch up, and how
    /// many for watches of globs together; then they are told to start over.
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
            bytes_per_type: 1 << 31,
            tombstones_per_type: 10_000,
            nack_message_bytes: 4 << 10,
            rejected_resource_bytes: 64 << 10,
            error_message_bytes: 4 << 10,
        }
    }
}
