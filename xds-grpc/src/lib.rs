//! xDS over gRPC on any async runtime: the shared part of the runtime adapters.
//!
//! The protocol is implemented in [`xds_core`]. This crate connects its client and server state
//! machines to HTTP/2 connections and timers; it decides nothing about the protocol. A
//! [runtime](runtime::Runtime) provides tasks, time and connections. Applications use the adapter
//! of their runtime, `xds-tokio` or `xds-asyncstd`, which exports the items of this crate with the
//! runtime type filled in:
//!
//! ```
//! # use std::{io, net::SocketAddr, path::PathBuf, pin::Pin, time::{Duration, Instant}};
//! # use hyper::rt::{Sleep, Timer};
//! # use xds_grpc::{Keepalive, client::Resolving, runtime::{BoxFuture, Io, Runtime}};
//! # #[derive(Clone, Debug, Default)]
//! # pub struct MyRuntime;
//! # impl Timer for MyRuntime {
//! #     fn sleep(&self, _: Duration) -> Pin<Box<dyn Sleep>> { unimplemented!() }
//! #     fn sleep_until(&self, _: Instant) -> Pin<Box<dyn Sleep>> { unimplemented!() }
//! # }
//! # impl Runtime for MyRuntime {
//! #     fn spawn(&self, _: BoxFuture<'static, ()>) {}
//! #     fn spawn_blocking(&self, _: Box<dyn FnOnce() + Send>) {}
//! #     fn connect(&self, _: SocketAddr, _: Keepalive)
//! #         -> BoxFuture<'static, io::Result<Box<dyn Io>>> { unimplemented!() }
//! #     fn connect_unix(&self, _: PathBuf)
//! #         -> BoxFuture<'static, io::Result<Box<dyn Io>>> { unimplemented!() }
//! #     fn resolve<'a>(&'a self, _: &'a str, _: u16) -> Resolving<'a> { unimplemented!() }
//! # }
//! use xds_core::client::{ClientConfig, ServerAddress, Node};
//! use xds_grpc::ClientOptions;
//!
//! let config = ClientConfig::new(Node::new("node-1"), ServerAddress::new("127.0.0.1:18000"));
//! let client = xds_grpc::client::connect(MyRuntime, config, ClientOptions::default());
//! # drop(client);
//! ```
//!
//! | file | content |
//! |---|---|
//! | `runtime.rs` | traits that a runtime implements; timers, tasks and timeouts |
//! | `client/`, `server/` | the drivers |
//! | `credentials/` | certificates, keys and tokens from files |
//! | `tls.rs`, `tls_advice.rs` | TLS handshakes; explanations of their failures |
//! | `csds/` | client status discovery |
//! | `load_reports/` | load reports of clients |
//! | `http2/` | inspection of frames: the connection is open, a call has ended |
//! | `address/`, `resolve.rs` | addresses of servers and listeners; name resolution |
//! | `codec.rs`, `grpc.rs` | codec of encoded messages; method names and status conversion |
//! | `socket.rs`, `keepalive.rs` | socket options; keepalive pings |
//! | `shorthand/`, `payload.rs` | formatting of messages in logs |
//! | `happy_eyeballs.rs` | several addresses of a name |
//! | `guard.rs` | panics in application code |
//! | `clock.rs` | the runtime's clock as the core's time |
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

mod address;
pub mod client;
pub mod clock;
mod codec;
pub mod credentials;
pub mod csds;
mod grpc;
mod guard;
pub mod happy_eyeballs;
pub mod http2;
mod keepalive;
mod linger;
pub mod load_reports;
mod log_limit;
mod payload;
mod resolve;
pub mod runtime;
pub mod server;
mod shorthand;
pub mod socket;
mod tls;
mod tls_advice;
#[cfg(not(feature = "zoo"))]
mod zoo;
#[cfg(feature = "zoo")]
pub mod zoo;

pub use client::ClientOptions;
pub use codec::RawCodec;
pub use credentials::Credentials;
pub use keepalive::{Keepalive, TcpProbes};
pub use payload::{PayloadPrinter, SizesOnly};
pub use server::{DiscoveryService, ManagementServer, ServerHandle, ServerOptions};
