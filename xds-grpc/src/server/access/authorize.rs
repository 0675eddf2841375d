//! Authorization of clients: who is served, which view they see, and their limits.

use core::{fmt, future::Future};
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use prost::{DecodeError, Message as _};
use xds_core::{
    StreamId, ViewName, proto,
    server::{PerClientLimits, StatusCode},
};

use super::{peer::Peer, policies::BothAuthorizers};
use crate::runtime::BoxFuture;

/// Decides whether a client is served and which view it sees.
///
/// The authorizer is called once per stream of discovery or load reports, when the first request has
/// identified the node. The stream's requests wait for the decision; other streams are not delayed. A function from an
/// [`AuthorizationRequest`] to a future is an authorizer:
///
/// ```
/// use xds_grpc::{
///     ServerOptions,
///     server::{AuthorizationRequest, Denied, AuthorizationDecision},
/// };
/// use xds_core::server::StatusCode;
///
/// async fn of_its_own_name(client: AuthorizationRequest) -> AuthorizationDecision {
///     let id = format!("spiffe://mesh/{}", client.node_id);
///     if !client.peer.uris().contains(&id) {
///         return Err(Denied::new(StatusCode::PermissionDenied, "the certificate is not the node's"));
///     }
///     Ok("mesh".into())
/// }
///
/// let options = ServerOptions::default().with_authorizer(of_its_own_name);
/// # drop(options);
/// ```
///
/// [`AllowSans`](crate::server::AllowSans) and [`NodeFromSan`](crate::server::NodeFromSan) are ready-made authorizers.
///
/// A decision can be changed later: see [`ServerHandle::assign`](crate::server::ServerHandle::assign),
/// [`ServerHandle::limit_client`](crate::server::ServerHandle::limit_client) and
/// [`ServerHandle::refuse`](crate::server::ServerHandle::refuse).
// S0.105, M236
pub trait Authorizer: Send + Sync {
    /// Decides about one client. If the future panics, the stream ends with `INTERNAL`. The future
    /// is dropped if the client disconnects.
    fn authorize(&self, request: AuthorizationRequest) -> BoxFuture<'_, AuthorizationDecision>;

    /// Returns an authorizer that first asks this one and then, if the client is admitted, `next`.
    /// The view and the limits are those of `next`.
    fn and<B: Authorizer>(self, next: B) -> BothAuthorizers<Self, B>
    where
        Self: Sized,
    {
        BothAuthorizers::new(self, next)
    }
}

impl<F, Decision> Authorizer for F
where
    F: Fn(AuthorizationRequest) -> Decision + Send + Sync,
    Decision: Future<Output = AuthorizationDecision> + Send + 'static,
{
    fn authorize(&self, request: AuthorizationRequest) -> BoxFuture<'_, AuthorizationDecision> {
        Box::pin(self(request))
    }
}

/// Decision about a client: its view and limits, or the reason why it is not served.
pub type AuthorizationDecision = Result<Admitted, Denied>;

/// View and limits of an admitted client. A view name converts into an `Admitted` with the server's
/// limits.
/// ```
/// use xds_core::server::{PerClientLimits, ServerLimits};
/// use xds_grpc::server::{Admitted, AuthorizationRequest, AuthorizationDecision};
///
/// /// Relays subscribe on behalf of their clients, so they need more streams and names.
/// async fn by_role(client: AuthorizationRequest) -> AuthorizationDecision {
///     if !client.node_id.starts_with("relay-") {
///         return Ok("mesh".into());
///     }
///     let mut limits = PerClientLimits::from(&ServerLimits::default());
///     limits.streams_per_node = 10_000;
///     limits.names_per_stream = 5_000_000;
///     limits.names_per_connection = 5_000_000;
///     Ok(Admitted::to("mesh").with_limits(limits))
/// }
/// # let _ = by_role;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Admitted {
    /// View that the client sees.
    pub view: ViewName,
    /// Limits of the client; `None` selects the server's limits for every client.
    pub limits: Option<PerClientLimits>,
}

impl Admitted {
    /// Admits a client to a view.
    #[must_use]
    pub fn to(view: impl Into<ViewName>) -> Self {
        Self { view: view.into(), limits: None }
    }

    /// Sets limits for this client.
    // M242
    #[must_use]
    pub fn with_limits(mut self, limits: PerClientLimits) -> Self {
        self.limits = Some(limits);
        self
    }
}

impl From<ViewName> for Admitted {
    fn from(view: ViewName) -> Self {
        Self::to(view)
    }
}

impl From<&str> for Admitted {
    fn from(view: &str) -> Self {
        Self::to(view)
    }
}

/// Reason why a client is not served: the status with which its stream ends.
// M10, M12
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Denied {
    /// The status code.
    pub code: StatusCode,
    /// The status message, which the client sees.
    pub message: Arc<str>,
}

impl Denied {
    /// Ends the stream with this status.
    #[must_use]
    pub fn new(code: StatusCode, message: impl Into<Arc<str>>) -> Self {
        Self { code, message: message.into() }
    }
}

/// Client that waits for the authorizer's decision.
#[derive(Clone)]
#[non_exhaustive]
pub struct AuthorizationRequest {
    /// Discovery stream of the client; `None` for a stream of load reports.
    pub stream: Option<StreamId>,
    /// Node id; empty if the client sent none.
    pub node_id: Arc<str>,
    /// Encoded `Node` message; empty if the client sent none.
    pub encoded_node: Bytes,
    /// Identity of the client as known to the transport.
    pub peer: Peer,
    /// Headers of the call, such as a token in `authorization`. Not printed by `Debug`.
    pub metadata: HeaderMap,
}

impl AuthorizationRequest {
    /// Decodes the `Node` message.
    ///
    /// # Errors
    ///
    /// Returns an error if the message does not decode. The node id may be available nevertheless.
    pub fn node(&self) -> Result<proto::Node, DecodeError> {
        proto::Node::decode(self.encoded_node.clone())
    }
}

// Omits the metadata, which may contain secrets.
impl fmt::Debug for AuthorizationRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationRequest")
            .field("stream", &self.stream)
            .field("node_id", &self.node_id)
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

/// Authorizer of a server.
#[derive(Clone)]
pub(crate) struct SharedAuthorizer(pub(crate) Arc<dyn Authorizer>);

impl fmt::Debug for SharedAuthorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorizer")
    }
}
