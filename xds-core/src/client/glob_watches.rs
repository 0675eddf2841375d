//! Watches of globs.
//!
//! In requests, timers, fallback and counters, a glob is a name like any other: it has a
//! subscription, and an entry with the state and the error of the collection. Its watches report
//! the changes of its members, each with its own cursor, like wildcard watches.

use super::{
    Client,
    cache::glob_index::Glob,
    config::ServerAddress,
    subscription::{TypeInterest, registered_type::RegisteredType},
    watch::{NoticeKind, WatchLink, WatchTarget, Watches},
};
use crate::{id::WatchId, service::Variant, slab::Slot, time::Time};

impl RegisteredType {
    /// Returns the glob of a subscription, if it is one of a glob.
    pub(crate) fn glob_of(&self, subscription: Slot) -> Option<Slot> {
        let entry = self.interest.subscriptions.at(subscription)?.entry;
        let entry = self.cache.get(entry).filter(|entry| entry.is_glob)?;
        self.cache.globs.find(entry.name.as_str())
    }
}

impl Client {
    /// Returns whether all servers of an authority use the incremental variant for a type.
    pub(crate) fn is_incremental(&self, authority: usize, type_index: usize) -> bool {
        let is_incremental = |server: &ServerAddress| server.variant == Variant::Incremental;
        self.upstreams.servers_of(authority, type_index).all(is_incremental)
    }

    pub(crate) fn watch_glob(
        &mut self,
        type_index: usize,
        name: &str,
        authority: usize,
        now: Time,
    ) -> Option<WatchId> {
        let (entry, subscription) = self.subscribe_to(type_index, name, authority)?;
        let cache = &mut self.types.get_mut(type_index)?.cache;
        let glob = match cache.globs.find(name) {
            Some(glob) => glob,
            None => cache.add_glob(entry, subscription)?,
        };
        cache.globs.at_mut(glob)?.watches += 1;
        let watch = self.add_watch(type_index, subscription, WatchTarget::of_glob(subscription))?;
        self.start_fetch_timer(type_index, subscription, now);
        self.fall_back_from_failed_server(authority, type_index, now);

        let cache = &self.types.get(type_index)?.cache;
        let glob = cache.globs.at(glob)?;
        let has_error = cache.get(entry)?.error().is_some();
        let has_members = glob.after(0).is_some();
        let is_concluded = glob.is_received || has_error;
        if is_concluded || self.reported_error(authority, type_index).is_some() {
            self.watches.notify(watch, NoticeKind::Changed, &mut self.outbox, &mut None);
        } else if has_members {
            self.watches.notify(watch, NoticeKind::ChangesAvailable, &mut self.outbox, &mut None);
        }
        Some(watch)
    }

    /// Ends a watch of a glob. Returns the position of its authority.
    pub(crate) fn end_glob_watch(&mut self, type_index: usize, link: WatchLink) -> usize {
        let known = self.types.get_mut(type_index);
        let glob = known.as_ref().and_then(|known| known.glob_of(link.subscription));
        if let Some((known, glob)) = known.zip(glob)
            && let Some(glob) = known.cache.globs.at_mut(glob)
        {
            glob.watches -= 1;
        }
        let authority = self.end_link(type_index, link);
        if let Some(glob) = glob {
            self.sweep_glob(type_index, glob);
        }
        authority
    }

    /// Removes the tombstones of members that every watch of the glob has seen.
    pub(crate) fn sweep_glob(&mut self, type_index: usize, glob: Slot) {
        let Some(RegisteredType { cache, interest, .. }) = self.types.get_mut(type_index) else {
            return;
        };
        let Some(known) = cache.globs.at(glob).filter(|known| known.has_tombstones()) else {
            return;
        };
        let seen = slowest(known, interest, &self.watches);
        let is_awaited = |other: &Glob, number| {
            other.has_change(number) && slowest(other, interest, &self.watches) < number
        };
        cache.sweep_glob(glob, seen, is_awaited);
    }

    /// Lets glob watches that lag too far behind start over, which bounds the number of tombstones.
    pub(crate) fn limit_tombstones_of_globs(&mut self, type_index: usize) {
        let limit = self.config.limits.tombstones_per_type;
        let Some(RegisteredType { cache, interest, .. }) = self.types.get_mut(type_index) else {
            return;
        };
        if cache.globs.tombstones() <= limit {
            return;
        }
        let newest = cache.sequence();
        for glob in cache.globs.with_tombstones() {
            for id in self.watches.of_name(interest.first_watch_of(&cache.globs, glob)) {
                if let Some(watch) = self.watches.get_mut(id)
                    && let Some(cursor) = watch.target.cursor_mut()
                    && cursor.passed < newest
                {
                    cursor.resync = true;
                }
            }
            cache.sweep_glob(glob, u64::MAX, |_, _| false);
        }
    }
}

/// Returns the newest change that all watches of a glob have seen.
fn slowest(glob: &Glob, interest: &TypeInterest, watches: &Watches) -> u64 {
    let subscription = interest.subscriptions.at(glob.subscription);
    let first = subscription.map_or(Slot::NONE, |subscription| subscription.first_watch);
    let ids = watches.of_name(first).into_iter();
    let passed = ids.filter_map(|id| watches.get(id)?.target.cursor().map(|cursor| cursor.passed));
    passed.min().unwrap_or(u64::MAX)
}
