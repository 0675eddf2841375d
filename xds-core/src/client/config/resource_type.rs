//! Resource types as implemented by the application: name and validation of resources.

use alloc::{string::String, sync::Arc};
use core::{any::Any, fmt};

use bytes::Bytes;
use thiserror::Error;

use super::{Profile, ServerAddress};
use crate::{text::TypeUrl, types, wire::walk};

/// Resource type that can be watched. The core stores resources as bytes and calls this trait to
/// name and validate them.
pub trait ResourceType: fmt::Debug + Send + Sync {
    /// Returns the type URL, as in requests and responses.
    fn type_url(&self) -> &TypeUrl;

    /// Returns whether a state-of-the-world response of this type is the complete state, so that a
    /// missing resource is deleted. By default true for listeners and clusters.
    // S0.112, S0.120
    fn full_state_in_sotw(&self) -> bool {
        types::is_full_state_in_sotw(self.type_url().as_str())
    }

    /// Returns what decides whether a resource is accepted. By default
    /// [`VerdictSource::Validation`].
    fn verdict_source(&self) -> VerdictSource {
        VerdictSource::Validation
    }

    /// Returns the number of the field with the name. By default 1, as in every xDS resource of the
    /// v3 API.
    fn name_field(&self) -> u32 {
        1
    }

    /// Returns the name inside an encoded resource. By default the string in the field
    /// [`name_field`](Self::name_field).
    ///
    /// # Errors
    ///
    /// Returns an error if the resource cannot be decoded far enough to find its name.
    fn name<'a>(&self, resource: &'a [u8]) -> Result<&'a str, Rejection> {
        walk::string_field(resource, self.name_field())
            .map_err(|why| Rejection::new(alloc::format!("{why}")))
    }

    /// Accepts or rejects a changed resource, and optionally decodes it. The returned value is
    /// stored next to the bytes, so that nothing is decoded twice. `resource` may be a slice of the
    /// whole response; a value that keeps a slice of it keeps the response in memory.
    ///
    /// # Errors
    ///
    /// Returns the reason for rejecting the resource. It is sent to the server in a NACK and to
    /// every watcher of the resource.
    // S0.089
    fn validate(
        &self,
        resource: &Bytes,
        context: &ValidationContext<'_>,
    ) -> Result<Option<Value>, Rejection> {
        let _ = (resource, context);
        Ok(None)
    }

    /// Validates a resource that would replace `cached`. A type can reuse what it decoded from the
    /// previous version; the result must be that of [`validate`](Self::validate), which the default
    /// implementation calls.
    ///
    /// # Errors
    ///
    /// Returns the reason for rejecting the resource, like [`validate`](Self::validate).
    fn validate_update(
        &self,
        cached: CachedResource<'_>,
        resource: &Bytes,
        context: &ValidationContext<'_>,
    ) -> Result<Option<Value>, Rejection> {
        let _ = cached;
        self.validate(resource, context)
    }
}

/// Forwards to the shared type.
impl<T: ResourceType + ?Sized> ResourceType for Arc<T> {
    fn type_url(&self) -> &TypeUrl {
        (**self).type_url()
    }

    fn full_state_in_sotw(&self) -> bool {
        (**self).full_state_in_sotw()
    }

    fn verdict_source(&self) -> VerdictSource {
        (**self).verdict_source()
    }

    fn name_field(&self) -> u32 {
        (**self).name_field()
    }

    fn name<'a>(&self, resource: &'a [u8]) -> Result<&'a str, Rejection> {
        (**self).name(resource)
    }

    fn validate(
        &self,
        resource: &Bytes,
        context: &ValidationContext<'_>,
    ) -> Result<Option<Value>, Rejection> {
        (**self).validate(resource, context)
    }

    fn validate_update(
        &self,
        cached: CachedResource<'_>,
        resource: &Bytes,
        context: &ValidationContext<'_>,
    ) -> Result<Option<Value>, Rejection> {
        (**self).validate_update(cached, resource, context)
    }
}

/// Source of the decision whether a resource is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VerdictSource {
    /// [`ResourceType::validate`] decides, and the response is ACKed or NACKed at once.
    Validation,
    /// The driver decides. Valid resources are handed out as
    /// [`Output::Update`](crate::client::Output::Update). They are used, and the response is ACKed
    /// or NACKed, after a call of [`submit_verdict`](crate::client::Client::submit_verdict) that lists the rejected
    /// ones. The driver must support this.
    External,
}

/// Origin of a resource under validation.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ValidationContext<'a> {
    /// Server that sent the resource.
    pub server: &'a ServerAddress,
    /// Profile of the client.
    pub profile: &'a Profile,
}

impl<'a> ValidationContext<'a> {
    /// Creates a context, for tests of a [`ResourceType`].
    #[must_use]
    pub const fn new(server: &'a ServerAddress, profile: &'a Profile) -> Self {
        Self { server, profile }
    }
}

/// Version of a resource that is in use, and hence was accepted by its type.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CachedResource<'a> {
    /// Encoded resource.
    pub bytes: &'a Bytes,
    /// Decoded resource.
    pub value: &'a Value,
}

impl<'a> CachedResource<'a> {
    /// Creates a pair of encoded and decoded resource.
    #[must_use]
    pub const fn new(bytes: &'a Bytes, value: &'a Value) -> Self {
        Self { bytes, value }
    }
}

/// Decoded resource, shared between the cache and all watchers.
#[derive(Clone)]
pub struct Value(Arc<dyn Any + Send + Sync>);

impl Value {
    /// Wraps a decoded resource.
    #[must_use]
    pub fn new<T: Any + Send + Sync>(value: T) -> Self {
        Self(Arc::new(value))
    }

    /// Returns the decoded resource if it is a `T`.
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

/// Reason for rejecting a resource, for the operators of the management server.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct Rejection {
    reason: Arc<str>,
}

impl Rejection {
    /// Creates a rejection. The reason should name the field.
    #[must_use]
    pub fn new(reason: impl Into<Arc<str>>) -> Self {
        Self { reason: reason.into() }
    }

    /// Returns the reason.
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

/// Type whose resources are accepted without validation: bytes with a name in field 1.
#[derive(Clone, Debug)]
pub struct OpaqueType {
    type_url: TypeUrl,
}

impl OpaqueType {
    /// Creates the type with this URL.
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
