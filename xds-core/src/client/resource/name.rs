//! What a resource of a response is called, and under which name it is kept.

use alloc::borrow::Cow;

use super::{
    canonical_name::{self, InvalidStructuredName, KeptName},
    unwrap::{Body, Unusable, Unwrapped, unwrap, unwrap_delta},
};
use crate::{
    client::config::{
        ClientLimits, Profile,
        resource_type::{Rejection, ResourceType},
    },
    wire::resource::{RawResource, Wrapped},
};

/// What the names of a type's resources depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Naming<'a> {
    pub(crate) resource_type: &'a dyn ResourceType,
    pub(crate) limits: &'a ClientLimits,
    pub(crate) profile: &'a Profile,
}

impl<'a> Naming<'a> {
    /// What a resource is called, by its wrapper or by itself.
    pub(crate) fn name_of<'f>(self, one: &Unwrapped<'f>) -> Result<&'f str, Rejection> {
        let name = match (one.name, one.body) {
            ("", Body::Resource(value)) => self.resource_type.name(value)?,
            (name, _) => name,
        };
        let version = one.wrapper.map_or(0, |wrapper| wrapper.version.len());
        if version > self.limits.token_bytes {
            let limit = self.limits.token_bytes;
            return Err(Rejection::new(alloc::format!(
                "version of {version} bytes exceeds the limit of {limit}"
            )));
        }
        self.check(name).map(|()| name)
    }

    /// Whether a server may call a resource that.
    pub(crate) fn check(self, name: &str) -> Result<(), Rejection> {
        match name {
            "" => Err(Rejection::new("the resource has no name")),
            name => self.check_read(name, self.read(name)),
        }
    }

    /// Whether a server may speak of a resource or of a glob by that name.
    pub(crate) fn check_subject(self, name: &str) -> Result<(), Rejection> {
        let (type_url, federation) = (self.resource_type.type_url(), self.profile.federation);
        match name {
            "" => Err(Rejection::new("it names no resource")),
            name => self.check_read(name, canonical_name::read_subject(name, type_url, federation)),
        }
    }

    fn check_read(
        self,
        name: &str,
        read: Result<KeptName<'_>, InvalidStructuredName>,
    ) -> Result<(), Rejection> {
        let kept =
            read.map_err(|why| Rejection::new(alloc::format!("its name {name:.200}: {why}")))?;
        // As it came, and as servers are told of it.
        let (bytes, limit) = (name.len().max(kept.name.len()), self.limits.name_bytes);
        if bytes > limit {
            return Err(Rejection::new(alloc::format!(
                "name of {bytes} bytes exceeds the limit of {limit}"
            )));
        }
        Ok(())
    }

    /// Takes a resource out of what it came in.
    #[inline]
    pub(crate) fn unwrap<'f>(self, raw: &RawResource<'f>) -> Result<Unwrapped<'f>, Unusable<'f>> {
        unwrap(raw, self.resource_type.type_url().as_str())
    }

    /// The same for a wrapper that stands by itself.
    pub(crate) fn unwrap_delta<'f>(
        self,
        wrapped: &Wrapped<'f>,
    ) -> Result<Unwrapped<'f>, Unusable<'f>> {
        unwrap_delta(wrapped, self.resource_type.type_url().as_str())
    }

    /// What a resource is called, sound or not, if that can be told.
    pub(crate) fn found<'f>(self, one: Result<Unwrapped<'f>, Unusable<'f>>) -> Option<&'f str> {
        match one {
            Ok(one) => self.name_of(&one).ok(),
            Err(unusable) => Some(unusable.name).filter(|name| !name.is_empty()),
        }
    }

    /// The name of a resource or a glob as it is kept; as it is if it cannot be read.
    pub(crate) fn kept(self, name: &str) -> Cow<'_, str> {
        let (type_url, federation) = (self.resource_type.type_url(), self.profile.federation);
        let read = canonical_name::read_subject(name, type_url, federation);
        read.map_or(Cow::Borrowed(name), |read| read.name)
    }

    pub(crate) fn read<'n>(self, name: &'n str) -> Result<KeptName<'n>, InvalidStructuredName> {
        canonical_name::read(name, self.resource_type.type_url(), self.profile.federation)
    }
}
