//! Who decides what a client sees, and what it is told of the client.

use core::{fmt, future::Future, pin::Pin};
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use prost::{DecodeError, Message as _};
use xds_core::{
    StreamId, ViewName, proto,
    server::{ClientLimits, StatusCode},
};

use super::{
    inbox::{Inbox, Input},
    peer::Peer,
};

/// Decides whether a client is served, and what it sees (S0.105, M236).
///
/// It is asked once per stream, when the client's first request has said who it is; the requests wait
/// until it has answered, and delay nobody else. A function from an [`Applicant`] to a future is one:
///
/// ```
/// use xds_grpc::{
///     ServerOptions,
///     server::{Applicant, Denied, Permission},
/// };
/// use xds_core::server::StatusCode;
///
/// async fn of_its_own_name(client: Applicant) -> Permission {
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
/// Who may be moved, limited or sent away later, too: see
/// [`ServerHandle::assign`](super::ServerHandle::assign),
/// [`ServerHandle::limit_client`](super::ServerHandle::limit_client) and
/// [`ServerHandle::refuse`](super::ServerHandle::refuse).
pub trait Authorizer: Send + Sync {
    /// Decides about one client. One whose future panics is not served (`INTERNAL`); the future is
    /// dropped when the client goes.
    fn authorize(
        &self,
        applicant: Applicant,
    ) -> Pin<Box<dyn Future<Output = Permission> + Send + '_>>;
}

impl<F, Answer> Authorizer for F
where
    F: Fn(Applicant) -> Answer + Send + Sync,
    Answer: Future<Output = Permission> + Send + 'static,
{
    fn authorize(
        &self,
        applicant: Applicant,
    ) -> Pin<Box<dyn Future<Output = Permission> + Send + '_>> {
        Box::pin(self(applicant))
    }
}

/// What a client that is let in may see and take up, or why it is not served.
pub type Permission = Result<Admitted, Denied>;

/// A client is let in: what it sees, and what it may take up. The name of a view is one, with what everybody may
/// take up.
///
/// ```
/// use xds_core::server::{ClientLimits, ServerLimits};
/// use xds_grpc::server::{Admitted, Applicant, Permission};
///
/// /// Relays ask for their clients, on more streams and for more names than others.
/// async fn by_role(client: Applicant) -> Permission {
///     if !client.node_id.starts_with("relay-") {
///         return Ok("mesh".into());
///     }
///     let mut limits = ClientLimits::from(&ServerLimits::default());
///     limits.streams_per_node = 10_000;
///     limits.names_per_stream = 5_000_000;
///     Ok(Admitted::to("mesh").with_limits(limits))
/// }
/// # let _ = by_role;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Admitted {
    /// The view that it sees.
    pub view: ViewName,
    /// What it may take up, where that is not what everybody may.
    pub limits: Option<ClientLimits>,
}

impl Admitted {
    /// Lets it see a view.
    #[must_use]
    pub fn to(view: impl Into<ViewName>) -> Self {
        Self { view: view.into(), limits: None }
    }

    /// Gives it limits of its own (M242).
    #[must_use]
    pub fn with_limits(mut self, limits: ClientLimits) -> Self {
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

/// Why a client is not served: the status that its stream ends with (M10, M12).
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

/// A client that wants to be served.
#[derive(Clone)]
#[non_exhaustive]
pub struct Applicant {
    /// Its stream.
    pub stream: StreamId,
    /// The id of its node; empty if it gave none.
    pub node_id: Arc<str>,
    /// Its whole node, encoded; empty if it gave none.
    pub encoded_node: Bytes,
    /// Who its transport says it is.
    pub peer: Peer,
    /// What the call carries beside the requests, as tokens in `authorization`. Never printed.
    pub metadata: HeaderMap,
}

impl Applicant {
    /// Its whole node.
    ///
    /// # Errors
    ///
    /// It is not one; the id was found in it all the same.
    pub fn node(&self) -> Result<proto::Node, DecodeError> {
        proto::Node::decode(self.encoded_node.clone())
    }
}

/// Without the metadata, which may hold secrets.
impl fmt::Debug for Applicant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Applicant")
            .field("stream", &self.stream)
            .field("node_id", &self.node_id)
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

/// The authorizer of a server.
#[derive(Clone)]
pub(crate) struct Gatekeeper(pub(crate) Arc<dyn Authorizer>);

impl fmt::Debug for Gatekeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorizer")
    }
}

impl Gatekeeper {
    /// Asks, and passes the answer on.
    pub(super) async fn decide(self, applicant: Applicant, inbox: Inbox) {
        let panicked = Denied::new(StatusCode::Internal, "the authorization of this client failed");
        let mut answer = Answer { stream: applicant.stream, permission: Err(panicked), inbox };
        answer.permission = self.0.authorize(applicant).await;
    }
}

/// An answer that is given even if the question ends in a panic.
struct Answer {
    stream: StreamId,
    permission: Permission,
    inbox: Inbox,
}

impl Drop for Answer {
    fn drop(&mut self) {
        let permission =
            core::mem::replace(&mut self.permission, Ok(Admitted::to(ViewName::default())));
        self.inbox.send(Input::Decided(self.stream, permission));
    }
}
