//! Authorization to read the client status of a management server.
// M235

use core::{fmt, future::Future};
use std::{collections::BTreeSet, sync::Arc};

use http::HeaderMap;
use tokio::sync::OnceCell;
use tonic::{Code, Status};
use tracing::warn;
use xds_core::{ViewName, server::StatusCode};

use crate::{
    guard::{caught, caught_future},
    runtime::BoxFuture,
    server::{AllowSans, Denied, Peer},
    shorthand::Printable,
};

/// Decides which clients' status a caller of [`ServerCsdsService`](super::ServerCsdsService) can
/// read.
///
/// The authorizer is called once per call, at its first request. The decision applies to the whole
/// call. A function from a [`CsdsCaller`] to a future is an authorizer:
///
/// ```
/// use xds_core::server::StatusCode;
/// use xds_grpc::csds::{VisibleClients, CsdsDecision, CsdsCaller};
/// use xds_grpc::server::Denied;
///
/// /// Operators see everything, and each team what is in its own view.
/// async fn by_certificate(caller: CsdsCaller) -> CsdsDecision {
///     let names = caller.peer.dns_names();
///     match names.first().and_then(|name| name.strip_suffix(".teams.example")) {
///         Some("operators") => Ok(VisibleClients::All),
///         Some(team) => Ok(VisibleClients::views([team])),
///         None => Err(Denied::new(StatusCode::PermissionDenied, "no team of ours")),
///     }
/// }
/// # let _ = by_certificate;
/// ```
pub trait CsdsAuthorizer: Send + Sync {
    /// Decides about one call. If the future panics, the call fails with `INTERNAL`. The future is
    /// dropped if the caller disconnects.
    fn authorize(&self, caller: CsdsCaller) -> BoxFuture<'_, CsdsDecision>;
}

impl<F, Decision> CsdsAuthorizer for F
where
    F: Fn(CsdsCaller) -> Decision + Send + Sync,
    Decision: Future<Output = CsdsDecision> + Send + 'static,
{
    fn authorize(&self, caller: CsdsCaller) -> BoxFuture<'_, CsdsDecision> {
        Box::pin(self(caller))
    }
}

impl CsdsAuthorizer for AllowSans {
    fn authorize(&self, caller: CsdsCaller) -> BoxFuture<'_, CsdsDecision> {
        let decision = self.check(&caller.peer).map(|()| VisibleClients::All);
        Box::pin(core::future::ready(decision))
    }
}

/// Decision about a call: the readable clients, or the status with which the call ends.
pub type CsdsDecision = Result<VisibleClients, Denied>;

/// Caller that requests client status.
#[derive(Clone)]
#[non_exhaustive]
pub struct CsdsCaller {
    /// Identity of the caller as known to the transport.
    pub peer: Peer,
    /// Headers of the call, such as a token in `authorization`. Not printed by `Debug`.
    pub metadata: HeaderMap,
}

impl CsdsCaller {
    pub(super) fn of<B>(request: &http::Request<B>) -> Self {
        Self { peer: Peer::of(request), metadata: request.headers().clone() }
    }
}

// Omits the metadata, which may contain secrets.
impl fmt::Debug for CsdsCaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CsdsCaller").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// Set of clients whose status a caller can read. Other clients are omitted from responses.
#[derive(Clone)]
#[non_exhaustive]
pub enum VisibleClients {
    /// All clients.
    All,
    /// Clients that see one of these views. A client that is not admitted yet sees no view.
    Views(Arc<BTreeSet<ViewName>>),
    /// Clients for which the function returns `true`.
    Matching(Arc<dyn Fn(ReportedClient<'_>) -> bool + Send + Sync>),
}

/// Client whose status may be read.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ReportedClient<'a> {
    /// Node id as reported by the client; empty if it sent none.
    pub node_id: &'a str,
    /// View of the client, also while it sees a copy of the view because of a rollout; `None` before
    /// it is admitted.
    pub view: Option<&'a ViewName>,
}

impl VisibleClients {
    /// Allows the clients that see one of the views.
    #[must_use]
    pub fn views<V: Into<ViewName>>(views: impl IntoIterator<Item = V>) -> Self {
        Self::Views(Arc::new(views.into_iter().map(Into::into).collect()))
    }

    /// Allows the clients for which the function returns `true`.
    ///
    /// The function runs on the server's driver for each matching client, so it must be fast. If it
    /// panics, the client is omitted.
    #[must_use]
    pub fn matching(
        is_visible: impl Fn(ReportedClient<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::Matching(Arc::new(is_visible))
    }

    pub(super) fn contains(&self, client: ReportedClient<'_>) -> bool {
        match self {
            Self::All => true,
            Self::Views(views) => client.view.is_some_and(|view| views.contains(view)),
            // Clients choose node ids, so a client could cause the panic.
            Self::Matching(is_visible) => caught(|| is_visible(client)).unwrap_or_else(|| {
                warn!(node = %Printable(client.node_id), "the authorizer's function panicked: the client is omitted");
                false
            }),
        }
    }
}

impl fmt::Debug for VisibleClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("All"),
            Self::Views(views) => f.debug_tuple("Views").field(views).finish(),
            Self::Matching(_) => f.write_str("Matching(..)"),
        }
    }
}

/// Configured authorization of a service.
#[derive(Clone)]
pub(super) enum StatusAccess {
    Nobody,
    Everyone,
    Authorizer(Arc<dyn CsdsAuthorizer>),
}

impl fmt::Debug for StatusAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nobody => "Nobody",
            Self::Everyone => "Everyone",
            Self::Authorizer(_) => "Authorizer",
        })
    }
}

/// Authorization decision of one call, made at the first request.
#[derive(Clone, Debug)]
pub(super) struct CallAuthorization {
    caller: CsdsCaller,
    cell: Arc<OnceCell<CsdsDecision>>,
}

impl CallAuthorization {
    pub(super) fn of(caller: CsdsCaller) -> Self {
        Self { caller, cell: Arc::default() }
    }

    /// Returns the decision. Calls the authorizer the first time.
    pub(super) async fn decision(&self, access: &StatusAccess) -> Result<VisibleClients, Status> {
        let cell = self.cell.get_or_init(|| self.decide(access)).await;
        cell.clone().map_err(|Denied { code, message, .. }| {
            Status::new(Code::from_i32(code.as_i32()), &*message)
        })
    }

    async fn decide(&self, access: &StatusAccess) -> CsdsDecision {
        let authorizer = match access {
            StatusAccess::Everyone => return Ok(VisibleClients::All),
            StatusAccess::Authorizer(authorizer) => authorizer,
            StatusAccess::Nobody => {
                let why = "access to client status is not enabled";
                return Err(Denied::new(StatusCode::PermissionDenied, why));
            }
        };
        // A panic must not end other calls on the same connection.
        let decision = caught_future(|| authorizer.authorize(self.caller.clone())).await;
        decision.unwrap_or_else(|| Err(Denied::new(StatusCode::Internal, "the authorizer failed")))
    }
}
