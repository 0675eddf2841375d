//! Start and end of watches.

use alloc::boxed::Box;

use super::{
    Client,
    cache::cursor::Cursor,
    event::{error::InvalidWatch, status::ResourceState},
    resource::canonical_name,
    static_resources::STATIC_AUTHORITY,
    subscription::{Collection, Subscription, SubscriptionState, authority::DEFAULT},
    upstream::TransportState,
    watch::{NoticeKind, WatchLink, WatchTarget},
};
use crate::{
    id::WatchId,
    slab::Slot,
    text::{ResourceName, TypeUrl},
    time::Time,
    zoo::{self, Bug},
};

/// Subject of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Interest<'a> {
    /// One resource by name.
    Name(&'a str),
    /// All resources of the type that the server has for this node.
    // S0.104, B01
    Wildcard,
    /// All resources that a glob matches: `xdstp://authority/type/path/*?context` matches those of
    /// its authority and type that are below the path and have exactly these context parameters.
    /// The watch works like that of a wildcard. Requires servers that use the incremental variant.
    // FE-22
    Glob(&'a str),
}

impl Client {
    pub(crate) fn start_watch(
        &mut self,
        type_url: &TypeUrl,
        interest: Interest<'_>,
        now: Time,
    ) -> Result<WatchId, InvalidWatch> {
        if self.is_shut_down {
            return Err(InvalidWatch::ShutDown);
        }
        let type_index = self
            .config
            .position_of(type_url.as_str())
            .ok_or_else(|| InvalidWatch::UnknownType(type_url.clone()))?;
        if self.config.is_ambiguous(type_url.as_str()) {
            return Err(InvalidWatch::AmbiguousType(type_url.clone()));
        }
        let watch = match interest {
            Interest::Name(name) => {
                self.check_name(name)?;
                let name = canonical_name::parse(name, type_url, self.config.profile.federation)
                    .map_err(|why| InvalidWatch::Structured { name: name.into(), why })?;
                self.check_name(&name.name)?;
                let authority = self.position_of_authority(&name)?;
                self.check_source(type_index, authority)?;
                self.watch_name(type_index, &name.name, authority, now)
            }
            Interest::Wildcard => {
                self.check_source(type_index, DEFAULT)?;
                self.watch_wildcard(type_index, now)
            }
            Interest::Glob(name) => {
                self.check_name(name)?;
                let glob =
                    canonical_name::parse_glob(name, type_url, self.config.profile.federation)
                        .map_err(|why| InvalidWatch::Structured { name: name.into(), why })?;
                self.check_name(&glob.name)?;
                let authority = self.position_of_authority(&glob)?;
                self.check_source(type_index, authority)?;
                if !self.is_incremental(authority, type_index) {
                    let name = ResourceName::from(&*glob.name);
                    return Err(InvalidWatch::GlobNeedsIncremental(name));
                }
                self.watch_glob(type_index, &glob.name, authority, now)
            }
        }
        .ok_or(InvalidWatch::TooMany)?;
        self.open_needed_channels(now);
        self.signal_writable();
        Ok(watch)
    }

    fn check_name(&self, name: &str) -> Result<(), InvalidWatch> {
        let (bytes, limit) = (name.len(), self.config.limits.name_bytes);
        if name.is_empty() || name == "*" {
            Err(InvalidWatch::InvalidName(ResourceName::from(name)))
        } else if bytes > limit {
            Err(InvalidWatch::NameTooLong { bytes, limit })
        } else {
            Ok(())
        }
    }

    /// Checks that a server or a static resource can provide resources of the type.
    fn check_source(&self, type_index: usize, authority: usize) -> Result<(), InvalidWatch> {
        let authority = self.upstreams.authorities.get(authority);
        let has_server = authority.is_some_and(|it| !it.servers(type_index).is_empty());
        match self.types.get(type_index) {
            Some(known) if !has_server && !known.cache.has_static_resources() => {
                Err(InvalidWatch::NoServer(known.resource_type.type_url().clone()))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn watch_name(
        &mut self,
        type_index: usize,
        name: &str,
        authority: usize,
        now: Time,
    ) -> Option<WatchId> {
        let (entry, subscription) = self.subscribe_to(type_index, name, authority)?;
        let authority = self.authority_of_subscription(type_index, subscription);
        let watch = self.add_watch(type_index, subscription, WatchTarget::of_name(subscription))?;
        self.start_fetch_timer(type_index, subscription, now);
        self.fall_back_from_failed_server(authority, type_index, now);
        self.notify_cached_state(watch, type_index, entry, authority);
        Some(watch)
    }

    /// Subscribes to a name or glob and returns its entry, created if necessary, and its
    /// subscription.
    pub(crate) fn subscribe_to(
        &mut self,
        type_index: usize,
        name: &str,
        authority: usize,
    ) -> Option<(Slot, Slot)> {
        let cache = &mut self.types.get_mut(type_index)?.cache;
        let entry = match cache.find(name) {
            Some(entry) => entry,
            None => cache.create(ResourceName::from(name))?,
        };
        cache.get_mut(entry)?.has_authority = authority != DEFAULT;
        let subscription = self.subscribe(type_index, entry, authority)?;
        Some((entry, subscription))
    }

    /// Adds a watch of a subscribed name or glob.
    pub(crate) fn add_watch(
        &mut self,
        type_index: usize,
        subscription: Slot,
        target: WatchTarget,
    ) -> Option<WatchId> {
        let watch = self.watches.add(type_index, target)?;
        let slot = self.types.get_mut(type_index)?.interest.subscriptions.at_mut(subscription)?;
        self.watches.link(watch, slot.first_watch);
        slot.first_watch = watch.0.slot();
        Some(watch)
    }

    /// Falls back to the next server if the active one has failed and a watched resource is not
    /// cached.
    // FB-04
    pub(crate) fn fall_back_from_failed_server(
        &mut self,
        authority: usize,
        type_index: usize,
        now: Time,
    ) {
        if self.has_next_server(authority, type_index)
            && let Some((_, stream_slot)) = self.upstreams.active(authority, type_index)
            && stream_slot.error.is_some()
            && let Some(stream_slot) =
                self.upstreams.stream_slot_of(stream_slot.upstream, type_index)
        {
            let active_types = self.types_active_on(stream_slot, authority);
            self.fall_back(authority, &active_types, now);
        }
    }

    /// Returns the subscription to an entry's name, created or renewed if necessary.
    pub(crate) fn subscribe(
        &mut self,
        type_index: usize,
        entry: Slot,
        authority: usize,
    ) -> Option<Slot> {
        let known = self.types.get_mut(type_index)?;
        let existing = known.cache.get(entry)?.subscription;
        let slot = match known.interest.subscriptions.at_mut(existing) {
            Some(subscription) if subscription.is_subscribed() => return Some(existing),
            Some(subscription) => {
                subscription.state = SubscriptionState::Subscribed;
                existing
            }
            None => {
                let subscription = Subscription::new(entry, authority);
                let slot = known.interest.subscriptions.push_back(subscription)?.slot();
                known.cache.get_mut(entry)?.subscription = slot;
                slot
            }
        };
        known.interest.note_subscribed(authority);
        // An alias was already answered. A new answer requires a new subscription.
        let renewed = known.interest.subscriptions.at_mut(slot)?;
        let was_alias = core::mem::take(&mut renewed.was_alias);
        let mut withdrawn = 0;
        self.upstreams.for_each_type_state(authority, type_index, |type_state| {
            if was_alias && type_state.sent_mut().forget(slot) {
                withdrawn += 1;
            }
            type_state.sent_mut().note_subscribed(slot);
        });
        if let Some(known) = self.types.get_mut(type_index)
            && let Some(subscription) = known.interest.subscriptions.at_mut(slot)
        {
            subscription.channel_count = subscription.channel_count.saturating_sub(withdrawn);
        }
        Some(slot)
    }

    /// Queues a notice for a new watch if anything is known: the value, then the ambient error, in
    /// the same order as for older watches.
    // IC14
    fn notify_cached_state(
        &mut self,
        watch: WatchId,
        type_index: usize,
        entry: Slot,
        authority: usize,
    ) {
        let Some(entry) = self.types.get(type_index).and_then(|known| known.cache.get(entry))
        else {
            return;
        };
        let is_known = entry.bytes.is_some() || entry.error().is_some();
        if is_known || self.reported_error(authority, type_index).is_some() {
            self.watches.notify(watch, NoticeKind::Changed, &mut self.outbox, &mut None);
        }
    }

    fn watch_wildcard(&mut self, type_index: usize, now: Time) -> Option<WatchId> {
        let known = self.types.get_mut(type_index)?;
        let marker = known.cache.add_cursor()?;
        let cursor = Box::new(Cursor { marker, ..Cursor::default() });
        let watch = self.watches.add(type_index, WatchTarget::Wildcard(cursor))?;
        known.interest.wildcards.push(watch);
        self.start_wildcard_fetch_timer(type_index, now);
        self.fall_back_from_failed_server(DEFAULT, type_index, now);
        let known = self.types.get(type_index)?;
        let is_concluded = !matches!(known.interest.collection, Collection::Requested);
        let has_changes = known.cache.sequence() > 0;
        if is_concluded || self.reported_error(DEFAULT, type_index).is_some() {
            self.watches.notify(watch, NoticeKind::Changed, &mut self.outbox, &mut None);
        } else if has_changes {
            self.watches.notify(watch, NoticeKind::ChangesAvailable, &mut self.outbox, &mut None);
        }
        Some(watch)
    }

    pub(crate) fn end_watch(&mut self, watch: WatchId, now: Time) {
        self.release_held_back(watch, now);
        let Some(ended) = self.watches.remove(watch) else { return };
        if ended.is_queued() {
            let watches = &self.watches;
            self.outbox.note_dead(|id| watches.get(id).is_some());
        }
        let authority = match ended.target {
            WatchTarget::Name(link) => self.end_link(ended.type_index, link),
            WatchTarget::Glob(watch) => self.end_glob_watch(ended.type_index, watch.0),
            WatchTarget::Wildcard(cursor) => {
                if let Some(known) = self.types.get_mut(ended.type_index) {
                    known.interest.wildcards.retain(|&other| other != watch);
                    known.cache.remove_cursor(cursor.marker);
                }
                self.sweep(ended.type_index);
                self.drop_uncovered(ended.type_index);
                DEFAULT
            }
        };
        self.reset_if_unused(authority, now);
        self.note_idleness(now);
        self.discard_stopped_timers();
        self.discard_stopped_fetch_timers();
        self.signal_writable();
    }

    /// Unlinks a watch that has ended. Returns the position of its authority.
    pub(crate) fn end_link(&mut self, type_index: usize, link: WatchLink) -> usize {
        let authority = self.authority_of_subscription(type_index, link.subscription);
        if let Some(first) = self.watches.unlink(link) {
            self.set_first_watch(type_index, link.subscription, first);
        }
        authority
    }

    fn authority_of_subscription(&self, type_index: usize, subscription: Slot) -> usize {
        self.types
            .get(type_index)
            .and_then(|known| known.interest.subscriptions.at(subscription))
            .map_or(DEFAULT, |subscription| subscription.authority)
    }

    fn set_first_watch(&mut self, type_index: usize, slot: Slot, first: Slot) {
        let Some(known) = self.types.get_mut(type_index) else { return };
        let Some(subscription) = known.interest.subscriptions.at_mut(slot) else { return };
        subscription.first_watch = first;
        if !first.is_none() || subscription.authority == STATIC_AUTHORITY {
            return;
        }
        // B53, FB-12: the entry stays until all servers that know the subscription have been told
        // of its end.
        subscription.state = SubscriptionState::Unsubscribing;
        let (authority, is_ended) = (subscription.authority, subscription.is_ended());
        known.interest.note_unsubscribed(authority);
        let note = |type_state: &mut super::channel::type_state::TypeState| {
            type_state.sent_mut().note_unsubscribed(slot)
        };
        self.upstreams.for_each_type_state(authority, type_index, note);
        if is_ended {
            self.drop_subscription(type_index, slot);
        }
    }

    /// Removes a subscription that no server knows of any more. Its entry is removed as well,
    /// unless a wildcard or a glob covers it.
    // IC15, CA-09
    pub(crate) fn drop_subscription(&mut self, type_index: usize, slot: Slot) {
        let Some(known) = self.types.get_mut(type_index) else { return };
        let Some(subscription) = known.interest.subscriptions.remove(slot) else { return };
        let Some(entry) = known.cache.get_mut(subscription.entry) else { return };
        entry.subscription = Slot::NONE;
        if entry.is_glob {
            return known.cache.remove_glob(subscription.entry);
        }
        // A wildcard covers the entry until the server has been told that the wildcard has ended.
        let covered = match entry.has_authority {
            true => {
                let name = entry.name.clone();
                known.cache.globs.covering(name.as_str()).next().is_some()
            }
            false => {
                known.interest.is_wildcard_subscribed()
                    || self.upstreams.has_wildcard_on_wire(type_index)
            }
        };
        let Some(entry) = known.cache.get_mut(subscription.entry) else { return };
        if zoo::is(Bug::CacheNotEvicted) && entry.bytes.is_some() {
            return;
        }
        if covered && (entry.bytes.is_some() || entry.state == ResourceState::Nacked) {
            return;
        }
        if covered && entry.changed > 0 {
            // Wildcard and glob watches may not have seen its deletion yet.
            entry.state = ResourceState::DoesNotExist;
            known.cache.add_tombstone(subscription.entry);
        } else {
            known.cache.remove(subscription.entry);
        }
    }

    /// Removes the entries that only a wildcard covered, once no wildcard is watched and no server
    /// believes that one is subscribed.
    // WC-06
    pub(crate) fn drop_uncovered(&mut self, type_index: usize) {
        let is_on_wire = self.upstreams.has_wildcard_on_wire(type_index);
        let Some(known) = self.types.get_mut(type_index) else { return };
        if known.interest.is_wildcard_subscribed() || is_on_wire {
            return;
        }
        known.interest.collection = Collection::Requested;
        known.interest.collection_timer = 0;
        let uncovered: alloc::vec::Vec<Slot> = known
            .cache
            .iter()
            .filter(|(_, entry)| entry.subscription.is_none() && !entry.has_authority)
            .map(|(slot, _)| slot)
            .collect();
        for slot in uncovered {
            known.cache.remove(slot);
        }
        // With a version that still covers the wildcard, a server would not send everything again.
        for server in &mut self.upstreams.servers {
            if let Some(accepted) = server.accepted.get_mut(type_index) {
                accepted.note_wildcard_ended();
            }
        }
    }

    fn note_idleness(&mut self, now: Time) {
        for stream_slot in 0..self.upstreams.stream_slots.len() {
            if self.has_subscriptions(stream_slot) {
                continue;
            }
            if let Some(id) = self.upstreams.channel_of_slot(stream_slot)
                && let Some(channel) = self.upstreams.channel_mut(id)
            {
                channel.idle_since.get_or_insert(now);
                // RJ-09: a poll in flight is cancelled, and a file is not watched without
                // subscriptions.
                let is_stream = matches!(channel.transport_state, TransportState::Stream);
                if !is_stream
                    || self.config.profile.idle_timeout == Some(core::time::Duration::ZERO)
                {
                    self.close_idle(stream_slot, now);
                }
            }
        }
    }
}
