//! Warming of a proxy's listeners and clusters: each is used only once its dependencies are known.
//!
//! A proxy subscribes to all listeners and clusters, and to the routes and endpoints that they
//! name. A new version is used when its routes or endpoints have arrived; until then the old
//! version stays in use. The `initial_fetch_timeout` of each reference limits the wait. After that
//! the new version is used without the missing resource. See the [xDS protocol] on resource
//! warming.
//!
//! [xDS protocol]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol
//!
//! ```text
//!   changes of all listeners and clusters                 watches of routes and endpoints
//!   notices of routes and endpoints                       to start and to end
//!   ─────────────────────────────────────▶  Warming  ───────────────────────────────────▶
//!   time ────────────────────────────────▶           ──▶ listeners and clusters to use or drop
//! ```
//!
//! It performs no I/O. Resources are bytes, of which it reads only the references, so listeners and
//! clusters that gRPC would reject can be warmed too. [`ClientWarming`] connects it to a client
//! core. With the feature `handle`, `HandleWarming` connects it to the handle of a running client.
//!
//! | resource | waits for |
//! |---|---|
//! | cluster of type EDS | its endpoints, until they are present or known to be missing |
//! | any other cluster | nothing |
//! | listener with RDS | the routes that its HTTP connection managers name, likewise |
//! | any other listener | nothing |
//!
//! Transient errors of the connection to the server are ignored, and do not stop the timeouts.
// S0.023-S0.025, S0.153-S0.158

mod on_client;
#[cfg(feature = "handle")]
mod on_handle;
mod references;
mod state;

use alloc::vec::Vec;
use core::time::Duration;

use xds_core::{ResourceName, client::Resource};

#[cfg(feature = "handle")]
pub use self::on_handle::{HandleWarming, WarmedChange};
pub use self::{on_client::ClientWarming, state::Warming};
use crate::dependencies::Dependency;

/// Default `initial_fetch_timeout`, for references whose `ConfigSource` does not set one.
pub const INITIAL_FETCH_TIMEOUT: Duration = Duration::from_secs(15);

/// Output of [`Warming`].
#[derive(Clone, Debug, PartialEq)]
#[must_use]
#[non_exhaustive]
pub enum WarmingOutput {
    /// Start a watch of these routes or endpoints, and pass every notice to
    /// [`Warming::handle_notice`].
    Watch(Dependency),
    /// End this watch.
    Unwatch(Dependency),
    /// Use this listener or cluster from now on. It replaces the one with this name, if any.
    Use(Warmed),
    /// Stop using this listener or cluster, which was removed.
    Drop(Dependency),
}

/// Listener or cluster that can be used.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Warmed {
    /// Type and name.
    pub root: Dependency,
    /// Resource.
    pub resource: Resource,
    /// Routes or endpoints that it names, sorted.
    pub references: Vec<WarmedReference>,
}

/// Routes or endpoints that a listener or a cluster names.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WarmedReference {
    /// Name of the resource.
    pub name: ResourceName,
    /// Resource. `None` if it does not exist or has not arrived in time.
    pub resource: Option<Resource>,
}
