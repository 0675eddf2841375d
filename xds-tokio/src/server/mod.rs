//! The management server: a driver task around [`xds_core::server::Server`], and listeners on tonic.
//!
//! ```text
//!  ServerHandle ── apply, status, shut_down ─┐
//!                                            ├─ inbox ─▶ driver ──▶ xds_core::server::Server
//!  AdsService ── a call ─────────────────────┤             │
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
//! | `service.rs` | the gRPC method as a tower service |
//! | `body.rs` | one response at a time, written in pieces |
//! | `listener.rs` | accepted connections |
//! | `handle.rs` | what the application holds |
//! | `log.rs` | what is logged at which level |
//! | `options.rs` | keepalive, limits |

mod body;
mod driver;
mod handle;
mod inbox;
mod listener;
mod log;
mod options;
mod service;

use std::{io, net::SocketAddr};

use tokio::{net::TcpListener, select, sync::broadcast, time::sleep};
use tonic::transport;
use xds_core::server::ServerConfig;

use self::{
    driver::Driver,
    inbox::{Inbox, Input},
    listener::Incoming,
};
pub use self::{
    handle::{ApplyError, Observations, Observed, ServerEnded, ServerHandle, SubscriptionSnapshot},
    options::ServerOptions,
    service::AdsService,
};
use crate::grpc::with_causes;

/// A management server over gRPC.
///
/// It lives as long as somebody can reach it: this value, a [`ServerHandle`], an [`AdsService`], a
/// listener that serves, or an open stream.
#[derive(Clone, Debug)]
pub struct ManagementServer {
    inbox: Inbox,
    handle: ServerHandle,
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
        let handle = ServerHandle::new(inbox.clone(), observations.downgrade());
        let driver = Driver::new(config, &options, &inbox, outlet, observations);
        (Self { inbox, handle, options }, driver.run())
    }

    /// The application's way to the server.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        self.handle.clone()
    }

    /// The server as a service for a gRPC server of one's own.
    #[must_use]
    pub fn service(&self) -> AdsService {
        AdsService::new(self.inbox.clone(), self.options.max_request_bytes)
    }

    /// Listens on an address until the server is [shut down](ServerHandle::shut_down).
    ///
    /// # Errors
    ///
    /// The address cannot be bound, or the listener failed.
    pub async fn serve_addr(&self, address: SocketAddr) -> io::Result<()> {
        self.serve(TcpListener::bind(address).await?).await
    }

    /// Serves the connections of a listener until the server is
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
        let (inbox, service, options) = (self.inbox.clone(), self.service(), self.options.clone());
        async move {
            let keepalive = options.keepalive;
            let (incoming, knife) = Incoming::new(listener, keepalive);
            let serving = transport::Server::builder()
                .http2_keepalive_interval(Some(keepalive.interval))
                .http2_keepalive_timeout(Some(keepalive.timeout))
                .max_concurrent_streams(options.max_concurrent_streams)
                .serve_with_incoming_shutdown(service, incoming, inbox.ended());
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

    /// Serves like [`serve`](Self::serve), and shuts the whole server down when `signal` completes.
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
            self.inbox.send(Input::ShutDown);
            core::future::pending().await
        };
        select! {
            result = serving => result,
            () = signalled => Ok(()),
        }
    }
}
