//! Clients and management servers on async-std. Their runtime is `AsyncIo<AsyncStd>`.

pub use xds_asyncstd::{
    AsyncIo,
    async_std::{AsyncStd, CsdsService},
};

/// Client of management servers, on async-std.
#[cfg(feature = "client")]
pub type Client = crate::client::Client<AsyncIo<AsyncStd>>;

/// Management server on async-std.
#[cfg(feature = "server")]
pub type ManagementServer = crate::server::ManagementServer<AsyncIo<AsyncStd>>;
