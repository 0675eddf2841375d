//! Sources that listeners and clusters name for what they refer to: routes, endpoints, secrets (S0.052).

use serde_json::Value;
use xds_core::{TypeUrl, types};

use super::{message::Message, source::ConfigSource};
use crate::{error::BootstrapError, json::Field};

/// What a resource refers to, and where it says that it comes from.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct NestedSource {
    /// The type of what is referred to.
    pub type_url: TypeUrl,
    /// Its name.
    pub name: String,
    /// Where it comes from.
    pub source: ConfigSource,
}

impl NestedSource {
    /// The references of a listener or a cluster in proto3's JSON form, in its order: routes of every HTTP connection manager,
    /// endpoints, and secrets of TLS contexts. Other types of resources have none that are read here; what names
    /// no source refers to the resource's own.
    ///
    /// # Errors
    ///
    /// What is wrong in a source, and in which field.
    pub fn in_resource(type_url: &str, resource: &Value) -> Result<Vec<Self>, BootstrapError> {
        let mut found = Found::default();
        let top = Message::open(Field::root(resource))?;
        match type_url {
            types::LISTENER => found.in_listener(&top)?,
            types::CLUSTER => found.in_cluster(&top)?,
            _ => {}
        }
        Ok(found.0)
    }
}

#[derive(Default)]
struct Found(Vec<NestedSource>);

impl Found {
    fn in_listener(&mut self, listener: &Message<'_>) -> Result<(), BootstrapError> {
        let mut chains = listener.elements("filter_chains")?;
        chains.extend(listener.get("default_filter_chain"));
        for chain in chains {
            let chain = Message::open(chain)?;
            for filter in chain.elements("filters")? {
                if let Some(config) = Message::open(filter)?.get("typed_config") {
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

    /// Of filters only connection managers of HTTP have the field.
    fn in_connection_manager(&mut self, config: Field<'_>) -> Result<(), BootstrapError> {
        let Some(rds) = Message::open(config)?.get("rds") else { return Ok(()) };
        let rds = Message::open(rds)?;
        let name = rds.string("route_config_name")?;
        self.add(types::ROUTE_CONFIGURATION, name, rds.get("config_source"))
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
        if let Some(source) = source {
            let type_url = TypeUrl::from(type_url);
            self.0.push(NestedSource { type_url, name, source: ConfigSource::read(source)? });
        }
        Ok(())
    }
}
