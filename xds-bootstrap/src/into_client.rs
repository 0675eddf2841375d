//! From a configuration to a client of `xds-core`: what the core can be told today.

use std::{sync::Arc, time::Duration};

use thiserror::Error;
use xds_core::{
    client::{
        Authority, ClientConfig, DataErrorPolicy, Fallback, Federation, ManagementServer, Node,
        Profile, ServerFeatures,
    },
    service::Variant,
};

use crate::{
    envoy::{
        ApiConfigSource, ApiType, ConfigSource, EnvoyBootstrap, GrpcTarget, Specifier, Target,
    },
    grpc::Bootstrap,
    guards::Guards,
    node::NodeIdentity,
    server::{ServerFeature, XdsServer},
};

impl Bootstrap {
    /// The client that the bootstrap describes, in gRPC's profile and without any resource type:
    /// its servers in order, its authorities, and its node. Credentials stay with the bootstrap, for
    /// the adapter that dials. A guard that is off turns off what it guards.
    #[must_use]
    pub fn client_config(&self) -> ClientConfig {
        let mut servers = self.servers.iter().map(|server| server.management_server(&self.guards));
        // Reading refuses a bootstrap without a server; one made by hand gets a server without URI.
        let first = servers.next().unwrap_or_else(|| ManagementServer::new(""));
        let mut config = ClientConfig::new(self.node.to_node(), first);
        config = servers.fold(config, ClientConfig::with_fallback);
        for (name, entry) in &self.authorities {
            let servers = entry.servers.iter();
            let authority = servers.fold(Authority::new(Arc::clone(name)), |authority, server| {
                authority.with_server(server.management_server(&self.guards))
            });
            config = config.with_authority(authority);
        }
        if !self.guards.federation.is_on() {
            config.profile.federation = Federation::Off;
        }
        if !self.guards.fallback.is_on() {
            config.profile.fallback = Fallback::Off;
        }
        config
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
    /// Listeners and clusters have different sources.
    #[error("listeners and clusters come from different places")]
    SeveralSources,
    /// The source is a file.
    #[error("resources come from files")]
    File,
    /// The transport is another than gRPC with an aggregated stream.
    #[error("the transport is {0}")]
    Transport(&'static str),
}

impl EnvoyBootstrap {
    /// The client that follows the aggregated stream as a proxy does, without any resource type. The
    /// server's URI is the cluster's name or the target, of the first service.
    ///
    /// # Errors
    ///
    /// The configuration asks for another transport than the core has, or the node has no id or no
    /// cluster (BS-15).
    pub fn client_config(&self) -> Result<ClientConfig, Inexpressible> {
        let sources = [self.lds.as_ref(), self.cds.as_ref()];
        let mut server: Option<&ApiConfigSource> = None;
        let mut timeout = Some(Duration::ZERO);
        for source in sources.into_iter().flatten() {
            let api = self.aggregated(source)?;
            if server.is_some_and(|other| other != api) {
                return Err(Inexpressible::SeveralSources);
            }
            server = Some(api);
            // One timer serves both; the longer one gives up on neither too early.
            timeout = timeout.zip(source.initial_fetch_timeout).map(|(one, other)| one.max(other));
        }
        let api = server.ok_or(Inexpressible::NoSource)?;
        if let Some(field) = self.node.missing_for_envoy() {
            return Err(Inexpressible::Node(field));
        }
        let uri = match api.target(0) {
            Some(Target::Service(service)) => match &service.target {
                GrpcTarget::Envoy { cluster_name, .. } => cluster_name.as_str(),
                GrpcTarget::Google { target_uri, .. } => target_uri.as_str(),
            },
            Some(Target::RestCluster(_)) | None => return Err(Inexpressible::NoSource),
        };
        let mut profile = Profile::envoy();
        profile.does_not_exist_after = timeout;
        let variant = match api.api_type {
            ApiType::DeltaGrpc | ApiType::AggregatedDeltaGrpc => Variant::Incremental,
            _ => Variant::StateOfTheWorld,
        };
        let server = ManagementServer::new(uri).with_variant(variant);
        Ok(ClientConfig::new(self.node.to_node(), server).with_profile(profile))
    }

    /// The aggregated stream that a source stands for.
    fn aggregated<'a>(
        &'a self,
        source: &'a ConfigSource,
    ) -> Result<&'a ApiConfigSource, Inexpressible> {
        let api = match &source.specifier {
            Specifier::Path(_) => return Err(Inexpressible::File),
            Specifier::Api(api) if !api.api_type.is_aggregated() => {
                return Err(Inexpressible::Transport(api.api_type.name()));
            }
            Specifier::Api(api) => api,
            Specifier::Ads | Specifier::SelfServer { .. } => {
                self.ads.as_ref().ok_or(Inexpressible::NoSource)?
            }
        };
        match api.api_type {
            ApiType::Grpc
            | ApiType::DeltaGrpc
            | ApiType::AggregatedGrpc
            | ApiType::AggregatedDeltaGrpc => Ok(api),
            other => Err(Inexpressible::Transport(other.name())),
        }
    }
}

impl XdsServer {
    /// The server as the core sees it.
    #[must_use]
    pub fn management_server(&self, guards: &Guards) -> ManagementServer {
        // Reading has warned of what is old or unknown, and left out what a guard turns off.
        let (features, _) = ServerFeatures::parse(self.features.iter().map(|it| it.name()));
        let mut server = ManagementServer::new(self.uri.clone()).with_features(features);
        server.data_errors = if self.has(ServerFeature::FailOnDataErrors) {
            Some(DataErrorPolicy::DropCached)
        } else if guards.data_errors.is_on() {
            None
        } else if self.has(ServerFeature::IgnoreResourceDeletion) {
            Some(DataErrorPolicy::KeepCached)
        } else {
            // Before A88, a deletion dropped what was deleted (S3.100).
            Some(DataErrorPolicy::DropDeleted)
        };
        server
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
