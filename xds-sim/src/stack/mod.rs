//! Simulation of the code that ships: drivers, HTTP/2, TLS, gRPC channels and services, files, and
//! applications in virtual time.
//!
//! A [`Stage`] has hosts and a network between them. Each [`Host`] is a
//! [`Runtime`](xds_grpc::runtime::Runtime), so the clients, servers and channels of this project run
//! on it unchanged, and so does an application that uses `tokio::spawn` and `tokio::time`. The clock
//! is virtual: it jumps to the next timer when all tasks are idle.
//!
//! | on a host | how |
//! |---|---|
//! | client, management server of the facade `xds` | `Client::connect("server:18000").start_on(host)`, `ManagementServer::builder().bind_on(host, "0.0.0.0:18000")` |
//! | those of `xds-grpc` | `connect(host, config, options)`, `ManagementServer::start_on(host, config, options)` |
//! | gRPC channel of `xds-channel` | `ChannelOptions::new("node").with_runtime(host)` |
//! | gRPC server of `xds-channel` | `XdsServer::new(&client, address, options).with_runtime(host)` |
//! | gRPC service of tonic | [`Host::serve`] |
//! | gRPC client of tonic | [`Host::connector`] |
//! | REST-JSON | `ManagementServer::serve_rest` on a [`Host::listen`]er; `ServerAddress::with_polling` |
//! | files and directories | `ServerAddress::with_file`, [`Host::watch_place`]; the files are real |
//! | dates, such as the validity of certificates | [`Host::date`] |
//!
//! The page of [`app`] lists what is not supported.
//!
//! A scenario is an async closure:
//!
//! ```
//! use std::time::Duration;
//! use xds_core::{
//!     client::{ClientConfig, Node, OpaqueType, ServerAddress},
//!     server::{ServerConfig, Transaction},
//!     types::CLUSTER,
//! };
//! use xds_grpc::{ClientOptions, ManagementServer, ServerOptions, client::connect};
//! use xds_sim::stack::Stage;
//!
//! let report = Stage::run(7, async |stage: &Stage| {
//!     let (near, far) = (stage.host("client"), stage.host("server"));
//!     let server = ManagementServer::start_on(
//!         far.clone(),
//!         ServerConfig::default(),
//!         ServerOptions::default().with_seed(7),
//!     );
//!     let serving = server.serve(far.listen(([0, 0, 0, 0], 18_000).into()).unwrap());
//!     far.start(async move { serving.await.unwrap() });
//!
//!     let address = ServerAddress::new("server:18000");
//!     let config = ClientConfig::new(Node::new("node-1"), address).with_type(OpaqueType::new(CLUSTER));
//!     let client = connect(near, config, ClientOptions::default().with_seed(7));
//!     let mut watch = client.watch_untyped(CLUSTER, "web");
//!     tokio::time::sleep(Duration::from_secs(3)).await;
//!     let mut change = Transaction::new();
//!     change.set(CLUSTER, "web", &b"\x0a\x03web"[..]);
//!     server.handle().apply(change).await.unwrap();
//!     watch.next().await.unwrap().unwrap();
//! });
//! assert!(report.trace.violation.is_none());
//! ```

pub use xds_fs;
pub use xds_grpc;
pub use xds_handle;

mod app;
mod app_runs;
pub mod certificates;
pub mod check;
mod files;
mod host;
mod memory;
mod messages;
mod network;
mod play;
mod run;
mod serve;
mod stage;
pub mod storm;

pub use self::{
    app::{App, ServerApp, app, server_app},
    host::{Host, StageListener},
    memory::MeasureMemory,
    network::{Conditions, DialOutcome, Socket},
    serve::{Connector, Serving},
    stage::{Stage, StageReport},
};
