//! What an adapter of [`xds_core`] has to do, as cases that run against it over loopback.
//!
//! An adapter has no rule of the protocol in it; what it can get wrong is the moving of bytes and time. The
//! peers here are made of sockets and HTTP alone, without either core, and do one thing after the other:
//! hold their headers back, say too much, fall silent, read nothing. Each case takes an adapter and panics
//! where it does not do what it has to.
//!
//! | cases | against | of |
//! |---|---|---|
//! | [`client::GRPC`] | a [`ClientAdapter`] | streams, and how they are secured |
//! | [`client::REST`] | the same | polling |
//! | [`client::FILES`] | the same | files |
//! | [`server::GRPC`] | a [`ServerAdapter`] | streams |
//! | [`server::REST`] | a [`RestServerAdapter`] | polling |
//!
//! [`kick`] finds what waits without a waker, in runs on a clock that stands still.
//!
//! A test of an adapter runs those that are about it:
//!
//! ```
//! # use xds_conformance::{ClientAdapter, ClientSettings, client};
//! # use xds_core::client::ClientConfig;
//! # use xds_handle::ClientHandle;
//! struct Mine;
//!
//! impl ClientAdapter for Mine {
//!     fn connect(&self, config: ClientConfig, settings: &ClientSettings) -> ClientHandle {
//!         // Start a driver around `config`, and hand out the application's end.
//! #       let _ = settings;
//! #       xds_handle::channel().0
//!     }
//! }
//!
//! fn conforms() {
//!     for case in client::GRPC {
//!         println!("{}", case.name);
//!         (case.run)(&Mine);
//!     }
//! }
//! ```
#![deny(missing_docs)]

mod certificates;
pub mod client;
mod folder;
pub mod kick;
pub mod ours;
mod peer;
mod raw;
mod rest;
pub mod server;
mod wait;

use core::{net::SocketAddr, time::Duration};
use std::path::PathBuf;

use xds_bootstrap::TlsFiles;
use xds_core::{
    client::ClientConfig,
    server::{ServerConfig, Transaction},
};
use xds_handle::ClientHandle;

/// Something that has to hold of adapters of a kind.
#[derive(Debug)]
#[non_exhaustive]
pub struct Case<A: ?Sized + 'static> {
    /// What holds, in words.
    pub name: &'static str,
    /// Finds out whether it does.
    ///
    /// # Panics
    ///
    /// It does not.
    pub run: fn(&A),
}

/// What starts clients.
pub trait ClientAdapter {
    /// Starts a client in the background. It is that of the handle.
    fn connect(&self, config: ClientConfig, settings: &ClientSettings) -> ClientHandle;
}

/// What of a client is not its core's.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ClientSettings {
    /// How often the server is pinged, and how long its answer may take; `None` is whatever the adapter
    /// does by itself.
    pub keepalive: Option<(Duration, Duration)>,
    /// How long connecting may take; `None` is whatever the adapter does by itself.
    pub connect_timeout: Option<Duration>,
    /// How servers are secured that name the transport `secured`.
    pub tls: Option<TlsFiles>,
    /// A file with a token that goes with the calls to them.
    pub token: Option<PathBuf>,
}

/// What starts management servers.
pub trait ServerAdapter {
    /// Starts a server on loopback, in the background. The longest request it takes is a MiB.
    fn start(&self, config: ServerConfig, settings: &ServerSettings) -> Box<dyn RunningServer>;
}

/// What of a server is not its core's.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ServerSettings {
    /// How often clients are pinged, and how long their answer may take; `None` is whatever the adapter does by
    /// itself.
    pub keepalive: Option<(Duration, Duration)>,
}

/// What starts management servers that are polled over REST-JSON, this repository's or others.
pub trait RestServerAdapter {
    /// Starts a server on loopback, in the background, which knows the schema of the API and holds requests for this
    /// long.
    fn start_rest(&self, config: ServerConfig, hold: Duration) -> Box<dyn RunningServer>;
}

/// A management server, which ends when it is dropped.
pub trait RunningServer {
    /// Where it listens.
    fn address(&self) -> SocketAddr;

    /// Changes its resources.
    fn apply(&self, change: Transaction);

    /// Ends it: streams first, as soon as what is on its way has been answered.
    fn drain(&self);
}
