//! Test cases for adapters of [`xds_core`], run over loopback.
//!
//! An adapter contains no rules of the protocol, but it can make mistakes in transporting bytes and
//! in keeping time. The peers in this crate use sockets and HTTP only, without the cores, and each
//! does one unusual thing: it withholds headers, sends too much, falls silent, or does not read. A
//! case runs an adapter against such a peer and panics if the adapter behaves wrongly.
//!
//! | cases | adapter | subject |
//! |---|---|---|
//! | [`client::GRPC`] | [`ClientAdapter`] | streams, with and without TLS |
//! | [`client::REST`] | [`ClientAdapter`] | polling over REST-JSON |
//! | [`client::FILES`] | [`ClientAdapter`] | files |
//! | [`server::GRPC`] | [`ServerAdapter`] | streams |
//! | [`server::REST`] | [`RestServerAdapter`] | polling over REST-JSON |
//!
//! [`kick`] finds lost wake-ups in runs with a paused clock.
//!
//! A test of an adapter runs the cases that apply to it:
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

/// Test case for one kind of adapter.
#[derive(Debug)]
#[non_exhaustive]
pub struct Case<A: ?Sized + 'static> {
    /// Expected behaviour.
    pub name: &'static str,
    /// Runs the case.
    ///
    /// # Panics
    ///
    /// Panics if the adapter does not behave as expected.
    pub run: fn(&A),
}

/// Adapter that starts clients.
pub trait ClientAdapter {
    /// Starts a client in the background and returns its handle.
    fn connect(&self, config: ClientConfig, settings: &ClientSettings) -> ClientHandle;
}

/// Client settings that are not part of the core's configuration.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ClientSettings {
    /// Interval of pings to the server, and time limit for the reply. `None` uses
    /// the adapter's default.
    pub keepalive: Option<(Duration, Duration)>,
    /// Time limit for connecting. `None` uses the adapter's default.
    pub connect_timeout: Option<Duration>,
    /// TLS files for servers with the transport `secured`.
    pub tls: Option<TlsFiles>,
    /// File with a JWT to send with calls to these servers.
    pub token: Option<PathBuf>,
}

/// Adapter that starts management servers.
pub trait ServerAdapter {
    /// Starts a server on loopback in the background. It must accept requests of up to 1 MiB and no
    /// longer ones.
    fn start(&self, config: ServerConfig, settings: &ServerSettings) -> Box<dyn RunningServer>;
}

/// Server settings that are not part of the core's configuration.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ServerSettings {
    /// Interval of pings to clients, and time limit for the reply. `None` uses
    /// the adapter's default.
    pub keepalive: Option<(Duration, Duration)>,
}

/// Adapter that starts management servers for polling over REST-JSON, of this
/// or another implementation.
pub trait RestServerAdapter {
    /// Starts a server on loopback in the background.
    ///
    /// The server knows the schema of the API and holds requests for `hold`.
    fn start_rest(&self, config: ServerConfig, hold: Duration) -> Box<dyn RunningServer>;
}

/// Running management server, which stops when dropped.
pub trait RunningServer {
    /// Returns the address that the server listens on.
    fn address(&self) -> SocketAddr;

    /// Applies a change to the resources.
    fn apply(&self, change: Transaction);

    /// Shuts the server down: its streams end once the client has answered the last responses.
    fn drain(&self);
}
