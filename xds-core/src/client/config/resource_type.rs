//! What the application knows about a type and the core does not: names, and what makes a resource
//! valid.

use alloc::{string::String, sync::Arc};
use core::{any::Any, fmt};

use bytes::Bytes;
use thiserror::Error;

use super::{ManagementServer, Profile};
use crate::{text::TypeUrl, types, wire::walk};

/// A resource type that can be watched. The core holds resources as bytes and asks here.
pub trait ResourceType: fmt::Debug + Send + Sync {
    /// The type URL, as in requests and responses.
    fn type_url(&self) -> &TypeUrl;

    /// Whether a SotW response of this type is the complete state, so that absence means deletion
    /// (S0.112, S0.120). By default listeners and clusters.
    fn full_state_in_sotw(&self) -> bool {
        types::is_full_state_in_sotw(self.type_url().as_str())
    }

    /// Who has the last word on resources of this type.
    fn verdict(&self) -> Verdict {
        Verdict::Validation
    }

    /// The name inside an encoded resource. By default its first field, which is where every xDS
    /// resource of the v3 API has it.
    ///
    /// # Errors
    ///
    /// The resource does not decode far enough to tell its name.
    fn name<'a>(&self, resource: &'a [u8]) -> Result<&'a str, Rejection> {
        walk::string_field(resource, 1).map_err(|why| Rejection::new(alloc::format!("{why}")))
    }

    /// Accepts or rejects a changed resource, and decodes it where the application wants it
    /// decoded. The value is kept beside the bytes, so nothing decodes twice. `resource` may lie in
    /// the whole response's frame: a value that keeps a slice of it keeps the frame.
    ///
    /// # Errors
    ///
    /// The reason for which the resource is rejected; it reaches the server in a NACK and every
    /// watcher of the resource (S0.089).
    fn validate(
        &self,
        resource: &Bytes,
        context: &Context<'_>,
    ) -> Result<Option<Value>, Rejection> {
        let _ = (resource, context);
        Ok(None)
    }

    /// The same of a resource that would take the place of one that is in use. A type may take over what it has
    /// decoded of that; it must come to what [`validate`](Self::validate) does, which it is by default.
    ///
    /// # Errors
    ///
    /// Those of [`validate`](Self::validate).
    fn validate_after(
        &self,
        held: Held<'_>,
        resource: &Bytes,
        context: &Context<'_>,
    ) -> Result<Option<Value>, Rejection> {
        let _ = held;
        self.validate(resource, context)
    }
}

/// A type that is shared is the type.
impl<T: ResourceType + ?Sized> ResourceType for Arc<T> {
    fn type_url(&self) -> &TypeUrl {
        (**self).type_url()
    }

    fn full_state_in_sotw(&self) -> bool {
        (**self).full_state_in_sotw()
    }

    fn verdict(&self) -> Verdict {
        (**self).verdict()
    }

    fn name<'a>(&self, resource: &'a [u8]) -> Result<&'a str, Rejection> {
        (**self).name(resource)
    }

    fn validate(
        &self,
        resource: &Bytes,
        context: &Context<'_>,
    ) -> Result<Option<Value>, Rejection> {
        (**self).validate(resource, context)
    }

    fn validate_after(
        &self,
        held: Held<'_>,
        resource: &Bytes,
        context: &Context<'_>,
    ) -> Result<Option<Value>, Rejection> {
        (**self).validate_after(held, resource, context)
    }
}

/// Who has the last word on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// [`ResourceType::validate`] decides, and the response is answered at once.
    Validation,
    /// What is valid is handed out as [`Output::Update`](crate::client::Output::Update); it is used, and the
    /// response answered, when [`settle`](crate::client::Client::settle) says what of it is rejected. The
    /// driver has to support that.
    External,
}

/// Where a resource under validation comes from.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Context<'a> {
    /// The server that sent the resource.
    pub server: &'a ManagementServer,
    /// How the client behaves.
    pub profile: &'a Profile,
}

impl<'a> Context<'a> {
    /// A context, for tests of a [`ResourceType`].
    #[must_use]
    pub const fn new(server: &'a ManagementServer, profile: &'a Profile) -> Self {
        Self { server, profile }
    }
}

/// A resource that is in use: one that its type has judged to be valid.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Held<'a> {
    /// Its bytes.
    pub bytes: &'a Bytes,
    /// What it was decoded to.
    pub value: &'a Value,
}

impl<'a> Held<'a> {
    /// These bytes, decoded to this value.
    #[must_use]
    pub const fn new(bytes: &'a Bytes, value: &'a Value) -> Self {
        Self { bytes, value }
    }
}

/// A decoded resource, shared between the cache and all watchers.
#[derive(Clone)]
pub struct Value(Arc<dyn Any + Send + Sync>);

impl Value {
    /// Wraps a decoded resource.
    #[must_use]
    pub fn new<T: Any + Send + Sync>(value: T) -> Self {
        Self(Arc::new(value))
    }

    /// The decoded resource, if it is a `T`.
    #[must_use]
    pub fn downcast<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::clone(&self.0).downcast().ok()
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Value(..)")
    }
}

/// Why a resource is not acceptable, in words for the people who run the management server.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct Rejection {
    reason: Arc<str>,
}

impl Rejection {
    /// Rejects with a reason, which should name the field.
    #[must_use]
    pub fn new(reason: impl Into<Arc<str>>) -> Self {
        Self { reason: reason.into() }
    }

    /// The reason.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl From<String> for Rejection {
    fn from(reason: String) -> Self {
        Self::new(reason)
    }
}

/// A type whose resources are taken as they come: bytes with a name in the first field.
#[derive(Clone, Debug)]
pub struct OpaqueType {
    type_url: TypeUrl,
}

impl OpaqueType {
    /// The type `type_url`, unvalidated.
    #[must_use]
    pub fn new(type_url: impl Into<TypeUrl>) -> Self {
        Self { type_url: type_url.into() }
    }
}

impl ResourceType for OpaqueType {
    fn type_url(&self) -> &TypeUrl {
        &self.type_url
    }
}
