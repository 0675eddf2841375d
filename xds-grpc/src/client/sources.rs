//! All clients of one proxy: that of its bootstrap, and one for each further source that its listeners and clusters
//! name.

use core::{error::Error, fmt, marker::PhantomData};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use thiserror::Error;
use xds_bootstrap::{
    BootstrapError, Inexpressible,
    envoy::{ConfigSource, EnvoyBootstrap, NestedSource, Specifier, Target},
};
use xds_core::{TypeUrl, client::ClientConfig};
use xds_handle::ClientHandle;

use super::{Client, ClientOptions, Service};
use crate::runtime::Runtime;

/// Why a source cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SourceError {
    /// It says what no client can do.
    #[error(transparent)]
    Inexpressible(#[from] Inexpressible),
    /// One of its places is not known.
    #[error("{0}")]
    Place(Box<dyn Error + Send + Sync>),
    /// There are as many sources as there may be.
    #[error("more than {MAX_SOURCES} sources are in use")]
    TooMany,
}

/// How many sources there may be beside those of the bootstrap: servers name them.
pub const MAX_SOURCES: usize = 64;

type Places = dyn Fn(Target<'_>) -> Result<Service, Box<dyn Error + Send + Sync>> + Send + Sync;
type Types = dyn Fn(ClientConfig) -> ClientConfig + Send + Sync;

/// The clients of a proxy (S0.052): listeners and clusters come from the sources of its bootstrap, and what these refer
/// to from the sources that they name, which may be others: the aggregated stream, a stream of its own, REST, a
/// file. Each further source is a client with the bootstrap's node, started when it is first asked for; sources that
/// are equal, and for one type, are one.
///
/// As in a proxy, whoever may send listeners and clusters is believed: a source can name any file that this process can
/// read, and any cluster that `places` knows. What is in the file reaches watchers if it is a resource of the type. A
/// source that was one too many may be asked for again when another one has been [released](Sources::release).
pub struct Sources<R> {
    bootstrap: EnvoyBootstrap,
    options: ClientOptions,
    places: Box<Places>,
    types: Box<Types>,
    main: ClientHandle,
    further: Mutex<Vec<Further>>,
    runtime: PhantomData<fn() -> R>,
}

struct Further {
    type_url: TypeUrl,
    source: ConfigSource,
    client: ClientHandle,
}

impl<R: Runtime + Default> Sources<R> {
    /// Starts the client of the bootstrap. `types` registers the resource types with each client; `places` knows
    /// what the names of clusters stand for, as in [`ClientOptions::with_envoy_bootstrap`].
    ///
    /// # Errors
    ///
    /// The bootstrap says what no client can do, or one of its places is not known.
    ///
    /// # Panics
    ///
    /// Where tasks of the runtime cannot be spawned, as outside of tokio's.
    pub fn connect<E: Into<Box<dyn Error + Send + Sync>>>(
        bootstrap: EnvoyBootstrap,
        options: ClientOptions,
        types: impl Fn(ClientConfig) -> ClientConfig + Send + Sync + 'static,
        places: impl Fn(Target<'_>) -> Result<Service, E> + Send + Sync + 'static,
    ) -> Result<Self, SourceError> {
        let places: Box<Places> = Box::new(move |target| places(target).map_err(Into::into));
        let config = types(bootstrap.client_config()?);
        let of_bootstrap = options.clone().with_envoy_bootstrap(&bootstrap, &*places);
        let main = Client::<R>::connect(config, of_bootstrap.map_err(SourceError::Place)?);
        let (types, further) = (Box::new(types), Mutex::default());
        Ok(Self { bootstrap, options, places, types, main, further, runtime: PhantomData })
    }

    /// The client of the bootstrap itself.
    #[must_use]
    pub fn main(&self) -> &ClientHandle {
        &self.main
    }

    /// What a resource refers to, and where that comes from ([`EnvoyBootstrap::references`]).
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
        self.bootstrap.references(via, type_url, name, resource)
    }

    /// The client that what a resource refers to is watched with.
    ///
    /// # Errors
    ///
    /// The source says what no client can do, one of its places is not known, or there are
    /// [too many](MAX_SOURCES) with watches.
    ///
    /// # Panics
    ///
    /// As [`Sources::connect`].
    pub fn client_of(&self, reference: &NestedSource) -> Result<ClientHandle, SourceError> {
        let NestedSource { type_url, source, .. } = reference;
        let Some(config) = self.bootstrap.nested_client_config(type_url, source)? else {
            return Ok(self.main.clone());
        };
        if let Some(known) = known_or_room(&self.further(), reference)? {
            return Ok(known);
        }
        // What is the application's runs unlocked: it may take its time, panic, or come back here.
        let mut options = self.options.clone();
        if let Specifier::Api(api) = &source.specifier {
            let services = api.targets().map(&*self.places).collect::<Result<Vec<_>, _>>();
            let transport = config.servers.first().map(|server| server.transport.clone());
            options = options.with_services(
                transport.unwrap_or_default(),
                services.map_err(SourceError::Place)?,
            );
        }
        let client = Client::<R>::connect((self.types)(config), options);
        let mut further = self.further();
        match known_or_room(&further, reference) {
            Ok(None) => {
                let (type_url, source) = (type_url.clone(), source.clone());
                further.push(Further { type_url, source, client: client.clone() });
                Ok(client)
            }
            // Somebody else was faster. Ours has not been asked for anything, and ends here.
            Ok(Some(known)) => Ok(known),
            Err(why) => Err(why),
        }
    }

    /// Lets go of a source that nothing refers to any more: its client ends with its last watch.
    pub fn release(&self, reference: &NestedSource) {
        let NestedSource { type_url, source, .. } = reference;
        let mut further = self.further();
        further.retain(|it| it.type_url != *type_url || it.source != *source);
    }

    /// Ends all clients and their watches.
    pub fn shut_down(&self) {
        self.further().iter().for_each(|it| it.client.shut_down());
        self.main.shut_down();
    }

    /// Nothing that panics happens while it is locked.
    fn further(&self) -> MutexGuard<'_, Vec<Further>> {
        self.further.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The client of what a reference is to, if there is one; `None` if there may be.
fn known_or_room(
    further: &[Further],
    reference: &NestedSource,
) -> Result<Option<ClientHandle>, SourceError> {
    let NestedSource { type_url, source, .. } = reference;
    let known = further.iter().find(|it| it.type_url == *type_url && it.source == *source);
    match known {
        Some(known) => Ok(Some(known.client.clone())),
        None if further.len() >= MAX_SOURCES => Err(SourceError::TooMany),
        None => Ok(None),
    }
}

impl<R> fmt::Debug for Sources<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").field("bootstrap", &self.bootstrap).finish_non_exhaustive()
    }
}
