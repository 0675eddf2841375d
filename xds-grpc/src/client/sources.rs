//! Clients of one proxy: one for its bootstrap, and one for each further config source that
//! resources name.

use core::{error::Error, fmt};
use std::sync::{Mutex, MutexGuard};

use serde_json::Value;
use thiserror::Error;
use xds_bootstrap::{
    BootstrapError, UnsupportedConfig,
    envoy::{ConfigSource, EnvoyBootstrap, NestedSource, Specifier, Target},
};
use xds_core::{TypeUrl, client::ClientConfig};
use xds_handle::ClientHandle;

use super::{ClientOptions, Service, connect};
use crate::{guard::locked, runtime::Runtime};

/// Reason why a config source cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The source requires something that clients do not support.
    #[error(transparent)]
    UnsupportedConfig(#[from] UnsupportedConfig),
    /// The application could not map a cluster or service of the source.
    #[error("{0}")]
    ServiceMapping(Box<dyn Error + Send + Sync>),
    /// The maximum number of sources is in use.
    #[error("more than {MAX_SOURCES} sources are in use")]
    TooMany,
}

/// Maximum number of sources in addition to those of the bootstrap. Limited because servers control
/// their number.
pub const MAX_SOURCES: usize = 64;

type ServiceMapper =
    dyn Fn(Target<'_>) -> Result<Service, Box<dyn Error + Send + Sync>> + Send + Sync;
type TypeRegistration = dyn Fn(ClientConfig) -> ClientConfig + Send + Sync;

/// Clients of a proxy with nested config sources.
///
/// Listeners and clusters come from the sources of the Envoy bootstrap. The resources they refer to
/// come from the config sources that they name: ADS, a separate stream, REST or a file. Each
/// further source has its own client with the bootstrap's node, started on first use. Equal sources
/// for the same type share a client.
///
/// As in Envoy, servers of listeners and clusters are trusted: a config source can name any file
/// that this process can read, and any cluster that `map_service` accepts. If the content of such a
/// file is a resource of the type, watchers receive it. If a source was refused because of
/// [`MAX_SOURCES`], request it again after [releasing](Sources::release) another one.
// S0.052
pub struct Sources<R> {
    bootstrap: EnvoyBootstrap,
    options: ClientOptions,
    map_service: Box<ServiceMapper>,
    register_types: Box<TypeRegistration>,
    main: ClientHandle,
    nested: Mutex<Vec<NestedClient>>,
    runtime: R,
}

struct NestedClient {
    type_url: TypeUrl,
    source: ConfigSource,
    client: ClientHandle,
}

impl<R: Runtime + Clone + Default> Sources<R> {
    /// Starts the client of the bootstrap. `register_types` registers resource types with each client.
    /// `map_service` maps cluster names to services, as in [`ClientOptions::with_envoy_bootstrap`].
    ///
    /// # Errors
    ///
    /// Returns an error if the bootstrap requires something unsupported or `map_service` fails.
    ///
    /// # Panics
    ///
    /// Panics if tasks cannot be spawned, for example outside of a tokio runtime.
    pub fn connect<E: Into<Box<dyn Error + Send + Sync>>>(
        bootstrap: EnvoyBootstrap,
        options: ClientOptions,
        register_types: impl Fn(ClientConfig) -> ClientConfig + Send + Sync + 'static,
        map_service: impl Fn(Target<'_>) -> Result<Service, E> + Send + Sync + 'static,
    ) -> Result<Self, SourceError> {
        Self::connect_on(R::default(), bootstrap, options, register_types, map_service)
    }
}

impl<R: Runtime + Clone> Sources<R> {
    /// Starts the client of the bootstrap like [`connect`](Self::connect), on this runtime.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`connect`](Self::connect).
    ///
    /// # Panics
    ///
    /// Panics like [`connect`](Self::connect).
    pub fn connect_on<E: Into<Box<dyn Error + Send + Sync>>>(
        runtime: R,
        bootstrap: EnvoyBootstrap,
        options: ClientOptions,
        register_types: impl Fn(ClientConfig) -> ClientConfig + Send + Sync + 'static,
        map_service: impl Fn(Target<'_>) -> Result<Service, E> + Send + Sync + 'static,
    ) -> Result<Self, SourceError> {
        let map_service: Box<ServiceMapper> =
            Box::new(move |target| map_service(target).map_err(Into::into));
        let config = register_types(bootstrap.client_config()?);
        let of_bootstrap = options.clone().with_envoy_bootstrap(&bootstrap, &*map_service);
        let of_bootstrap = of_bootstrap.map_err(SourceError::ServiceMapping)?;
        let main = connect(runtime.clone(), config, of_bootstrap);
        let (register_types, nested) = (Box::new(register_types), Mutex::default());
        Ok(Self { bootstrap, options, map_service, register_types, main, nested, runtime })
    }

    /// Returns the client of the bootstrap.
    #[must_use]
    pub fn main(&self) -> &ClientHandle {
        &self.main
    }

    /// Returns the references in a resource, with their config sources
    /// ([`EnvoyBootstrap::references`]).
    ///
    /// # Errors
    ///
    /// Returns an error if a config source is invalid. The error names the field.
    pub fn references(
        &self,
        via: Option<&NestedSource>,
        type_url: &str,
        name: &str,
        resource: &Value,
    ) -> Result<Vec<NestedSource>, BootstrapError> {
        self.bootstrap.references(via, type_url, name, resource)
    }

    /// Returns the client with which to watch a referenced resource.
    ///
    /// # Errors
    ///
    /// Returns an error if the source requires something unsupported, `map_service` fails, or [too
    /// many](MAX_SOURCES) sources are in use.
    ///
    /// # Panics
    ///
    /// Panics like [`Sources::connect`].
    pub fn client_of(&self, reference: &NestedSource) -> Result<ClientHandle, SourceError> {
        let NestedSource { type_url, source, .. } = reference;
        let Some(config) = self.bootstrap.nested_client_config(type_url, source)? else {
            return Ok(self.main.clone());
        };
        if let Some(known) = existing_or_space(&self.nested(), reference)? {
            return Ok(known);
        }
        // Application code runs without the lock: it may be slow, panic or call this type.
        let mut options = self.options.clone();
        if let Specifier::Api(api) = &source.specifier {
            let services = api.targets().map(&*self.map_service).collect::<Result<Vec<_>, _>>();
            let transport = config.servers.first().map(|server| server.transport.clone());
            options = options.with_services(
                transport.unwrap_or_default(),
                services.map_err(SourceError::ServiceMapping)?,
            );
        }
        let client = connect(self.runtime.clone(), (self.register_types)(config), options);
        let mut nested = self.nested();
        match existing_or_space(&nested, reference) {
            Ok(None) => {
                let (type_url, source) = (type_url.clone(), source.clone());
                nested.push(NestedClient { type_url, source, client: client.clone() });
                Ok(client)
            }
            // Another thread was faster. The new client has no watches and ends here.
            Ok(Some(known)) => Ok(known),
            Err(why) => Err(why),
        }
    }

    /// Releases a source that is no longer referenced. Its client ends with its last watch.
    pub fn release(&self, reference: &NestedSource) {
        let NestedSource { type_url, source, .. } = reference;
        let mut nested = self.nested();
        nested.retain(|it| it.type_url != *type_url || it.source != *source);
    }

    /// Shuts down all clients and ends their watches.
    pub fn shut_down(&self) {
        self.nested().iter().for_each(|it| it.client.shut_down());
        self.main.shut_down();
    }

    fn nested(&self) -> MutexGuard<'_, Vec<NestedClient>> {
        locked(&self.nested)
    }
}

/// Returns the existing client of a reference, or `None` if a new one may be started.
fn existing_or_space(
    nested: &[NestedClient],
    reference: &NestedSource,
) -> Result<Option<ClientHandle>, SourceError> {
    let NestedSource { type_url, source, .. } = reference;
    let known = nested.iter().find(|it| it.type_url == *type_url && it.source == *source);
    match known {
        Some(known) => Ok(Some(known.client.clone())),
        None if nested.len() >= MAX_SOURCES => Err(SourceError::TooMany),
        None => Ok(None),
    }
}

impl<R> fmt::Debug for Sources<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").field("bootstrap", &self.bootstrap).finish_non_exhaustive()
    }
}
