//! Conversion of a gRPC bootstrap to the configuration of an `xds-core` client.
//!
//! It covers servers, authorities, the node, and the features that switches disable. It does not
//! cover credentials: each server has only a transport id, by which the adapter finds them
//! ([`Bootstrap::all_servers`]).

use xds_core::client::{
    AuthorityConfig, ClientConfig, DataErrorPolicy, Fallback, Federation, Node, ReportedErrors,
    ServerAddress, ServerFeature,
};

use crate::{
    feature_switches::FeatureSwitches, grpc::Bootstrap, node::NodeIdentity, server::XdsServer,
};

impl Bootstrap {
    /// Returns the client configuration of the bootstrap, with gRPC's profile and without resource
    /// types.
    #[must_use]
    pub fn client_config(&self) -> ClientConfig {
        let mut servers =
            self.servers.iter().map(|server| server.management_server(&self.feature_switches));
        // Parsing rejects a bootstrap without servers. One built in code gets a server without URI.
        let first = servers.next().unwrap_or_else(|| ServerAddress::new(""));
        let mut config = ClientConfig::new(self.node.to_node(), first);
        config.servers.extend(servers);
        config.authorities.extend(self.authorities.iter().map(|(name, entry)| {
            let mut authority = AuthorityConfig::new(name.clone());
            let servers = entry.servers.iter();
            authority
                .servers
                .extend(servers.map(|server| server.management_server(&self.feature_switches)));
            authority
        }));
        if !self.feature_switches.federation.is_on() {
            config.profile.federation = Federation::Off;
        }
        if !self.feature_switches.fallback.is_on() {
            config.profile.fallback = Fallback::Off;
        }
        if !self.feature_switches.data_errors.is_on() {
            config.profile.reported_errors = ReportedErrors::Ignored;
        }
        config
    }

    /// Returns the entry from which a server of [`Bootstrap::client_config`] was made, for example
    /// to find its credentials.
    #[must_use]
    pub fn entry_of(&self, server: &ServerAddress) -> Option<&XdsServer> {
        self.all_servers().find(|entry| entry.management_server(&self.feature_switches) == *server)
    }
}

impl XdsServer {
    /// Returns the server for the core, with an aggregated state-of-the-world stream as in gRPC.
    ///
    /// Its [transport id](XdsServer::transport_id) identifies the credentials.
    #[must_use]
    pub fn management_server(&self, switches: &FeatureSwitches) -> ServerAddress {
        let mut server = ServerAddress::new(self.uri.clone())
            .with_features(self.features.iter().copied().collect())
            .with_transport(self.transport_id());
        if !switches.data_errors.is_on() {
            // Before A88, a deleted resource was dropped (S3.100).
            let keeps = self.has(ServerFeature::IgnoreResourceDeletion);
            server.data_errors = Some(match keeps {
                true => DataErrorPolicy::KeepCached,
                false => DataErrorPolicy::DropDeleted,
            });
        }
        server
    }
}

impl NodeIdentity {
    /// Returns the node that the core sends. The core adds the user agent and the client features.
    // SB-04
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
