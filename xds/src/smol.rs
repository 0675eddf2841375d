//! Clients and management servers on smol.

use xds_asyncstd::AsyncIo;
pub use xds_asyncstd::smol::{CsdsService, Smol};

/// Runtime of smol, for the methods and types that take a runtime.
pub type Runtime = AsyncIo<Smol>;

/// Client of management servers, on smol.
#[cfg(feature = "client")]
pub type Client = crate::client::Client<Runtime>;

/// Management server on smol.
#[cfg(feature = "server")]
pub type ManagementServer = crate::server::ManagementServer<Runtime>;
