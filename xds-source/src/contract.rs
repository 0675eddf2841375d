//! Contract between a source and what follows it.

use core::{fmt, future::Future};
use std::sync::Arc;

use bytes::Bytes;
use futures_core::Stream;
use thiserror::Error;
use xds_core::{ResourceName, TypeUrl, ViewName};
use xds_format::Format;

/// Place of resources that a management server serves: a directory, a key range of etcd, objects of
/// a Kubernetes cluster.
///
/// A source is read as a whole once and then watched from that revision. An interrupted watch goes
/// on behind the last revision that was received, so nothing is read twice and nothing is missed. A
/// source that has forgotten that revision ends the watch with [`WatchError::Compacted`], and is
/// read as a whole again.
///
/// Implementations report failures and do not retry: [`Follower`](crate::Follower) decides when.
pub trait Source: Send + Sync + 'static {
    /// Reads all objects, as they are at one revision.
    fn list(&self) -> impl Future<Output = Result<List, SourceError>> + Send;

    /// Watches the changes after a revision, in the order of their revisions.
    ///
    /// The stream ends with an error, or without one when the source has ended the watch for no
    /// stated reason. It may begin with a [`Change`] without objects at the revision `after`, which
    /// shows that the source can be reached.
    fn watch(
        &self,
        after: Revision,
    ) -> impl Stream<Item = Result<Change, WatchError>> + Send + 'static;

    /// Reads the newest revision. The read is linearizable: every change that anybody has read before
    /// has this revision or a lower one.
    ///
    /// Returns `None`, as by default, if the source cannot tell, because other processes do not
    /// share its revisions.
    fn newest_revision(
        &self,
    ) -> impl Future<Output = Result<Option<Revision>, SourceError>> + Send {
        core::future::ready(Ok(None))
    }

    /// Makes the running watch report soon the revision up to which it has reported all changes,
    /// with a [`Change`] that may be empty. Without effect if the source cannot do that, or has no
    /// running watch.
    fn report_progress(&self) {}

    /// Waits for a sign that a call may succeed now although the last one has failed, such as a
    /// change of a directory. A follower then does not wait until the end of its delay. Never ends by
    /// default.
    fn may_have_recovered(&self) -> impl Future<Output = ()> + Send {
        core::future::pending()
    }

    /// Whether other processes that follow the source know the same revisions, as by default.
    fn shares_revisions(&self) -> bool {
        true
    }
}

/// Position in the history of a source. Later changes have greater revisions.
///
/// Revisions of one source can be compared, also those that different processes read, if the source
/// counts them itself, as etcd and Kubernetes do. Those of a directory count the changes that one
/// process has seen.
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

/// Name of an object, as messages show it: a path, a key, or the kind, namespace and name of a
/// Kubernetes object.
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
pub struct Object {
    /// Name of the object.
    pub id: ObjectId,
    /// View that the resources belong to.
    pub view: ViewName,
    /// Revision of the last change of the object.
    pub revision: Revision,
    /// Contents.
    pub content: Content,
    /// Ids of refused changes that are to be served nevertheless, separated by white space
    /// ([`ChangeId`](xds_core::guards::ChangeId)). Most objects state none.
    pub forced: String,
}

/// Contents of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Text or encoded messages, which are parsed.
    Document {
        /// Format of the bytes.
        format: Format,
        /// The document.
        bytes: Bytes,
        /// Resource that the document must have and no other, if the object's name states it. Its
        /// type may then be left out of the document.
        only: Option<(TypeUrl, ResourceName)>,
    },
    /// Documents that are valid or invalid together. No resource is in two of them.
    Documents(Vec<Document>),
    /// Resources that the source has made itself: type, name and encoded message.
    Resources(Vec<(TypeUrl, ResourceName, Bytes)>),
    /// The object exists and cannot be used, for the stated reason.
    Invalid(String),
}

/// Document of an object that has several, such as the value of a key of a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Name within the object. Messages show it behind the name of the object and a slash.
    pub name: String,
    /// Format of the bytes.
    pub format: Format,
    /// The document.
    pub bytes: Bytes,
}

/// Failure of a source.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The source cannot be reached, or did not answer in time. It may work later.
    #[error("{0}")]
    Unavailable(String),
    /// The source refuses the credentials or the permissions. Someone has to change them.
    #[error("{0}")]
    Denied(String),
    /// The source answered with something that is not understood.
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
