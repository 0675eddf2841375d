//! Clients and management servers on async-std.

use xds_asyncstd::AsyncIo;
pub use xds_asyncstd::async_std::{AsyncStd, CsdsService};

/// Runtime of async-std, for the methods and types that take a runtime.
pub type Runtime = AsyncIo<AsyncStd>;

/// Client of management servers, on async-std.
#[cfg(feature = "client")]
pub type Client = crate::client::Client<Runtime>;

/// Management server on async-std.
#[cfg(feature = "server")]
pub type ManagementServer = crate::server::ManagementServer<Runtime>;
