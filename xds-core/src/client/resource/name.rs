//! Names of the resources in a response, as sent and in canonical form.

use alloc::borrow::Cow;

use super::{
    canonical_name::{self, CanonicalName, InvalidStructuredName},
    unwrap::{ResourceBody, Unusable, Unwrapped, unwrap, unwrap_delta},
};
use crate::{
    client::config::{
        ClientLimits, Profile,
        resource_type::{Rejection, ResourceType},
    },
    wire::resource::{RawResource, ResourceWrapper},
};

/// Settings that determine the names of a type's resources.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Naming<'a> {
    pub(crate) resource_type: &'a dyn ResourceType,
    pub(crate) limits: &'a ClientLimits,
    pub(crate) profile: &'a Profile,
}

impl<'a> Naming<'a> {
    /// Returns the name of a resource: that in its wrapper or, if it has none, that in the
    /// resource.
    pub(crate) fn name_of<'f>(self, one: &Unwrapped<'f>) -> Result<&'f str, Rejection> {
        let name = match (one.name, one.body) {
            ("", ResourceBody::Resource(value)) => self.resource_type.name(value)?,
            (name, _) => name,
        };
        let version = one.wrapper.map_or(0, |wrapper| wrapper.version.len());
        if version > self.limits.token_bytes {
            let limit = self.limits.token_bytes;
            return Err(Rejection::new(alloc::format!(
                "resource version of {version} bytes exceeds the limit of {limit}"
            )));
        }
        self.check(name).map(|()| name)
    }

    /// Checks whether the name is valid for a resource.
    pub(crate) fn check(self, name: &str) -> Result<(), Rejection> {
        match name {
            "" => Err(Rejection::new("the resource has no name")),
            name => self.check_parsed(name, self.parse(name)),
        }
    }

    /// Checks whether the name is valid for a resource or a glob.
    pub(crate) fn check_subject(self, name: &str) -> Result<(), Rejection> {
        let (type_url, federation) = (self.resource_type.type_url(), self.profile.federation);
        match name {
            "" => Err(Rejection::new("the error has no resource name")),
            name => self.check_parsed(name, canonical_name::parse_any(name, type_url, federation)),
        }
    }

    fn check_parsed(
        self,
        name: &str,
        read: Result<CanonicalName<'_>, InvalidStructuredName>,
    ) -> Result<(), Rejection> {
        let kept = read.map_err(|why| {
            Rejection::new(alloc::format!("invalid resource name {name:.200}: {why}"))
        })?;
        // Both as received and as sent to servers.
        let (bytes, limit) = (name.len().max(kept.name.len()), self.limits.name_bytes);
        if bytes > limit {
            return Err(Rejection::new(alloc::format!(
                "resource name of {bytes} bytes exceeds the limit of {limit}"
            )));
        }
        Ok(())
    }

    /// Takes a resource out of its `Any` and its wrapper.
    #[inline]
    pub(crate) fn unwrap<'f>(self, raw: &RawResource<'f>) -> Result<Unwrapped<'f>, Unusable<'f>> {
        unwrap(raw, self.resource_type.type_url().as_str())
    }

    /// Takes a resource out of a wrapper message, as in the incremental variant.
    pub(crate) fn unwrap_delta<'f>(
        self,
        wrapped: &ResourceWrapper<'f>,
    ) -> Result<Unwrapped<'f>, Unusable<'f>> {
        unwrap_delta(wrapped, self.resource_type.type_url().as_str())
    }

    /// Returns the name of a resource, usable or not, if it can be determined.
    pub(crate) fn known_name<'f>(
        self,
        one: Result<Unwrapped<'f>, Unusable<'f>>,
    ) -> Option<&'f str> {
        match one {
            Ok(one) => self.name_of(&one).ok(),
            Err(unusable) => Some(unusable.name).filter(|name| !name.is_empty()),
        }
    }

    /// Returns the canonical form of the name of a resource or glob; an invalid name is returned
    /// unchanged.
    pub(crate) fn canonical(self, name: &str) -> Cow<'_, str> {
        let (type_url, federation) = (self.resource_type.type_url(), self.profile.federation);
        let read = canonical_name::parse_any(name, type_url, federation);
        read.map_or(Cow::Borrowed(name), |read| read.name)
    }

    pub(crate) fn parse<'n>(
        self,
        name: &'n str,
    ) -> Result<CanonicalName<'n>, InvalidStructuredName> {
        canonical_name::parse(name, self.resource_type.type_url(), self.profile.federation)
    }
}
