//! A proxy's way to its configuration: all listeners and clusters, each of which warms before it is used.
//!
//! A proxy asks for every listener and every cluster, and for the routes and endpoints that these name
//! (S0.023-S0.025). One that is new takes over when what it names has arrived; until then the old one serves
//! (S0.153-S0.158). How long that may take is the `initial_fetch_timeout` of each reference; then it takes over
//! without.
//!
//! ```text
//!   changes of all listeners and clusters,            watch these routes and endpoints,
//!   notices of routes and endpoints                   no longer those
//!   ──────────────────────────────────▶  Warming  ──────────────────────────────▶
//!   time ─────────────────────────────▶           ──▶ this is used from now on, that is gone
//! ```
//!
//! It does no IO, and knows resources as bytes, of which it reads what they refer to: whatever listeners and
//! clusters the API has can be warmed, also those that gRPC would reject. [`ClientWarming`] ties it to a client
//! core, and with feature `handle` `HandleWarming` to the handle of a running client.
//!
//! | what | warms until |
//! |---|---|
//! | a cluster of type EDS | its endpoints are there, or known to be missing |
//! | any other cluster | it does not |
//! | a listener | the routes are there that its HTTP connection managers name, or known to be missing |
//! | a listener whose routes stand in it, or that has none | it does not |
//!
//! Trouble on the way to the server says nothing of a resource, and no clock stands still for it.

mod needs;
mod on_client;
#[cfg(feature = "handle")]
mod on_handle;
mod state;

use alloc::vec::Vec;
use core::time::Duration;

use xds_core::{ResourceName, client::Resource};

#[cfg(feature = "handle")]
pub use self::on_handle::{HandleWarming, WarmedChange};
pub use self::{on_client::ClientWarming, state::Warming};
use crate::dependencies::Dependency;

/// How long a reference is waited for whose `ConfigSource` does not say so.
pub const INITIAL_FETCH_TIMEOUT: Duration = Duration::from_secs(15);

/// What [`Warming`] wants, or has to say.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
#[non_exhaustive]
pub enum WarmingOutput {
    /// Watch these routes or endpoints, and hand in every notice.
    Watch(Dependency),
    /// Watch them no longer.
    Unwatch(Dependency),
    /// This listener or cluster is used from now on, in place of the one of that name, if there was one.
    Use(Warmed),
    /// There is no such listener or cluster any more.
    Drop(Dependency),
}

/// A listener or a cluster that can be used.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Warmed {
    /// Which.
    pub root: Dependency,
    /// The resource.
    pub resource: Resource,
    /// The routes or endpoints that it names, in order.
    pub needs: Vec<WarmedNeed>,
}

/// What a listener or a cluster names.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WarmedNeed {
    /// The name.
    pub name: ResourceName,
    /// The resource; `None` if there is none, or it has not come in time.
    pub resource: Option<Resource>,
}
