//! Timers of the client: the next deadline, and the actions when it is due.

pub(crate) mod initial_fetch;
pub(crate) mod recovery;
pub(crate) mod stale_resources;
pub(crate) mod ttl;

use alloc::vec::Vec;
use core::time::Duration;

use super::{
    Client,
    channel::type_state::TypeState,
    config::server_features::ServerFeature,
    event::{
        error::{WatchError, WatchErrorKind},
        status::ResourceState,
    },
    subscription::{
        Collection,
        authority::DEFAULT,
        does_not_exist_timers::{ArmedTimer, TimerSubject},
        registered_type::RegisteredType,
    },
    upstream::{Channel, Connection, StreamSlot},
    watch::NoticeKind,
};
use crate::{
    id::ChannelId,
    time::{Deadline, Time, Timer},
    zoo::{self, Bug},
};

impl Client {
    /// Returns the earliest deadline, apart from queued outputs.
    pub(crate) fn next_deadline(&self) -> Option<Deadline> {
        let earliest = |stream_slot: &StreamSlot| {
            let channel = match stream_slot.connection {
                Connection::Idle => return None,
                Connection::BackingOff(at) => return Some(Deadline { at, why: Timer::Reconnect }),
                Connection::Open(id) => self.upstreams.channel(id)?,
            };
            let does_not_exist =
                channel.timers.next().map(|at| Deadline { at, why: Timer::DoesNotExist });
            let idle = channel
                .idle_since
                .zip(self.config.profile.idle_timeout)
                .map(|(since, after)| Deadline { at: since.after(after), why: Timer::Idle });
            let silence = recovery::recovery_deadline(stream_slot, channel);
            let all = [does_not_exist, idle, silence].into_iter().flatten();
            all.min_by_key(|due| (due.at, due.why))
        };
        let earliest = self.upstreams.stream_slots.iter().filter_map(earliest);
        let apart = [self.next_expiry(), self.next_fetch_timer(), self.next_request()]
            .into_iter()
            .flatten();
        earliest.chain(apart).min_by_key(|due| (due.at, due.why))
    }

    pub(crate) fn on_timeout(&mut self, now: Time) {
        for stream_slot in 0..self.upstreams.stream_slots.len() {
            if let Some(stream_slot) = self.upstreams.stream_slots.get_mut(stream_slot)
                && let Connection::BackingOff(until) = stream_slot.connection
                && until <= now
                && !(zoo::is(Bug::DeadlineInThePast) && until == now)
            {
                stream_slot.connection = Connection::Idle;
            }
        }
        self.open_needed_channels(now);
        self.forget_failures_of_idle_servers();
        self.expire_fetch_timers(now);
        for stream_slot in 0..self.upstreams.stream_slots.len() {
            while let Some((upstream, armed)) = self.due_timer(stream_slot, now) {
                self.expire_timer(upstream, armed);
            }
            self.clear_error_after_silence(stream_slot, now);
            let is_idle_for_too_long = self
                .upstreams
                .channel_of_slot(stream_slot)
                .and_then(|id| self.upstreams.channel(id)?.idle_since)
                .zip(self.config.profile.idle_timeout)
                .is_some_and(|(since, after)| since.after(after) <= now);
            if is_idle_for_too_long {
                self.close_idle(stream_slot, now);
            }
        }
        // Last, because an expiry may replace a stream, whose own timers may be due too.
        self.expire_due(now);
        self.signal_writable();
    }

    /// Resets the errors and the health of servers without subscriptions. A slot that waits for
    /// another channel to open still has subscriptions.
    pub(crate) fn forget_failures_of_idle_servers(&mut self) {
        for stream_slot in 0..self.upstreams.stream_slots.len() {
            let is_subscribed = self.has_subscriptions(stream_slot);
            if let Some(stream_slot) = self.upstreams.stream_slots.get_mut(stream_slot)
                && stream_slot.connection == Connection::Idle
                && !is_subscribed
            {
                stream_slot.error = None;
            }
        }
        let stream_slots = &self.upstreams.stream_slots;
        for (position, server) in self.upstreams.servers.iter_mut().enumerate() {
            let mut own =
                stream_slots.iter().filter(|stream_slot| stream_slot.upstream == position);
            if own.all(|stream_slot| stream_slot.connection == Connection::Idle) {
                server.counters.reset_health();
            }
        }
    }

    fn due_timer(&mut self, stream_slot: usize, now: Time) -> Option<(usize, ArmedTimer)> {
        let id = self.upstreams.channel_of_slot(stream_slot)?;
        let channel = self.upstreams.channel_mut(id)?;
        channel.timers.next().filter(|&at| at <= now)?;
        let due = (channel.upstream, channel.timers.pop()?);
        self.discard_stopped_timers();
        Some(due)
    }

    /// Removes invalid timers from the front of the queues, so that the next deadline is that of a
    /// valid one.
    // IC38
    pub(crate) fn discard_stopped_timers(&mut self) {
        for stream_slot in 0..self.upstreams.stream_slots.len() {
            while let Some(id) = self.upstreams.channel_of_slot(stream_slot)
                && let Some(armed) = self.upstreams.channel(id).and_then(|it| it.timers.front())
                && !self.is_running(armed)
                && let Some(channel) = self.upstreams.channel_mut(id)
            {
                let _ = channel.timers.pop();
            }
        }
        self.discard_stopped_fetch_timers();
    }

    pub(crate) fn is_running(&self, armed: &ArmedTimer) -> bool {
        let Some(known) = self.types.get(armed.type_index) else { return false };
        match armed.subject {
            TimerSubject::Subscription(key) => known
                .interest
                .subscriptions
                .get(key)
                .is_some_and(|subscription| subscription.timer == armed.token),
            TimerSubject::Collection => known.interest.collection_timer == armed.token,
            TimerSubject::Unconfirmed => known.interest.unconfirmed_timer == armed.token,
            TimerSubject::UnconfirmedMembers(key) => {
                known.cache.globs.get(key).is_some_and(|glob| glob.unconfirmed_timer == armed.token)
            }
        }
    }

    /// Handles an expired timer: the resource or collection does not exist or, by configuration of
    /// the server, has timed out.
    // S1.025, S3.043, S3.044
    pub(crate) fn expire_timer(&mut self, position: usize, armed: ArmedTimer) {
        if !self.is_running(&armed) {
            return;
        }
        let epoch = self.upstreams.epoch;
        let authority = self.authority_of(&armed);
        let Some(upstream) = self.upstreams.servers.get_mut(position) else { return };
        let server = &upstream.server;
        let after = self.config.does_not_exist_timeout(authority, server, armed.type_index);
        let after = after.unwrap_or(Duration::MAX);
        let (state, kind) =
            match server.features.contains(ServerFeature::ResourceTimerIsTransientError) {
                true => (ResourceState::Timeout, WatchErrorKind::Timeout(after)),
                false => (ResourceState::DoesNotExist, WatchErrorKind::DoesNotExist(after)),
            };
        let Some(source) = upstream.sources.get(armed.type_index) else { return };
        let Some(known) = self.types.get_mut(armed.type_index) else { return };
        match armed.subject {
            TimerSubject::Subscription(key) => {
                let Some(subscription) = known.interest.subscriptions.get_mut(key) else { return };
                subscription.timer = 0;
                let Some(entry) = known.cache.get(subscription.entry) else { return };
                // A resource that has arrived takes precedence (trap 23, DT-13). A glob with
                // members in use is not missing either, because a server need not send known
                // members again.
                if entry.bytes.is_some() {
                    return;
                }
                if known.cache.mark_received_if_nonempty(subscription.entry) {
                    let first = subscription.first_watch;
                    self.watches.notify_all(
                        first,
                        NoticeKind::Changed,
                        &mut self.outbox,
                        &mut None,
                    );
                    return;
                }
                let Some(entry) = known.cache.get_mut(subscription.entry) else { return };
                entry.state = state;
                let error = WatchError::from_origin(kind, Some(entry.name.clone()), source);
                entry.set_error(error, epoch);
                upstream.counters.note_timeout(armed.type_index);
                let first = subscription.first_watch;
                self.watches.notify_all(first, NoticeKind::Changed, &mut self.outbox, &mut None);
            }
            TimerSubject::Unconfirmed => self.expire_unconfirmed(position, armed.type_index),
            TimerSubject::UnconfirmedMembers(key) => {
                self.expire_unconfirmed_members(position, armed.type_index, key.slot());
            }
            TimerSubject::Collection => {
                known.interest.collection_timer = 0;
                upstream.counters.note_timeout(armed.type_index);
                let error = WatchError::from_origin(kind, None, source);
                known.interest.collection = Collection::Missing { error, epoch: epoch + 1 };
                for &watch in &known.interest.wildcards {
                    self.watches.notify(watch, NoticeKind::Changed, &mut self.outbox, &mut None);
                }
            }
        }
    }

    /// Handles the timers of a channel that has ended. Those of resources that are also requested
    /// on another channel restart there.
    pub(crate) fn move_timers(&mut self, channel: &mut Channel) {
        if zoo::is(Bug::TimerRunsInBackoff)
            && let Some(server) = self.upstreams.servers.get_mut(channel.upstream)
        {
            return core::mem::swap(&mut server.fetch_timers, &mut channel.timers);
        }
        let orphans: Vec<ArmedTimer> = channel.timers.take_all().collect();
        self.arm_on_other_channels(&orphans);
    }

    /// Handles the timers of a channel whose server is no longer used by an authority.
    pub(crate) fn move_timers_of(&mut self, id: ChannelId, authority: usize, type_index: usize) {
        let Some(known) = self.types.get(type_index) else { return };
        let Some(channel) = self.upstreams.channels.get_mut(id.0) else { return };
        let orphans = channel.timers.take_matching(|armed| {
            let of = known.interest.authority_of(armed.subject, &known.cache.globs);
            armed.type_index == type_index && of == authority
        });
        self.arm_on_other_channels(&orphans);
    }

    fn arm_on_other_channels(&mut self, orphans: &[ArmedTimer]) {
        let now = self.clock.now();
        for orphan in orphans {
            if self.is_running(orphan)
                && let Some(id) = self.other_channel_for(orphan)
            {
                self.rearm_timer(id, orphan, now);
            }
        }
    }

    /// Returns an open channel on which the timer's subject is requested.
    fn other_channel_for(&self, armed: &ArmedTimer) -> Option<ChannelId> {
        let type_index = armed.type_index;
        let known = self.types.get(type_index)?;
        let authority = known.interest.authority_of(armed.subject, &known.cache.globs);
        let knows = |type_state: &TypeState| match armed.subject {
            TimerSubject::Subscription(key) => type_state.sent().has(key.slot()),
            TimerSubject::Collection => type_state.has_wildcard(),
            TimerSubject::Unconfirmed | TimerSubject::UnconfirmedMembers(_) => false,
        };
        (0..self.upstreams.stream_slots.len())
            .filter_map(|stream_slot| self.upstreams.channel_of_slot(stream_slot))
            .find(|&id| {
                let Some(channel) = self.upstreams.channel(id) else { return false };
                let server = self.upstreams.servers.get(channel.upstream);
                let serves = server.and_then(|it| it.scopes.of(type_index).get(authority));
                serves == Some(&true) && channel.type_state(type_index).is_some_and(knows)
            })
    }

    /// Returns the authority of the timer's subject.
    fn authority_of(&self, armed: &ArmedTimer) -> usize {
        let known = self.types.get(armed.type_index);
        let of = |it: &RegisteredType| it.interest.authority_of(armed.subject, &it.cache.globs);
        known.map_or(DEFAULT, of)
    }

    fn rearm_timer(&mut self, id: ChannelId, armed: &ArmedTimer, now: Time) {
        let authority = self.authority_of(armed);
        let Some((_, server)) = self.upstreams.channel_and_server(id) else { return };
        let after = self.config.does_not_exist_timeout(authority, &server.server, armed.type_index);
        let Some(after) = after else { return };
        let known = self.types.get_mut(armed.type_index).map(|known| &mut known.interest);
        let Some(running) = known.and_then(|interest| match armed.subject {
            TimerSubject::Subscription(key) => {
                interest.subscriptions.get_mut(key).map(|subscription| &mut subscription.timer)
            }
            TimerSubject::Collection => Some(&mut interest.collection_timer),
            TimerSubject::Unconfirmed => Some(&mut interest.unconfirmed_timer),
            TimerSubject::UnconfirmedMembers(_) => None,
        }) else {
            return;
        };
        let token = &mut self.upstreams.last_timer;
        *token += 1;
        if let Some(channel) = self.upstreams.channels.get_mut(id.0) {
            let (type_index, subject) = (armed.type_index, armed.subject);
            *running = channel.timers.arm(type_index, subject, after, now, *token);
        }
    }
}
