//! Wrapper fields of resources in use: version, metadata, cache control and expiry time.
// B08, B09

use bytes::Bytes;

use super::{Cache, entry::CacheEntry};
use crate::{
    cache_control::CacheControl, client::resource::unwrap::Wrapper, slab::Slot, text::Version,
    time::Time,
};

/// Fields of a wrapper other than name and resource.
#[derive(Debug, Default)]
pub(crate) struct WrapperFields {
    /// Version of the resource itself, which identifies its heartbeats.
    version: Version,
    metadata: Option<Bytes>,
    cache_control: CacheControl,
    expires: Option<Time>,
}

impl Cache {
    /// Returns whether `bytes`, without a wrapper, repeat the resource in use.
    #[inline]
    pub(crate) fn is_plain_unchanged(&self, slot: Slot, bytes: &[u8]) -> bool {
        self.get(slot)
            .is_some_and(|entry| entry.bytes.as_deref() == Some(bytes) && !entry.is_wrapped)
    }

    /// Returns whether the wrapper of an unchanged resource differs from the previous one or has a
    /// TTL.
    pub(crate) fn has_other_wrapper(&self, slot: Slot, wrapper: Option<&Wrapper<'_>>) -> bool {
        let Some(entry) = self.get(slot) else { return false };
        match (entry.wrapper_fields().filter(|_| entry.is_wrapped), wrapper) {
            (None, None) => false,
            (Some(old), Some(new)) => {
                old.expires.is_some()
                    || new.ttl.is_some()
                    || old.version != *new.version
                    || old.metadata.as_deref() != new.metadata
                    || old.cache_control != new.cache_control
            }
            (Some(_), None) | (None, Some(_)) => true,
        }
    }

    /// Returns whether a heartbeat with this resource version refers to the resource in use.
    pub(crate) fn is_own_version(&self, slot: Slot, version: &str) -> bool {
        let Some(entry) = self.get(slot) else { return false };
        match entry.wrapper_fields() {
            Some(wrapper_fields) if !wrapper_fields.version.is_empty() => {
                wrapper_fields.version == *version
            }
            _ => *self.version_of(entry) == *version,
        }
    }

    /// Returns whether the last response with the entry's resource had this version.
    pub(crate) fn is_response_version(&self, slot: Slot, version: &str) -> bool {
        self.get(slot).is_some_and(|entry| *self.version_of(entry) == *version)
    }

    /// Stores the wrapper fields of the resource in use and restarts its TTL.
    pub(crate) fn wrap(&mut self, slot: Slot, wrapper: &Wrapper<'_>, now: Time) {
        self.rearm(slot, wrapper, now);
        let Some(entry) = self.get_mut(slot) else { return };
        entry.is_wrapped = true;
        let wrapper_fields = entry.detail().wrapper_fields.get_or_insert_default();
        if wrapper_fields.version != *wrapper.version {
            wrapper_fields.version = Version::from(wrapper.version);
        }
        if wrapper_fields.metadata.as_deref() != wrapper.metadata {
            wrapper_fields.metadata = wrapper.metadata.map(Bytes::copy_from_slice);
        }
        wrapper_fields.cache_control = wrapper.cache_control;
    }

    /// Notes that the resource in use came without a wrapper, or was dropped.
    pub(crate) fn unwrap(&mut self, slot: Slot) {
        let Some(entry) = self.get_mut(slot).filter(|entry| entry.is_wrapped) else { return };
        entry.is_wrapped = false;
        let wrapper_fields = entry.detail().wrapper_fields.take();
        if let Some(at) = wrapper_fields.and_then(|wrapper_fields| wrapper_fields.expires) {
            self.expiries.remove(&(at, slot));
        }
    }

    /// Restarts the TTL, or ends it if the wrapper has none.
    // B09
    pub(crate) fn rearm(&mut self, slot: Slot, wrapper: &Wrapper<'_>, now: Time) {
        let Some(entry) = self.get_mut(slot) else { return };
        let expires = wrapper.ttl.map(|ttl| now.after(ttl));
        if expires.is_none() && !entry.is_wrapped {
            return;
        }
        entry.is_wrapped = true;
        let wrapper_fields = entry.detail().wrapper_fields.get_or_insert_default();
        if let Some(at) = core::mem::replace(&mut wrapper_fields.expires, expires) {
            self.expiries.remove(&(at, slot));
        }
        if let Some(at) = expires {
            self.expiries.insert((at, slot));
        }
    }

    /// Returns the time at which the next resource expires.
    pub(crate) fn next_expiry(&self) -> Option<Time> {
        self.expiries.first().map(|&(at, _)| at)
    }

    /// Returns a resource that has expired by `now`, if any. Drop it before the next call.
    pub(crate) fn expired(&self, now: Time) -> Option<Slot> {
        self.expiries.first().filter(|&&(at, _)| at <= now).map(|&(_, slot)| slot)
    }
}

impl CacheEntry {
    fn wrapper_fields(&self) -> Option<&WrapperFields> {
        self.detail_if_any()?.wrapper_fields.as_deref()
    }

    /// Returns the metadata in the wrapper of the resource in use.
    // B12
    pub(crate) fn metadata(&self) -> Option<&Bytes> {
        self.wrapper_fields()?.metadata.as_ref()
    }

    /// Returns whether relays may cache the resource in use.
    pub(crate) fn cache_control(&self) -> CacheControl {
        self.wrapper_fields()
            .map_or(CacheControl::Cacheable, |wrapper_fields| wrapper_fields.cache_control)
    }
}
