//! Whether caches between a server and its clients may keep a resource.

/// Whether caches between a server and its clients may keep a resource:
/// `Resource.cache_control.do_not_cache` of the protocol (M249).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CacheControl {
    /// They may.
    #[default]
    MayKeep,
    /// A relay passes it on to those who ask, with this mark, and does not keep it beyond that.
    DoNotKeep,
}
