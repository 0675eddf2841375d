//! gRPC's bootstrap: one JSON object that names servers, authorities and the node (A27, A47, A71).

use std::{collections::BTreeMap, sync::Arc};

use thiserror::Error;
use xds_core::{ResourceName, xdstp::ListenerTemplate};

use crate::{
    credentials::{CallCredentials, ChannelCredentials, TlsFiles},
    error::{BootstrapError, ErrorKind, Warning, WarningKind},
    guards::Guards,
    json::{self, Field, RawJson},
    node::NodeIdentity,
    server::XdsServer,
};

/// A bootstrap as gRPC clients read it.
///
/// Fields that are not known are passed over at every level (BS-10); what is known is checked in
/// full, so a bootstrap that loads can be used.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Bootstrap {
    /// The servers in order of preference; at least one (BS-04, BS-14).
    pub servers: Vec<XdsServer>,
    /// Who answers for names with an authority. The empty text is a key like any other (FE-04).
    pub authorities: BTreeMap<Arc<str>, AuthorityEntry>,
    /// Who the client is; empty where the bootstrap does not say (BS-15).
    pub node: NodeIdentity,
    /// Makes listener names of targets without an authority; `%s` by default (BS-19).
    pub client_default_listener_template: ListenerTemplate,
    /// Makes the names of the listeners that a server asks for (A36).
    pub server_listener_template: Option<ListenerTemplate>,
    /// Instances of certificate providers by name, for the data plane (B24).
    pub certificate_providers: BTreeMap<String, CertificateProvider>,
    /// The services other than xDS that configuration may point to, by target (A102).
    pub allowed_grpc_services: BTreeMap<String, AllowedService>,
    /// The guards it was read with.
    pub guards: Guards,
    /// What its author should know about.
    pub warnings: Vec<Warning>,
}

/// What a bootstrap says about one authority.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthorityEntry {
    /// Makes the names of listeners within the authority.
    pub client_listener_template: ListenerTemplate,
    /// The servers in order of preference; none means those of the top level (FE-03, BS-21).
    pub servers: Vec<XdsServer>,
}

/// An instance of a certificate provider, kept for the plugin that knows what it means (BS-22).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CertificateProvider {
    /// Which plugin it is.
    pub plugin_name: String,
    /// What the plugin is told.
    pub config: RawJson,
}

impl CertificateProvider {
    /// The files that an instance of the plugin `file_watcher` watches (A29); `None` if it is of another one.
    ///
    /// # Errors
    ///
    /// What is wrong with its configuration, and in which field.
    pub fn file_watcher(&self) -> Result<Option<TlsFiles>, BootstrapError> {
        if self.plugin_name != "file_watcher" {
            return Ok(None);
        }
        TlsFiles::read(Some(&Field::root(self.config.value()))).map(Some)
    }
}

/// How to reach a service that is no management server (BS-24).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AllowedService {
    /// How the channel is secured.
    pub channel_credentials: ChannelCredentials,
    /// What calls carry, all of it.
    pub call_credentials: Arc<[CallCredentials]>,
}

/// A target names an authority that the bootstrap does not have (FE-20).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("authority {0:?} is not in the bootstrap")]
pub struct UnknownAuthority(
    /// The authority of the target.
    pub String,
);

impl Bootstrap {
    /// Reads a bootstrap with all guards on.
    ///
    /// # Errors
    ///
    /// What is wrong, and in which field.
    pub fn from_json(text: &str) -> Result<Self, BootstrapError> {
        Self::from_json_with(text, Guards::default())
    }

    /// Reads a bootstrap; what a guard keeps out of use is passed over with a warning.
    ///
    /// # Errors
    ///
    /// What is wrong, and in which field.
    pub fn from_json_with(text: &str, guards: Guards) -> Result<Self, BootstrapError> {
        let value = json::parse(text)?;
        let top = Field::root(&value);
        top.object()?;
        let mut warnings = Vec::new();

        let list = top.require("xds_servers")?;
        let servers = XdsServer::read_list(&list, &guards, &mut warnings)?;
        if servers.is_empty() {
            return Err(list.error(ErrorKind::Empty));
        }
        let node = match top.get("node") {
            Some(node) => NodeIdentity::read(&node)?,
            None => NodeIdentity::default(),
        };
        let template =
            |key| top.get(key).map(|field| field.string().map(ListenerTemplate::new)).transpose();
        let mut client_default_listener_template =
            template("client_default_listener_resource_name_template")?;
        let server_listener_template = template("server_listener_resource_name_template")?;
        let mut authorities = read_authorities(&top, &guards, &mut warnings)?;
        if !guards.federation.is_on() {
            let why = WarningKind::GuardedOff(Guards::FEDERATION);
            if !authorities.is_empty() {
                authorities.clear();
                warnings.push(Warning::new("authorities", why.clone()));
            }
            if client_default_listener_template.take().is_some() {
                let path = "client_default_listener_resource_name_template";
                warnings.push(Warning::new(path, why));
            }
        }
        let certificate_providers = read_certificate_providers(&top)?;
        let allowed_grpc_services = read_allowed_services(&top, &guards, &mut warnings)?;
        Ok(Self {
            servers,
            authorities,
            node,
            client_default_listener_template: client_default_listener_template
                .unwrap_or_else(ListenerTemplate::target),
            server_listener_template,
            certificate_providers,
            allowed_grpc_services,
            guards,
            warnings,
        })
    }

    /// The servers that answer for an authority, in order of preference (FE-02, FE-03); `None` where
    /// the authority is unknown.
    #[must_use]
    pub fn servers_of(&self, authority: &str) -> Option<&[XdsServer]> {
        let entry = self.authorities.get(authority)?;
        Some(if entry.servers.is_empty() { &self.servers } else { &entry.servers })
    }

    /// The listener that a target `xds://authority/target`, or `xds:target`, asks for (FE-20).
    ///
    /// # Errors
    ///
    /// The authority is unknown.
    pub fn client_listener_name(
        &self,
        authority: Option<&str>,
        target: &str,
    ) -> Result<ResourceName, UnknownAuthority> {
        let template = match authority {
            None => &self.client_default_listener_template,
            Some(name) => {
                let entry = self.authorities.get(name);
                &entry.ok_or_else(|| UnknownAuthority(name.into()))?.client_listener_template
            }
        };
        Ok(template.expand(target))
    }

    /// The listener that a server at `address` asks for; `None` where the bootstrap has no template,
    /// without which a server cannot use xDS.
    #[must_use]
    pub fn server_listener_name(&self, address: &str) -> Option<ResourceName> {
        self.server_listener_template.as_ref().map(|template| template.expand(address))
    }
}

fn read_authorities(
    top: &Field<'_>,
    guards: &Guards,
    warnings: &mut Vec<Warning>,
) -> Result<BTreeMap<Arc<str>, AuthorityEntry>, BootstrapError> {
    let Some(authorities) = top.get("authorities") else { return Ok(BTreeMap::new()) };
    let mut entries = BTreeMap::new();
    for (name, entry) in authorities.entries()? {
        entry.object()?;
        let default = ListenerTemplate::of_authority(name);
        let client_listener_template = match entry.get("client_listener_resource_name_template") {
            None => default,
            Some(field) => {
                let template = ListenerTemplate::new(field.string()?);
                if !template.is_within(name) {
                    let mut rest = default.as_str().split('/');
                    let authority = rest.nth(2).unwrap_or_default().into();
                    return Err(field.error(ErrorKind::TemplateOutsideAuthority { authority }));
                }
                template
            }
        };
        let servers = match entry.get("xds_servers") {
            Some(list) => XdsServer::read_list(&list, guards, warnings)?,
            None => Vec::new(),
        };
        entries.insert(name.into(), AuthorityEntry { client_listener_template, servers });
    }
    Ok(entries)
}

fn read_certificate_providers(
    top: &Field<'_>,
) -> Result<BTreeMap<String, CertificateProvider>, BootstrapError> {
    let Some(providers) = top.get("certificate_providers") else { return Ok(BTreeMap::new()) };
    let mut instances = BTreeMap::new();
    for (name, entry) in providers.entries()? {
        entry.object()?;
        let plugin_name = entry.require("plugin_name")?.nonempty()?.into();
        let config = entry.require("config")?;
        config.object()?;
        let config = RawJson::new(config.value.clone());
        instances.insert(name.into(), CertificateProvider { plugin_name, config });
    }
    Ok(instances)
}

fn read_allowed_services(
    top: &Field<'_>,
    guards: &Guards,
    warnings: &mut Vec<Warning>,
) -> Result<BTreeMap<String, AllowedService>, BootstrapError> {
    let Some(services) = top.get("allowed_grpc_services") else { return Ok(BTreeMap::new()) };
    if !guards.allowed_grpc_services.is_on() {
        let why = WarningKind::GuardedOff("the guard of allowed services");
        warnings.push(Warning::new(services.path, why));
        return Ok(BTreeMap::new());
    }
    let mut allowed = BTreeMap::new();
    for (target, entry) in services.entries()? {
        entry.object()?;
        let channel_credentials =
            ChannelCredentials::first_supported(&entry.require("channel_creds")?, warnings)?;
        let call_credentials = match entry.get("call_creds") {
            Some(list) => CallCredentials::all_supported(&list, warnings)?,
            None => Arc::default(),
        };
        allowed.insert(target.into(), AllowedService { channel_credentials, call_credentials });
    }
    Ok(allowed)
}
