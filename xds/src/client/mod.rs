//! Clients that watch resources.
//!
//! ```no_run
//! # #[cfg(all(feature = "tokio", feature = "envoy-types"))]
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use xds::{Client, client::Event, resources::Cluster};
//!
//! let client = Client::connect("127.0.0.1:18000").node_id("me").start()?;
//! let mut clusters = client.watch_all::<Cluster>();
//! while let Some(event) = clusters.next().await {
//!     match event {
//!         Event::Applied(cluster) => println!("{} has version {}", cluster.name(), cluster.version()),
//!         Event::Removed { name, reason } => println!("{name}: {reason}"),
//!         Event::Synced => println!("everything that exists was received"),
//!         Event::Warning { error, .. } => eprintln!("{error}"),
//!         other => println!("{other:?}"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod builder;
mod decoder;
mod event;
mod synced;
mod watch;

use core::{fmt, marker::PhantomData};
use std::sync::Arc;

use xds_bootstrap::{Bootstrap, BootstrapError};
use xds_core::{ResourceName, client::ResourceType as _};
use xds_grpc::runtime::Runtime;
use xds_handle::ClientHandle;

pub use self::{
    builder::{ClientBuilder, StartError},
    event::{Event, RemovalReason, Resource},
    watch::{Watch, WatchEnded},
};
use self::{decoder::LateDecoded, synced::Targets};
use crate::message::ResourceMessage;

/// The untyped interface and all settings. [`Client`] and [`Resource`] in this module are the typed
/// ones; the untyped ones are in [`protocol::client`](crate::protocol::client).
pub use xds_core::{StatusCode, client::*, service::Variant};
pub use xds_grpc::{
    PayloadPrinter, SizesOnly,
    client::{ClientOptions, InvalidAddress, Service, check_address},
};

/// Handle of a client ([`Client::handle`](super::Client::handle)), and its watches of encoded
/// resources.
pub mod handle {
    pub use xds_handle::{
        AddStaticResourceError, ClientEnded, ClientHandle, Decode, FailedSnapshot,
        InvalidTypedWatch, NotInUpdate, ResourceSnapshot, Review, Reviews, Typed, TypedChange,
        TypedNotice, TypedResource, TypedWatch, TypedWatchAll, Watch, WatchAll, WeakClientHandle,
    };
}

/// Client of management servers.
///
/// Clones share one client. It ends when all of them and all watches are dropped, or when it is
/// [shut down](Self::shut_down).
pub struct Client<R> {
    handle: ClientHandle,
    decoders: Arc<[Arc<LateDecoded>]>,
    targets: Targets,
    runtime: PhantomData<fn() -> R>,
}

impl<R: Runtime + Default> Client<R> {
    /// Prepares a client of the management server at an address: `host:port` without TLS,
    /// `https://host:port` with TLS, or `unix:path`.
    pub fn connect(address: impl AsRef<str>) -> ClientBuilder<R> {
        ClientBuilder::to_server(address.as_ref())
    }

    /// Prepares a client that reads resources from a file instead of a server, and reads it again
    /// whenever it changes. The suffix of the file determines the format: JSON, YAML, protobuf text
    /// or binary. No node id is needed.
    ///
    /// With [`Profile::envoy`], a resource that disappears from the file is removed. By default it
    /// stays in use.
    #[cfg(feature = "files")]
    pub fn from_file(path: impl AsRef<str>, policy: FilePolicy) -> ClientBuilder<R> {
        ClientBuilder::of_file(path.as_ref(), policy)
    }

    /// Prepares a client with the servers, credentials and node of a gRPC bootstrap.
    pub fn from_bootstrap(bootstrap: &Bootstrap) -> ClientBuilder<R> {
        ClientBuilder::of_bootstrap(bootstrap)
    }

    /// Prepares a client with the bootstrap in the file that the environment variable
    /// `GRPC_XDS_BOOTSTRAP` names or, if it is not set, in the variable `GRPC_XDS_BOOTSTRAP_CONFIG`
    /// itself.
    ///
    /// # Errors
    ///
    /// Returns an error if no variable is set, or the bootstrap is invalid.
    pub fn from_bootstrap_env() -> Result<ClientBuilder<R>, BootstrapError> {
        ClientBuilder::of_environment()
    }
}

impl<R> Client<R> {
    fn new(handle: ClientHandle, decoders: Vec<Arc<LateDecoded>>) -> Self {
        Self {
            handle,
            decoders: decoders.into(),
            targets: Targets::default(),
            runtime: PhantomData,
        }
    }

    /// Watches one resource by name.
    pub fn watch<T: ResourceMessage>(&self, name: impl Into<ResourceName>) -> Watch<T> {
        let name = name.into();
        self.decode_to::<T>();
        let watch = self.handle.watch_untyped(T::TYPE_URL, name.clone());
        let registration = self.targets.add_name(T::TYPE_URL, name.clone());
        Watch::one(watch, name, registration)
    }

    /// Watches all resources of a type that the server has for this node (a wildcard subscription).
    ///
    /// gRPC never does this. Envoy does so for listeners and clusters; most servers support it only
    /// for these.
    pub fn watch_all<T: ResourceMessage>(&self) -> Watch<T> {
        self.decode_to::<T>();
        let registration = self.targets.add_all(T::TYPE_URL);
        Watch::many(self.handle.watch_all_untyped(T::TYPE_URL), registration)
    }

    /// Watches all resources that match a glob, such as `xdstp://authority/type/path/*`. The server
    /// must use the incremental variant of the protocol.
    pub fn watch_glob<T: ResourceMessage>(&self, glob: impl Into<ResourceName>) -> Watch<T> {
        let glob = glob.into();
        self.decode_to::<T>();
        let watch = self.handle.watch_glob_untyped(T::TYPE_URL, glob.clone());
        let registration = self.targets.add_glob(T::TYPE_URL, glob);
        Watch::many(watch, registration)
    }

    /// Waits until each watch of this client has received everything that exists now, whether or
    /// not the watches are polled. Watches that are started or dropped in the meantime are not waited
    /// for. Cancel safe.
    ///
    /// A missing resource or collection counts as received once the server, or
    /// [`Profile::does_not_exist_timeout`](Profile), says that it does not exist. An error of
    /// the connection does not count. However, with [`Profile::envoy`](Profile::envoy) the
    /// initial fetch timeout also counts, as in Envoy, even if no server was reached.
    ///
    /// A collection counts as received with the first response, although a server may split it into
    /// several: see [`Change::Collection`].
    ///
    /// # Errors
    ///
    /// Returns an error if the client has ended.
    pub async fn synced(&self) -> Result<(), WatchEnded> {
        self.targets.synced(&self.handle).await
    }

    /// Returns the handle of the client, with its untyped watches, status and metrics.
    #[must_use]
    pub const fn handle(&self) -> &ClientHandle {
        &self.handle
    }

    /// Shuts the client down and ends all of its watches.
    pub fn shut_down(&self) {
        self.handle.shut_down();
    }

    fn decode_to<T: ResourceMessage>(&self) {
        let decoder = self.decoders.iter().find(|it| it.type_url().as_str() == T::TYPE_URL);
        if let Some(decoder) = decoder {
            decoder.decode_to::<T>();
        }
    }
}

// Implemented by hand, because derived implementations would require the same of the runtime.
impl<R> Clone for Client<R> {
    fn clone(&self) -> Self {
        Self {
            handle: self.handle.clone(),
            decoders: Arc::clone(&self.decoders),
            targets: self.targets.clone(),
            runtime: PhantomData,
        }
    }
}

impl<R> fmt::Debug for Client<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("handle", &self.handle).finish_non_exhaustive()
    }
}
