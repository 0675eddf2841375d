//! gRPC's bootstrap: a JSON object with servers, authorities and the node.
// A27, A47, A71

use std::{collections::BTreeMap, sync::Arc};

use thiserror::Error;
use xds_core::{ResourceName, xdstp::ListenerTemplate};

use crate::{
    credentials::{CallCredentials, ChannelCredentials, TlsFiles},
    error::{BootstrapError, ErrorKind, Warning, WarningKind},
    feature_switches::FeatureSwitches,
    json::{self, Field, RawJson},
    node::NodeIdentity,
    server::XdsServer,
};

/// Bootstrap of a gRPC client.
///
/// Unknown fields are ignored at every level. Known fields are validated completely, so a bootstrap
/// that loads is usable. See
/// [gRFC A27](https://github.com/grpc/proposal/blob/master/A27-xds-global-load-balancing.md) and
/// [gRFC A71](https://github.com/grpc/proposal/blob/master/A71-xds-fallback.md).
// BS-10
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Bootstrap {
    /// Servers in order of preference, at least one.
    // BS-04, BS-14
    pub servers: Vec<XdsServer>,
    /// Authorities by name. The empty name is a valid key.
    // FE-04
    pub authorities: BTreeMap<Arc<str>, AuthorityEntry>,
    /// Node of the client; empty if the bootstrap has none.
    // BS-15
    pub node: NodeIdentity,
    /// Template of listener names for targets without an authority. Default: `%s`.
    // BS-19
    pub client_default_listener_template: ListenerTemplate,
    /// Template of listener names for gRPC servers
    /// ([gRFC A36](https://github.com/grpc/proposal/blob/master/A36-xds-for-servers.md)).
    pub server_listener_template: Option<ListenerTemplate>,
    /// Certificate provider instances by name, for the data plane.
    // B24
    pub certificate_providers: BTreeMap<String, CertificateProvider>,
    /// Services other than management servers that resources may refer to, by target URI.
    // A102
    pub allowed_grpc_services: BTreeMap<String, AllowedService>,
    /// Feature switches with which the bootstrap was read.
    pub feature_switches: FeatureSwitches,
    /// Warnings for the author of the bootstrap.
    pub warnings: Vec<Warning>,
}

/// Configuration of one authority.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthorityEntry {
    /// Template of listener names within the authority.
    pub client_listener_template: ListenerTemplate,
    /// Servers in order of preference. If empty, the top-level servers are used.
    // FE-03, BS-21
    pub servers: Vec<XdsServer>,
}

/// Certificate provider instance. Only its plugin can interpret the configuration.
// BS-22
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CertificateProvider {
    /// Name of the plugin.
    pub plugin_name: String,
    /// Configuration of the plugin.
    pub config: RawJson,
}

impl CertificateProvider {
    /// Returns the files of an instance of the `file_watcher` plugin ([gRFC
    /// A29](https://github.com/grpc/proposal/blob/master/A29-xds-tls-security.md)); `None` for
    /// another plugin.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration of the instance is invalid.
    pub fn file_watcher(&self) -> Result<Option<TlsFiles>, BootstrapError> {
        if self.plugin_name != "file_watcher" {
            return Ok(None);
        }
        TlsFiles::read(Some(&Field::root(self.config.value()))).map(Some)
    }
}

/// Credentials of a service that is not a management server.
// BS-24
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AllowedService {
    /// Security of the channel.
    pub channel_credentials: ChannelCredentials,
    /// Credentials sent with each call, all together.
    pub call_credentials: Arc<[CallCredentials]>,
}

/// Error: the authority of a target is not in the bootstrap.
// FE-20
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("authority {0:?} is not in the bootstrap")]
pub struct UnknownAuthority(
    /// Authority of the target.
    pub String,
);

impl Bootstrap {
    /// Parses a bootstrap with all switches on.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not JSON or a field is missing or invalid.
    pub fn from_json(text: &str) -> Result<Self, BootstrapError> {
        Self::from_json_with(text, FeatureSwitches::default())
    }

    /// Parses a bootstrap. Parts whose switch is off are ignored with a warning.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not JSON or a field is missing or invalid.
    pub fn from_json_with(text: &str, switches: FeatureSwitches) -> Result<Self, BootstrapError> {
        let value = json::parse(text)?;
        let top = Field::root(&value);
        top.object()?;
        let mut warnings = Vec::new();

        let list = top.require("xds_servers")?;
        let servers = XdsServer::read_list(&list, &switches, &mut warnings)?;
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
        let mut authorities = read_authorities(&top, &switches, &mut warnings)?;
        if !switches.federation.is_on() {
            let why = WarningKind::SwitchedOff(FeatureSwitches::FEDERATION);
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
        let allowed_grpc_services = read_allowed_services(&top, &switches, &mut warnings)?;
        Ok(Self {
            servers,
            authorities,
            node,
            client_default_listener_template: client_default_listener_template
                .unwrap_or_else(ListenerTemplate::target),
            server_listener_template,
            certificate_providers,
            allowed_grpc_services,
            feature_switches: switches,
            warnings,
        })
    }

    /// Returns the servers of an authority in order of preference; `None` if the authority is
    /// unknown.
    // FE-02, FE-03
    #[must_use]
    pub fn servers_of(&self, authority: &str) -> Option<&[XdsServer]> {
        let entry = self.authorities.get(authority)?;
        Some(if entry.servers.is_empty() { &self.servers } else { &entry.servers })
    }

    /// Returns the listener name for a target `xds://authority/target` or `xds:target`.
    ///
    /// # Errors
    ///
    /// Returns an error if the authority is unknown.
    // FE-20
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

    /// Returns the listener name for a gRPC server that listens on `address`. Returns `None` if the
    /// bootstrap has no server listener template: without one, a gRPC server cannot use xDS.
    #[must_use]
    pub fn server_listener_name(&self, address: &str) -> Option<ResourceName> {
        self.server_listener_template.as_ref().map(|template| template.expand(address))
    }
}

fn read_authorities(
    top: &Field<'_>,
    switches: &FeatureSwitches,
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
            Some(list) => XdsServer::read_list(&list, switches, warnings)?,
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
    switches: &FeatureSwitches,
    warnings: &mut Vec<Warning>,
) -> Result<BTreeMap<String, AllowedService>, BootstrapError> {
    let Some(services) = top.get("allowed_grpc_services") else { return Ok(BTreeMap::new()) };
    if !switches.allowed_grpc_services.is_on() {
        let why = WarningKind::SwitchedOff("`FeatureSwitches::allowed_grpc_services`");
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
