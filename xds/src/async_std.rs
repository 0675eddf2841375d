//! Clients and management servers on async-std.

use xds_asyncstd::AsyncIo;
pub use xds_asyncstd::async_std::AsyncStd;

/// Client of management servers, on async-std.
#[cfg(feature = "client")]
pub type Client = crate::client::Client<AsyncIo<AsyncStd>>;

/// Management server on async-std.
#[cfg(feature = "server")]
pub type ManagementServer = crate::server::ManagementServer<AsyncIo<AsyncStd>>;
