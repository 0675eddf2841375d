//! Client status discovery (CSDS, gRFC A40): what the clients of a process hold, or those of a management
//! server, for tools that ask.
//!
//! [`CsdsService`] is a gRPC service to be mounted on a server of one's own, which for a program with
//! nothing else to serve is a port on loopback.
//!
//! Whoever can call it reads the whole configuration, which is nobody's business but the operator's:
//! mount it where only operators come. The contents of secrets are left out even so, unless
//! [asked for](CsdsService::with_secrets). A management server tells nothing before it has been said
//! [who may read it](ServerCsdsService::with_authorizer).
//!
//! | file | what it does |
//! |---|---|
//! | `mod.rs` | the clients that are told of, and the answer to one question |
//! | `server.rs` | the clients of a management server, as it answers |
//! | `readers.rs` | who may be told of which of these |
//! | `calls.rs` | the two methods over gRPC |

mod calls;
mod readers;
mod server;

use core::{
    convert::Infallible,
    marker::PhantomData,
    task::{Context, Poll},
    time::Duration,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tonic::{Status, body::Body, server::NamedService};
use xds_core::{
    client::Contents,
    proto::{ClientStatusRequest, ClientStatusResponse},
};
use xds_handle::{ClientHandle, WeakClientHandle};

use self::calls::{Answers, BoxFuture, serve};
pub use self::{
    readers::{ReadAuthorizer, ReadPermission, Readable, Readee, Reader},
    server::ServerCsdsService,
};
use crate::{
    grpc::CSDS_SERVICE,
    runtime::{Runtime, Shared},
};

/// The service `envoy.service.status.v3.ClientStatusDiscoveryService`, with both of its methods, as
/// clients answer it.
///
/// An answer has one entry per registered client, in the order of registration, with the resources
/// as the client's watchers have them at that moment (CM-01 to CM-06, CM-09). A client that has ended
/// is not in it; with no client it is empty (CM-08).
///
/// What is asked wrongly is refused with `INVALID_ARGUMENT`: node matchers, which a server with many
/// clients of its own would understand (CM-07), and requests that cannot be decoded. A client whose
/// driver does not answer within ten seconds fails the call with `ABORTED`.
///
/// Clones share the clients that are registered with any of them.
#[derive(Debug)]
pub struct CsdsService<R> {
    clients: Arc<Mutex<Vec<Registered>>>,
    /// What is told unless the question wants less.
    contents: Contents,
    runtime: Shared,
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
        Self {
            clients: Arc::default(),
            contents: Contents::default(),
            runtime: Shared::new(R::default()),
            _of: PhantomData,
        }
    }
}

#[derive(Clone, Debug)]
struct Registered {
    scope: Arc<str>,
    client: WeakClientHandle,
}

/// A client's driver answers between two turns. One that takes longer is not being polled.
const PATIENCE: Duration = Duration::from_secs(10);

impl<R: Runtime + Default> CsdsService<R> {
    /// A service that tells of no client yet, and never of what is inside secrets.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells what is inside secrets as well, private keys included.
    #[must_use]
    pub fn with_secrets(mut self) -> Self {
        self.contents = Contents::All;
        self
    }

    /// Tells of one more client from now on, until it ends. The service does not keep it alive.
    ///
    /// `scope` is what the client was made for, as a gRPC target, or `#server` for one that
    /// configures a server. It is how those who ask tell clients apart (A71).
    pub fn register(&self, scope: impl Into<Arc<str>>, client: &ClientHandle) {
        let mut clients = self.lock();
        clients.retain(|registered| registered.client.upgrade().is_some());
        clients.push(Registered { scope: scope.into(), client: client.downgrade() });
    }
}

impl<R> CsdsService<R> {
    fn lock(&self) -> MutexGuard<'_, Vec<Registered>> {
        // Nothing panics under this lock; a poisoned one would still hold a sound list.
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: 'static> Answers for CsdsService<R> {
    async fn answer(&self, request: ClientStatusRequest) -> Result<ClientStatusResponse, Status> {
        if !request.node_matchers.is_empty() {
            return Err(Status::invalid_argument(
                "node_matchers: a client tells of itself and matches no nodes",
            ));
        }
        let contents = match request.exclude_resource_contents {
            true => Contents::None,
            false => self.contents,
        };
        let clients = self.lock().clone();
        let mut answer = ClientStatusResponse::default();
        for Registered { scope, client } in clients {
            let Some(client) = client.upgrade() else { continue };
            let looked = client.csds(&*scope, contents);
            match self.runtime.timeout(PATIENCE, looked).await {
                Some(Ok(config)) => answer.config.push(config),
                // It has ended since, and is told of no more than if it had a moment before.
                Some(Err(_ended)) => {}
                None => {
                    return Err(Status::aborted(format!("client {scope} does not answer")));
                }
            }
        }
        Ok(answer)
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
    type Future = BoxFuture<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        serve(self.clone(), request)
    }
}
