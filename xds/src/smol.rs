//! Clients and management servers on smol. Their runtime is `AsyncIo<Smol>`.

pub use xds_asyncstd::{
    AsyncIo,
    smol::{CsdsService, Smol},
};

/// Client of management servers, on smol.
#[cfg(feature = "client")]
pub type Client = crate::client::Client<AsyncIo<Smol>>;

/// Management server on smol.
#[cfg(feature = "server")]
pub type ManagementServer = crate::server::ManagementServer<AsyncIo<Smol>>;
