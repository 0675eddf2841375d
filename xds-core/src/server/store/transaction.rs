//! A set of changes that take effect together or not at all.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use core::time::Duration;

use bytes::Bytes;
use thiserror::Error;

use super::resource_options::ResourceOptions;
use crate::{
    server::event::StatusCode,
    text::{ResourceName, TypeUrl, Version, ViewName},
    xdstp::{self, InvalidXdstp},
};

/// Changes to the resources of one view, applied by
/// [`Server::apply`](crate::server::Server::apply) as one: no response shows a part of them (M212).
///
/// A name that occurs more than once has its last change applied (M219). Structured names (`xdstp:`) are
/// taken in their canonical form, in which context parameters have no order (M141).
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    view: ViewName,
    changes: Vec<Change>,
    versions: BTreeMap<TypeUrl, Version>,
}

#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) type_url: TypeUrl,
    pub(crate) name: ResourceName,
    pub(crate) content: Content,
}

/// What a name is to stand for.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// The encoded resource.
    Resource(Bytes, ResourceOptions),
    /// Nothing: it is removed.
    Nothing,
    /// What is told instead to who names it.
    Error(ResourceError),
}

/// Why a client is not sent a resource that it names (TP3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourceError {
    pub(crate) code: StatusCode,
    pub(crate) message: Arc<str>,
}

impl Transaction {
    /// No changes yet, to the default view.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// No changes yet, to the view of this name, which exists as soon as it has a resource.
    #[must_use]
    pub fn in_view(view: impl Into<ViewName>) -> Self {
        Self { view: view.into(), ..Self::default() }
    }

    /// Creates or replaces a resource. `payload` is the encoded message that `type_url` names; it is
    /// copied once and never looked into.
    pub fn set(
        &mut self,
        type_url: impl Into<TypeUrl>,
        name: impl Into<ResourceName>,
        payload: impl Into<Bytes>,
    ) -> &mut Self {
        self.set_with(type_url, name, payload, ResourceOptions::default())
    }

    /// Creates or replaces a resource that is more than its bytes. Other options at the same bytes are a
    /// change: it is sent again, to all clients alike (M166).
    pub fn set_with(
        &mut self,
        type_url: impl Into<TypeUrl>,
        name: impl Into<ResourceName>,
        payload: impl Into<Bytes>,
        options: ResourceOptions,
    ) -> &mut Self {
        let name = name.into();
        let content = Content::Resource(payload.into(), options.in_order(&name));
        self.push(type_url.into(), name, content)
    }

    /// Deletes a resource; nothing happens if there is none of that name (M217).
    pub fn remove(
        &mut self,
        type_url: impl Into<TypeUrl>,
        name: impl Into<ResourceName>,
    ) -> &mut Self {
        self.push(type_url.into(), name.into(), Content::Nothing)
    }

    /// Tells clients that name this resource why they are not sent it, once: that it does not exist
    /// (`NOT_FOUND`), that it is not for them (`PERMISSION_DENIED`), or that there is trouble which will
    /// pass (any other code; TP3). A resource of that name stays with who has it, and with clients of
    /// everything, who cannot be told. Setting or removing the resource ends it (M171-M179).
    ///
    /// A state-of-the-world client that keeps what it was told an error of is not told that it was removed
    /// then: the resource was absent before, for which the error stands until there is another (TP3). To end
    /// its use set `NOT_FOUND` first.
    ///
    /// A client that may see all of a view but one resource has a view of its own, a layer over the other, in
    /// which that resource has an error (S3.003, B22):
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
    /// Who asks for `root` by name is told so in `resource_errors`; a resource of the same name below is not
    /// shown to guests, nor to those who subscribe to everything.
    pub fn set_error(
        &mut self,
        type_url: impl Into<TypeUrl>,
        name: impl Into<ResourceName>,
        code: StatusCode,
        message: impl Into<Arc<str>>,
    ) -> &mut Self {
        let error = ResourceError { code, message: message.into() };
        self.push(type_url.into(), name.into(), Content::Error(error))
    }

    /// Tells clients that name this resource that it does not exist (M255): incremental ones as a removal,
    /// others as the error `NOT_FOUND`. The same as [`set_error`](Self::set_error) with that code; setting
    /// or removing the resource ends it.
    pub fn mark_missing(
        &mut self,
        type_url: impl Into<TypeUrl>,
        name: impl Into<ResourceName>,
    ) -> &mut Self {
        self.set_error(type_url, name, StatusCode::NotFound, "the resource does not exist")
    }

    /// Says what the version of the view's resources of a type is, with the changes of this transaction: for
    /// types whose versions are the application's: by [`VersionMode::Caller`](crate::server::VersionMode) they
    /// are not changed without, by `Label` they keep the last one. If there are several, the last counts.
    pub fn set_version(
        &mut self,
        type_url: impl Into<TypeUrl>,
        version: impl Into<Version>,
    ) -> &mut Self {
        self.versions.insert(type_url.into(), version.into());
        self
    }

    /// How many changes there are, repeated names included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether there is no change at all, nor a version.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.versions.is_empty()
    }

    pub(crate) fn view(&self) -> &ViewName {
        &self.view
    }

    pub(crate) fn changes(&self) -> &[Change] {
        &self.changes
    }

    pub(crate) fn versions(&self) -> &BTreeMap<TypeUrl, Version> {
        &self.versions
    }

    fn push(&mut self, type_url: TypeUrl, name: ResourceName, content: Content) -> &mut Self {
        // What is malformed is refused when it is applied.
        let name = xdstp::canonical(&name).unwrap_or(name);
        self.changes.push(Change { type_url, name, content });
        self
    }
}

/// What a transaction did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied {
    /// The number of the newest transaction that changed anything: this one, unless it changed
    /// nothing.
    pub sequence: u64,
    /// Resources that were created or got other bytes, or another error.
    pub changed: usize,
    /// Resources that were deleted.
    pub removed: usize,
}

/// Why a transaction was refused; nothing of it was applied (M218).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// A change has no type URL.
    #[error("change {change} has no type URL")]
    EmptyTypeUrl {
        /// The position of the change in the transaction.
        change: usize,
    },
    /// A change has no resource name, or an alias is empty.
    #[error("change {change} has no resource name, or an empty alias")]
    EmptyName {
        /// The position of the change in the transaction.
        change: usize,
    },
    /// A resource is named `*`, or has it for an alias, which means every resource and cannot be subscribed to alone (B01).
    #[error("change {change} names a resource \"*\", which stands for all of them")]
    WildcardName {
        /// The position of the change in the transaction.
        change: usize,
    },
    /// A name starts with `xdstp:` and is none.
    #[error("change {change} has a malformed name: {why}")]
    MalformedName {
        /// The position of the change in the transaction.
        change: usize,
        /// What is wrong with it.
        why: InvalidXdstp,
    },
    /// A structured name is one of another type (M210).
    #[error("change {change} has the name of a resource of another type")]
    ForeignName {
        /// The position of the change in the transaction.
        change: usize,
    },
    /// A resource has the name of a glob, which stands for those below it (TP1), or has it for an alias. An
    /// error may have it.
    #[error("change {change} gives a resource the name of a glob")]
    GlobName {
        /// The position of the change in the transaction.
        change: usize,
    },
    /// A resource name, alias or type URL is longer than any client may ask for.
    #[error("change {change} has a name of {bytes} bytes, above the limit of {limit}")]
    NameTooLong {
        /// The position of the change in the transaction.
        change: usize,
        /// Its length in bytes.
        bytes: usize,
        /// The configured limit in bytes.
        limit: usize,
    },
    /// A resource has too many aliases.
    #[error("change {change} has {aliases} aliases, above the limit of {limit}")]
    TooManyAliases {
        /// The position of the change in the transaction.
        change: usize,
        /// How many it has.
        aliases: usize,
        /// The configured limit.
        limit: usize,
    },
    /// The message of an error is too long.
    #[error("change {change} has a message of {bytes} bytes, above the limit of {limit}")]
    MessageTooLong {
        /// The position of the change in the transaction.
        change: usize,
        /// Its length in bytes.
        bytes: usize,
        /// The configured limit in bytes: that of names.
        limit: usize,
    },
    /// A resource is too long.
    #[error("change {change} has a resource of {bytes} bytes, above the limit of {limit}")]
    ResourceTooLong {
        /// The position of the change in the transaction.
        change: usize,
        /// Its length in bytes.
        bytes: usize,
        /// The configured limit in bytes.
        limit: usize,
    },
    /// A TTL is shorter or longer than any may be.
    #[error("change {change} has a TTL of {ttl:?}, which is not between 1ms and 315576000000s")]
    TtlOutOfRange {
        /// The position of the change in the transaction.
        change: usize,
        /// The TTL.
        ttl: Duration,
    },
    /// Resources of a type are changed whose versions are the application's, and none is given (M72).
    #[error("resources of type {type_url} are changed without a version")]
    MissingVersion {
        /// The type.
        type_url: TypeUrl,
    },
    /// Resources are changed, and their type has that version already: it would stand for two sets of
    /// resources (IS15).
    #[error("resources of type {type_url} are changed under their version {version:?}")]
    ReusedVersion {
        /// The type.
        type_url: TypeUrl,
        /// The version.
        version: Version,
    },
    /// A resource is changed that has that version of its own already (IS15).
    #[error("change {change} has other content for the version that its resource has")]
    ReusedResourceVersion {
        /// The position of the change in the transaction.
        change: usize,
    },
    /// A version is given to a type, or to a resource of it, whose versions are not the application's.
    #[error("the versions of type {type_url} are not the application's")]
    UnexpectedVersion {
        /// The type.
        type_url: TypeUrl,
    },
    /// A version is empty, which to clients is none, or too long.
    #[error("a version of type {type_url} has {bytes} bytes, not 1 to {limit}")]
    VersionLength {
        /// The type.
        type_url: TypeUrl,
        /// The length of the version in bytes.
        bytes: usize,
        /// The configured limit in bytes: that of names.
        limit: usize,
    },
    /// The store would hold too many resources.
    #[error("{resources} resources exceed the limit of {limit}")]
    TooManyResources {
        /// How many there would be.
        resources: usize,
        /// The configured limit.
        limit: usize,
    },
    /// The view does not exist yet, and there are as many as there may be.
    #[error("more than {limit} views")]
    TooManyViews {
        /// The configured limit.
        limit: usize,
    },
    /// The view is made of layers: change one of these instead (M224).
    #[error("view {view:?} is made of layers and has no resources of its own")]
    LayeredView {
        /// The view.
        view: ViewName,
    },
    /// A snapshot has two resources of one type and name (M219).
    #[error("two resources of type {type_url} are named {name:?}")]
    DuplicateName {
        /// Their type.
        type_url: TypeUrl,
        /// Their name.
        name: ResourceName,
    },
}
