//! gRPC server on tokio or another runtime that is configured by xDS ([gRFC A36]).
//!
//! | file | content |
//! |---|---|
//! | `options.rs` | options |
//! | `state.rs` | whether the server serves |
//! | `from_bootstrap.rs` | servers from a bootstrap |
//! | `driver.rs` | listens as the configuration says |
//! | `handler.rs` | connections and calls |
//! | `tls.rs` | TLS of a filter chain, names in client certificates |
//!
//! [gRFC A36]: https://github.com/grpc/proposal/blob/master/A36-xds-for-servers.md

mod driver;
mod from_bootstrap;
mod handler;
mod options;
mod state;
mod tls;

use core::{future::Future, net::SocketAddr};

use tokio::sync::watch;
use tonic::service::Routes;
use xds_grpc::runtime::Listen;
use xds_handle::ClientHandle;
use xds_tokio::Tokio;

use self::driver::ServerDriver;
pub use self::{
    options::XdsServerOptions,
    state::{ServingState, ServingStates},
};

/// gRPC server for tonic's services whose listener is configured by xDS ([gRFC A36]).
///
/// The management server defines which clients may connect, the TLS of the connections ([gRFC
/// A29]), and the calls that they may make ([gRFC A41]). The services need no changes:
///
/// ```no_run
/// use tonic::service::Routes;
/// use tonic_health::server::health_reporter;
/// use xds_channel::XdsChannels;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (_reporter, health) = health_reporter();
/// let server = XdsChannels::of_process()?.server("0.0.0.0:50051".parse()?)?;
/// server.serve(Routes::new(health)).await;
/// # Ok(())
/// # }
/// ```
///
/// # Serving
///
/// The port is open only while the server has a valid configuration. [`states`](Self::states) tells
/// whether it serves and why not; changes are logged too.
///
/// - The listener is watched under the name that the bootstrap's
///   `server_listener_resource_name_template` gives. It must have the address of the server.
/// - If the listener is lost, the port is closed and the connections are drained: clients are told to
///   go elsewhere, and calls that have begun continue for at most the
///   [drain grace](XdsServerOptions::drain_grace). A listener that the management server deletes is
///   lost only if the bootstrap has `fail_on_data_errors` for that server; otherwise it stays in use
///   ([gRFC A88]).
/// - If the listener changes, the port stays open, new connections use the new listener, and the
///   connections of the old one are drained. Changes of route configurations apply to all calls at
///   once.
/// - If the management server is unreachable, or the xDS client has ended, the last configuration
///   stays in use.
/// - If the port cannot be opened, that is tried again every five seconds.
///
/// # Connections and calls
///
/// A connection that no filter chain matches is closed without an answer. The certificates of TLS
/// come from the certificate providers of the bootstrap; a connection whose certificates are not
/// available is closed as well.
///
/// A call is routed by its authority and path. Calls without a matching route, or whose route has an
/// action other than `non_forwarding_action`, fail with `UNAVAILABLE`, and those that an RBAC filter
/// rejects with `PERMISSION_DENIED`. All others reach the services. Their requests have two
/// extensions: tonic's `TcpConnectInfo` (for `Request::remote_addr`), and a
/// [`Connection`](xds_routing::serving::Connection) with the names in the client's certificate.
///
/// [gRFC A29]: https://github.com/grpc/proposal/blob/master/A29-xds-tls-security.md
/// [gRFC A36]: https://github.com/grpc/proposal/blob/master/A36-xds-for-servers.md
/// [gRFC A41]: https://github.com/grpc/proposal/blob/master/A41-xds-rbac.md
/// [gRFC A88]: https://github.com/grpc/proposal/blob/master/A88-xds-data-error-handling.md
#[derive(Debug)]
#[must_use = "a server does nothing until it serves"]
pub struct XdsServer<R: Listen = Tokio> {
    client: ClientHandle,
    address: SocketAddr,
    options: XdsServerOptions,
    runtime: R,
    states: watch::Sender<ServingState>,
}

impl XdsServer {
    /// Creates a server on tokio that listens on an address, with an existing xDS client. The client
    /// should know the types [`Listeners`](xds_routing::Listeners) and
    /// [`RouteConfigurations`](xds_routing::RouteConfigurations).
    ///
    /// The port must not be 0, because the listener of the management server has the same address.
    pub fn new(client: &ClientHandle, address: SocketAddr, options: XdsServerOptions) -> Self {
        Self {
            client: client.clone(),
            address,
            options,
            runtime: Tokio,
            states: watch::Sender::new(ServingState::unknown()),
        }
    }
}

impl<R: Listen> XdsServer<R> {
    /// Sets the runtime of the server's tasks, timers and connections.
    pub fn with_runtime<L: Listen>(self, runtime: L) -> XdsServer<L> {
        let Self { client, address, options, states, .. } = self;
        XdsServer { client, address, options, runtime, states }
    }

    /// Returns the states of the server: whether it serves.
    #[must_use]
    pub fn states(&self) -> ServingStates {
        ServingStates::new(self.states.subscribe())
    }

    /// Serves the services until the future is dropped.
    pub async fn serve(self, services: Routes) {
        self.serve_until(services, core::future::pending()).await;
    }

    /// Serves the services until `ended` completes. Then closes the port, and waits for the calls to
    /// end, at most for the [shutdown grace](XdsServerOptions::shutdown_grace).
    pub async fn serve_until(self, services: Routes, ended: impl Future<Output = ()>) {
        let Self { client, address, options, runtime, states } = self;
        let driver = ServerDriver::new(client, address, options, runtime, states, services);
        driver.run(ended).await;
    }
}
