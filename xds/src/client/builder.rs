//! Builder of a client.

use core::marker::PhantomData;
use std::sync::Arc;

use thiserror::Error;
use xds_bootstrap::{Bootstrap, BootstrapError};
#[cfg(feature = "files")]
use xds_core::client::FilePolicy;
#[cfg(feature = "rest")]
use xds_core::client::PollPolicy;
use xds_core::{
    TypeUrl,
    client::{ClientConfig, Node, Profile, ResourceType, ServerAddress, TransportKind},
    proto,
    service::Variant,
    types,
};
use xds_grpc::{
    ClientOptions, Credentials,
    client::{InvalidAddress, check_address},
    runtime::Runtime,
};

use super::{Client, decoder::LateDecoded};
use crate::message::ResourceMessage;

/// Types that every client can watch. Others are added with [`ClientBuilder::resource_type`].
const KNOWN_TYPES: [&str; 9] = [
    types::LISTENER,
    types::ROUTE_CONFIGURATION,
    types::SCOPED_ROUTE_CONFIGURATION,
    types::VIRTUAL_HOST,
    types::CLUSTER,
    types::CLUSTER_LOAD_ASSIGNMENT,
    types::SECRET,
    types::RUNTIME,
    types::EXTENSION_CONFIG,
];

/// Name of the transport with the credentials of [`ClientBuilder::credentials`].
const TRANSPORT: &str = "credentials";

/// Settings of a [`Client`] that has not been started.
#[derive(Debug)]
#[must_use = "a client does nothing before it is started"]
pub struct ClientBuilder<R> {
    config: ClientConfig,
    options: ClientOptions,
    node: proto::Node,
    /// Whether an invalid server address is an error of [`start`](Self::start). With a bootstrap it
    /// is not: the watches report it, and other servers may be in use.
    checks_addresses: bool,
    /// Types in addition to the known ones, with the numbers of their name fields.
    own_types: Vec<(&'static str, u32)>,
    #[cfg(feature = "validation")]
    validator: Option<xds_format::Validator>,
    runtime: PhantomData<fn() -> R>,
}

/// Reason why a client was not started.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address of the server is invalid.
    #[error("invalid server address {address:?}: {source}")]
    Address {
        /// The address.
        address: Arc<str>,
        /// Reason why it is invalid.
        source: InvalidAddress,
    },
    /// The path of a file with resources is empty.
    #[error("the path of the file with the resources is empty: name a file, such as \"cds.yaml\"")]
    NoFile,
    /// The node has no id. Most servers refuse such a client: set one with
    /// [`ClientBuilder::node_id`].
    #[error("the client has no node id: set one with `node_id` or in the bootstrap")]
    NoNodeId,
}

impl<R: Runtime + Default> ClientBuilder<R> {
    pub(super) fn to_server(address: &str) -> Self {
        let config = ClientConfig::new(Node::default(), ServerAddress::new(address));
        Self::new(config, ClientOptions::default(), true)
    }

    #[cfg(feature = "files")]
    pub(super) fn of_file(path: &str, policy: FilePolicy) -> Self {
        let file = ServerAddress::new(path).with_file(policy);
        Self::new(ClientConfig::new(Node::default(), file), ClientOptions::default(), true)
    }

    pub(super) fn of_bootstrap(bootstrap: &Bootstrap) -> Self {
        let options = ClientOptions::default().with_bootstrap(bootstrap);
        Self::new(bootstrap.client_config(), options, false)
    }

    pub(super) fn of_environment() -> Result<Self, BootstrapError> {
        Bootstrap::from_env().map(|bootstrap| Self::of_bootstrap(&bootstrap))
    }

    fn new(config: ClientConfig, options: ClientOptions, checks_addresses: bool) -> Self {
        let node = config.node.message().clone();
        Self {
            config,
            options,
            node,
            checks_addresses,
            own_types: Vec::new(),
            #[cfg(feature = "validation")]
            validator: None,
            runtime: PhantomData,
        }
    }

    /// Sets the id of the node, by which the management server identifies the client. Some servers,
    /// such as istiod, require a particular format.
    pub fn node_id(mut self, id: impl Into<String>) -> Self {
        self.node.id = id.into();
        self
    }

    /// Sets the cluster of the node: the name of the service that the client belongs to.
    pub fn node_cluster(mut self, cluster: impl Into<String>) -> Self {
        self.node.cluster = cluster.into();
        self
    }

    /// Sets the name and the version of the program, by which management servers can distinguish
    /// programs. Default: this library.
    pub fn user_agent(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        let node = Node::from(self.node).with_user_agent(name, version);
        self.node = node.message().clone();
        self
    }

    /// Sets the locality of the node. An empty string leaves a part unset.
    pub fn locality(
        mut self,
        region: impl Into<String>,
        zone: impl Into<String>,
        sub_zone: impl Into<String>,
    ) -> Self {
        self.node.locality = Some(proto::Locality {
            region: region.into(),
            zone: zone.into(),
            sub_zone: sub_zone.into(),
        });
        self
    }

    /// Sets the metadata of the node.
    pub fn metadata(mut self, metadata: proto::Struct) -> Self {
        self.node.metadata = Some(metadata);
        self
    }

    /// Sets TLS and call credentials for the first server. An address that begins with `https://`
    /// needs no credentials: the system's root certificates are trusted.
    pub fn credentials(mut self, credentials: Credentials) -> Self {
        if let Some(server) = self.config.servers.first_mut() {
            server.transport = TRANSPORT.into();
        }
        self.options = self.options.with_credentials(TRANSPORT.into(), credentials);
        self
    }

    /// Sets whether the client behaves like gRPC ([`Profile::grpc`], the default) or like Envoy
    /// ([`Profile::envoy`]).
    pub fn profile(mut self, profile: Profile) -> Self {
        self.config = self.config.with_profile(profile);
        self
    }

    /// Sets the variant of the protocol for the servers of names without an authority. Default:
    /// state of the world. The servers of [authorities](ClientConfig::authorities) keep their own
    /// setting, and so do servers that [`configure`](Self::configure) adds later. An incremental server
    /// reports immediately that a resource does not exist.
    pub fn variant(mut self, variant: Variant) -> Self {
        for server in &mut self.config.servers {
            server.variant = variant;
        }
        self
    }

    /// Polls the servers of names without an authority over REST-JSON instead of opening streams, except
    /// for servers that [`configure`](Self::configure) adds later.
    #[cfg(feature = "rest")]
    pub fn polling(mut self, policy: PollPolicy) -> Self {
        for server in &mut self.config.servers {
            *server = server.clone().with_polling(policy.clone());
        }
        self
    }

    /// Registers a resource type that the Envoy API does not define. REST and files need the type in a
    /// schema too, because they contain JSON: set it with `ClientOptions::with_schema` in
    /// [`transport`](Self::transport).
    pub fn resource_type<T: ResourceMessage>(mut self) -> Self {
        self.own_types.push((T::TYPE_URL, T::name_field()));
        self
    }

    /// Rejects resources that violate a constraint of the schema, as Envoy does; usually
    /// [`Validator::envoy`](xds_format::Validator::envoy).
    #[cfg(feature = "validation")]
    pub fn validate(mut self, validator: &xds_format::Validator) -> Self {
        self.validator = Some(validator.clone());
        self
    }

    /// Changes settings for which the builder has no method. The node of this configuration is ignored:
    /// use [`node_id`](Self::node_id) and the methods after it.
    pub fn configure(mut self, change: impl FnOnce(ClientConfig) -> ClientConfig) -> Self {
        self.config = change(self.config);
        self
    }

    /// Changes settings of the transport for which the builder has no method.
    pub fn transport(mut self, change: impl FnOnce(ClientOptions) -> ClientOptions) -> Self {
        self.options = change(self.options);
        self
    }

    /// Starts the client. It connects when the first resource is watched, and ends when the last
    /// [`Client`] and the last watch are dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if the address of the server is invalid or the node has no id.
    ///
    /// # Panics
    ///
    /// Panics if tasks cannot be spawned; with tokio, outside of a runtime.
    pub fn start(self) -> Result<Client<R>, StartError> {
        self.start_on(R::default())
    }

    /// Starts the client like [`start`](Self::start), on a given runtime, such as that of the
    /// application or a simulated host.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`start`](Self::start).
    ///
    /// # Panics
    ///
    /// Panics like [`start`](Self::start).
    pub fn start_on(mut self, runtime: impl Runtime) -> Result<Client<R>, StartError> {
        // A file has a path instead of an address, and nobody learns the node.
        let is_file =
            |server: &&ServerAddress| matches!(server.transport_kind, TransportKind::File(_));
        for server in self.config.servers.iter().filter(|it| self.checks_addresses && !is_file(it))
        {
            check_address(&server.uri).map_err(|source| {
                let address = Arc::clone(&server.uri);
                StartError::Address { address, source }
            })?;
        }
        if self.config.servers.iter().any(|it| is_file(&it) && it.uri.is_empty()) {
            return Err(StartError::NoFile);
        }
        if self.node.id.is_empty() && !self.config.servers.iter().all(|it| is_file(&it)) {
            return Err(StartError::NoNodeId);
        }
        self.config.node = self.node.into();
        let registered: Vec<_> = self.config.types.iter().map(|it| it.type_url().clone()).collect();
        // The Envoy API has all names in field 1.
        let known = KNOWN_TYPES.into_iter().map(|it| (it, 1)).chain(self.own_types);
        let mut decoders: Vec<Arc<LateDecoded>> = Vec::new();
        for (type_url, name_field) in known {
            let type_url = TypeUrl::from(type_url);
            let is_there = registered.contains(&type_url)
                || decoders.iter().any(|decoder| *decoder.type_url() == type_url);
            if !is_there {
                let decoder = Arc::new(LateDecoded::new(type_url, name_field));
                self.config = self.config.with_type(Arc::clone(&decoder));
                decoders.push(decoder);
            }
        }
        #[cfg(feature = "validation")]
        if let Some(validator) = &self.validator {
            use xds_handle::ValidatedTypes as _;

            self.config = self.config.with_validated_types(validator);
        }
        let handle = xds_grpc::client::connect(runtime, self.config, self.options);
        Ok(Client::new(handle, decoders))
    }
}
