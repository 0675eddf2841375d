//! Static resources, which come from the client's own configuration.
//!
//! They are stored in the cache and reach the same watchers as other resources. For servers, they
//! belong to an authority without servers ([`STATIC_AUTHORITY`]): they are not requested, and a server can
//! neither replace nor delete them. A permanent subscription without watches keeps each of them.
// S4.016-S4.019

use alloc::string::String;

use bytes::Bytes;
use thiserror::Error;

use super::{
    Client, ValidationContext,
    config::{ServerAddress, resource_type::Rejection},
    resource::canonical_name::{self, InvalidStructuredName},
    subscription::Subscription,
    watch::NoticeKind,
};
use crate::{
    slab::Slot,
    text::{ResourceName, TypeUrl, Version},
    time::Time,
};

/// Position of the authority of static resources, which has no servers.
pub(crate) const STATIC_AUTHORITY: usize = usize::MAX;

/// Server URI that validation sees for a static resource.
const SOURCE: &str = "static_resources";

/// Error of adding a static resource.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidStaticResource {
    /// The type is not registered, or registered twice.
    #[error("resource type {0} is not registered, or is registered twice")]
    UnknownType(TypeUrl),
    /// The resource is invalid, or its name cannot be determined.
    #[error("{name:?}: {why}")]
    Rejected {
        /// Name of the resource; empty if it cannot be determined.
        name: ResourceName,
        /// Reason for the rejection.
        why: Rejection,
    },
    /// The name is empty, `*`, or longer than the limit.
    #[error("{0:?} is not a resource name, or exceeds the limit for names")]
    InvalidName(ResourceName),
    /// The name has an authority, and only servers provide such resources.
    #[error("{0:?} has an authority, but static resources cannot have one")]
    HasAuthority(ResourceName),
    /// The name is not a valid `xdstp` name.
    #[error("{name:?}: {why}")]
    Structured {
        /// Name of the resource.
        name: ResourceName,
        /// Error in the name.
        why: InvalidStructuredName,
    },
    /// A resource with the name was added before, or the name is already cached or watched.
    #[error("{0:?} is already defined or watched")]
    Known(ResourceName),
    /// The client cannot hold more resources.
    #[error("the resource limit of the client is reached")]
    CapacityExceeded,
    /// The client is shut down.
    #[error("the client has been shut down")]
    ShutDown,
}

impl Client {
    pub(crate) fn insert_static_resource(
        &mut self,
        type_url: &TypeUrl,
        resource: Bytes,
        now: Time,
    ) -> Result<ResourceName, InvalidStaticResource> {
        use InvalidStaticResource as Invalid;

        if self.is_shut_down {
            return Err(Invalid::ShutDown);
        }
        let position = self.config.position_of(type_url.as_str());
        let type_index = position
            .filter(|_| !self.config.is_ambiguous(type_url.as_str()))
            .ok_or_else(|| Invalid::UnknownType(type_url.clone()))?;
        let known = self.types.get_mut(type_index).ok_or(Invalid::CapacityExceeded)?;

        let rejected = |name: &str, why| Invalid::Rejected { name: ResourceName::from(name), why };
        let stated = known.resource_type.name(&resource).map_err(|why| rejected("", why))?;
        if stated.is_empty() || stated == "*" || stated.len() > self.config.limits.name_bytes {
            return Err(Invalid::InvalidName(ResourceName::from(stated)));
        }
        let name = canonical_name::parse(stated, type_url, self.config.profile.federation)
            .map_err(|why| Invalid::Structured { name: stated.into(), why })?;
        if name.authority.is_some() {
            return Err(Invalid::HasAuthority(stated.into()));
        }
        let name = String::from(&*name.name);
        if known.cache.find(&name).is_some() {
            return Err(Invalid::Known(name.as_str().into()));
        }
        let source = ServerAddress::new(SOURCE);
        let context = ValidationContext { server: &source, profile: &self.config.profile };
        let value = known.resource_type.validate(&resource, &context);
        let value = value.map_err(|why| rejected(&name, why))?;

        let name = ResourceName::from(name);
        let entry = known.cache.create(name.clone()).ok_or(Invalid::CapacityExceeded)?;
        let subscription = Subscription::new(entry, STATIC_AUTHORITY);
        let Some(subscription) = known.interest.subscriptions.push_back(subscription) else {
            known.cache.remove(entry);
            return Err(Invalid::CapacityExceeded);
        };
        if let Some(entry) = known.cache.get_mut(entry) {
            entry.subscription = subscription.slot();
        }
        known.cache.begin_response(Version::default(), "", usize::MAX, now);
        known.cache.accept(entry, resource, value, Slot::NONE);
        known.cache.touch(entry);
        known.cache.note_static_resource();
        known.cache.end_response();
        for &watch in &known.interest.wildcards {
            self.watches.notify(watch, NoticeKind::ChangesAvailable, &mut self.outbox, &mut None);
        }
        self.signal_writable();
        Ok(name)
    }
}
