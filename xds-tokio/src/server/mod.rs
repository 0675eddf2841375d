//! The management server: a driver task around [`xds_core::server::Server`], and listeners on tonic.
//!
//! ```text
//!  ServerHandle ── apply, status, shut_down ─┐
//!                                            ├─ inbox ─▶ driver ──▶ xds_core::server::Server
//!  DiscoveryService ── a call ───────────────┤             │
//!  reader task, one per stream ── a request ─┘             │
//!       ▲ credit                                           │
//!       └──────────────────────────────────────────────────┤
//!  response body, one per stream ◀── slot for one response ┘
//! ```
//!
//! | file | what it does |
//! |---|---|
//! | `driver.rs` | the loop: inputs in, outputs obeyed, responses rendered where there is room |
//! | `inbox.rs` | everything that reaches the driver |
//! | `service.rs`, `routes.rs` | the gRPC methods as a tower service, and by the names of their services |
//! | `body.rs` | one response at a time, written in pieces |
//! | `listener.rs`, `connection.rs` | accepted connections, plain or over TLS |
//! | `peer.rs`, `authorize.rs` | who is at the other end, and who decides what it sees |
//! | `handle.rs`, `reports.rs` | what the application holds, and what it is told when it asks |
//! | `events.rs` | what the application is asked |
//! | `health.rs` | what is told of the server's health |
//! | `log.rs` | what is logged at which level |
//! | `options.rs` | keepalive, limits |

mod authorize;
mod body;
mod connection;
mod driver;
mod events;
mod handle;
mod health;
mod inbox;
mod listener;
mod log;
mod options;
mod peer;
mod reports;
mod routes;
mod service;

use core::time::Duration;
use std::{io, net::SocketAddr, sync::Arc};

use tokio::{net::TcpListener, select, sync::broadcast, time::sleep};
use tonic::{service::Routes, transport};
use tonic_health::{pb::health_server::HealthServer, server::HealthService};
use xds_core::server::{DrainPlan, ServerConfig};

pub use self::{
    authorize::{Applicant, Authorizer, Denied, Permission},
    events::{ServerEvent, ServerEvents},
    handle::{
        ApplyError, AsideRefused, ConvergenceError, LayersRefused, Observations, Observed,
        ServerEnded, ServerHandle,
    },
    options::ServerOptions,
    peer::Peer,
    reports::{RejectionSnapshot, SubscriptionSnapshot},
    service::DiscoveryService,
};
use self::{
    driver::Driver,
    events::EventQueue,
    health::Health,
    inbox::{Inbox, Input},
    listener::Incoming,
};
use crate::grpc::with_causes;

/// A management server over gRPC.
///
/// It lives as long as somebody can reach it: this value, a [`ServerHandle`], a [`DiscoveryService`], a
/// listener that serves, or an open stream.
#[derive(Clone, Debug)]
pub struct ManagementServer {
    inbox: Inbox,
    handle: ServerHandle,
    health: Health,
    options: ServerOptions,
}

impl ManagementServer {
    /// Starts a server without resources on the current runtime. It serves nobody until it is given
    /// a listener, or its [service](Self::service) is added to a gRPC server.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    #[must_use = "the server ends when nobody can reach it"]
    pub fn start(config: ServerConfig, options: ServerOptions) -> Self {
        let (server, driver) = Self::driver(config, options);
        tokio::spawn(driver);
        server
    }

    /// A server and the future that drives it, for those who want to spawn it themselves. The future
    /// needs a tokio runtime with time and I/O enabled. Dropping it ends the server.
    pub fn driver(
        config: ServerConfig,
        options: ServerOptions,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (inbox, outlet) = Inbox::new();
        let (observations, _) = broadcast::channel(options.observation_capacity.max(1));
        let events = Arc::new(EventQueue::default());
        let handle =
            ServerHandle::new(inbox.clone(), observations.downgrade(), Arc::clone(&events));
        let health = Health::default();
        let driver =
            Driver::new(config, &options, &inbox, outlet, observations, events, health.clone());
        (Self { inbox, handle, health, options }, driver.run())
    }

    /// The application's way to the server.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        self.handle.clone()
    }

    /// The discovery services as one tower service, for a server that is not tonic's.
    #[must_use]
    pub fn service(&self) -> DiscoveryService {
        DiscoveryService::new(self.inbox.clone(), self.options.max_request_bytes)
    }

    /// The discovery services for a gRPC server of one's own, beside whatever else it serves:
    ///
    /// ```
    /// use tokio::net::TcpListener;
    /// use tonic::transport::{Server, server::TcpIncoming};
    /// use xds_core::server::ServerConfig;
    /// use xds_tokio::{ManagementServer, ServerOptions, csds::CsdsService};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = ManagementServer::start(ServerConfig::default(), ServerOptions::default());
    /// let routes = server.routes().add_service(CsdsService::new());
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// tokio::spawn(
    ///     Server::builder().add_routes(routes).serve_with_incoming(TcpIncoming::from(listener)),
    /// );
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// To serve more than discovery on the server's own listeners, with its TLS and keepalive, there is
    /// [`serve_routes`](Self::serve_routes).
    #[must_use]
    pub fn routes(&self) -> Routes {
        routes::routes(&self.service())
    }

    /// Listens on an address until the server is [shut down](ServerHandle::shut_down).
    ///
    /// # Errors
    ///
    /// The address cannot be bound, or the listener failed.
    pub async fn serve_addr(&self, address: SocketAddr) -> io::Result<()> {
        self.serve(TcpListener::bind(address).await?).await
    }

    /// The gRPC health service (`grpc.health.v1.Health`): `SERVING` while the server takes clients, also
    /// by the name of each discovery service. It is no part of [`routes`](Self::routes), as a server has
    /// one for all that it serves:
    ///
    /// ```
    /// # use tokio::net::TcpListener;
    /// # use xds_core::server::ServerConfig;
    /// # use xds_tokio::{ManagementServer, ServerOptions};
    /// # async fn serve(server: ManagementServer, listener: TcpListener) -> std::io::Result<()> {
    /// let routes = server.routes().add_service(server.health());
    /// server.serve_routes(listener, routes).await
    /// # }
    /// ```
    #[must_use]
    pub fn health(&self) -> HealthServer<HealthService> {
        self.health.service()
    }

    /// Serves discovery and [`health`](Self::health) on the connections of a listener until the server is
    /// [shut down](ServerHandle::shut_down); then the listener closes and connections have the
    /// [grace](ServerOptions::shutdown_grace) to end before they are cut. Several listeners may serve
    /// at a time. Dropping the future closes this one and cuts its connections.
    ///
    /// # Errors
    ///
    /// The listener failed.
    pub fn serve(
        &self,
        listener: TcpListener,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let routes = self.routes().add_service(self.health());
        self.serve_routes(listener, routes)
    }

    /// Serves like [`serve`](Self::serve), but what the application says: [`routes`](Self::routes), and
    /// services beside them such as [`health`](Self::health).
    ///
    /// # Errors
    ///
    /// The listener failed.
    pub fn serve_routes(
        &self,
        listener: TcpListener,
        routes: Routes,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (inbox, options) = (self.inbox.clone(), self.options.clone());
        async move {
            let keepalive = options.keepalive;
            let (incoming, knife) = Incoming::new(listener, options.credentials, keepalive);
            let serving = transport::Server::builder()
                .http2_keepalive_interval(Some(keepalive.interval))
                .http2_keepalive_timeout(Some(keepalive.timeout))
                .max_concurrent_streams(options.max_concurrent_streams)
                .serve_with_incoming_shutdown(routes.prepare(), incoming, inbox.ended());
            let result = select! {
                result = serving => result,
                () = async {
                    inbox.ended().await;
                    sleep(options.shutdown_grace).await;
                } => Ok(()),
            };
            drop(knife);
            result.map_err(|error| io::Error::other(with_causes(&error)))
        }
    }

    /// Serves like [`serve`](Self::serve), and when `signal` completes shuts the whole server down: streams
    /// end as soon as what is on its way has been answered, within the
    /// [grace](ServerOptions::shutdown_grace).
    ///
    /// # Errors
    ///
    /// The listener failed.
    pub async fn serve_with_shutdown(
        &self,
        listener: TcpListener,
        signal: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let serving = self.serve(listener);
        let signalled = async {
            signal.await;
            let grace = self.options.shutdown_grace;
            self.inbox.send(Input::Drain(DrainPlan { over: Duration::ZERO, grace }));
            core::future::pending().await
        };
        select! {
            result = serving => result,
            () = signalled => Ok(()),
        }
    }
}
