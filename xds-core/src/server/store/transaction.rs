//! Transactions: sets of changes that take effect together or not at all.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec,
    vec::Vec,
};
use core::{num::NonZeroU64, time::Duration};

use bytes::Bytes;
use thiserror::Error;

use super::resource_options::ResourceOptions;
use crate::{
    server::event::StatusCode,
    text::{ResourceName, TypeUrl, Version, ViewName},
    xdstp::{self, InvalidXdstp},
};

/// Changes to the resources of one view, applied atomically by
/// [`Server::apply`](crate::server::Server::apply). No response contains only a part of them.
///
/// If a name occurs more than once, its last change is applied. Names that start with `xdstp:`
/// are converted to their canonical form, in which the order of context parameters does not
/// matter.
///
/// A [snapshot](Self::snapshot) contains all resources of a view instead of changes:
///
/// ```
/// use xds_core::{
///     Time,
///     server::{Server, ServerConfig, Transaction},
///     types,
/// };
///
/// let mut server = Server::new(ServerConfig::default(), 1, Time::ZERO);
/// let mut change = Transaction::new();
/// change.set(types::CLUSTER, "old", &b"\x0a\x03old"[..]);
/// change.set(types::CLUSTER, "kept", &b"\x0a\x04kept"[..]);
/// server.apply(change, Time::ZERO)?;
///
/// let mut snapshot = Transaction::snapshot("");
/// snapshot.set(types::CLUSTER, "kept", &b"\x0a\x04kept"[..]);
/// let applied = server.apply(snapshot, Time::ZERO)?;
/// assert_eq!((applied.changed, applied.removed), (0, 1));
/// # Ok::<(), xds_core::server::TransactionError>(())
/// ```
// M212, M219, M141
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    pub(super) view: ViewName,
    /// Whether resources that are not in `changes` are removed.
    pub(super) is_snapshot: bool,
    pub(super) changes: Vec<ResourceChange>,
    pub(super) versions: BTreeMap<TypeUrl, Version>,
    pub(super) source_revision: Option<NonZeroU64>,
}

#[derive(Clone, Debug)]
pub(crate) struct ResourceChange {
    pub(crate) type_url: TypeUrl,
    pub(crate) name: ResourceName,
    pub(crate) content: ChangeContent,
    /// Revision of the source at which the resource was changed, if it is not that of the
    /// transaction.
    pub(crate) changed_at: Option<NonZeroU64>,
}

impl ResourceChange {
    /// Returns the removal of a resource.
    pub(crate) fn removal(type_url: &TypeUrl, name: &ResourceName) -> Self {
        Self {
            type_url: type_url.clone(),
            name: name.clone(),
            content: ChangeContent::Nothing,
            changed_at: None,
        }
    }
}

/// New contents of a name.
#[derive(Clone, Debug)]
pub(crate) enum ChangeContent {
    /// Encoded resource.
    Resource(Bytes, ResourceOptions),
    /// No resource: the name is removed.
    Nothing,
    /// Error sent in place of the resource to clients that name it.
    Error(ResourceError),
}

/// Error sent to clients in place of a resource that they name.
// TP3
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourceError {
    pub(crate) code: StatusCode,
    pub(crate) message: Arc<str>,
}

impl ResourceError {
    /// Returns the error for a resource that is too long for a client.
    pub(crate) fn too_long() -> Self {
        let message = "the resource exceeds the size limit for responses".into();
        Self { code: StatusCode::ResourceExhausted, message }
    }
}

impl Transaction {
    /// Returns a transaction without changes for the default view.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a transaction without changes for the view of this name. The view is created when
    /// it gets its first resource.
    #[must_use]
    pub fn in_view(view: impl Into<ViewName>) -> Self {
        Self { view: view.into(), ..Self::default() }
    }

    /// Returns a transaction that replaces all resources of the view of this name. Resources and
    /// errors of the view that are not set by the transaction are removed.
    ///
    /// A snapshot is compared with the current contents of the view, once for all clients, and
    /// unchanged resources are not sent again. It is rejected if a name occurs twice in it.
    // M216, M219
    #[must_use]
    pub fn snapshot(view: impl Into<ViewName>) -> Self {
        Self { view: view.into(), is_snapshot: true, ..Self::default() }
    }

    /// Creates or replaces a resource. `payload` is the encoded message of the type `type_url`.
    /// It is copied once and not decoded.
    pub fn set(
        &mut self,
        type_url: impl Into<TypeUrl>,
        name: impl Into<ResourceName>,
        payload: impl Into<Bytes>,
    ) -> &mut Self {
        self.set_with(type_url, name, payload, ResourceOptions::default())
    }

    /// Creates or replaces a resource with options. A change of the options alone counts as a
    /// change: the resource is sent again to all clients.
    // M166
    pub fn set_with(
        &mut self,
        type_url: impl Into<TypeUrl>,
        name: impl Into<ResourceName>,
        payload: impl Into<Bytes>,
        options: ResourceOptions,
    ) -> &mut Self {
        let name = name.into();
        let content = ChangeContent::Resource(payload.into(), options.in_order(&name));
        self.push(type_url.into(), name, content)
    }

    /// Removes a resource. Has no effect if there is none of that name.
    // M217
    pub fn remove(
        &mut self,
        type_url: impl Into<TypeUrl>,
        name: impl Into<ResourceName>,
    ) -> &mut Self {
        self.push(type_url.into(), name.into(), ChangeContent::Nothing)
    }

    /// Sends an error in place of this resource to clients that subscribe to it by name, as
    /// specified by
    /// [xRFC TP3](https://github.com/cncf/xds/blob/main/proposals/TP3-xds-error-propagation.md).
    ///
    /// The code is `NOT_FOUND` if the resource does not exist, `PERMISSION_DENIED` if the client
    /// may not have it, or any other code for a temporary problem. An existing resource stays in
    /// use at clients that have it. Wildcard clients still receive it, because they cannot be
    /// sent the error. Setting or removing the resource ends the error.
    ///
    /// A state-of-the-world client that keeps a resource after an error is not sent its removal
    /// afterwards: the resource was absent from the response already, and the error applies until
    /// there is another one. To end its use, set `NOT_FOUND` first.
    ///
    /// To hide one resource of a view from a client, assign the client a view of its own: a layer
    /// over the other view, in which the resource has an error.
    ///
    /// ```
    /// use xds_core::{
    ///     StreamId, Time,
    ///     server::{Server, StatusCode, Transaction},
    ///     types,
    /// };
    ///
    /// /// Lets a client in that is not to see one secret.
    /// fn let_in(server: &mut Server, guest: StreamId, now: Time) {
    ///     let mut refused = Transaction::in_view("refused to guests");
    ///     refused.set_error(types::SECRET, "root", StatusCode::PermissionDenied, "not for guests");
    ///     server.apply(refused, now).expect("a short message");
    ///     let layers = ["refused to guests".into(), "".into()];
    ///     server.set_layers(&"guests".into(), &layers, now).expect("no view that has layers");
    ///     server.assign(guest, &"guests".into(), now);
    /// }
    /// ```
    ///
    /// Clients that subscribe to `root` by name receive the error in `resource_errors`. A
    /// resource of that name in the lower layer is not served to guests, including wildcard
    /// clients.
    // M171-M179, S3.003, B22
    pub fn set_error(
        &mut self,
        type_url: impl Into<TypeUrl>,
        name: impl Into<ResourceName>,
        code: StatusCode,
        message: impl Into<Arc<str>>,
    ) -> &mut Self {
        let error = ResourceError { code: code.of_error(), message: message.into() };
        self.push(type_url.into(), name.into(), ChangeContent::Error(error))
    }

    /// Marks a resource as nonexistent, like [`set_error`](Self::set_error) with the code
    /// `NOT_FOUND`. Incremental clients that name it are sent a removal, others the error. Setting or
    /// removing the resource ends this.
    ///
    /// The mark is for a name that has no resource. It does not delete an existing one: wildcard
    /// clients still receive that until it is [removed](Self::remove).
    // M255
    pub fn mark_missing(
        &mut self,
        type_url: impl Into<TypeUrl>,
        name: impl Into<ResourceName>,
    ) -> &mut Self {
        self.set_error(type_url, name, StatusCode::NotFound, "the resource does not exist")
    }

    /// Sets the version of the view's resources of a type as they are after this transaction. If
    /// it is called more than once for a type, the last call counts.
    ///
    /// For types with application-defined versions only:
    /// [`VersionMode::Caller`](crate::server::VersionMode) requires a new version for every
    /// change, and `Label` keeps the last version if there is no new one.
    pub fn set_version(
        &mut self,
        type_url: impl Into<TypeUrl>,
        version: impl Into<Version>,
    ) -> &mut Self {
        self.versions.insert(type_url.into(), version.into());
        self
    }

    /// Sets the revision of the source at which these changes were made. Zero counts as none.
    ///
    /// Versions in [`VersionMode::Content`](crate::server::VersionMode) then have the form
    /// `<revision>-<hash>`. Only the hash identifies the content. The revision is that of the last
    /// change: of the resource in the incremental variant, of any resource of the type otherwise.
    /// A server that lags behind what a client has seen notices it by the revision
    /// ([`Server::source_reached`](crate::server::Server::source_reached)).
    pub fn source_revision(&mut self, revision: u64) -> &mut Self {
        self.source_revision = NonZeroU64::new(revision);
        self
    }

    /// Sets the revision of the source at which the resource added last was changed, if it was
    /// changed before the [revision](Self::source_revision) of the transaction. Servers that read a
    /// source as a whole then state the same versions as those that have watched each change.
    ///
    /// ```
    /// use xds_core::{
    ///     Time,
    ///     server::{Server, ServerConfig, Transaction, VersionMode},
    ///     types,
    /// };
    ///
    /// let config = ServerConfig::default()
    ///     .with_every_type(|config| config.versions = VersionMode::Content);
    /// let mut server = Server::new(config, 1, Time::ZERO);
    /// let mut list = Transaction::snapshot("");
    /// list.source_revision(90);
    /// list.set(types::CLUSTER, "a", &b"\x0a\x01a"[..]).changed_at(17);
    /// server.apply(list, Time::ZERO)?;
    /// server.source_reached(90, Time::ZERO);
    ///
    /// let version = server.version(types::CLUSTER).expect("a cluster exists");
    /// assert!(version.as_str().starts_with("17-"));
    /// # Ok::<(), xds_core::server::TransactionError>(())
    /// ```
    pub fn changed_at(&mut self, revision: u64) -> &mut Self {
        if let Some(change) = self.changes.last_mut() {
            change.changed_at = NonZeroU64::new(revision);
        }
        self
    }

    /// Number of changes, including those of repeated names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether the transaction has neither changes nor versions. An empty
    /// [snapshot](Self::snapshot) removes all resources of its view.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.versions.is_empty()
    }

    /// Returns the name of the view that the transaction changes.
    #[must_use]
    pub fn view(&self) -> &ViewName {
        &self.view
    }

    /// Whether the transaction replaces all resources of its view.
    #[must_use]
    pub fn is_snapshot(&self) -> bool {
        self.is_snapshot
    }

    /// Returns the same changes for another view.
    pub(crate) fn for_view(&self, view: &ViewName) -> Self {
        Self { view: view.clone(), ..self.clone() }
    }

    /// Returns the changes of this transaction followed by those of a newer one of the same view, as
    /// few transactions that do not contain a resource twice.
    pub(crate) fn followed_by(mut self, mut newer: Self) -> Vec<Self> {
        if newer.is_snapshot {
            return vec![newer];
        }
        // An error does not replace a resource: each has its own transaction.
        if newer.changes.iter().any(|it| matches!(it.content, ChangeContent::Error(_))) {
            return vec![self, newer];
        }
        let replaced: BTreeSet<_> =
            newer.changes.iter().map(|it| (it.type_url.clone(), it.name.clone())).collect();
        let is_replaced =
            |it: &ResourceChange| replaced.contains(&(it.type_url.clone(), it.name.clone()));
        self.changes.retain(|it| !is_replaced(it));
        for change in &mut self.changes {
            change.changed_at = change.changed_at.or(self.source_revision);
        }
        if self.is_snapshot {
            newer.changes.retain(|it| !matches!(it.content, ChangeContent::Nothing));
        }
        self.changes.append(&mut newer.changes);
        self.versions.append(&mut newer.versions);
        self.source_revision = self.source_revision.max(newer.source_revision);
        vec![self]
    }

    fn push(&mut self, type_url: TypeUrl, name: ResourceName, content: ChangeContent) -> &mut Self {
        // Malformed names are rejected when the transaction is applied.
        let name = xdstp::canonical(&name).unwrap_or(name);
        self.changes.push(ResourceChange { type_url, name, content, changed_at: None });
        self
    }
}

/// Result of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied {
    /// Number of the newest transaction that changed anything: this one, unless it changed
    /// nothing.
    pub sequence: u64,
    /// Number of resources that were created or changed, or whose error changed.
    pub changed: usize,
    /// Number of resources that were removed.
    pub removed: usize,
}

/// Reason for which a transaction was rejected. Nothing of it was applied.
// M218
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// A change has no type URL.
    #[error("change {change} has no type URL")]
    EmptyTypeUrl {
        /// Index of the change in the transaction.
        change: usize,
    },
    /// A change has no resource name, or an alias is empty.
    #[error("change {change} has no resource name, or an empty alias")]
    EmptyName {
        /// Index of the change in the transaction.
        change: usize,
    },
    /// A resource or an alias has the name `*`, which is reserved for the wildcard.
    // B01
    #[error("change {change} uses the resource name \"*\", which is reserved for the wildcard")]
    WildcardName {
        /// Index of the change in the transaction.
        change: usize,
    },
    /// A name starts with `xdstp:` and is malformed.
    #[error("change {change} has a malformed name: {why}")]
    MalformedName {
        /// Index of the change in the transaction.
        change: usize,
        /// Reason for which the name is malformed.
        why: InvalidXdstp,
    },
    /// An `xdstp:` name contains a resource type other than the type of the change.
    // M210
    #[error("change {change} has a name that contains another resource type")]
    ForeignName {
        /// Index of the change in the transaction.
        change: usize,
    },
    /// A resource or an alias has the name of a glob, which is reserved for subscriptions. An
    /// error may have such a name.
    // TP1
    #[error("change {change} uses a glob as a resource name")]
    GlobName {
        /// Index of the change in the transaction.
        change: usize,
    },
    /// A resource name, alias or type URL exceeds the limit for names.
    #[error("change {change} has a name of {bytes} bytes, above the limit of {limit}")]
    NameTooLong {
        /// Index of the change in the transaction.
        change: usize,
        /// Length of the name in bytes.
        bytes: usize,
        /// Configured maximum length of a name in bytes.
        limit: usize,
    },
    /// A resource has too many aliases.
    #[error("change {change} has {aliases} aliases, above the limit of {limit}")]
    TooManyAliases {
        /// Index of the change in the transaction.
        change: usize,
        /// Number of aliases.
        aliases: usize,
        /// Configured maximum number of aliases per resource.
        limit: usize,
    },
    /// The message of an error is too long.
    #[error("change {change} has a message of {bytes} bytes, above the limit of {limit}")]
    MessageTooLong {
        /// Index of the change in the transaction.
        change: usize,
        /// Length of the message in bytes.
        bytes: usize,
        /// Configured limit in bytes, the same as for names.
        limit: usize,
    },
    /// A resource is too long.
    #[error("change {change} has a resource of {bytes} bytes, above the limit of {limit}")]
    ResourceTooLong {
        /// Index of the change in the transaction.
        change: usize,
        /// Length of the resource in bytes.
        bytes: usize,
        /// Configured maximum length of a resource in bytes.
        limit: usize,
    },
    /// A TTL is out of range.
    #[error("change {change} has a TTL of {ttl:?}, which is not between 1ms and 315576000000s")]
    TtlOutOfRange {
        /// Index of the change in the transaction.
        change: usize,
        /// TTL of the resource.
        ttl: Duration,
    },
    /// Resources are changed without a version, although their type has application-defined
    /// versions.
    // M72
    #[error("resources of type {type_url} changed without a version")]
    MissingVersion {
        /// Type of the resources.
        type_url: TypeUrl,
    },
    /// Resources are changed under the current version of their type, which would then identify
    /// two sets of resources.
    // IS15
    #[error("resources of type {type_url} changed, but version {version:?} did not")]
    ReusedVersion {
        /// Type of the resources.
        type_url: TypeUrl,
        /// Version that is in use already.
        version: Version,
    },
    /// A resource is changed under its current application-defined version.
    // IS15
    #[error("change {change} changes a resource but not its version")]
    ReusedResourceVersion {
        /// Index of the change in the transaction.
        change: usize,
    },
    /// A version is set for a type, or a resource of a type, without application-defined
    /// versions.
    #[error("type {type_url} does not have application-defined versions")]
    UnexpectedVersion {
        /// Type of the resources.
        type_url: TypeUrl,
    },
    /// A version is too long, or empty, which clients interpret as no version.
    #[error("version of type {type_url} has {bytes} bytes, but must have 1 to {limit}")]
    VersionLength {
        /// Type of the resources.
        type_url: TypeUrl,
        /// Length of the version in bytes.
        bytes: usize,
        /// Configured limit in bytes, the same as for names.
        limit: usize,
    },
    /// The store would hold too many resources.
    #[error("{resources} resources exceed the limit of {limit}")]
    TooManyResources {
        /// Number of resources after the transaction.
        resources: usize,
        /// Configured maximum number of resources.
        limit: usize,
    },
    /// The view does not exist yet, and the maximum number of views is reached.
    #[error("more than {limit} views")]
    TooManyViews {
        /// Configured maximum number of views.
        limit: usize,
    },
    /// The view has layers. Change one of them instead.
    // M224
    #[error("view {view:?} has layers and cannot have resources of its own")]
    LayeredView {
        /// View with layers.
        view: ViewName,
    },
    /// A snapshot has two resources with the same type and name.
    // M219
    #[error("two resources of type {type_url} are named {name:?}")]
    DuplicateName {
        /// Type of the resources.
        type_url: TypeUrl,
        /// Name of the resources.
        name: ResourceName,
    },
}
