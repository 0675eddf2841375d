//! xDS over gRPC on any runtime: what the adapters of runtimes share.
//!
//! The protocol is in [`xds_core`]; this crate moves bytes and time between its two state machines and
//! HTTP/2, and has no say in what is asked, sent, accepted or rejected. A [runtime](runtime::Runtime) lends
//! it tasks, time and connections. Applications take the crate of theirs, `xds-tokio` or `xds-asyncstd`,
//! whose names are the ones here with the runtime filled in:
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
//! use xds_core::client::{ClientConfig, ManagementServer, Node};
//! use xds_grpc::ClientOptions;
//!
//! type Client = xds_grpc::Client<MyRuntime>;
//!
//! let config = ClientConfig::new(Node::new("node-1"), ManagementServer::new("127.0.0.1:18000"));
//! let client = Client::connect(config, ClientOptions::default());
//! # drop(client);
//! ```
//!
//! | file | what it does |
//! |---|---|
//! | `runtime.rs` | what a runtime has to lend, and alarms, tasks and time limits made of it |
//! | `client/`, `server/` | the drivers |
//! | `credentials/`, `tls.rs` | certificates, keys and tokens from files; handshakes |
//! | `csds/` | client status discovery |
//! | `http2.rs` | what the frames of a connection say: that it is open, that a call has ended |
//! | `address.rs` | what is wrong with an address |
//! | `grpc.rs` | messages as bytes, and errors in words |
//! | `socket.rs`, `keepalive.rs` | what is set on sockets; pings |
//! | `shorthand/`, `payload.rs` | what logs show of messages |
//! | `guard.rs` | panics in code of the application |
//! | `clock.rs` | the runtime's clock as the cores see it |
#![deny(missing_docs)]

mod address;
pub mod client;
mod clock;
pub mod credentials;
pub mod csds;
mod grpc;
mod guard;
pub mod http2;
mod keepalive;
mod log_limit;
mod payload;
pub mod runtime;
pub mod server;
mod shorthand;
pub mod socket;
mod tls;

pub use client::{Client, ClientOptions};
pub use credentials::Credentials;
pub use keepalive::{Keepalive, TcpProbes};
pub use payload::{PayloadPrinter, SizesOnly};
pub use server::{DiscoveryService, ManagementServer, ServerHandle, ServerOptions};
