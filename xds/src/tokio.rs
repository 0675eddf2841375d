//! Clients and management servers on tokio.

pub use xds_tokio::Tokio;

/// Client of management servers, on tokio.
#[cfg(feature = "client")]
pub type Client = crate::client::Client<Tokio>;

/// Management server on tokio.
#[cfg(feature = "server")]
pub type ManagementServer = crate::server::ManagementServer<Tokio>;
