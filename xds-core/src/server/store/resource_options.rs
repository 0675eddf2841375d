//! Options with which a resource is sent, in addition to its bytes.

use alloc::vec::Vec;
use core::time::Duration;

use crate::{
    cache_control::CacheControl,
    text::{ResourceName, Version},
    xdstp,
};

/// Options with which a resource is sent, in addition to its bytes, for
/// [`Transaction::set_with`](super::transaction::Transaction::set_with).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ResourceOptions {
    /// Time for which a client may use the resource unless it is sent again; unlimited by
    /// default. At least [`SHORTEST_TTL`](Self::SHORTEST_TTL), at most
    /// [`LONGEST_TTL`](Self::LONGEST_TTL).
    ///
    /// Only clients that announce the feature `xds.config.supports-resource-ttl` are sent TTLs,
    /// and heartbeats before they expire. See the
    /// [xDS protocol](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol).
    // B09, M159-M170
    pub ttl: Option<Duration>,
    /// Other names by which incremental clients may subscribe to the resource. They are sent the
    /// resource under its own name with all aliases, whose order does not matter. If the resource
    /// is removed or loses the alias, they are sent removals of both names.
    ///
    /// A resource takes precedence over an alias of the same name. An alias of several resources
    /// refers to the first one by name. State-of-the-world clients cannot use aliases, but adding
    /// or removing one changes the version of the resource for them as well.
    // X06, M136
    pub aliases: Vec<ResourceName>,
    /// Whether caches between server and client may keep the resource. Only incremental clients
    /// are sent this, because the state-of-the-world variant has no generally understood field
    /// for it.
    // M249
    pub cache_control: CacheControl,
    /// Version of the resource, as sent to incremental clients and stated by them when they
    /// reconnect. By default it is derived from the content.
    ///
    /// May be set only for types with application-defined versions
    /// ([`VersionMode::Caller`](crate::server::VersionMode) and `Label`). A version must never be
    /// reused for other content: a client that states it is not sent the resource again. A change
    /// under the current version is rejected; reuse of an earlier version is not detected. The
    /// same content under another version is sent again.
    pub version: Option<Version>,
}

/// Options of a resource that has none.
pub(crate) static PLAIN: ResourceOptions = ResourceOptions {
    ttl: None,
    aliases: Vec::new(),
    cache_control: CacheControl::Cacheable,
    version: None,
};

impl ResourceOptions {
    /// Shortest TTL: one millisecond.
    pub const SHORTEST_TTL: Duration = Duration::from_millis(1);
    /// Longest TTL: the maximum of `google.protobuf.Duration`, about 10,000 years.
    pub const LONGEST_TTL: Duration = Duration::from_secs(315_576_000_000);

    /// Sets the TTL.
    #[must_use]
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets the version of the resource.
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

    /// Returns the options with canonical aliases, sorted, without duplicates and without `name`,
    /// the name of the resource.
    pub(crate) fn in_order(mut self, name: &ResourceName) -> Self {
        // Malformed names are rejected when the transaction is applied.
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

    /// Whether a TTL can be encoded and observed.
    pub(crate) fn is_ttl_in_range(ttl: Duration) -> bool {
        (Self::SHORTEST_TTL..=Self::LONGEST_TTL).contains(&ttl)
    }

    /// Whether all options have their default value.
    pub(crate) fn is_plain(&self) -> bool {
        *self == PLAIN
    }
}
