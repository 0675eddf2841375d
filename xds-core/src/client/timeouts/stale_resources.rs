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
        cache::entry::Entry,
        config::DataErrorPolicy,
        event::{
            error::{WatchError, WatchErrorKind},
            status::EntryState,
        },
        subscription::{
            authority::DEFAULT, does_not_exist_timers::Subject, registered_type::TypeState,
        },
        watch::{News, advance::note_told},
    },
    id::ChannelId,
    service::Variant,
    slab::Slot,
    time::Time,
};

impl TypeState {
    /// Returns the resources that only a wildcard covers and another server sent.
    fn leftovers(&self, upstream: usize) -> impl Iterator<Item = Slot> {
        let is_left =
            move |(_, entry): &(Slot, &Entry)| !entry.is_foreign && is_left(entry, upstream);
        self.cache.iter().filter(is_left).map(|(slot, _)| slot)
    }

    /// Returns the members of a glob that are not subscribed by name and that another server sent.
    fn leftovers_of(&self, glob: Slot, upstream: usize) -> Vec<Slot> {
        let Some(glob) = self.cache.globs.at(glob) else { return Vec::new() };
        let is_left =
            |&slot: &Slot| self.cache.get(slot).is_some_and(|entry| is_left(entry, upstream));
        glob.members().filter(is_left).collect()
    }
}

fn is_left(entry: &Entry, upstream: usize) -> bool {
    let is_ended = entry.state == EntryState::DoesNotExist;
    let is_of_another = entry.source() != upstream;
    let is_known = entry.bytes.is_some() || entry.was_never_accepted();
    // The server has a resource that it sent and the client rejected.
    let is_spoken_of = entry.bytes.is_some() && entry.is_blamed_by(upstream);
    is_known && entry.subscription.is_none() && is_of_another && !is_ended && !is_spoken_of
}

/// Returns whether a new stream to the server states no version of the resource, although the
/// server mentioned it on an earlier one.
fn is_unstated(entry: &Entry, upstream: usize) -> bool {
    match entry.bytes {
        None => entry.was_never_accepted() && entry.source() == upstream,
        Some(_) => entry.is_blamed_by(upstream) && entry.source() != upstream,
    }
}

impl Client {
    /// Handles a wildcard subscription on a new stream: the origins of rejected resources are
    /// forgotten, because the stream does not state them.
    pub(crate) fn forget_what_was_rejected(&mut self, id: ChannelId, type_index: usize) {
        let Some(upstream) = self.incremental_server_of(id) else { return };
        let Some(known) = self.types.get_mut(type_index) else { return };
        let is_meant = |(_, entry): &(Slot, &Entry)| {
            !entry.is_foreign && entry.subscription.is_none() && is_unstated(entry, upstream)
        };
        let unstated: Vec<Slot> =
            known.cache.iter().filter(is_meant).map(|(slot, _)| slot).collect();
        known.cache.forget_who_spoke(&unstated);
    }

    /// Handles a glob subscription on a new stream like
    /// [`forget_what_was_rejected`](Self::forget_what_was_rejected). Other subscriptions are
    /// ignored.
    pub(crate) fn forget_rejected_members(
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
        known.cache.forget_who_spoke(&unstated);
    }

    /// Returns the position of the channel's server, if it uses the incremental variant.
    fn incremental_server_of(&mut self, id: ChannelId) -> Option<usize> {
        let (channel, server) = self.upstreams.channel_and_server(id)?;
        (server.server.variant == Variant::Incremental).then_some(channel.upstream)
    }

    /// Starts the timer after which resources of a wildcard that the active server has not sent do
    /// not exist. Called when it is requested from that server, or the server becomes active.
    pub(crate) fn await_leftovers(&mut self, id: ChannelId, type_index: usize, now: Time) {
        let Some((channel, server)) = self.upstreams.channel_and_server(id) else { return };
        let upstream = channel.upstream;
        let after = self.config.missing_after(DEFAULT, &server.server, type_index);
        let is_incremental = server.server.variant == Variant::Incremental;
        if !is_incremental || !self.relies_on(upstream, DEFAULT, type_index) {
            return;
        }
        let Some((after, known)) = after.zip(self.types.get_mut(type_index)) else { return };
        if known.leftovers(upstream).next().is_none() {
            return;
        }
        let Some(channel) = self.upstreams.channels.get_mut(id.0) else { return };
        let token = &mut self.upstreams.last_timer;
        *token += 1;
        known.interest.leftover_timer =
            channel.timers.arm(type_index, Subject::Leftovers, after, now, *token);
    }

    /// Starts the timers for members of the globs of an authority that are subscribed on the
    /// channel.
    pub(crate) fn await_leftovers_of_globs(
        &mut self,
        id: ChannelId,
        type_index: usize,
        authority: usize,
        now: Time,
    ) {
        let Some(known) = self.types.get(type_index) else { return };
        let Some(channel) = self.upstreams.channel(id) else { return };
        let Some(machine) = channel.machine(type_index) else { return };
        let is_asked_for = |subscription: &Slot| {
            let wanted = known.interest.subscriptions.at(*subscription);
            let is_of_authority = wanted.is_some_and(|wanted| wanted.authority == authority);
            is_of_authority && machine.sent().has(*subscription)
        };
        let globs = known.cache.globs.iter().map(|(_, glob)| glob.subscription);
        let asked_for: Vec<Slot> = globs.filter(is_asked_for).collect();
        for subscription in asked_for {
            self.await_leftovers_of(id, type_index, subscription, now);
        }
    }

    /// Starts the timer for members of the glob with this subscription. Other subscriptions are
    /// ignored.
    pub(crate) fn await_leftovers_of(
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
        if !self.relies_on(upstream, wanted.authority, type_index)
            || known.leftovers_of(glob, upstream).is_empty()
        {
            return;
        }
        let Some(server) = self.upstreams.servers.get(upstream) else { return };
        let after = self.config.missing_after(wanted.authority, &server.server, type_index);
        let Some(after) = after else { return };
        let token = &mut self.upstreams.last_timer;
        *token += 1;
        if let Some(channel) = self.upstreams.channels.get_mut(id.0)
            && let Some(known) = self.types.get_mut(type_index)
            && let Some(key) = known.cache.globs.key(glob)
            && let Some(glob) = known.cache.globs.at_mut(glob)
        {
            let subject = Subject::GlobLeftovers(key);
            glob.leftover_timer = channel.timers.arm(type_index, subject, after, now, *token);
        }
    }

    /// Handles the expiry of a glob's timer.
    pub(crate) fn end_leftovers_of(&mut self, upstream: usize, type_index: usize, glob: Slot) {
        let Some(known) = self.types.get_mut(type_index) else { return };
        let Some(state) = known.cache.globs.at_mut(glob) else { return };
        state.leftover_timer = 0;
        let subscription = known.interest.subscriptions.at(state.subscription);
        let Some(authority) = subscription.map(|subscription| subscription.authority) else {
            return;
        };
        let leftovers = known.leftovers_of(glob, upstream);
        if self.relies_on(upstream, authority, type_index) {
            self.conclude_leftovers((upstream, authority), type_index, leftovers);
        }
    }

    /// Handles the expiry of a wildcard's timer.
    pub(crate) fn end_leftovers(&mut self, upstream: usize, type_index: usize) {
        if !self.relies_on(upstream, DEFAULT, type_index) {
            return;
        }
        let Some(known) = self.types.get_mut(type_index) else { return };
        known.interest.leftover_timer = 0;
        let leftovers = known.leftovers(upstream).collect();
        self.conclude_leftovers((upstream, DEFAULT), type_index, leftovers);
    }

    /// Stops these timers after a resource whose name is unknown. It may be any of the missing
    /// resources, so they are kept until a new stream requests all of them again.
    pub(crate) fn leave_leftovers(&mut self, upstream: usize, type_index: usize) {
        let relies_on = |authority| self.relies_on(upstream, authority, type_index);
        let authorities: Vec<bool> = (0..self.upstreams.authorities.len()).map(relies_on).collect();
        let is_meant = |authority: usize| authorities.get(authority) == Some(&true);
        let Some(known) = self.types.get_mut(type_index) else { return };
        if is_meant(DEFAULT) {
            known.interest.leftover_timer = 0;
        }
        let globs: Vec<Slot> = known.cache.globs.iter().map(|(slot, _)| slot).collect();
        for slot in globs {
            let Some(glob) = known.cache.globs.at_mut(slot) else { continue };
            let subscription = known.interest.subscriptions.at(glob.subscription);
            if subscription.is_some_and(|subscription| is_meant(subscription.authority)) {
                glob.leftover_timer = 0;
            }
        }
    }

    /// Handles the resources that the server has not sent in time: they do not exist.
    fn conclude_leftovers(
        &mut self,
        (upstream, authority): (usize, usize),
        type_index: usize,
        leftovers: Vec<Slot>,
    ) {
        let Some(server) = self.upstreams.servers.get(upstream) else { return };
        let after = self.config.missing_after(authority, &server.server, type_index);
        let Some(after) = after else { return };
        let keeps = server.server.data_errors(&self.config.profile) == DataErrorPolicy::KeepCached;
        let Some(source) = server.sources.get(type_index).cloned() else { return };
        if leftovers.is_empty() {
            return;
        }
        for slot in leftovers {
            let entry = self.types.get(type_index).and_then(|known| known.cache.get(slot));
            let Some(entry) = entry else { continue };
            let (name, is_in_use) = (Some(entry.name.clone()), entry.bytes.is_some());
            let error = WatchError::new(WatchErrorKind::DoesNotExist(after), name, &source);
            match keeps && is_in_use {
                true => self.blame_kept(type_index, slot, error),
                false => self.end_resource(type_index, slot, error),
            }
        }
        self.tell_wildcards(type_index);
        self.limit_tombstones(type_index);
        let now = self.clock.now();
        self.outdate_versions_of_others(upstream, type_index, now);
        self.start_over_where_resources_were_stated(upstream, type_index, now);
    }

    /// Sets the error of a wildcard's resource that stays in use.
    fn blame_kept(&mut self, type_index: usize, slot: Slot, error: WatchError) {
        let Some(known) = self.types.get_mut(type_index) else { return };
        note_told(slot, &known.cache, &known.interest, &mut self.watches);
        let Some(entry) = known.cache.get_mut(slot) else { return };
        entry.state = EntryState::DoesNotExist;
        entry.set_error(error, self.upstreams.epoch);
        known.cache.touch_ambient(slot);
    }

    fn relies_on(&self, upstream: usize, authority: usize, type_index: usize) -> bool {
        let authority = self.upstreams.authorities.get(authority);
        authority.is_some_and(|authority| authority.active(type_index) == upstream)
    }

    /// Drops a resource, regardless of the data-error policy. The caller notifies wildcard watches.
    pub(crate) fn end_resource(&mut self, type_index: usize, slot: Slot, error: WatchError) {
        let Some(known) = self.types.get_mut(type_index) else { return };
        known.cache.drop_resource(slot);
        let Some(entry) = known.cache.get_mut(slot) else { return };
        entry.state = EntryState::DoesNotExist;
        entry.set_error(error, self.upstreams.epoch);
        let subscription = entry.subscription;
        known.cache.touch(slot);
        match known.interest.subscriptions.at(subscription) {
            Some(subscription) => {
                let first = subscription.first_watch;
                self.watches.tell_all(first, News::Changed, &mut self.outbox, &mut None);
            }
            None => known.cache.bury(slot),
        }
    }
}
