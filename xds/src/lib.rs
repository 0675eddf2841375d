//! xDS: the protocol by which Envoy, gRPC and service meshes receive their configuration.
//!
//! This crate combines a family of crates: a client, a management server, a gRPC channel and a gRPC
//! server that are configured by xDS, and a simulator that tests all of them in virtual time.
//!
//! | I want to ... | use | feature |
//! |---|---|---|
//! | watch resources of a management server | [`Client`](client::Client) | `client` |
//! | serve resources to Envoy or gRPC | [`ManagementServer`](server::ManagementServer) | `server` |
//! | call a gRPC service through `xds:///name` | `xds::channel` | `channel` |
//! | serve a gRPC service as a listener of xDS says: mutual TLS, access rules | `xds::channel::grpc_server` | `channel` |
//! | poll a server over REST, or serve REST | `ClientBuilder::polling`, `ManagementServer::bind_rest` | `rest` |
//! | watch files | `Client::from_file` | `files` |
//! | parse and print resources as YAML, JSON or text | `xds::format` | `formats` |
//! | reject resources that break a constraint of the API | `ClientBuilder::validate` | `validation` |
//! | test a client or server in virtual time | `xds::sim` | `sim` |
//! | test a program, or its gRPC calls, in virtual time with faults | `xds::sim::app`, `xds::sim::stack` | `sim-stack` |
//! | use another async runtime | [`runtime`] | |
//! | embed the protocol in a runtime or proxy of my own | the crate `xds-core`, here `xds::protocol` | |
//! | read the bootstrap of a gRPC process or of Envoy | `xds::bootstrap` | |
//! | report to operators what the clients have (CSDS) | [`csds`] | |
//!
//! # Watching
//!
//! ```no_run
//! # #[cfg(all(feature = "tokio", feature = "client", feature = "envoy-types"))]
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use xds::{Client, client::Event, resources::Cluster};
//!
//! let client = Client::connect("127.0.0.1:18000").node_id("me").start()?;
//! let mut clusters = client.watch_all::<Cluster>();
//! while let Some(event) = clusters.next().await {
//!     match event {
//!         Event::Applied(cluster) => println!("{} {}", cluster.name(), cluster.version()),
//!         Event::Removed { name, reason } => println!("{name} is gone: {reason}"),
//!         Event::Warning { error, .. } => eprintln!("{error}"),
//!         _ => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Serving
//!
//! ```no_run
//! # #[cfg(all(feature = "tokio", feature = "server", feature = "envoy-types"))]
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use xds::{ManagementServer, resources::Cluster, server::Transaction};
//!
//! let server = ManagementServer::builder().bind("127.0.0.1:18000").await?;
//! let cluster = Cluster { name: "web".into(), ..Cluster::default() };
//! server.apply(Transaction::snapshot("").with(&cluster)?).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Concepts
//!
//! - A **resource** is a message with a type and a name. [`ResourceMessage`] gives a message both:
//!   with the feature `envoy-types` the messages in `xds::resources` have it, and
//!   [`resource_message!`] adds it to your own.
//! - A **view** is the set of resources that a group of clients sees. By default, all clients see
//!   the view named `""`.
//! - A client **accepts** (ACK) or **rejects** (NACK) each response. It keeps the last valid value of
//!   each resource.
//! - A **transaction** changes some resources of a view, or as a **snapshot** replaces all of them.
//!   It is applied as a whole.
//!
//! # Runtimes
//!
//! The features `tokio` (default), `smol` and `async-std` add a module each, with the types
//! `Client` and `ManagementServer`. The types in the root of the crate are those of tokio. For another
//! runtime, implement the traits in [`runtime`] and use `start_on` and `bind_on`.
//!
//! # Pitfalls
//!
//! - A client ends when its last handle and its last watch are dropped.
//! - `watch_all` is a wildcard subscription. Most servers support it only for listeners and clusters;
//!   watch other resources by name.
//! - By default a client keeps a resource that the server deletes, as gRPC does, and reports a
//!   warning. Choose [`Profile::envoy`](client::Profile::envoy) for Envoy's behaviour.
//! - The node id and metadata that a client sends are not authenticated. Use its certificate
//!   ([`NodeInfo::peer`](server::NodeInfo::peer)) to decide what it may see.
//!
//! # gRFCs
#![doc = include_str!("../FEATURES.md")]
#![forbid(unsafe_code)]
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

#[cfg(feature = "async-std")]
pub mod async_std;
#[cfg(feature = "channel")]
pub mod channel;
#[cfg(feature = "client")]
pub mod client;
mod message;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "smol")]
pub mod smol;
#[cfg(feature = "tokio")]
pub mod tokio;

/// Bootstraps of gRPC processes and of Envoy.
pub use xds_bootstrap as bootstrap;
/// The protocol as state machines without I/O, to be embedded in any runtime.
pub use xds_core as protocol;
/// Parsing and printing of resources.
#[cfg(feature = "formats")]
pub use xds_format as format;
/// TLS and call credentials.
pub use xds_grpc::credentials;
/// Client status (CSDS), as gRPC services for operators.
pub use xds_grpc::csds;
/// Serving over REST-JSON.
#[cfg(feature = "rest")]
pub use xds_rest as rest;
/// Traits by which another async runtime runs clients and servers: [`Runtime`](runtime::Runtime), and
/// [`Listen`](runtime::Listen) for servers.
pub mod runtime {
    pub use xds_grpc::{
        Keepalive, TcpProbes,
        client::{Resolve, Resolving},
        runtime::{BoxFuture, Io, Listen, Runtime, StdUnixListener},
        socket,
    };
}
/// Simulation in virtual time.
#[cfg(feature = "sim")]
pub use xds_sim as sim;

pub use xds_core::{Nonce, ResourceName, TypeUrl, Version, ViewName, types};

#[cfg(feature = "channel")]
pub use self::channel::channel;
pub use self::message::ResourceMessage;
#[doc(hidden)]
pub use self::message::number_of_field;
#[cfg(feature = "envoy-types")]
pub use self::message::resources;
#[cfg(all(feature = "tokio", feature = "client"))]
pub use self::tokio::Client;
#[cfg(all(feature = "tokio", feature = "server"))]
pub use self::tokio::ManagementServer;

/// The messages of the Envoy API, for the fields of the [`resources`].
#[cfg(feature = "envoy-types")]
pub use envoy_types;

/// Resource types that check the constraints of the API.
#[cfg(feature = "validation")]
pub mod validation {
    pub use xds_handle::{Deprecations, Validated, ValidatedTypes};
}
