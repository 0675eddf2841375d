//! Resources that the client has from its own configuration, and no server has a say in (S4.016-S4.019).
//!
//! They lie among the others and reach the same watchers. To servers they are names of an authority that none
//! of them serves: what one sends under such a name is passed over, what it leaves out or removes stays, and
//! nobody is asked for it. A standing subscription that nobody made keeps each.

use alloc::string::String;

use bytes::Bytes;
use thiserror::Error;

use super::{
    Client, Context,
    config::{ManagementServer, resource_type::Rejection},
    resource::canonical_name::{self, InvalidStructuredName},
    subscription::Subscription,
    watch::News,
};
use crate::{
    slab::Slot,
    text::{ResourceName, TypeUrl, Version},
    time::Time,
};

/// The position of an authority that has no servers.
pub(crate) const OURS: usize = usize::MAX;

/// What validation is told to be the source of a static resource.
const SOURCE: &str = "static_resources";

/// Why a resource cannot be a static one. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidStaticResource {
    /// The type is not registered, or is twice.
    #[error("{0} is no registered type, or is registered twice")]
    UnknownType(TypeUrl),
    /// The resource is not valid, or does not tell its name.
    #[error("{name:?}: {why}")]
    Rejected {
        /// Its name; empty where it does not tell.
        name: ResourceName,
        /// What is wrong.
        why: Rejection,
    },
    /// The name is empty, `*`, or longer than the limit.
    #[error("{0:?} is no name of a resource, or too long for one")]
    InvalidName(ResourceName),
    /// The name states an authority, whose servers have the last word on it.
    #[error("{0:?} states an authority")]
    HasAuthority(ResourceName),
    /// The name cannot be read.
    #[error("{name:?}: {why}")]
    Structured {
        /// The name.
        name: ResourceName,
        /// What is wrong with it.
        why: InvalidStructuredName,
    },
    /// There is a static resource of that name, or the name is known or watched already: static resources
    /// come first.
    #[error("{0:?} is known already")]
    Known(ResourceName),
    /// The client is shut down, or holds as many resources as it can.
    #[error("the client can hold no more resources, or is shut down")]
    NoRoom,
}

impl Client {
    pub(crate) fn take_static_resource(
        &mut self,
        type_url: &TypeUrl,
        resource: Bytes,
        now: Time,
    ) -> Result<ResourceName, InvalidStaticResource> {
        use InvalidStaticResource as Invalid;

        let position = self.config.position_of(type_url.as_str());
        let type_index = position
            .filter(|_| !self.config.is_ambiguous(type_url.as_str()))
            .ok_or_else(|| Invalid::UnknownType(type_url.clone()))?;
        let known = self.types.get_mut(type_index).filter(|_| !self.is_shut_down);
        let known = known.ok_or(Invalid::NoRoom)?;

        let rejected = |name: &str, why| Invalid::Rejected { name: ResourceName::from(name), why };
        let stated = known.resource_type.name(&resource).map_err(|why| rejected("", why))?;
        if stated.is_empty() || stated == "*" || stated.len() > self.config.limits.name_bytes {
            return Err(Invalid::InvalidName(ResourceName::from(stated)));
        }
        let name = canonical_name::read(stated, type_url, self.config.profile.federation)
            .map_err(|why| Invalid::Structured { name: stated.into(), why })?;
        if name.authority.is_some() {
            return Err(Invalid::HasAuthority(stated.into()));
        }
        let name = String::from(&*name.name);
        if known.cache.find(&name).is_some() {
            return Err(Invalid::Known(name.as_str().into()));
        }
        let source = ManagementServer::new(SOURCE);
        let context = Context { server: &source, profile: &self.config.profile };
        let value = known.resource_type.validate(&resource, &context);
        let value = value.map_err(|why| rejected(&name, why))?;

        let name = ResourceName::from(name);
        let entry = known.cache.create(name.clone()).ok_or(Invalid::NoRoom)?;
        let subscription = Subscription::new(entry, OURS);
        let Some(subscription) = known.interest.subscriptions.push_back(subscription) else {
            known.cache.remove(entry);
            return Err(Invalid::NoRoom);
        };
        if let Some(entry) = known.cache.get_mut(entry) {
            entry.subscription = subscription.slot();
        }
        known.cache.begin_response(Version::default(), "", usize::MAX, now);
        known.cache.accept(entry, resource, value, Slot::NONE);
        known.cache.touch(entry);
        known.cache.note_ours();
        known.cache.end_response();
        for &watch in &known.interest.wildcards {
            self.watches.tell(watch, News::Behind, &mut self.outbox, &mut None);
        }
        self.announce();
        Ok(name)
    }
}
