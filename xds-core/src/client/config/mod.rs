//! Configuration of a client.
//!
//! It consists of the node, the management servers, the resource types, limits and, in `profile`,
//! the behaviour on which xDS implementations differ.

pub(crate) mod backoff;
pub(crate) mod file;
pub(crate) mod polling;
pub(crate) mod profile;
pub(crate) mod request_rate;
pub(crate) mod resource_type;
pub(crate) mod server_address;
pub(crate) mod server_features;

use alloc::{collections::BTreeMap, string::String, sync::Arc, vec::Vec};
use core::time::Duration;

use prost::Message as _;

use self::resource_type::ResourceType;
pub(crate) use self::{
    profile::{
        ConnectivityErrors, DataErrorPolicy, Fallback, Federation, FlowControl, Profile,
        WildcardForm,
    },
    server_address::{
        AuthorityConfig, DoesNotExistTimeout, SendNode, ServerAddress, Streams, TransportKind,
    },
};
use crate::{
    proto,
    text::{NAME_BYTES, TypeUrl},
};

/// Configuration of a [`Client`](super::Client).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientConfig {
    /// Identity that the client sends to servers.
    pub node: Node,
    /// Management servers for names without an authority, in order of preference. The others are
    /// used while the first one fails, see
    /// [gRFC A71](https://github.com/grpc/proposal/blob/master/A71-xds-fallback.md).
    pub servers: Vec<ServerAddress>,
    /// Management servers of single types, in order of preference. For names without an authority
    /// they replace `servers`, like the separate config sources of each type in Envoy.
    // S0.052
    pub sources: BTreeMap<TypeUrl, Vec<ServerAddress>>,
    /// Authorities of `xdstp://` names, see
    /// [gRFC A47](https://github.com/grpc/proposal/blob/master/A47-xds-federation.md).
    pub authorities: Vec<AuthorityConfig>,
    /// Management servers, in order of preference, for names whose authority is not in
    /// `authorities`. If empty, such names cannot be watched.
    // B20, FE-05
    pub other_authorities: Vec<ServerAddress>,
    /// Does-not-exist timeout of resources whose authority is not in `authorities`.
    pub other_authorities_timeout: DoesNotExistTimeout,
    /// Resource types that can be watched.
    pub types: Vec<Arc<dyn ResourceType>>,
    /// Behaviour on which xDS implementations differ.
    pub profile: Profile,
    /// Does-not-exist timeout of single types, for every server; overrides the profile. `None`
    /// disables the timeout. An [`AuthorityConfig`] can override it for its own names.
    // B18
    pub does_not_exist_timeout: BTreeMap<TypeUrl, Option<Duration>>,
    /// Minimum time between two NACKs of one type on a stream; 1 s by default. A server may answer
    /// a NACK by sending the rejected response again, which would otherwise loop at network speed.
    ///
    /// The first NACK is sent at once. While a further one is delayed, nothing is read from the
    /// stream ([`Client::wants_read`](super::Client::wants_read)), so later responses of every type
    /// are delayed as well. ACKs and requests for other types are still sent. Zero disables the
    /// delay. Polling is unaffected: a NACK is part of the next request.
    pub nack_interval: Duration,
    /// Bounds on the memory that a peer can make the client use.
    pub limits: ClientLimits,
}

impl ClientConfig {
    /// Creates a configuration with one server, the profile of gRPC and no resource types.
    #[must_use]
    pub fn new(node: Node, server: ServerAddress) -> Self {
        Self {
            node,
            servers: Vec::from([server]),
            sources: BTreeMap::new(),
            authorities: Vec::new(),
            other_authorities: Vec::new(),
            other_authorities_timeout: DoesNotExistTimeout::TypeDefault,
            types: Vec::new(),
            profile: Profile::grpc(),
            does_not_exist_timeout: BTreeMap::new(),
            nack_interval: Duration::from_secs(1),
            limits: ClientLimits::default(),
        }
    }

    /// Registers a resource type. If a type URL is registered twice, watches of it fail with
    /// [`InvalidWatch::AmbiguousType`](super::InvalidWatch::AmbiguousType).
    // CA-13
    #[must_use]
    pub fn with_type(mut self, resource_type: impl ResourceType + 'static) -> Self {
        self.types.push(Arc::new(resource_type));
        self
    }

    /// Sets the profile.
    #[must_use]
    pub fn with_profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Sets the does-not-exist timeout of a type: Envoy's `initial_fetch_timeout`, which is set per
    /// config source. `None` disables the timeout.
    // B18
    #[must_use]
    pub fn with_does_not_exist_timeout(
        mut self,
        type_url: impl Into<TypeUrl>,
        after: Option<Duration>,
    ) -> Self {
        self.does_not_exist_timeout.insert(type_url.into(), after);
        self
    }

    /// Sets the minimum time between two NACKs of one type on a stream.
    #[must_use]
    pub const fn with_nack_interval(mut self, interval: Duration) -> Self {
        self.nack_interval = interval;
        self
    }

    /// Adds a fallback server, used while the servers before it fail and a watched resource is not
    /// cached, see [gRFC A71](https://github.com/grpc/proposal/blob/master/A71-xds-fallback.md).
    #[must_use]
    pub fn with_server(mut self, server: ServerAddress) -> Self {
        self.servers.push(server);
        self
    }

    /// Sets the server for resources of one type whose names have no authority. Further calls for
    /// the same type add fallback servers.
    #[must_use]
    pub fn with_source(mut self, type_url: impl Into<TypeUrl>, server: ServerAddress) -> Self {
        self.sources.entry(type_url.into()).or_default().push(server);
        self
    }

    /// Sets the server for names of authorities that are not configured. Further calls add fallback
    /// servers.
    #[must_use]
    pub fn with_other_authorities(mut self, server: ServerAddress) -> Self {
        self.other_authorities.push(server);
        self
    }

    /// Sets the does-not-exist timeout of resources whose authority is not configured.
    #[must_use]
    pub fn with_other_authorities_timeout(mut self, after: impl Into<DoesNotExistTimeout>) -> Self {
        self.other_authorities_timeout = after.into();
        self
    }

    /// Adds an authority. If a name is added twice, the first one is used.
    #[must_use]
    pub fn with_authority(mut self, authority: AuthorityConfig) -> Self {
        self.authorities.push(authority);
        self
    }

    /// Sets the bounds on the memory that a peer can make the client use.
    #[must_use]
    pub fn with_limits(mut self, limits: ClientLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Returns whether two types are registered under the type URL.
    pub(crate) fn is_ambiguous(&self, type_url: &str) -> bool {
        self.types.iter().filter(|known| known.type_url() == type_url).count() > 1
    }

    /// Returns the does-not-exist timeout of a type at a server. `authority` is 0 for names without
    /// an authority, then the index in `authorities` plus 1, and beyond the end for other
    /// authorities.
    pub(crate) fn does_not_exist_timeout(
        &self,
        authority: usize,
        server: &ServerAddress,
        type_index: usize,
    ) -> Option<Duration> {
        // FS-11: a file shows at once which resources are missing.
        if server.transport_kind.is_file() {
            return None;
        }
        // Index 0 is for names without an authority, the last index for authorities not configured.
        let named = authority.checked_sub(1).map(|at| self.authorities.get(at));
        let own = named
            .map(|it| it.map_or(self.other_authorities_timeout, |it| it.does_not_exist_timeout));
        match own {
            Some(DoesNotExistTimeout::After(after)) => return Some(after),
            Some(DoesNotExistTimeout::Never) => return None,
            Some(DoesNotExistTimeout::TypeDefault) | None => {}
        }
        let known = self.types.get(type_index);
        let own = known.and_then(|known| self.does_not_exist_timeout.get(known.type_url()));
        own.copied().unwrap_or_else(|| self.profile.does_not_exist_timeout(server))
    }

    pub(crate) fn position_of(&self, type_url: &str) -> Option<usize> {
        self.types.iter().position(|known| known.type_url() == type_url)
    }
}

/// Identity that a client sends in the first request of every stream.
///
/// The client features of the profile are added.
// S0.069, IC5, SB-04
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Message without client features.
    message: proto::Node,
}

impl Default for Node {
    /// Returns a node without an id, whose user agent is this library.
    fn default() -> Self {
        Self::from(proto::Node::default())
    }
}

/// Converts a node message. If the message has no user agent, this library's is used. Its client
/// features are replaced by those of the profile.
impl From<proto::Node> for Node {
    fn from(message: proto::Node) -> Self {
        match message.user_agent_name.is_empty() {
            true => Self { message }.with_user_agent("xds-core", env!("CARGO_PKG_VERSION")),
            false => Self { message },
        }
    }
}

impl Node {
    /// Creates a node with the given id.
    #[must_use]
    pub fn new(id: impl Into<String>) -> Self {
        Self::from(proto::Node { id: id.into(), ..Default::default() })
    }

    /// Sets the name and the version of the program, by which servers can distinguish programs.
    /// Default: this library.
    #[must_use]
    pub fn with_user_agent(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        use proto::node::UserAgentVersionType;

        self.message.user_agent_name = name.into();
        self.message.user_agent_version_type =
            Some(UserAgentVersionType::UserAgentVersion(version.into()));
        self
    }

    /// Sets the cluster: the group of nodes that this one belongs to.
    #[must_use]
    pub fn with_cluster(mut self, cluster: impl Into<String>) -> Self {
        self.message.cluster = cluster.into();
        self
    }

    /// Sets the locality in which the node runs.
    #[must_use]
    pub fn with_locality(mut self, locality: proto::Locality) -> Self {
        self.message.locality = Some(locality);
        self
    }

    /// Sets metadata for the management server.
    #[must_use]
    pub fn with_metadata(mut self, metadata: proto::Struct) -> Self {
        self.message.metadata = Some(metadata);
        self
    }

    /// Returns the node's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.message.id
    }

    /// Returns the message, without client features.
    #[must_use]
    pub const fn message(&self) -> &proto::Node {
        &self.message
    }

    /// Returns the message as sent to servers.
    pub(crate) fn to_message(&self, profile: &Profile) -> proto::Node {
        proto::Node { client_features: profile.client_features.clone(), ..self.message.clone() }
    }

    pub(crate) fn encode(&self, profile: &Profile) -> Vec<u8> {
        self.to_message(profile).encode_to_vec()
    }
}

/// Bounds on the memory that a peer can make the client use.
// contract rule 6
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientLimits {
    /// Maximum size of a response in bytes; 256 MiB by default. A larger one closes the channel.
    pub response_bytes: usize,
    /// Maximum length of a version or nonce in bytes; 4 KiB by default. A response with a longer
    /// one closes the channel.
    pub token_bytes: usize,
    /// Maximum length of a resource name in bytes, both as received and in canonical form; 2,048 by
    /// default. A resource with a longer name is invalid. Names are also sent to fallback servers,
    /// so the limit should not exceed that of the strictest server, which might close the stream.
    pub name_bytes: usize,
    /// Maximum number of resources of one type received through a wildcard and globs; 1,048,576 by
    /// default. Further resources are invalid. Deleted resources that are still cached count; above
    /// the limit, newly deleted resources are dropped.
    pub resources_per_type: usize,
    /// Maximum total size of all resources of one type in bytes; 2 GiB by default. Resources beyond
    /// it are invalid. Does not apply to complete states, which are bounded by `response_bytes`.
    pub bytes_per_type: usize,
    /// Maximum number of tombstones of one type kept for wildcard watches that lag behind, and the
    /// same number for all glob watches together; 10,000 by default. Beyond it, these watches get
    /// [`Change::Resync`](super::Change::Resync).
    pub tombstones_per_type: usize,
    /// Maximum length of a NACK's message in bytes; 4 KiB by default.
    // AN-09
    pub nack_message_bytes: usize,
    /// Maximum size of a rejected resource, in bytes, to be kept in
    /// [`FailedUpdate::bytes`](super::FailedUpdate::bytes); 64 KiB by default. Only the newest
    /// rejected version of each resource is kept.
    pub rejected_resource_bytes: usize,
    /// Maximum length in bytes of the message of an error that the server reports for a resource; 4
    /// KiB by default. Longer messages are truncated.
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
