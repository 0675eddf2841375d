//! Contract between a source and what follows it.

use core::{fmt, future::Future};
use std::sync::Arc;

use bytes::Bytes;
use futures_core::Stream;
use thiserror::Error;
use xds_core::{ResourceName, TypeUrl, ViewName};
use xds_format::Format;

/// Place that stores the resources which a management server serves: a directory, a key range of
/// etcd, or objects of a Kubernetes cluster.
///
/// A follower lists the source once and then watches it from the revision of that list. After an
/// interruption, the watch resumes after the last received revision, so no change is delivered
/// twice or missed. If the source no longer has the changes since that revision, the watch ends
/// with [`WatchError::Compacted`], and the source must be listed again.
///
/// Implementations report failures and do not retry: [`Follower`](crate::Follower) decides when to
/// retry.
pub trait Source: Send + Sync + 'static {
    /// Reads all objects, as they are at one revision.
    fn list(&self) -> impl Future<Output = Result<List, SourceError>> + Send;

    /// Watches the changes after a revision, in the order of their revisions.
    ///
    /// The stream ends with an error, or without one if the source closes the watch without a
    /// reason. It may begin with a [`Change`] at the revision `after` that has no objects, which
    /// shows that the source is reachable.
    fn watch(
        &self,
        after: Revision,
    ) -> impl Stream<Item = Result<Change, WatchError>> + Send + 'static;

    /// Reads the newest revision. The read is linearizable: its result is at least the revision of
    /// every change that any process has already read.
    ///
    /// Returns `None`, the default, if the revisions of the source are local to this process.
    fn newest_revision(
        &self,
    ) -> impl Future<Output = Result<Option<Revision>, SourceError>> + Send {
        core::future::ready(Ok(None))
    }

    /// Asks the running watch to report soon, with a [`Change`] that may be empty, the revision up
    /// to which it has reported all changes. Does nothing by default, without a running watch, or
    /// if the source cannot do that.
    fn report_progress(&self) {}

    /// Waits for a sign that a call may succeed now although the last one has failed, such as a
    /// change of a directory. A follower then retries without waiting for the end of its delay. By
    /// default, the future never completes.
    fn may_have_recovered(&self) -> impl Future<Output = ()> + Send {
        core::future::pending()
    }

    /// Returns whether all processes that follow the source see the same revisions. Default:
    /// `true`.
    fn shares_revisions(&self) -> bool {
        true
    }
}

/// Position in the history of a source. Later changes have greater revisions.
///
/// If the source itself counts its revisions, as etcd and Kubernetes do, revisions that different
/// processes read can be compared. The revisions of a directory count the changes that one process
/// has noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// All objects of a source at one revision.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// Revision at which the source was read.
    pub revision: Revision,
    /// Objects. Each id occurs once.
    pub objects: Vec<Object>,
}

/// Changes of a source that were made together.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// Revision of the change. A change without objects reports that nothing else has changed up to
    /// this revision.
    pub revision: Revision,
    /// New states of objects. Each id occurs once.
    pub objects: Vec<ObjectChange>,
}

/// New state of an object.
#[derive(Clone, Debug)]
pub enum ObjectChange {
    /// The object was created or changed.
    Set(Object),
    /// The object was deleted.
    Delete(ObjectId),
}

impl ObjectChange {
    /// Returns the id of the object.
    #[must_use]
    pub const fn id(&self) -> &ObjectId {
        match self {
            Self::Set(object) => &object.id,
            Self::Delete(id) => id,
        }
    }
}

/// Name of an object in messages: a path, a key, or the kind, namespace and name of a Kubernetes
/// object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(Arc<str>);

impl ObjectId {
    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for ObjectId {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl From<String> for ObjectId {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Object of a source: resources that are valid or invalid together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Object {
    /// Name of the object.
    pub id: ObjectId,
    /// View that the resources belong to.
    pub view: ViewName,
    /// Revision of the last change of the object.
    pub revision: Revision,
    /// Contents.
    pub content: Content,
    /// Ids of refused changes to apply anyway, separated by white space
    /// ([`ChangeId`](xds_core::guards::ChangeId)). Usually empty.
    pub forced: String,
}

impl Object {
    /// Creates an object without [forced](Self::forced) changes.
    #[must_use]
    pub fn new(
        id: impl Into<ObjectId>,
        view: impl Into<ViewName>,
        revision: Revision,
        content: Content,
    ) -> Self {
        Self { id: id.into(), view: view.into(), revision, content, forced: String::new() }
    }
}

/// Contents of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content {
    /// Text or encoded messages, which are parsed.
    Document {
        /// Format of the bytes.
        format: Format,
        /// The document.
        bytes: Bytes,
        /// The only resource that the document may contain, if the name of the object determines
        /// it. The document may then omit the type.
        only: Option<(TypeUrl, ResourceName)>,
    },
    /// Documents that are valid or invalid together. No resource is in two of them.
    Documents(Vec<Document>),
    /// Resources that the source generates: type, name and encoded message.
    Resources(Vec<(TypeUrl, ResourceName, Bytes)>),
    /// The object exists and cannot be used, for the stated reason.
    Invalid(String),
}

/// Document of an object that has several, such as the value of a key of a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Document {
    /// Name within the object. Messages show it behind the name of the object and a slash.
    pub name: String,
    /// Format of the bytes.
    pub format: Format,
    /// The document.
    pub bytes: Bytes,
}

impl Document {
    /// Creates a document from its name within the object, its format and its bytes.
    #[must_use]
    pub fn new(name: impl Into<String>, format: Format, bytes: impl Into<Bytes>) -> Self {
        Self { name: name.into(), format, bytes: bytes.into() }
    }
}

/// Failure of a source.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The source cannot be reached, or did not answer in time. It may work later.
    #[error("{0}")]
    Unavailable(String),
    /// The source rejects the credentials, or a permission is missing. Retrying does not help until
    /// an operator changes them.
    #[error("{0}")]
    Denied(String),
    /// The source returned a malformed or unexpected answer.
    #[error("{0}")]
    Failed(String),
}

/// Reason for the end of a watch.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WatchError {
    /// Changes after the requested revision are no longer known.
    #[error("the changes since the last revision have been compacted")]
    Compacted,
    /// The objects must be read as a whole, because another set of them has become current.
    #[error("another set of objects has become current")]
    Replaced,
    /// The source has failed.
    #[error(transparent)]
    Source(#[from] SourceError),
}
