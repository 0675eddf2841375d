//! Who may read what a management server's clients have (M235).

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

/// Decides of whose configuration somebody is told (M235).
///
/// It is asked once per call, when its first question comes, and the answer holds for as long as that call
/// lasts. A function from a [`Reader`] to a future is one:
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
    /// Decides about one call. If the future panics, the call fails with `INTERNAL`; it is dropped when the
    /// caller goes.
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

/// What a reader is told of, or the status that its call ends with.
pub type ReadPermission = Result<Readable, Denied>;

/// Somebody who asks what clients have.
#[derive(Clone)]
#[non_exhaustive]
pub struct Reader {
    /// Who the transport says it is.
    pub peer: Peer,
    /// What the call carries beside the questions, as tokens in `authorization`. Never printed.
    pub metadata: HeaderMap,
}

impl Reader {
    pub(super) fn of<B>(request: &http::Request<B>) -> Self {
        Self { peer: Peer::of(request), metadata: request.headers().clone() }
    }
}

/// Without the metadata, which may hold secrets.
impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// Which clients a reader is told of. Of the others it does not learn that they are there.
#[derive(Clone)]
#[non_exhaustive]
pub enum Readable {
    /// All of them.
    Everything,
    /// Those that see one of these views. Who waits to be let in sees none.
    Views(Arc<BTreeSet<ViewName>>),
    /// Those of which this is true.
    Clients(Arc<dyn Fn(Readee<'_>) -> bool + Send + Sync>),
}

/// A client that somebody may be told of.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Readee<'a> {
    /// The id of its node, as it says itself; empty if it gave none.
    pub node_id: &'a str,
    /// What it sees, once that is known.
    pub view: Option<&'a ViewName>,
}

impl Readable {
    /// The clients that see one of these views.
    #[must_use]
    pub fn views<V: Into<ViewName>>(views: impl IntoIterator<Item = V>) -> Self {
        Self::Views(Arc::new(views.into_iter().map(Into::into).collect()))
    }

    /// The clients of which this is true. It is asked between two turns of the server, for each client that is asked
    /// about, and has to be quick. If it panics, nobody is told of that client.
    #[must_use]
    pub fn clients(is_readable: impl Fn(Readee<'_>) -> bool + Send + Sync + 'static) -> Self {
        Self::Clients(Arc::new(is_readable))
    }

    pub(super) fn has(&self, client: Readee<'_>) -> bool {
        match self {
            Self::Everything => true,
            Self::Views(views) => client.view.is_some_and(|view| views.contains(view)),
            // Clients choose what it is asked about.
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

/// Who is told anything.
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

/// What was decided about one call, once it has been.
#[derive(Clone, Debug)]
pub(super) struct Latch {
    reader: Reader,
    decided: Arc<OnceCell<ReadPermission>>,
}

impl Latch {
    pub(super) fn of(reader: Reader) -> Self {
        Self { reader, decided: Arc::default() }
    }

    /// What the reader may be told, which is asked when it is first needed.
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
        // Other calls of the connection are not to end with this one.
        let permission = caught_future(|| authorizer.authorize(self.reader.clone())).await;
        permission.unwrap_or_else(|| {
            Err(Denied::new(StatusCode::Internal, "the authorization of this reader failed"))
        })
    }
}
