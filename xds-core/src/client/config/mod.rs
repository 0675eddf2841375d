//! What a client is told at construction: who it is, where its servers are, and how much a peer may
//! make it hold. How it behaves where the field disagrees is in `profile.rs`.

pub(crate) mod backoff;
pub(crate) mod file;
pub(crate) mod management_server;
pub(crate) mod polling;
pub(crate) mod profile;
pub(crate) mod request_rate;
pub(crate) mod resource_type;
pub(crate) mod server_features;

use alloc::{collections::BTreeMap, string::String, sync::Arc, vec::Vec};
use core::time::Duration;

use prost::Message as _;

use self::resource_type::ResourceType;
pub(crate) use self::{
    management_server::{Authority, Exchange, ManagementServer, MissingAfter, NodeIn, Streams},
    profile::{
        ConnectivityErrors, DataErrorPolicy, Fallback, Federation, Profile, ReadGate, WildcardForm,
    },
};
use crate::{
    proto,
    text::{NAME_BYTES, TypeUrl},
};

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
    /// The least time between two NACKs of one type on a stream; one second by default. A server may answer a NACK with the
    /// response that was rejected, which without a pause would go on as fast as the network does.
    ///
    /// The first NACK is sent at once. While a further one waits, nothing is read from the stream, of any type
    /// ([`Client::wants_read`](super::Client::wants_read)): what a server sends behind a response that is rejected again
    /// arrives later by this time. ACKs, and requests of other types, are sent meanwhile. With zero, NACKs are sent at
    /// once. A server that is polled hears of a rejection with the next request, whatever this is.
    pub nack_interval: Duration,
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
            nack_interval: Duration::from_secs(1),
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

    /// Replaces the least time between two NACKs of one type on a stream.
    #[must_use]
    pub const fn with_nack_interval(mut self, interval: Duration) -> Self {
        self.nack_interval = interval;
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

/// Bounds on what a peer can make the client hold (contract rule 6).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientLimits {
    /// The longest response, in bytes. A longer one closes the channel.
    pub response_bytes: usize,
    /// The longest version or nonce, in bytes. A response with a longer one closes the channel.
    pub token_bytes: usize,
    /// The longest resource name, in bytes, as it comes and in its canonical form; 2,048 by default. A longer one makes
    /// its resource invalid. Names are told to whichever server is asked next, so this should be no more than the
    /// strictest of them takes: one that ends streams for a longer name would do so each time.
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
            name_bytes: NAME_BYTES,
            resources_per_type: 1 << 20,
            bytes_per_type: 1 << 31,
            tombstones_per_type: 10_000,
            nack_message_bytes: 4 << 10,
            rejected_resource_bytes: 64 << 10,
            error_message_bytes: 4 << 10,
        }
    }
}
