//! Expiry of resources with a TTL.
//!
//! A TTL ends the use of a resource when its server is gone. It therefore applies regardless of the
//! data-error policy and without a channel. A heartbeat that has arrived but was not read in time,
//! because watchers hold back reading, is too late.
// B09

use crate::{
    client::{
        Client,
        event::error::{WatchError, WatchErrorKind},
        watch::NoticeKind,
    },
    slab::Slot,
    time::{Deadline, Time, Timer},
};

impl Client {
    /// Returns the time at which the next resource expires.
    pub(crate) fn next_expiry(&self) -> Option<Deadline> {
        let at = self.types.iter().filter_map(|known| known.cache.next_expiry()).min()?;
        Some(Deadline { at, why: Timer::TimeToLive })
    }

    /// Drops all expired resources. Wildcard and glob watches are notified once per type.
    // DX-37
    pub(crate) fn expire_due(&mut self, now: Time) {
        for type_index in 0..self.types.len() {
            let mut has_expired = false;
            while let Some(slot) =
                self.types.get(type_index).and_then(|known| known.cache.expired(now))
            {
                self.expire(type_index, slot, now);
                has_expired = true;
            }
            if has_expired {
                self.notify_collections(type_index);
                self.limit_tombstones(type_index);
            }
        }
    }

    /// Drops an expired resource. Its subscription stays. The accepted version of the type becomes
    /// stale, because it no longer matches the cache.
    // DX-32, trap 39
    fn expire(&mut self, type_index: usize, slot: Slot, now: Time) {
        let Some(known) = self.types.get(type_index) else { return };
        let Some(upstream) =
            known.cache.get(slot).map(crate::client::cache::entry::CacheEntry::source)
        else {
            return;
        };
        let Some(server) = self.upstreams.servers.get(upstream) else { return };
        let Some(source) = server.sources.get(type_index) else { return };
        let name = known.cache.get(slot).map(|entry| entry.name.clone());
        let error = WatchError::from_origin(WatchErrorKind::Expired, name, source);
        self.remove_resource(type_index, slot, error);
        self.mark_authority_versions_stale(upstream, type_index, now);
    }

    pub(crate) fn notify_collections(&mut self, type_index: usize) {
        let Some(known) = self.types.get_mut(type_index) else { return };
        for &watch in &known.interest.wildcards {
            self.watches.notify(watch, NoticeKind::ChangesAvailable, &mut self.outbox, &mut None);
        }
        for glob in known.cache.globs.take_changed() {
            let first = known.interest.first_watch_of(&known.cache.globs, glob);
            self.watches.notify_all(
                first,
                NoticeKind::ChangesAvailable,
                &mut self.outbox,
                &mut None,
            );
        }
    }
}
