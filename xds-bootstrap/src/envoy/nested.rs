//! Sources that resources name for what they refer to: routes, scopes, endpoints, secrets, extensions (S0.052).

use serde_json::Value;
use xds_core::{TypeUrl, client::Interest, types, xdstp::Authority};

use super::{
    bootstrap::{EnvoyBootstrap, interest},
    message::{Message, read_bool},
    source::ConfigSource,
};
use crate::{error::BootstrapError, json::Field};

/// What a resource refers to, and where it says that it comes from.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct NestedSource {
    /// The type of what is referred to.
    pub type_url: TypeUrl,
    /// Which resources of the type.
    pub wanted: Wanted,
    /// Where they come from. [`self`](super::Specifier::SelfServer) stands here only where it is not known where the
    /// referring resource came from.
    pub source: ConfigSource,
    /// Of scopes: where the routes that they name come from, which the listener says. `None` for all else, and where
    /// it does not.
    pub routes: Option<ConfigSource>,
}

/// Which resources a reference is to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Wanted {
    /// The one of this name.
    Named(String),
    /// Those of a collection, or all there are where it has no name: the scopes of a listener.
    Collection(Option<String>),
}

impl Wanted {
    /// The name of the resource or of the collection.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Named(name) => Some(name),
            Self::Collection(name) => name.as_deref(),
        }
    }

    /// What to watch.
    #[must_use]
    pub fn interest(&self) -> Interest<'_> {
        match self {
            Self::Named(name) => Interest::Name(name),
            Self::Collection(name) => interest(name.as_deref()),
        }
    }
}

impl EnvoyBootstrap {
    /// What a resource in proto3's JSON form refers to, in its order:
    ///
    /// | a resource | refers to |
    /// |---|---|
    /// | listener | routes and scopes of every HTTP connection manager, routes of the scopes that stand in it, secrets of TLS contexts, extensions of filters |
    /// | scope | routes, from where the listener says that they come |
    /// | cluster | endpoints, secrets of TLS contexts |
    ///
    /// Other types have none that are read here; what names no source is a static one. Routes that a scope loads on
    /// demand only are not referred to.
    ///
    /// `via` is the reference that the resource was watched for. Without one it is of those that the bootstrap itself
    /// says where to get. Either way it is known where it came from, and a source that says `self` is that one.
    ///
    /// # Errors
    ///
    /// What is wrong in a source, and in which field.
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
        let mut found = Found { origin, references: Vec::new() };
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

    /// Where a listener or cluster of this name comes from.
    fn origin(&self, type_url: &str, name: &str) -> Option<&ConfigSource> {
        match (type_url, Authority::of(name)) {
            (_, Ok(Authority::Named(authority))) => self.source_of(&authority),
            (types::LISTENER, _) => self.lds.as_ref(),
            (types::CLUSTER, _) => self.cds.as_ref(),
            _ => None,
        }
    }
}

struct Found<'b> {
    /// What `self` stands for.
    origin: Option<&'b ConfigSource>,
    references: Vec<NestedSource>,
}

impl Found<'_> {
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

    /// The configuration of a filter may come by itself.
    fn in_filter(&mut self, filter: &Message<'_>) -> Result<(), BootstrapError> {
        let Some(discovery) = filter.get("config_discovery") else { return Ok(()) };
        let source = Message::open(discovery)?.get("config_source");
        self.add(types::EXTENSION_CONFIG, filter.string("name")?, source)
    }

    /// Of filters only connection managers of HTTP have these fields.
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

    /// Scopes stand in the listener or are asked for; the routes that they name come from one source in either case.
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
            let wanted = Wanted::Collection(collection);
            self.references.push(NestedSource { type_url, wanted, source, routes });
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

    /// Without a source it is a static one, or comes from where its owner does.
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
        let (type_url, wanted) = (TypeUrl::from(type_url), Wanted::Named(name));
        self.references.push(NestedSource { type_url, wanted, source, routes: None });
    }

    fn read(&self, source: Option<Field<'_>>) -> Result<Option<ConfigSource>, BootstrapError> {
        let source = source.map(ConfigSource::read).transpose()?;
        Ok(source.map(|source| source.seen_from(self.origin)))
    }
}
