//! xDS over gRPC on async-std and smol: a client and a management server, without a tokio runtime.
//!
//! The protocol is implemented in [`xds_core`], and [`xds_grpc`] connects its state machines to
//! HTTP/2. This crate provides the tasks of [`async_std`] or [`smol`] and the sockets and timers of
//! [`async_io`]. Names are the same as in `xds-tokio`:
//!
//! ```
//! use smol::net::TcpListener;
//! use xds_asyncstd::{
//!     ClientOptions, ServerOptions,
//!     smol::{ManagementServer, connect},
//! };
//! use xds_core::{
//!     client::{ClientConfig, ServerAddress as Upstream, Node, Notice, OpaqueType},
//!     server::{ServerConfig, Transaction},
//!     types::CLUSTER,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! smol::block_on(async {
//!     // A server with one resource: a cluster of which we only know the name.
//!     let server = ManagementServer::start(ServerConfig::default(), ServerOptions::default());
//!     let listener = TcpListener::bind("127.0.0.1:0").await?;
//!     let address = listener.local_addr()?.to_string();
//!     smol::spawn(server.serve(listener)).detach();
//!     let mut change = Transaction::new();
//!     change.set(CLUSTER, "web", &b"\x0a\x03web"[..]);
//!     server.handle().apply(change).await?;
//!
//!     // A client that watches it.
//!     let config = ClientConfig::new(Node::new("node-1"), Upstream::new(address))
//!         .with_type(OpaqueType::new(CLUSTER));
//!     let client = connect(config, ClientOptions::default());
//!     let mut web = client.watch_untyped(CLUSTER, "web");
//!     let Some(Ok(Notice::Changed(Ok(cluster)))) = web.next().await else { panic!("no cluster") };
//!     assert_eq!(cluster.bytes, &b"\x0a\x03web"[..]);
//!     Ok(())
//! })
//! # }
//! ```
//!
//! | runtime | types |
//! |---|---|
//! | async-std (feature `async-std`) | those in the module [`async_std`] |
//! | smol (feature `smol`) | those in the module [`smol`] |
//! | another executor with [`async_io`] | those in [`xds_grpc`], with [`AsyncIo`] of the executor |
//!
//! Configuration and results do not depend on the runtime and are the same as in `xds-tokio`. Files
//! with credentials are read and names resolved on the threads of [`blocking`]. Each file that serves
//! as a management server is read on a thread of its own. Timers and sockets use [`async_io`]'s
//! thread.
#![deny(missing_docs)]
// Code that may panic states why it cannot.
#![cfg_attr(
    not(test),
    warn(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

mod runtime;

#[cfg(feature = "async-std")]
pub mod async_std;
#[cfg(feature = "smol")]
pub mod smol;

pub use xds_grpc::{
    ClientOptions, Credentials, DiscoveryService, Keepalive, PayloadPrinter, RawCodec,
    ServerHandle, ServerOptions, SizesOnly, TcpProbes, client, credentials, csds, load_reports,
    server,
};
pub use xds_handle::{
    AddStaticResourceError, ClientEnded, ClientHandle, Decode, FailedSnapshot, InvalidTypedWatch,
    NotInUpdate, ResourceSnapshot, Review, Reviews, Typed, TypedChange, TypedNotice, TypedResource,
    TypedWatch, TypedWatchAll, Watch, WatchAll, WeakClientHandle,
};
#[cfg(feature = "validation")]
pub use xds_handle::{Deprecations, Validated, ValidatedTypes};

pub use self::runtime::{AsyncIo, Executor, SystemResolver};
