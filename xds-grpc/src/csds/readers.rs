//! Authorization of readers of a management server's client status.
// M235

use core::{fmt, future::Future, pin::Pin};
use std::{collections::BTreeSet, sync::Arc};

use http::HeaderMap;
use tokio::sync::OnceCell;
use tonic::{Code, Status};
use tracing::warn;
use xds_core::{ViewName, server::StatusCode};

use crate::{
    guard::{caught, caught_future},
    server::{Denied, Peer},
    shorthand::Printable,
};

/// Decides which clients' status a caller of [`ServerCsdsService`](super::ServerCsdsService) can
/// read.
///
/// The authorizer is called once per call, at its first request. The decision applies to the whole
/// call. A function from a [`Reader`] to a future is an authorizer:
///
/// ```
/// use xds_core::server::StatusCode;
/// use xds_grpc::csds::{Readable, ReadPermission, Reader};
/// use xds_grpc::server::Denied;
///
/// /// Operators see everything, and each team what is in its own view.
/// async fn by_certificate(reader: Reader) -> ReadPermission {
///     let names = reader.peer.dns_names();
///     match names.first().and_then(|name| name.strip_suffix(".teams.example")) {
///         Some("operators") => Ok(Readable::Everything),
///         Some(team) => Ok(Readable::views([team])),
///         None => Err(Denied::new(StatusCode::PermissionDenied, "no team of ours")),
///     }
/// }
/// # let _ = by_certificate;
/// ```
pub trait ReadAuthorizer: Send + Sync {
    /// Decides about one call. If the future panics, the call fails with `INTERNAL`. The future is
    /// dropped if the caller disconnects.
    fn authorize(
        &self,
        reader: Reader,
    ) -> Pin<Box<dyn Future<Output = ReadPermission> + Send + '_>>;
}

impl<F, Answer> ReadAuthorizer for F
where
    F: Fn(Reader) -> Answer + Send + Sync,
    Answer: Future<Output = ReadPermission> + Send + 'static,
{
    fn authorize(
        &self,
        reader: Reader,
    ) -> Pin<Box<dyn Future<Output = ReadPermission> + Send + '_>> {
        Box::pin(self(reader))
    }
}

/// Decision about a call: the readable clients, or the status with which the call ends.
pub type ReadPermission = Result<Readable, Denied>;

/// Caller that requests client status.
#[derive(Clone)]
#[non_exhaustive]
pub struct Reader {
    /// Identity of the caller as known to the transport.
    pub peer: Peer,
    /// Headers of the call, such as a token in `authorization`. Not printed by `Debug`.
    pub metadata: HeaderMap,
}

impl Reader {
    pub(super) fn of<B>(request: &http::Request<B>) -> Self {
        Self { peer: Peer::of(request), metadata: request.headers().clone() }
    }
}

// Omits the metadata, which may contain secrets.
impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// Set of clients whose status a caller can read. Other clients are omitted from responses.
#[derive(Clone)]
#[non_exhaustive]
pub enum Readable {
    /// All clients.
    Everything,
    /// Clients that see one of these views. A client that is not admitted yet sees no view.
    Views(Arc<BTreeSet<ViewName>>),
    /// Clients for which the function returns `true`.
    Clients(Arc<dyn Fn(Readee<'_>) -> bool + Send + Sync>),
}

/// Client whose status may be read.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Readee<'a> {
    /// Node id as reported by the client; empty if it sent none.
    pub node_id: &'a str,
    /// View that the client sees; `None` before it is admitted.
    pub view: Option<&'a ViewName>,
}

impl Readable {
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
    pub fn clients(is_readable: impl Fn(Readee<'_>) -> bool + Send + Sync + 'static) -> Self {
        Self::Clients(Arc::new(is_readable))
    }

    pub(super) fn has(&self, client: Readee<'_>) -> bool {
        match self {
            Self::Everything => true,
            Self::Views(views) => client.view.is_some_and(|view| views.contains(view)),
            // Clients choose node ids, so a client could cause the panic.
            Self::Clients(is_readable) => caught(|| is_readable(client)).unwrap_or_else(|| {
                warn!(node = %Printable(client.node_id), "who may read of this client: a panic");
                false
            }),
        }
    }
}

impl fmt::Debug for Readable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everything => f.write_str("Everything"),
            Self::Views(views) => f.debug_tuple("Views").field(views).finish(),
            Self::Clients(_) => f.write_str("Clients(..)"),
        }
    }
}

/// Configured authorization of a service.
#[derive(Clone)]
pub(super) enum Readers {
    Nobody,
    Everybody,
    Asked(Arc<dyn ReadAuthorizer>),
}

impl fmt::Debug for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nobody => "Nobody",
            Self::Everybody => "Everybody",
            Self::Asked(_) => "Asked",
        })
    }
}

/// Authorization decision of one call, made at the first request.
#[derive(Clone, Debug)]
pub(super) struct Latch {
    reader: Reader,
    decided: Arc<OnceCell<ReadPermission>>,
}

impl Latch {
    pub(super) fn of(reader: Reader) -> Self {
        Self { reader, decided: Arc::default() }
    }

    /// Returns the decision. Calls the authorizer the first time.
    pub(super) async fn decision(&self, readers: &Readers) -> Result<Readable, Status> {
        let decided = self.decided.get_or_init(|| self.decide(readers)).await;
        decided.clone().map_err(|Denied { code, message, .. }| {
            Status::new(Code::from_i32(code.as_i32()), &*message)
        })
    }

    async fn decide(&self, readers: &Readers) -> ReadPermission {
        let authorizer = match readers {
            Readers::Everybody => return Ok(Readable::Everything),
            Readers::Asked(authorizer) => authorizer,
            Readers::Nobody => {
                let why = "nobody has been allowed to read what clients have";
                return Err(Denied::new(StatusCode::PermissionDenied, why));
            }
        };
        // A panic must not end other calls on the same connection.
        let permission = caught_future(|| authorizer.authorize(self.reader.clone())).await;
        permission.unwrap_or_else(|| {
            Err(Denied::new(StatusCode::Internal, "the authorization of this reader failed"))
        })
    }
}
