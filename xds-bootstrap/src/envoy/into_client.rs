//! Conversion of an Envoy bootstrap to the configuration of an `xds-core` client.
//!
//! It does not cover gRPC services: each server has only a transport id, by which the adapter finds
//! the services ([`EnvoyBootstrap::transports`]).

use thiserror::Error;
use xds_core::{
    TypeUrl,
    client::{
        AuthorityConfig, ClientConfig, FilePolicy, InvalidRequestRate, PollPolicy, Profile,
        RequestRate, ServerAddress, Streams,
    },
    service::Variant,
    types,
};

use super::{ApiConfigSource, ConfigSource, EnvoyBootstrap, PathSource, Specifier};

/// Error for a configuration that the core does not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UnsupportedConfig {
    /// The configuration has no source for listeners or clusters.
    #[error("neither listeners nor clusters have a config source")]
    NoSource,
    /// A source uses the aggregated stream, which the configuration lacks.
    #[error("a config source uses the aggregated stream, but ads_config is missing")]
    NoAggregatedStream,
    /// A source of type API has neither services nor cluster names.
    #[error("an API config source has no server")]
    NoServer,
    /// The node lacks a field that Envoy requires.
    // BS-15
    #[error("{0} must not be empty")]
    Node(&'static str),
    /// The rate limit of requests is invalid.
    #[error("rate_limit_settings: {0}")]
    RequestRate(#[from] InvalidRequestRate),
}

impl EnvoyBootstrap {
    /// Returns the configuration of a client that obtains listeners and clusters as Envoy does,
    /// without resource types.
    ///
    /// The URI of a server is the cluster name or the target of its first service. All services are
    /// in [`EnvoyBootstrap::transports`], under the transport id of the server.
    ///
    /// Listeners and clusters each have their own source: a server over gRPC or REST, or a file.
    /// Resources of other types have sources that listeners and clusters name. Unless the
    /// application sets these ([`ClientConfig::with_source`]), the resources come from the
    /// aggregated stream if there is one, otherwise from the source of listeners (or of clusters,
    /// if listeners have none).
    ///
    /// The does-not-exist timeout of listeners and clusters is the `initial_fetch_timeout` of their
    /// source. For other types it is 15 s, the default of a source, unless the application sets it
    /// ([`ClientConfig::with_does_not_exist_timeout`]).
    ///
    /// Each authority that a source names uses that source. All other authorities use
    /// `default_config_source`. Each has the timeout of its source.
    ///
    /// Envoy validates resources against the constraints of its schema, which is not part of this
    /// crate. To do the same, call `with_validated_types` of `xds-handle` after registering the
    /// types.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no source, a source is not supported, or a server is used and
    /// the node has no id or cluster.
    // S0.052, B20, BS-15, X39
    pub fn client_config(&self) -> Result<ClientConfig, UnsupportedConfig> {
        let server = |source: &ConfigSource| self.management_server(source);
        let of_types = [(types::LISTENER, &self.lds), (types::CLUSTER, &self.cds)];
        let of_types = of_types
            .into_iter()
            .filter_map(|(type_url, source)| Some((type_url, source.as_ref()?)))
            .map(|(type_url, source)| Ok((type_url, source, server(source)?)))
            .collect::<Result<Vec<_>, UnsupportedConfig>>()?;
        let (_, _, first) = of_types.first().ok_or(UnsupportedConfig::NoSource)?;
        // An aggregated stream has one API version: that of the first type on it.
        let aggregated = |(_, source, _): &&(_, &ConfigSource, _)| {
            matches!(source.specifier, Specifier::Ads | Specifier::SelfServer { .. })
        };
        let of_others = match (&self.ads, of_types.iter().find(aggregated)) {
            (Some(_), Some((_, _, server))) => server.clone(),
            (Some(ads), None) => self.api_server(ads, Streams::Aggregated)?,
            (None, _) => first.clone(),
        };
        if let Some(field) = self.node.missing_for_envoy().filter(|_| self.asks_servers()) {
            return Err(UnsupportedConfig::Node(field));
        }
        let mut config = ClientConfig::new(self.node.to_node(), of_others.clone());
        config = config.with_profile(Profile::envoy());
        for (type_url, source, server) in of_types {
            config = config.with_does_not_exist_timeout(type_url, source.initial_fetch_timeout);
            if server != of_others {
                config = config.with_source(type_url, server);
            }
        }
        for source in &self.config_sources {
            for name in &source.authorities {
                let server = server(source)?;
                let authority = AuthorityConfig::new(name.as_str()).with_server(server);
                let after = source.initial_fetch_timeout;
                config = config.with_authority(authority.with_does_not_exist_timeout(after));
            }
        }
        if let Some(source) = &self.default_config_source {
            config = config.with_other_authorities(server(source)?);
            config.other_authorities_timeout = source.initial_fetch_timeout.into();
        }
        Ok(config)
    }

    /// Returns the configuration of a client for another source, named by a listener or cluster
    /// ([`NestedSource`](crate::envoy::NestedSource)).
    ///
    /// Returns `None` if the client of [`EnvoyBootstrap::client_config`] is to be used: for the
    /// source `ads`, and for `self` if the origin is unknown.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`EnvoyBootstrap::client_config`] that concern this source.
    pub fn nested_client_config(
        &self,
        type_url: &TypeUrl,
        source: &ConfigSource,
    ) -> Result<Option<ClientConfig>, UnsupportedConfig> {
        if matches!(source.specifier, Specifier::Ads | Specifier::SelfServer { .. }) {
            return Ok(None);
        }
        let is_file = matches!(source.specifier, Specifier::Path(_));
        if let Some(field) = self.node.missing_for_envoy().filter(|_| !is_file) {
            return Err(UnsupportedConfig::Node(field));
        }
        let config = ClientConfig::new(self.node.to_node(), self.management_server(source)?);
        let config = config.with_profile(Profile::envoy());
        let after = source.initial_fetch_timeout;
        Ok(Some(config.with_does_not_exist_timeout(type_url.clone(), after)))
    }

    /// Whether any source is a server, which receives the node. Files do not.
    fn asks_servers(&self) -> bool {
        let named = [&self.lds, &self.cds, &self.default_config_source].into_iter().flatten();
        let mut sources = named.chain(&self.config_sources);
        self.ads.is_some() || sources.any(|it| !matches!(it.specifier, Specifier::Path(_)))
    }

    /// Returns the server of a source, with its protocol variant and streams.
    // S0.053, S0.054
    fn management_server(&self, source: &ConfigSource) -> Result<ServerAddress, UnsupportedConfig> {
        let mut server = match &source.specifier {
            Specifier::Path(file) => file.management_server(),
            Specifier::Api(api) if api.api_type.is_aggregated() => {
                self.api_server(api, Streams::Aggregated)?
            }
            Specifier::Api(api) => self.api_server(api, Streams::PerType)?,
            Specifier::Ads | Specifier::SelfServer { .. } => {
                let ads = self.ads.as_ref().ok_or(UnsupportedConfig::NoAggregatedStream)?;
                self.api_server(ads, Streams::Aggregated)?
            }
        };
        server.resource_api = source.resource_api_version.protocol_version();
        Ok(server)
    }

    fn api_server(
        &self,
        api: &ApiConfigSource,
        streams: Streams,
    ) -> Result<ServerAddress, UnsupportedConfig> {
        let uri = api.target(0).ok_or(UnsupportedConfig::NoServer)?.name();
        let variant = match api.api_type.is_incremental() {
            true => Variant::Incremental,
            false => Variant::StateOfTheWorld,
        };
        let mut server = ServerAddress::new(uri)
            .with_variant(variant)
            .with_streams(streams)
            .with_send_node(api.node)
            .with_transport(self.transport_id(api));
        server.transport_api = api.transport_api_version.protocol_version();
        if let Some(rest) = &api.rest {
            let policy = PollPolicy::envoy(rest.refresh_delay);
            server = server.with_polling(policy.with_request_timeout(rest.request_timeout));
        }
        if let Some(limit) = &api.rate_limit {
            let rate = RequestRate::new(limit.max_tokens, limit.fill_rate)?;
            server = server.with_request_rate(rate);
        }
        Ok(server)
    }
}

impl PathSource {
    /// Returns the file as a server of the core, with its path as the URI and for all types.
    // S0.010
    #[must_use]
    pub fn management_server(&self) -> ServerAddress {
        let mut policy = FilePolicy::default();
        if let Some(directory) = &self.watched_directory {
            policy = policy.with_watched_directory(directory.to_string_lossy());
        }
        ServerAddress::new(self.path.to_string_lossy()).with_file(policy)
    }
}
