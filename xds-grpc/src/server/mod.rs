//! gRPC management server: a driver task around [`xds_core::server::Server`], and listeners.
//! [`Http2Server`] serves any other HTTP/2 service with the same listeners.
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
//! | folder | content |
//! |---|---|
//! | `access` | identity and authorization of clients |
//! | `options` | keepalive, limits |
//! | `memory` | memory budgets of a server and of a connection |
//! | `calls` | reading of requests; health service |
//! | `driver` | main loop, streams, responses |
//! | `handle` | the application's handle and its snapshots |
//! | `load_reports` | collector of load reports |
//! | `service` | the gRPC methods as a tower service and as tonic routes; REST |
//! | `connections` | listeners and connections |

mod access;
mod calls;
mod connections;
mod driver;
mod handle;
mod load_reports;
mod memory;
mod options;
mod service;

use std::{io, sync::Arc};

use tokio::{select, sync::broadcast};
use tonic::service::Routes;
pub use xds_core::server::ServerEvent;
use xds_core::server::{DrainPlan, ServerConfig};

pub(crate) use self::calls::timed_requests::RequestCount;
pub use self::{
    access::{
        authorize::{Admitted, AuthorizationDecision, AuthorizationRequest, Authorizer, Denied},
        peer::Peer,
        policies::{AllowSans, BothAuthorizers, InvalidSanPattern, NodeFromSan},
    },
    calls::health::HealthService,
    connections::{
        http2_server::{Acceptance, ConnectionHandler, Http2Options, Http2Server},
        listener::Listener,
    },
    driver::{
        events::ServerEvents,
        observations::{Observations, Observed},
        rollouts::SharedNews,
    },
    handle::{
        ApplyError, ConvergenceError, SendCustomMessageError, ServerEnded, ServerHandle,
        SetLayersError,
        reports::{RejectionSnapshot, SubscriptionSnapshot},
        rollouts::{RolloutCommandError, RolloutError, RolloutHandle},
        shared_rollouts::{SharedEvent, SharedEvents},
        source::SourceReport,
    },
    load_reports::LoadCollector,
    memory::transport_stats::TransportStats,
    options::ServerOptions,
    service::{DiscoveryService, load_reporting::LoadReportingService},
};
use self::{
    calls::health::Health,
    connections::{
        connection::{Connections, ServedProtocol},
        limit::{ConnectionLimit, ConnectionLimits},
        listener,
    },
    driver::{
        Driver, Reporters,
        events::EventQueue,
        inbox::{Inbox, Input},
        requests::RequestLimit,
    },
    memory::budgets::TransportBudgets,
    service::routes,
};
pub use crate::address::{AddressFault, BoundAddress, ListenAddress, UnixSocket};
use crate::{
    clock::Clock,
    runtime::{Listen, Runtime, SharedRuntime},
};

/// Management server over gRPC.
///
/// The server ends when nothing can reach it any more: no `ManagementServer`, [`ServerHandle`],
/// [`DiscoveryService`], serving listener or open stream is left.
#[derive(Clone, Debug)]
pub struct ManagementServer<R> {
    inbox: Inbox,
    handle: ServerHandle,
    health: Health,
    options: ServerOptions,
    connection_limit: Arc<ConnectionLimit>,
    budgets: TransportBudgets,
    runtime: R,
}

impl<R: Runtime + Clone + Default> ManagementServer<R> {
    /// Starts a server without resources on the runtime. To serve clients, give it a listener or
    /// add its [service](Self::service) to a gRPC server.
    ///
    /// # Panics
    ///
    /// Panics if tasks cannot be spawned, for example outside of a tokio runtime.
    #[must_use = "the server ends when its last handle and service are dropped"]
    pub fn start(config: ServerConfig, options: ServerOptions) -> Self {
        Self::start_on(R::default(), config, options)
    }

    /// Creates a server and the future that drives it, to be spawned by the caller.
    ///
    /// The future must run within the runtime, with its timers and I/O enabled. Dropping it ends
    /// the server.
    pub fn driver(
        config: ServerConfig,
        options: ServerOptions,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        Self::driver_on(R::default(), config, options)
    }
}

impl<R: Runtime + Clone> ManagementServer<R> {
    /// Starts a server like [`start`](Self::start), on this runtime.
    ///
    /// # Panics
    ///
    /// Panics if tasks cannot be spawned, for example outside of a tokio runtime.
    #[must_use = "the server ends when its last handle and service are dropped"]
    pub fn start_on(runtime: R, config: ServerConfig, options: ServerOptions) -> Self {
        let (server, driver) = Self::driver_on(runtime, config, options);
        server.runtime.spawn(Box::pin(driver));
        server
    }

    /// Creates a server and its future like [`driver`](Self::driver), for this runtime.
    pub fn driver_on(
        runtime: R,
        config: ServerConfig,
        options: ServerOptions,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (inbox, receiver) = Inbox::new();
        let (observations, _) = broadcast::channel(options.observation_capacity.max(1));
        let events = Arc::new(EventQueue::default());
        let shared = SharedRuntime::new(runtime.clone());
        let driver_inbox = inbox.downgrade();
        let budgets = TransportBudgets::new(&options, Clock::start(shared.clone()), move || {
            if let Some(inbox) = driver_inbox.upgrade() {
                inbox.send(Input::ResponseMemory);
            }
        });
        let observed = observations.downgrade();
        let handle = ServerHandle::new(
            inbox.clone(),
            observed.clone(),
            Arc::clone(&events),
            budgets.clone(),
            shared.clone(),
        );
        let health = Health::default();
        let counters = budgets.counters.clone();
        let limits = ConnectionLimits {
            connections: options.max_connections,
            connections_per_address: options.max_connections_per_address,
            handshakes: options.max_handshakes,
        };
        let connection_limit = Arc::new(ConnectionLimit::new(limits, observed, counters));
        let driver = Driver::new(
            config,
            &options,
            &inbox,
            receiver,
            Reporters { observations, events, health: health.clone() },
            budgets.clone(),
            shared,
        );
        let server = Self { inbox, handle, health, options, connection_limit, budgets, runtime };
        (server, driver.run())
    }
}

impl<R> ManagementServer<R> {
    /// Returns a handle of the server.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        self.handle.clone()
    }

    /// Returns the runtime of the server, for example to bind further listeners with
    /// [`bind_on`](Self::bind_on).
    #[must_use]
    pub const fn runtime(&self) -> &R {
        &self.runtime
    }

    /// Returns the discovery services as one tower service, for a gRPC server other than tonic's.
    #[must_use]
    pub fn service(&self) -> DiscoveryService {
        DiscoveryService::new(
            self.inbox.clone(),
            RequestLimit::of(&self.options),
            self.budgets.clone(),
        )
    }

    /// Returns the discovery services as tonic routes, for the application's own gRPC server.
    ///
    /// To add services to this server's listeners, with its TLS and keepalive, use
    /// [`serve_routes`](Self::serve_routes).
    #[must_use]
    pub fn routes(&self) -> Routes {
        routes::routes(&self.service())
    }

    /// Returns the gRPC health service (`grpc.health.v1.Health`).
    ///
    /// It reports `SERVING` while the server accepts clients, for the empty service name and for
    /// each discovery service. It is not part of [`routes`](Self::routes), because a gRPC server
    /// has only one health service.
    #[must_use]
    pub fn health(&self) -> HealthService {
        self.health.service(self.budgets.clone(), self.handle.runtime.clone())
    }

    /// Returns the service of load reports (LRS); `None` without
    /// [`ServerOptions::with_load_reports`]. It is not part of [`routes`](Self::routes).
    #[must_use]
    pub fn load_reports(&self) -> Option<LoadReportingService> {
        Some(LoadReportingService {
            collector: self.options.load_reports.clone()?,
            authorizer: self.options.authorizer.clone(),
            max_request_bytes: self.options.max_request_bytes,
            budgets: self.budgets.clone(),
            runtime: self.handle.runtime.clone(),
            inbox: self.inbox.clone(),
        })
    }

    /// Whether the [health](Self::health) service reports `SERVING`. It reports `NOT_SERVING` until
    /// the server is [ready](ServerHandle::set_ready), while it drains, and while its source is
    /// stale.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.health.is_serving()
    }
}

impl<R: Listen + Default> ManagementServer<R> {
    /// Binds a listener for [`serve`](Self::serve) and similar methods. Returns it with its actual
    /// address, which contains the port if port 0 was requested.
    ///
    /// If the server has [credentials](ServerOptions::with_credentials), TLS is used over socket
    /// files too. Clients expect a certificate for `localhost` there, unless another server name is
    /// configured.
    ///
    /// # Errors
    ///
    /// Returns an error if the address cannot be bound, the host name cannot be resolved, or the
    /// socket file is in use or not a socket.
    pub async fn bind(
        address: &ListenAddress,
    ) -> io::Result<(Listener<R::Listener, R::UnixListener>, BoundAddress)> {
        Self::bind_on(&R::default(), address).await
    }
}

impl<R: Listen> ManagementServer<R> {
    /// Binds a listener like [`bind`](Self::bind), with this runtime.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`bind`](Self::bind).
    pub async fn bind_on(
        runtime: &R,
        address: &ListenAddress,
    ) -> io::Result<(Listener<R::Listener, R::UnixListener>, BoundAddress)> {
        listener::bind(runtime, address).await
    }

    /// Listens on an address until the server is [shut down](ServerHandle::shut_down).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`bind`](Self::bind).
    pub async fn serve_addr(&self, address: impl Into<ListenAddress>) -> io::Result<()> {
        let (listener, _) = Self::bind_on(&self.runtime, &address.into()).await?;
        self.serve(listener).await
    }

    /// Serves discovery, [`health`](Self::health) and [load reports](Self::load_reports) on a listener until the server is [shut
    /// down](ServerHandle::shut_down).
    ///
    /// Then the listener closes, and its connections are closed after the
    /// [grace](ServerOptions::shutdown_grace) at the latest. A server can have several listeners.
    /// Dropping the future closes the listener and its connections. It must be polled on the server's
    /// runtime; [`spawn_serve`](Self::spawn_serve) does that.
    ///
    /// # Errors
    ///
    /// Currently none. Accepting is retried after a failure.
    pub fn serve(
        &self,
        listener: impl Into<Listener<R::Listener, R::UnixListener>>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let mut routes = self.routes().add_service(self.health());
        if let Some(load_reports) = self.load_reports() {
            routes = routes.add_service(load_reports);
        }
        self.serve_routes(listener, routes)
    }

    /// Serves a listener like [`serve`](Self::serve), on a task of its own. When the server has
    /// [ended](ServerHandle::ended), the listener is closed.
    ///
    /// # Panics
    ///
    /// Panics if tasks cannot be spawned, for example outside of a tokio runtime.
    pub fn spawn_serve(&self, listener: impl Into<Listener<R::Listener, R::UnixListener>>) {
        let listener = listener.into().registered(&self.handle.open_listeners);
        self.spawn(self.serve(listener));
    }

    /// Serves routes chosen by the application on a listener, like [`serve`](Self::serve). Usually
    /// these are [`routes`](Self::routes) with other services, such as [`health`](Self::health).
    ///
    /// # Errors
    ///
    /// Currently none. Accepting is retried after a failure.
    pub fn serve_routes(
        &self,
        listener: impl Into<Listener<R::Listener, R::UnixListener>>,
        routes: Routes,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.serve_on(listener.into(), ServedProtocol::Grpc(routes.prepare()))
    }

    /// Serves polling clients over REST-JSON on a listener, like [`serve`](Self::serve) does for
    /// gRPC.
    ///
    /// # Errors
    ///
    /// Currently none. Accepting is retried after a failure.
    #[cfg(feature = "rest")]
    pub fn serve_rest(
        &self,
        listener: impl Into<Listener<R::Listener, R::UnixListener>>,
        schema: &'static xds_format::Schema,
        options: xds_rest::GatewayOptions,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let timer = SharedRuntime::new(self.runtime.clone());
        let health = self.health.clone();
        let gateway = xds_rest::Gateway::new(self.service(), schema, timer, options)
            .with_readiness(move || health.is_serving());
        self.serve_on(listener.into(), ServedProtocol::Rest(gateway))
    }

    /// Serves polling clients like [`serve_rest`](Self::serve_rest), on a task of its own. When the
    /// server has [ended](ServerHandle::ended), the listener is closed.
    ///
    /// # Panics
    ///
    /// Panics if tasks cannot be spawned, for example outside of a tokio runtime.
    #[cfg(feature = "rest")]
    pub fn spawn_serve_rest(
        &self,
        listener: impl Into<Listener<R::Listener, R::UnixListener>>,
        schema: &'static xds_format::Schema,
        options: xds_rest::GatewayOptions,
    ) {
        let listener = listener.into().registered(&self.handle.open_listeners);
        self.spawn(self.serve_rest(listener, schema, options));
    }

    fn spawn(&self, serving: impl Future<Output = io::Result<()>> + Send + 'static) {
        self.runtime.spawn(Box::pin(async move {
            // Serving has no errors: accepting is retried.
            let _ = serving.await;
        }));
    }

    fn serve_on(
        &self,
        listener: Listener<R::Listener, R::UnixListener>,
        served: ServedProtocol,
    ) -> impl Future<Output = io::Result<()>> + Send + use<R> {
        let inbox = self.inbox.clone();
        let runtime = self.runtime.clone();
        let shared = SharedRuntime::new(runtime.clone());
        let connections =
            Connections::new(served, self.options.clone(), self.budgets.clone(), shared);
        let connection_limit = Arc::clone(&self.connection_limit);
        async move {
            let grace = connections.options.shutdown_grace;
            let ended = async {
                inbox.ended().await;
                grace
            };
            listener::serve(&runtime, listener, connections, &connection_limit, ended).await;
            Ok(())
        }
    }

    /// Serves a listener like [`serve`](Self::serve), and shuts the whole server down when `signal`
    /// completes.
    ///
    /// Streams then end as soon as their pending responses are answered, within the
    /// [grace](ServerOptions::shutdown_grace).
    ///
    /// # Errors
    ///
    /// Currently none. Accepting is retried after a failure.
    pub async fn serve_with_shutdown(
        &self,
        listener: impl Into<Listener<R::Listener, R::UnixListener>>,
        signal: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let serving = self.serve(listener);
        let signalled = async {
            signal.await;
            let grace = self.options.shutdown_grace;
            self.inbox.send(Input::Drain(DrainPlan::new(grace)));
            core::future::pending().await
        };
        select! {
            biased;
            result = serving => result,
            () = signalled => Ok(()),
        }
    }
}
