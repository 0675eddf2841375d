//! From a configuration to a client of `xds-core`.
//!
//! Servers in their order, authorities, the node, and what guards turn off in the core go over.
//! Credentials and services stay behind: a server has their name only, and the adapter that dials is
//! told what each name stands for ([`Bootstrap::all_servers`], [`EnvoyBootstrap::transports`]).

use thiserror::Error;
use xds_core::{
    TypeUrl,
    client::{
        Authority, ClientConfig, DataErrorPolicy, Fallback, Federation, FilePolicy,
        InvalidRequestRate, ManagementServer, Node, PollPolicy, Profile, ReportedErrors,
        RequestRate, ServerFeature, Streams,
    },
    service::Variant,
    types,
};

use crate::{
    envoy::{ApiConfigSource, ConfigSource, EnvoyBootstrap, PathSource, Specifier},
    grpc::Bootstrap,
    guards::Guards,
    node::NodeIdentity,
    server::XdsServer,
};

impl Bootstrap {
    /// The client that the bootstrap describes, in gRPC's profile and without any resource type.
    #[must_use]
    pub fn client_config(&self) -> ClientConfig {
        let mut servers = self.servers.iter().map(|server| server.management_server(&self.guards));
        // Reading refuses a bootstrap without a server; one made by hand gets a server without URI.
        let first = servers.next().unwrap_or_else(|| ManagementServer::new(""));
        let mut config = ClientConfig::new(self.node.to_node(), first);
        config.servers.extend(servers);
        config.authorities.extend(self.authorities.iter().map(|(name, entry)| {
            let mut authority = Authority::new(name.clone());
            let servers = entry.servers.iter();
            authority.servers.extend(servers.map(|server| server.management_server(&self.guards)));
            authority
        }));
        if !self.guards.federation.is_on() {
            config.profile.federation = Federation::Off;
        }
        if !self.guards.fallback.is_on() {
            config.profile.fallback = Fallback::Off;
        }
        if !self.guards.data_errors.is_on() {
            config.profile.reported_errors = ReportedErrors::Ignored;
        }
        config
    }

    /// The entry that a server of [`Bootstrap::client_config`] was made from, for its credentials.
    #[must_use]
    pub fn entry_of(&self, server: &ManagementServer) -> Option<&XdsServer> {
        self.all_servers().find(|entry| entry.management_server(&self.guards) == *server)
    }
}

impl XdsServer {
    /// The server as the core sees it: aggregated, and the complete state, as gRPC has it. Its
    /// credentials are named, not told.
    #[must_use]
    pub fn management_server(&self, guards: &Guards) -> ManagementServer {
        let mut server = ManagementServer::new(self.uri.clone())
            .with_features(self.features.iter().copied().collect())
            .with_transport(self.transport_id());
        if !guards.data_errors.is_on() {
            // Before A88, a deletion dropped what was deleted (S3.100).
            let keeps = self.has(ServerFeature::IgnoreResourceDeletion);
            server.data_errors = Some(match keeps {
                true => DataErrorPolicy::KeepCached,
                false => DataErrorPolicy::DropDeleted,
            });
        }
        server
    }
}

/// Why a configuration says something that the core cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Inexpressible {
    /// Neither listeners nor clusters have a source.
    #[error("neither listeners nor clusters have a source")]
    NoSource,
    /// The node lacks what every request of a proxy must have (BS-15).
    #[error("{0} must not be empty")]
    Node(&'static str),
    /// The rate at which requests may be sent is none.
    #[error("rate_limit_settings: {0}")]
    RequestRate(#[from] InvalidRequestRate),
}

impl EnvoyBootstrap {
    /// The client that follows listeners and clusters as a proxy does, without any resource type. A
    /// server's URI is that of its first service: the cluster's name or the target. All of its services are
    /// in [`EnvoyBootstrap::transports`], under the name of the server's transport.
    ///
    /// Listeners and clusters come each from their source (S0.052): a server that is asked over gRPC or over
    /// REST, or a file. Resources of other types have sources of their own, which are in listeners and clusters. Until
    /// the application tells where these are ([`ClientConfig::with_source`]), they come from the aggregated
    /// stream where there is one, and otherwise from where listeners come from.
    ///
    /// Each of the two types waits as long as its source says (`initial_fetch_timeout`), other types the
    /// 15 s of a source that does not say, unless the application tells the configuration
    /// ([`ClientConfig::with_does_not_exist_after`]).
    ///
    /// Authorities are those that sources name, and all others have `default_config_source` (B20), each with
    /// the time of its source.
    ///
    /// A proxy holds resources against the constraints of its schema, which is not known here: `with_validated_types`
    /// of the adapters, after the types are registered, does that (X39).
    ///
    /// # Errors
    ///
    /// The configuration has no source, or one that says what no client can do; or the node has no id or no
    /// cluster (BS-15), which files do not need.
    pub fn client_config(&self) -> Result<ClientConfig, Inexpressible> {
        let server = |source: &ConfigSource| self.management_server(source);
        let of_types = [(types::LISTENER, &self.lds), (types::CLUSTER, &self.cds)];
        let of_types = of_types
            .into_iter()
            .filter_map(|(type_url, source)| Some((type_url, source.as_ref()?)))
            .map(|(type_url, source)| Ok((type_url, source, server(source)?)))
            .collect::<Result<Vec<_>, Inexpressible>>()?;
        let (_, _, first) = of_types.first().ok_or(Inexpressible::NoSource)?;
        // One stream speaks of types in one version: that of whoever is on it already.
        let aggregated = |(_, source, _): &&(_, &ConfigSource, _)| {
            matches!(source.specifier, Specifier::Ads | Specifier::SelfServer { .. })
        };
        let of_others = match (&self.ads, of_types.iter().find(aggregated)) {
            (Some(_), Some((_, _, server))) => server.clone(),
            (Some(ads), None) => self.api_server(ads, Streams::Aggregated)?,
            (None, _) => first.clone(),
        };
        if let Some(field) = self.node.missing_for_envoy().filter(|_| self.asks_servers()) {
            return Err(Inexpressible::Node(field));
        }
        let mut config = ClientConfig::new(self.node.to_node(), of_others.clone());
        config = config.with_profile(Profile::envoy());
        for (type_url, source, server) in of_types {
            config = config.with_does_not_exist_after(type_url, source.initial_fetch_timeout);
            if server != of_others {
                config = config.with_source(type_url, server);
            }
        }
        for source in &self.config_sources {
            for name in &source.authorities {
                let server = server(source)?;
                let authority = Authority::new(name.as_str()).with_server(server);
                let after = source.initial_fetch_timeout;
                config = config.with_authority(authority.with_missing_after(after));
            }
        }
        if let Some(source) = &self.default_config_source {
            config = config.with_other_authorities(server(source)?);
            config.others_missing_after = source.initial_fetch_timeout.into();
        }
        Ok(config)
    }

    /// The client of one more source, as listeners and clusters name them for what they refer to
    /// ([`NestedSource`](crate::envoy::NestedSource)); `None` where it is a client that is there already, that of
    /// [`EnvoyBootstrap::client_config`]: the source says `ads`, or `self` where nobody knows what that is.
    ///
    /// # Errors
    ///
    /// As those of [`EnvoyBootstrap::client_config`], for this source.
    pub fn nested_client_config(
        &self,
        type_url: &TypeUrl,
        source: &ConfigSource,
    ) -> Result<Option<ClientConfig>, Inexpressible> {
        if matches!(source.specifier, Specifier::Ads | Specifier::SelfServer { .. }) {
            return Ok(None);
        }
        let is_file = matches!(source.specifier, Specifier::Path(_));
        if let Some(field) = self.node.missing_for_envoy().filter(|_| !is_file) {
            return Err(Inexpressible::Node(field));
        }
        let config = ClientConfig::new(self.node.to_node(), self.management_server(source)?);
        let config = config.with_profile(Profile::envoy());
        let after = source.initial_fetch_timeout;
        Ok(Some(config.with_does_not_exist_after(type_url.clone(), after)))
    }

    /// Whether anybody is told the node. Files are not.
    fn asks_servers(&self) -> bool {
        let named = [&self.lds, &self.cds, &self.default_config_source].into_iter().flatten();
        let mut sources = named.chain(&self.config_sources);
        self.ads.is_some() || sources.any(|it| !matches!(it.specifier, Specifier::Path(_)))
    }

    /// The server that a source stands for, and how it is spoken to (S0.053, S0.054).
    fn management_server(&self, source: &ConfigSource) -> Result<ManagementServer, Inexpressible> {
        let mut server = match &source.specifier {
            Specifier::Path(file) => file.management_server(),
            Specifier::Api(api) if api.api_type.is_aggregated() => {
                self.api_server(api, Streams::Aggregated)?
            }
            Specifier::Api(api) => self.api_server(api, Streams::PerType)?,
            Specifier::Ads | Specifier::SelfServer { .. } => {
                let ads = self.ads.as_ref().ok_or(Inexpressible::NoSource)?;
                self.api_server(ads, Streams::Aggregated)?
            }
        };
        server.resource_api = source.resource_api_version.spoken();
        Ok(server)
    }

    fn api_server(
        &self,
        api: &ApiConfigSource,
        streams: Streams,
    ) -> Result<ManagementServer, Inexpressible> {
        let uri = api.target(0).ok_or(Inexpressible::NoSource)?.name();
        let variant = match api.api_type.is_incremental() {
            true => Variant::Incremental,
            false => Variant::StateOfTheWorld,
        };
        let mut server = ManagementServer::new(uri)
            .with_variant(variant)
            .with_streams(streams)
            .with_node_in(api.node)
            .with_transport(self.transport_id(api));
        server.transport_api = api.transport_api_version.spoken();
        if let Some(rest) = &api.rest {
            let policy = PollPolicy::envoy(rest.refresh_delay);
            server = server.with_polls(policy.with_request_timeout(rest.request_timeout));
        }
        if let Some(limit) = &api.rate_limit {
            let rate = RequestRate::new(limit.max_tokens, limit.fill_rate)?;
            server = server.with_request_rate(rate);
        }
        Ok(server)
    }
}

impl PathSource {
    /// The file as the core sees it: a server at its path, of every type that is asked of it (S0.010).
    #[must_use]
    pub fn management_server(&self) -> ManagementServer {
        let mut policy = FilePolicy::default();
        if let Some(directory) = &self.watched_directory {
            policy = policy.with_watched_directory(directory.to_string_lossy());
        }
        ManagementServer::new(self.path.to_string_lossy()).with_files(policy)
    }
}

impl NodeIdentity {
    /// The node as the core sends it; user agent and client features are the core's (SB-04).
    #[must_use]
    pub fn to_node(&self) -> Node {
        let mut node = Node::new(self.id.as_str()).with_cluster(self.cluster.as_str());
        if let Some(locality) = &self.locality {
            node = node.with_locality(locality.clone());
        }
        if let Some(metadata) = &self.metadata {
            node = node.with_metadata(metadata.clone());
        }
        node
    }
}
