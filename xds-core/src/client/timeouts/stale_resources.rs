//! Resources of a wildcard or glob that the active server never confirmed.
//!
//! After a fallback, an incremental server sends all its resources, but does not mention those that
//! only the previous server had, and nothing marks the end of the initial resources. Resources that
//! it has not sent within the does-not-exist timeout do not exist.
//!
//! The same applies to a server on a new stream, for resources that it sent before and that were
//! rejected or replaced by those of another server. The client states no version for them, so the
//! server sends them again if it has them, but does not report that they are gone.
// IC8, IL4

use alloc::vec::Vec;

use crate::{
    client::{
        Client,
        cache::entry::CacheEntry,
        config::DataErrorPolicy,
        event::{
            error::{WatchError, WatchErrorKind},
            status::ResourceState,
        },
        subscription::{
            authority::DEFAULT, does_not_exist_timers::TimerSubject,
            registered_type::RegisteredType,
        },
        watch::{NoticeKind, advance::note_reported},
    },
    id::ChannelId,
    service::Variant,
    slab::Slot,
    time::Time,
};

impl RegisteredType {
    /// Returns the resources that only a wildcard covers and another server sent.
    fn unconfirmed(&self, upstream: usize) -> impl Iterator<Item = Slot> {
        let is_unconfirmed = move |(_, entry): &(Slot, &CacheEntry)| {
            !entry.has_authority && is_unconfirmed(entry, upstream)
        };
        self.cache.iter().filter(is_unconfirmed).map(|(slot, _)| slot)
    }

    /// Returns the members of a glob that are not subscribed by name and that another server sent.
    fn unconfirmed_members(&self, glob: Slot, upstream: usize) -> Vec<Slot> {
        let Some(glob) = self.cache.globs.at(glob) else { return Vec::new() };
        let is_unconfirmed = |&slot: &Slot| {
            self.cache.get(slot).is_some_and(|entry| is_unconfirmed(entry, upstream))
        };
        glob.members().filter(is_unconfirmed).collect()
    }
}

fn is_unconfirmed(entry: &CacheEntry, upstream: usize) -> bool {
    let is_ended = entry.state == ResourceState::DoesNotExist;
    let is_of_another = entry.source() != upstream;
    let is_known = entry.bytes.is_some() || entry.was_never_accepted();
    // The server has a resource that it sent and the client rejected.
    let is_rejected = entry.bytes.is_some() && entry.has_error_from(upstream);
    is_known && entry.subscription.is_none() && is_of_another && !is_ended && !is_rejected
}

/// Returns whether a new stream to the server states no version of the resource, although the
/// server mentioned it on an earlier one.
fn is_unstated(entry: &CacheEntry, upstream: usize) -> bool {
    match entry.bytes {
        None => entry.was_never_accepted() && entry.source() == upstream,
        Some(_) => entry.has_error_from(upstream) && entry.source() != upstream,
    }
}

impl Client {
    /// Handles a wildcard subscription on a new stream: the origins of rejected resources are
    /// forgotten, because the stream does not state them.
    pub(crate) fn forget_rejected_origins(&mut self, id: ChannelId, type_index: usize) {
        let Some(upstream) = self.incremental_server_of(id) else { return };
        let Some(known) = self.types.get_mut(type_index) else { return };
        let is_meant = |(_, entry): &(Slot, &CacheEntry)| {
            !entry.has_authority && entry.subscription.is_none() && is_unstated(entry, upstream)
        };
        let unstated: Vec<Slot> =
            known.cache.iter().filter(is_meant).map(|(slot, _)| slot).collect();
        known.cache.forget_origins(&unstated);
    }

    /// Handles a glob subscription on a new stream like
    /// [`forget_rejected_origins`](Self::forget_rejected_origins). Other subscriptions are
    /// ignored.
    pub(crate) fn forget_rejected_member_origins(
        &mut self,
        id: ChannelId,
        type_index: usize,
        subscription: Slot,
    ) {
        let Some(known) = self.types.get(type_index) else { return };
        let Some(glob) = known.glob_of(subscription) else { return };
        let Some(upstream) = self.incremental_server_of(id) else { return };
        let Some(known) = self.types.get_mut(type_index) else { return };
        let Some(glob) = known.cache.globs.at(glob) else { return };
        let is_meant =
            |&slot: &Slot| known.cache.get(slot).is_some_and(|entry| is_unstated(entry, upstream));
        let unstated: Vec<Slot> = glob.members().filter(is_meant).collect();
        known.cache.forget_origins(&unstated);
    }

    /// Returns the position of the channel's server, if it uses the incremental variant.
    fn incremental_server_of(&mut self, id: ChannelId) -> Option<usize> {
        let (channel, server) = self.upstreams.channel_and_server(id)?;
        (server.server.variant == Variant::Incremental).then_some(channel.upstream)
    }

    /// Starts the timer after which resources of a wildcard that the active server has not sent do
    /// not exist. Called when it is requested from that server, or the server becomes active.
    pub(crate) fn start_unconfirmed_timer(&mut self, id: ChannelId, type_index: usize, now: Time) {
        let Some((channel, server)) = self.upstreams.channel_and_server(id) else { return };
        let upstream = channel.upstream;
        let after = self.config.does_not_exist_timeout(DEFAULT, &server.server, type_index);
        let is_incremental = server.server.variant == Variant::Incremental;
        if !is_incremental || !self.is_active_server(upstream, DEFAULT, type_index) {
            return;
        }
        let Some((after, known)) = after.zip(self.types.get_mut(type_index)) else { return };
        if known.unconfirmed(upstream).next().is_none() {
            return;
        }
        let Some(channel) = self.upstreams.channels.get_mut(id.0) else { return };
        let token = &mut self.upstreams.last_timer;
        *token += 1;
        known.interest.unconfirmed_timer =
            channel.timers.arm(type_index, TimerSubject::Unconfirmed, after, now, *token);
    }

    /// Starts the timers for members of the globs of an authority that are subscribed on the
    /// channel.
    pub(crate) fn start_unconfirmed_timers_of_globs(
        &mut self,
        id: ChannelId,
        type_index: usize,
        authority: usize,
        now: Time,
    ) {
        let Some(known) = self.types.get(type_index) else { return };
        let Some(channel) = self.upstreams.channel(id) else { return };
        let Some(type_state) = channel.type_state(type_index) else { return };
        let is_requested = |subscription: &Slot| {
            let wanted = known.interest.subscriptions.at(*subscription);
            let is_of_authority = wanted.is_some_and(|wanted| wanted.authority == authority);
            is_of_authority && type_state.sent().has(*subscription)
        };
        let globs = known.cache.globs.iter().map(|(_, glob)| glob.subscription);
        let requested: Vec<Slot> = globs.filter(is_requested).collect();
        for subscription in requested {
            self.start_unconfirmed_timer_of_glob(id, type_index, subscription, now);
        }
    }

    /// Starts the timer for members of the glob with this subscription. Other subscriptions are
    /// ignored.
    pub(crate) fn start_unconfirmed_timer_of_glob(
        &mut self,
        id: ChannelId,
        type_index: usize,
        subscription: Slot,
        now: Time,
    ) {
        let Some(known) = self.types.get(type_index) else { return };
        let Some(glob) = known.glob_of(subscription) else { return };
        let Some(wanted) = known.interest.subscriptions.at(subscription) else { return };
        let Some(channel) = self.upstreams.channel(id) else { return };
        let upstream = channel.upstream;
        if !self.is_active_server(upstream, wanted.authority, type_index)
            || known.unconfirmed_members(glob, upstream).is_empty()
        {
            return;
        }
        let Some(server) = self.upstreams.servers.get(upstream) else { return };
        let after =
            self.config.does_not_exist_timeout(wanted.authority, &server.server, type_index);
        let Some(after) = after else { return };
        let token = &mut self.upstreams.last_timer;
        *token += 1;
        if let Some(channel) = self.upstreams.channels.get_mut(id.0)
            && let Some(known) = self.types.get_mut(type_index)
            && let Some(key) = known.cache.globs.key(glob)
            && let Some(glob) = known.cache.globs.at_mut(glob)
        {
            let subject = TimerSubject::UnconfirmedMembers(key);
            glob.unconfirmed_timer = channel.timers.arm(type_index, subject, after, now, *token);
        }
    }

    /// Handles the expiry of a glob's timer.
    pub(crate) fn expire_unconfirmed_members(
        &mut self,
        upstream: usize,
        type_index: usize,
        glob: Slot,
    ) {
        let Some(known) = self.types.get_mut(type_index) else { return };
        let Some(state) = known.cache.globs.at_mut(glob) else { return };
        state.unconfirmed_timer = 0;
        let subscription = known.interest.subscriptions.at(state.subscription);
        let Some(authority) = subscription.map(|subscription| subscription.authority) else {
            return;
        };
        let unconfirmed = known.unconfirmed_members(glob, upstream);
        if self.is_active_server(upstream, authority, type_index) {
            self.remove_unconfirmed((upstream, authority), type_index, unconfirmed);
        }
    }

    /// Handles the expiry of a wildcard's timer.
    pub(crate) fn expire_unconfirmed(&mut self, upstream: usize, type_index: usize) {
        if !self.is_active_server(upstream, DEFAULT, type_index) {
            return;
        }
        let Some(known) = self.types.get_mut(type_index) else { return };
        known.interest.unconfirmed_timer = 0;
        let unconfirmed = known.unconfirmed(upstream).collect();
        self.remove_unconfirmed((upstream, DEFAULT), type_index, unconfirmed);
    }

    /// Stops these timers after a resource whose name is unknown. It may be any of the missing
    /// resources, so they are kept until a new stream requests all of them again.
    pub(crate) fn stop_unconfirmed_timers(&mut self, upstream: usize, type_index: usize) {
        let is_active_server = |authority| self.is_active_server(upstream, authority, type_index);
        let authorities: Vec<bool> =
            (0..self.upstreams.authorities.len()).map(is_active_server).collect();
        let is_meant = |authority: usize| authorities.get(authority) == Some(&true);
        let Some(known) = self.types.get_mut(type_index) else { return };
        if is_meant(DEFAULT) {
            known.interest.unconfirmed_timer = 0;
        }
        let globs: Vec<Slot> = known.cache.globs.iter().map(|(slot, _)| slot).collect();
        for slot in globs {
            let Some(glob) = known.cache.globs.at_mut(slot) else { continue };
            let subscription = known.interest.subscriptions.at(glob.subscription);
            if subscription.is_some_and(|subscription| is_meant(subscription.authority)) {
                glob.unconfirmed_timer = 0;
            }
        }
    }

    /// Handles the resources that the server has not sent in time: they do not exist.
    fn remove_unconfirmed(
        &mut self,
        (upstream, authority): (usize, usize),
        type_index: usize,
        unconfirmed: Vec<Slot>,
    ) {
        let Some(server) = self.upstreams.servers.get(upstream) else { return };
        let after = self.config.does_not_exist_timeout(authority, &server.server, type_index);
        let Some(after) = after else { return };
        let keeps = server.server.data_errors(&self.config.profile) == DataErrorPolicy::KeepCached;
        let Some(source) = server.sources.get(type_index).cloned() else { return };
        if unconfirmed.is_empty() {
            return;
        }
        for slot in unconfirmed {
            let entry = self.types.get(type_index).and_then(|known| known.cache.get(slot));
            let Some(entry) = entry else { continue };
            let (name, is_in_use) = (Some(entry.name.clone()), entry.bytes.is_some());
            let error = WatchError::from_origin(WatchErrorKind::DoesNotExist(after), name, &source);
            match keeps && is_in_use {
                true => self.set_error_of_kept(type_index, slot, error),
                false => self.remove_resource(type_index, slot, error),
            }
        }
        self.notify_collections(type_index);
        self.limit_tombstones(type_index);
        let now = self.clock.now();
        self.mark_other_versions_stale(upstream, type_index, now);
        self.restart_streams_with_stated_versions(upstream, type_index, now);
    }

    /// Sets the error of a wildcard's resource that stays in use.
    fn set_error_of_kept(&mut self, type_index: usize, slot: Slot, error: WatchError) {
        let Some(known) = self.types.get_mut(type_index) else { return };
        note_reported(slot, &known.cache, &known.interest, &mut self.watches);
        let Some(entry) = known.cache.get_mut(slot) else { return };
        entry.state = ResourceState::DoesNotExist;
        entry.set_error(error, self.upstreams.epoch);
        known.cache.touch_ambient(slot);
    }

    fn is_active_server(&self, upstream: usize, authority: usize, type_index: usize) -> bool {
        let authority = self.upstreams.authorities.get(authority);
        authority.is_some_and(|authority| authority.active(type_index) == upstream)
    }

    /// Drops a resource, regardless of the data-error policy. The caller notifies wildcard watches.
    pub(crate) fn remove_resource(&mut self, type_index: usize, slot: Slot, error: WatchError) {
        let Some(known) = self.types.get_mut(type_index) else { return };
        known.cache.drop_resource(slot);
        let Some(entry) = known.cache.get_mut(slot) else { return };
        entry.state = ResourceState::DoesNotExist;
        entry.set_error(error, self.upstreams.epoch);
        let subscription = entry.subscription;
        known.cache.touch(slot);
        match known.interest.subscriptions.at(subscription) {
            Some(subscription) => {
                let first = subscription.first_watch;
                self.watches.notify_all(first, NoticeKind::Changed, &mut self.outbox, &mut None);
            }
            None => known.cache.add_tombstone(slot),
        }
    }
}
