//! Permission for caches between a server and its clients to keep a resource.

/// Whether caches between a server and its clients may keep a resource:
/// `Resource.cache_control.do_not_cache` of the protocol.
// M249
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CacheControl {
    /// Caches may keep the resource; the default.
    #[default]
    Cacheable,
    /// Relays forward the resource, with this mark, to clients that request it, and do not cache
    /// it.
    DoNotCache,
}
