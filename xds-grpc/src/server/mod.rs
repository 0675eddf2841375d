//! The management server: a driver task around [`xds_core::server::Server`], and listeners.
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
//! | `listen_address.rs`, `socket_file.rs` | where to listen; socket files |
//! | `listener.rs`, `connection.rs` | connections accepted, secured, served and cut |
//! | `peer.rs`, `authorize.rs` | who is at the other end, and who decides what it sees |
//! | `handle.rs`, `reports.rs` | what the application holds, and what it is told when it asks |
//! | `events.rs` | what the application is asked |
//! | `waits.rs` | who waits until all clients have accepted a change |
//! | `health.rs` | what is told of the server's health |
//! | `log.rs` | what is logged at which level |
//! | `options.rs` | keepalive, limits |

mod authorize;
mod body;
mod connection;
mod driver;
mod events;
mod gate;
mod handle;
mod health;
mod inbox;
mod listen_address;
mod listener;
mod log;
mod options;
mod peer;
mod preface;
mod reports;
mod routes;
mod service;
#[cfg(unix)]
mod socket_file;
mod waits;

use core::time::Duration;
use std::{io, sync::Arc};

use tokio::{select, sync::broadcast};
use tonic::service::Routes;
use tonic_health::{pb::health_server::HealthServer, server::HealthService};
use xds_core::server::{DrainPlan, ServerConfig};

pub use self::{
    authorize::{Admitted, Applicant, Authorizer, Denied, Permission},
    events::{ServerEvent, ServerEvents},
    handle::{
        ApplyError, AsideRefused, ConvergenceError, LayersRefused, Observations, Observed,
        ServerEnded, ServerHandle,
    },
    listen_address::{BoundAddress, ListenAddress, UnixSocket},
    listener::Listener,
    options::ServerOptions,
    peer::Peer,
    reports::{RejectionSnapshot, SubscriptionSnapshot},
    service::DiscoveryService,
};
use self::{
    connection::{Connections, Serves},
    driver::{Audience, Driver},
    events::EventQueue,
    gate::Gate,
    health::Health,
    inbox::{Inbox, Input},
};
pub use crate::address::AddressFault;
use crate::runtime::{Listen, Runtime, Shared};

/// A management server over gRPC.
///
/// It lives as long as somebody can reach it: this value, a [`ServerHandle`], a [`DiscoveryService`], a
/// listener that serves, or an open stream.
#[derive(Clone, Debug)]
pub struct ManagementServer<R> {
    inbox: Inbox,
    handle: ServerHandle,
    health: Health,
    options: ServerOptions,
    gate: Arc<Gate>,
    runtime: R,
}

impl<R: Runtime + Clone + Default> ManagementServer<R> {
    /// Starts a server without resources on the runtime. It serves nobody until it is given
    /// a listener, or its [service](Self::service) is added to a gRPC server.
    ///
    /// # Panics
    ///
    /// Where tasks of the runtime cannot be spawned, as outside of tokio's.
    #[must_use = "the server ends when nobody can reach it"]
    pub fn start(config: ServerConfig, options: ServerOptions) -> Self {
        let (server, driver) = Self::driver(config, options);
        server.runtime.spawn(Box::pin(driver));
        server
    }

    /// A server and the future that drives it, for those who want to spawn it themselves. The future
    /// needs the runtime, with whatever it has for time and I/O. Dropping it ends the server.
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
        let runtime = R::default();
        let gate = Arc::new(Gate::new(options.max_connections, observations.downgrade()));
        let driver = Driver::new(
            config,
            &options,
            &inbox,
            outlet,
            Audience { observations, events, health: health.clone() },
            Shared::new(runtime.clone()),
        );
        (Self { inbox, handle, health, options, gate, runtime }, driver.run())
    }
}

impl<R> ManagementServer<R> {
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

    /// The discovery services for a gRPC server of one's own, beside whatever else it serves.
    ///
    /// To serve more than discovery on the server's own listeners, with its TLS and keepalive, there is
    /// [`serve_routes`](Self::serve_routes).
    #[must_use]
    pub fn routes(&self) -> Routes {
        routes::routes(&self.service())
    }

    /// The gRPC health service (`grpc.health.v1.Health`): `SERVING` while the server takes clients, also
    /// by the name of each discovery service. It is no part of [`routes`](Self::routes), as a server has
    /// one for all that it serves.
    #[must_use]
    pub fn health(&self) -> HealthServer<HealthService> {
        self.health.service()
    }

    /// Whether the [health](Self::health) service reports `SERVING`. It does not before the server is
    /// [ready](ServerHandle::set_ready), and while it drains.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.health.is_serving()
    }
}

impl<R: Listen> ManagementServer<R> {
    /// Listens on an address, for [`serve`](Self::serve) and the other methods like it; with the listener comes where
    /// it is, which says what port was chosen.
    ///
    /// Over a socket file TLS is spoken as over TCP, if the server has
    /// [credentials](ServerOptions::with_credentials); clients take its certificate to be for `localhost` unless
    /// they are told otherwise.
    ///
    /// # Errors
    ///
    /// The address cannot be bound, its name cannot be resolved, or there is another server or another file where
    /// the socket file is to be.
    pub async fn bind(
        address: &ListenAddress,
    ) -> io::Result<(Listener<R::Listener, R::UnixListener>, BoundAddress)> {
        listener::bind::<R>(address).await
    }

    /// Listens on an address until the server is [shut down](ServerHandle::shut_down).
    ///
    /// # Errors
    ///
    /// Those of [`bind`](Self::bind).
    pub async fn serve_addr(&self, address: impl Into<ListenAddress>) -> io::Result<()> {
        let (listener, _) = Self::bind(&address.into()).await?;
        self.serve(listener).await
    }

    /// Serves discovery and [`health`](Self::health) on the connections of a listener until the server is
    /// [shut down](ServerHandle::shut_down); then the listener closes and connections have the
    /// [grace](ServerOptions::shutdown_grace) to end before they are cut. Several listeners may serve
    /// at a time. Dropping the future closes this one and cuts its connections.
    ///
    /// # Errors
    ///
    /// None yet: a listener that fails to accept is tried again.
    pub fn serve(
        &self,
        listener: impl Into<Listener<R::Listener, R::UnixListener>>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let routes = self.routes().add_service(self.health());
        self.serve_routes(listener, routes)
    }

    /// Serves like [`serve`](Self::serve), but what the application says: [`routes`](Self::routes), and
    /// services beside them such as [`health`](Self::health).
    ///
    /// # Errors
    ///
    /// None yet: a listener that fails to accept is tried again.
    pub fn serve_routes(
        &self,
        listener: impl Into<Listener<R::Listener, R::UnixListener>>,
        routes: Routes,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.serve_on(listener.into(), Serves::Grpc(routes.prepare()))
    }

    /// Serves clients that poll over REST-JSON, like [`serve`](Self::serve) does those of gRPC.
    ///
    /// # Errors
    ///
    /// None yet: a listener that fails to accept is tried again.
    #[cfg(feature = "rest")]
    pub fn serve_rest(
        &self,
        listener: impl Into<Listener<R::Listener, R::UnixListener>>,
        schema: &'static xds_format::Schema,
        options: xds_rest::GatewayOptions,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let timer = Shared::new(self.runtime.clone());
        let health = self.health.clone();
        let gateway = xds_rest::Gateway::new(self.service(), schema, timer, options)
            .with_readiness(move || health.is_serving());
        self.serve_on(listener.into(), Serves::Rest(gateway))
    }

    fn serve_on(
        &self,
        listener: Listener<R::Listener, R::UnixListener>,
        serves: Serves,
    ) -> impl Future<Output = io::Result<()>> + Send + use<R> {
        let inbox = self.inbox.clone();
        let runtime = Shared::new(self.runtime.clone());
        let connections = Connections::new(serves, self.options.clone(), runtime);
        let gate = Arc::clone(&self.gate);
        async move {
            listener::serve::<R>(listener, connections, &gate, inbox.ended()).await;
            Ok(())
        }
    }

    /// Serves like [`serve`](Self::serve), and when `signal` completes shuts the whole server down: streams
    /// end as soon as what is on its way has been answered, within the
    /// [grace](ServerOptions::shutdown_grace).
    ///
    /// # Errors
    ///
    /// None yet: a listener that fails to accept is tried again.
    pub async fn serve_with_shutdown(
        &self,
        listener: impl Into<Listener<R::Listener, R::UnixListener>>,
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
