//! What a resource is sent with beside its bytes.

use alloc::vec::Vec;
use core::time::Duration;

use crate::{
    cache_control::CacheControl,
    text::{ResourceName, Version},
    xdstp,
};

/// What a resource is sent with beside its bytes, for
/// [`Transaction::set_with`](super::transaction::Transaction::set_with).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ResourceOptions {
    /// How long a client may use the resource unless it is sent again; for ever by default. Only
    /// clients that announce the feature are told, and sent heartbeats in time (B09, M159-M170). At
    /// least [`SHORTEST_TTL`](Self::SHORTEST_TTL), at most [`LONGEST_TTL`](Self::LONGEST_TTL).
    pub ttl: Option<Duration>,
    /// Other names by which incremental clients may subscribe to the resource (X06, M136). They are sent it
    /// under its own name, with all of these, which have no order; and if it is deleted or loses the alias,
    /// they are told that both are gone.
    ///
    /// A resource of such a name counts more than an alias; of several resources that have one, the alias
    /// stands for the first by name. To state-of-the-world clients an alias says nothing, though one more
    /// or less is another version of the resource.
    pub aliases: Vec<ResourceName>,
    /// Whether caches on the way to the client may keep the resource (M249). Incremental clients are told;
    /// to others there is no way to say it that they all understand.
    pub cache_control: CacheControl,
    /// The resource's own version, as incremental clients are told it and say it when they come back; by
    /// default it is made of the content. It may be given for types whose versions are the application's
    /// ([`VersionMode::Caller`](crate::server::VersionMode) and `Label`), and is another one for other content, for
    /// good: a client that has a resource in this version, from whenever, is not sent it again. A change
    /// under the same version is refused; a version that comes back after another one is not noticed. The
    /// same content in another version is sent.
    pub version: Option<Version>,
}

impl ResourceOptions {
    /// The shortest TTL: a millisecond.
    pub const SHORTEST_TTL: Duration = Duration::from_millis(1);
    /// The longest TTL: what `google.protobuf.Duration` can say, some 10,000 years.
    pub const LONGEST_TTL: Duration = Duration::from_secs(315_576_000_000);

    /// Sets the time to live.
    #[must_use]
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets the resource's own version.
    #[must_use]
    pub fn with_version(mut self, version: impl Into<Version>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// Adds an alias.
    #[must_use]
    pub fn with_alias(mut self, alias: impl Into<ResourceName>) -> Self {
        self.aliases.push(alias.into());
        self
    }

    /// Sets whether caches may keep the resource.
    #[must_use]
    pub fn with_cache_control(mut self, cache_control: CacheControl) -> Self {
        self.cache_control = cache_control;
        self
    }

    /// The same for a resource of this name, with the aliases in their canonical form, in order, each once;
    /// the name is none.
    pub(crate) fn in_order(mut self, name: &ResourceName) -> Self {
        // What is malformed is refused when it is applied.
        let canonical =
            |name: &ResourceName| xdstp::canonical(name).unwrap_or_else(|_| name.clone());
        let name = canonical(name);
        for alias in &mut self.aliases {
            *alias = canonical(alias);
        }
        self.aliases.sort_unstable();
        self.aliases.dedup();
        self.aliases.retain(|alias| *alias != name);
        self
    }

    /// Whether a TTL can be told and kept to.
    pub(crate) fn is_ttl_in_range(ttl: Duration) -> bool {
        (Self::SHORTEST_TTL..=Self::LONGEST_TTL).contains(&ttl)
    }

    /// Whether there is nothing beside the bytes.
    pub(crate) fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}
