//! Sources in listeners, clusters and scopes for the resources that these refer to: routes, scopes,
//! endpoints, secrets and extensions.
// S0.052

use serde_json::Value;
use xds_core::{TypeUrl, client::Interest, types, xdstp::Authority};

use super::{
    bootstrap::{EnvoyBootstrap, interest},
    message::{Message, read_bool},
    source::ConfigSource,
};
use crate::{error::BootstrapError, json::Field};

/// Reference of a resource to another one, with its source.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct NestedSource {
    /// Type of the referenced resource.
    pub type_url: TypeUrl,
    /// Resources of the type that are referenced.
    pub selection: ResourceSelection,
    /// Source of the referenced resource. It is [`self`](super::Specifier::SelfServer) only if the
    /// origin of the referring resource is unknown.
    pub source: ConfigSource,
    /// For scopes, the source of the routes that they name, if the listener has one. `None` for
    /// other types.
    pub routes: Option<ConfigSource>,
}

/// Resources that a reference selects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ResourceSelection {
    /// The resource of this name.
    Named(String),
    /// The scopes of a listener: those of the named collection, or all if there is no name.
    Collection(Option<String>),
}

impl ResourceSelection {
    /// Returns the name of the resource or of the collection.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Named(name) => Some(name),
            Self::Collection(name) => name.as_deref(),
        }
    }

    /// Returns the interest with which a client watches the resources.
    #[must_use]
    pub fn interest(&self) -> Interest<'_> {
        match self {
            Self::Named(name) => Interest::Name(name),
            Self::Collection(name) => interest(name.as_deref()),
        }
    }
}

impl EnvoyBootstrap {
    /// Returns the references of a resource in proto3 JSON form, in its order:
    ///
    /// - A listener refers to routes and scopes of each HTTP connection manager, routes of inline
    ///   scopes, secrets of TLS contexts, and extensions of filters.
    /// - A scope refers to routes, from the source given in the listener.
    /// - A cluster refers to endpoints, and secrets of TLS contexts.
    ///
    /// Other types have no references here. A reference without a source is to a static resource.
    /// Routes that a scope loads on demand are not included.
    ///
    /// `via` is the reference through which the resource was obtained; `None` means that its source
    /// is in the bootstrap. It determines the source that `self` means.
    ///
    /// # Errors
    ///
    /// Returns an error if a source is invalid.
    pub fn references(
        &self,
        via: Option<&NestedSource>,
        type_url: &str,
        name: &str,
        resource: &Value,
    ) -> Result<Vec<NestedSource>, BootstrapError> {
        let origin = match via {
            Some(via) => Some(&via.source),
            None => self.origin(type_url, name),
        };
        let mut found = References { origin, references: Vec::new() };
        let top = Message::open(Field::root(resource))?;
        match type_url {
            types::LISTENER => found.in_listener(&top)?,
            types::CLUSTER => found.in_cluster(&top)?,
            types::SCOPED_ROUTE_CONFIGURATION => {
                found.in_scope(&top, via.and_then(|via| via.routes.as_ref()))?;
            }
            _ => {}
        }
        Ok(found.references)
    }

    /// Returns the source of a listener or cluster, from the bootstrap.
    fn origin(&self, type_url: &str, name: &str) -> Option<&ConfigSource> {
        match (type_url, Authority::of(name)) {
            (_, Ok(Authority::Named(authority))) => self.source_of(&authority),
            (types::LISTENER, _) => self.lds.as_ref(),
            (types::CLUSTER, _) => self.cds.as_ref(),
            _ => None,
        }
    }
}

struct References<'b> {
    /// Source that `self` means.
    origin: Option<&'b ConfigSource>,
    references: Vec<NestedSource>,
}

impl References<'_> {
    fn in_listener(&mut self, listener: &Message<'_>) -> Result<(), BootstrapError> {
        for filter in listener.elements("listener_filters")? {
            self.in_filter(&Message::open(filter)?)?;
        }
        let mut chains = listener.elements("filter_chains")?;
        chains.extend(listener.get("default_filter_chain"));
        for chain in chains {
            let chain = Message::open(chain)?;
            for filter in chain.elements("filters")? {
                let filter = Message::open(filter)?;
                self.in_filter(&filter)?;
                if let Some(config) = filter.get("typed_config") {
                    self.in_connection_manager(config)?;
                }
            }
            self.in_transport_socket(&chain)?;
        }
        let api = listener.get("api_listener").map(Message::open).transpose()?;
        match api.and_then(|api| api.get("api_listener")) {
            Some(manager) => self.in_connection_manager(manager),
            None => Ok(()),
        }
    }

    /// Adds the extension of a filter that gets its configuration from a source.
    fn in_filter(&mut self, filter: &Message<'_>) -> Result<(), BootstrapError> {
        let Some(discovery) = filter.get("config_discovery") else { return Ok(()) };
        let source = Message::open(discovery)?.get("config_source");
        self.add(types::EXTENSION_CONFIG, filter.string("name")?, source)
    }

    /// Adds the references of an HTTP connection manager. Other filters do not have these fields.
    fn in_connection_manager(&mut self, config: Field<'_>) -> Result<(), BootstrapError> {
        let manager = Message::open(config)?;
        if let Some(rds) = manager.get("rds") {
            let rds = Message::open(rds)?;
            let name = rds.string("route_config_name")?;
            self.add(types::ROUTE_CONFIGURATION, name, rds.get("config_source"))?;
        }
        if let Some(scoped) = manager.get("scoped_routes") {
            self.in_scoped_routes(&Message::open(scoped)?)?;
        }
        for filter in manager.elements("http_filters")? {
            self.in_filter(&Message::open(filter)?)?;
        }
        Ok(())
    }

    /// Adds scopes, or the routes of inline scopes. The routes of both come from one source.
    fn in_scoped_routes(&mut self, scoped: &Message<'_>) -> Result<(), BootstrapError> {
        let routes = self.read(scoped.get("rds_config_source"))?;
        if let Some(list) = scoped.get("scoped_route_configurations_list") {
            for scope in Message::open(list)?.elements("scoped_route_configurations")? {
                self.in_scope(&Message::open(scope)?, routes.as_ref())?;
            }
        }
        let Some(asked) = scoped.get("scoped_rds") else { return Ok(()) };
        let asked = Message::open(asked)?;
        let collection = Some(asked.string("srds_resources_locator")?).filter(|it| !it.is_empty());
        if let Some(source) = self.read(asked.get("scoped_rds_config_source"))? {
            let type_url = TypeUrl::from(types::SCOPED_ROUTE_CONFIGURATION);
            let selection = ResourceSelection::Collection(collection);
            self.references.push(NestedSource { type_url, selection, source, routes });
        }
        Ok(())
    }

    fn in_scope(
        &mut self,
        scope: &Message<'_>,
        routes: Option<&ConfigSource>,
    ) -> Result<(), BootstrapError> {
        let is_on_demand =
            scope.get("on_demand").map_or(Ok(false), |on_demand| read_bool(&on_demand))?;
        let name = scope.string("route_configuration_name")?;
        if let Some(source) = routes.filter(|_| !is_on_demand && !name.is_empty()) {
            self.push(types::ROUTE_CONFIGURATION, name, source.clone());
        }
        Ok(())
    }

    fn in_cluster(&mut self, cluster: &Message<'_>) -> Result<(), BootstrapError> {
        if let Some(eds) = cluster.get("eds_cluster_config") {
            let eds = Message::open(eds)?;
            let name = match eds.string("service_name")? {
                name if name.is_empty() => cluster.string("name")?,
                name => name,
            };
            self.add(types::CLUSTER_LOAD_ASSIGNMENT, name, eds.get("eds_config"))?;
        }
        self.in_transport_socket(cluster)
    }

    fn in_transport_socket(&mut self, owner: &Message<'_>) -> Result<(), BootstrapError> {
        let mut at = owner.get("transport_socket");
        for name in ["typed_config", "common_tls_context"] {
            at = at.map(Message::open).transpose()?.and_then(|message| message.get(name));
        }
        let Some(context) = at.map(Message::open).transpose()? else { return Ok(()) };
        let mut secrets = context.elements("tls_certificate_sds_secret_configs")?;
        let own = "validation_context_sds_secret_config";
        secrets.extend(context.get(own));
        if let Some(combined) = context.get("combined_validation_context") {
            secrets.extend(Message::open(combined)?.get(own));
        }
        for secret in secrets {
            let secret = Message::open(secret)?;
            self.add(types::SECRET, secret.string("name")?, secret.get("sds_config"))?;
        }
        Ok(())
    }

    /// Adds a reference, if it has a source. Without one, it is to a static resource.
    fn add(
        &mut self,
        type_url: &str,
        name: String,
        source: Option<Field<'_>>,
    ) -> Result<(), BootstrapError> {
        if let Some(source) = self.read(source)? {
            self.push(type_url, name, source);
        }
        Ok(())
    }

    fn push(&mut self, type_url: &str, name: String, source: ConfigSource) {
        let (type_url, selection) = (TypeUrl::from(type_url), ResourceSelection::Named(name));
        self.references.push(NestedSource { type_url, selection, source, routes: None });
    }

    fn read(&self, source: Option<Field<'_>>) -> Result<Option<ConfigSource>, BootstrapError> {
        let source = source.map(ConfigSource::read).transpose()?;
        Ok(source.map(|source| source.resolve_self(self.origin)))
    }
}
