//! Client status discovery service (CSDS, [gRFC A40]): reports the configuration of the clients of
//! a process, or of a management server's clients, to tools.
//!
//! [`CsdsService`] is a gRPC service to add to an application's gRPC server. If the application has
//! none, listen on a loopback port.
//!
//! The service exposes the complete configuration, so restrict access to operators. Contents of
//! secrets are omitted unless [enabled](CsdsService::with_secrets). [`ServerCsdsService`] rejects
//! all calls until an [authorizer](ServerCsdsService::with_authorizer) is set.
//!
//! | file | content |
//! |---|---|
//! | `mod.rs` | status of registered clients |
//! | `server.rs` | status of a management server's clients |
//! | `access.rs` | authorization to read the status of a management server's clients |
//! | `calls.rs` | the gRPC methods |
//!
//! [gRFC A40]: https://github.com/grpc/proposal/blob/master/A40-csds-support.md

mod access;
mod calls;
mod server;

use core::{
    convert::Infallible,
    marker::PhantomData,
    task::{Context, Poll},
    time::Duration,
};
use std::sync::{Arc, Mutex, MutexGuard};

use tonic::{Response, Status, body::Body, server::NamedService};
use xds_core::{
    client::Contents,
    proto::{ClientStatusRequest, ClientStatusResponse},
};
use xds_handle::{ClientHandle, WeakClientHandle};

use self::calls::{StatusHandler, serve};
pub use self::{
    access::{CsdsAuthorizer, CsdsCaller, CsdsDecision, ReportedClient, VisibleClients},
    server::ServerCsdsService,
};
use crate::{
    grpc::CSDS_SERVICE,
    guard::locked,
    runtime::{BoxFuture, Runtime, SharedRuntime},
};

/// Service `envoy.service.status.v3.ClientStatusDiscoveryService` for the clients of this process.
///
/// A response has one entry per registered client, in the order of registration, with the resources
/// as the client's watchers see them. Clients that have ended are omitted. Without clients the
/// response is empty.
///
/// Requests with node matchers fail with `INVALID_ARGUMENT`, because only a server that reports
/// several nodes supports them. Requests that cannot be decoded fail with the same status. If the
/// driver of a client does not respond within 10 s, the call fails with `ABORTED`.
///
/// Clones share the registered clients.
// CM-01 to CM-06, CM-07, CM-08, CM-09
#[derive(Debug)]
pub struct CsdsService<R> {
    clients: Arc<Mutex<Vec<Registered>>>,
    /// Contents included unless a request excludes them.
    contents: Contents,
    runtime: SharedRuntime,
    _of: PhantomData<fn() -> R>,
}

impl<R> Clone for CsdsService<R> {
    fn clone(&self) -> Self {
        Self {
            clients: Arc::clone(&self.clients),
            contents: self.contents,
            runtime: self.runtime.clone(),
            _of: PhantomData,
        }
    }
}

impl<R: Runtime + Default> Default for CsdsService<R> {
    fn default() -> Self {
        Self::on(R::default())
    }
}

#[derive(Clone, Debug)]
struct Registered {
    scope: Arc<str>,
    client: WeakClientHandle,
}

/// Maximum time to wait for a client's driver. A driver that takes longer is not being polled.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

impl<R: Runtime + Default> CsdsService<R> {
    /// Creates a service without clients that omits the contents of secrets.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl<R: Runtime> CsdsService<R> {
    /// Creates a service like [`new`](Self::new), on this runtime.
    #[must_use]
    pub fn on(runtime: R) -> Self {
        Self {
            clients: Arc::default(),
            contents: Contents::default(),
            runtime: SharedRuntime::new(runtime),
            _of: PhantomData,
        }
    }

    /// Includes the contents of secrets, even private keys.
    #[must_use]
    pub fn with_secrets(mut self) -> Self {
        self.contents = Contents::All;
        self
    }

    /// Registers a client. It is reported until it ends; the service does not keep it alive.
    ///
    /// `scope` identifies the client in responses ([gRFC A71]): the gRPC target that the client
    /// serves, or `#server` for a client that configures a gRPC server.
    ///
    /// [gRFC A71]: https://github.com/grpc/proposal/blob/master/A71-xds-fallback.md
    pub fn register(&self, scope: impl Into<Arc<str>>, client: &ClientHandle) {
        let mut clients = self.lock();
        clients.retain(|registered| registered.client.upgrade().is_some());
        clients.push(Registered { scope: scope.into(), client: client.downgrade() });
    }
}

impl<R> CsdsService<R> {
    fn lock(&self) -> MutexGuard<'_, Vec<Registered>> {
        locked(&self.clients)
    }
}

impl<R: 'static> StatusHandler for CsdsService<R> {
    async fn handle(
        &self,
        request: ClientStatusRequest,
    ) -> Result<Response<ClientStatusResponse>, Status> {
        if !request.node_matchers.is_empty() {
            return Err(Status::invalid_argument(
                "node_matchers: not supported by clients, which report only themselves",
            ));
        }
        let contents = match request.exclude_resource_contents {
            true => Contents::None,
            false => self.contents,
        };
        let clients = self.lock().clone();
        let mut response = ClientStatusResponse::default();
        for Registered { scope, client } in clients {
            let Some(client) = client.upgrade() else { continue };
            let config = client.csds(&*scope, contents);
            match self.runtime.timeout(CLIENT_TIMEOUT, config).await {
                Some(Ok(config)) => response.config.push(config),
                // The client has ended in the meantime.
                Some(Err(_ended)) => {}
                None => {
                    return Err(Status::aborted(format!("client {scope} does not respond")));
                }
            }
        }
        Ok(Response::new(response))
    }
}

impl<R> NamedService for CsdsService<R> {
    const NAME: &'static str = CSDS_SERVICE;
}

impl<R, B> tower_service::Service<http::Request<B>> for CsdsService<R>
where
    R: 'static,
    B: http_body::Body<Data: Send> + Send + 'static,
    B::Error: Into<Box<dyn core::error::Error + Send + Sync>> + Send,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        serve(self.clone(), request)
    }
}
