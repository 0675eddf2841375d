//! What a wildcard brought out of another server than the one that is relied on now.
//!
//! An incremental server that is turned to sends all that it has, but says nothing of what only the
//! other one had, and nothing marks the end of what it sends. So it gets as long as a does-not-exist
//! timer runs; what it has not sent by then does not exist.

use alloc::vec::Vec;

use super::{
    Client, TypeState,
    authorities::DEFAULT,
    config::DataErrorPolicy,
    error::{WatchError, WatchErrorKind},
    status::EntryState,
    timers::Subject,
    watches::{News, Target},
};
use crate::{id::ChannelId, service::Variant, slab::Slot, time::Time};

impl TypeState {
    /// What only a wildcard covers and another server sent.
    fn leftovers(&self, upstream: usize) -> impl Iterator<Item = Slot> {
        let is_left = move |entry: &super::entry::Entry| {
            let is_ended = entry.state == EntryState::DoesNotExist;
            let is_of_another = entry.source() != upstream;
            entry.bytes.is_some() && entry.subscription.is_none() && is_of_another && !is_ended
        };
        self.cache.iter().filter(move |(_, entry)| is_left(entry)).map(|(slot, _)| slot)
    }
}

impl Client {
    /// A server that is relied on was asked for everything of a type, or is relied on from now on:
    /// starts the time in which it has to send what another one sent before.
    pub(super) fn await_leftovers(&mut self, id: ChannelId, type_index: usize, now: Time) {
        let profile = &self.config.profile;
        let Some((channel, server)) = self.upstreams.channel_and_server(id) else { return };
        let (upstream, after) = (channel.upstream, profile.missing_after(&server.server));
        if server.server.variant != Variant::Incremental || !self.relies_on(upstream, type_index) {
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

    /// The time is over.
    pub(super) fn end_leftovers(&mut self, upstream: usize, type_index: usize) {
        if !self.relies_on(upstream, type_index) {
            return;
        }
        let Some(known) = self.types.get_mut(type_index) else { return };
        known.interest.leftover_timer = 0;
        let leftovers: Vec<Slot> = known.leftovers(upstream).collect();
        let Some(server) = self.upstreams.servers.get(upstream) else { return };
        let Some(after) = self.config.profile.missing_after(&server.server) else { return };
        let keeps = server.server.data_errors(&self.config.profile) == DataErrorPolicy::KeepCached;
        let Some(source) = server.sources.get(type_index).cloned() else { return };
        for slot in leftovers {
            let name = self.types.get(type_index).and_then(|known| known.cache.get(slot));
            let name = name.map(|entry| entry.name.clone());
            let error = WatchError::new(WatchErrorKind::DoesNotExist(after), name, &source);
            match keeps {
                true => self.blame_kept(type_index, slot, error),
                false => self.end_resource(type_index, slot, error),
            }
        }
        self.tell_wildcards(type_index);
        self.limit_tombstones(type_index);
    }

    /// The resource of a wildcard stays in use, with an error beside it.
    fn blame_kept(&mut self, type_index: usize, slot: Slot, error: WatchError) {
        let Some(known) = self.types.get_mut(type_index) else { return };
        let Some(entry) = known.cache.get_mut(slot) else { return };
        for &watch in &known.interest.wildcards {
            if let Some(Target::Wildcard(cursor)) =
                self.watches.get_mut(watch).map(|watch| &mut watch.target)
            {
                cursor.note_told(slot, entry);
            }
        }
        entry.state = EntryState::DoesNotExist;
        entry.set_error(error, self.upstreams.epoch);
        known.cache.touch_ambient(slot);
    }

    fn relies_on(&self, upstream: usize, type_index: usize) -> bool {
        let authority = self.upstreams.authorities.get(DEFAULT);
        authority.is_some_and(|authority| authority.active(type_index) == upstream)
    }

    /// The resource is no more, whatever the data-error policy says. Wildcard watches are told apart.
    pub(super) fn end_resource(&mut self, type_index: usize, slot: Slot, error: WatchError) {
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
