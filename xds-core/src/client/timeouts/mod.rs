//! Timers of the client: the next deadline, and the actions when it is due.

pub(crate) mod initial_fetch;
pub(crate) mod recovery;
pub(crate) mod stale_resources;
pub(crate) mod ttl;

use alloc::vec::Vec;
use core::time::Duration;

use super::{
    Client,
    channel::type_state::Machine,
    config::server_features::ServerFeature,
    event::{
        error::{WatchError, WatchErrorKind},
        status::EntryState,
    },
    subscription::{
        Collection,
        authority::DEFAULT,
        does_not_exist_timers::{Armed, Subject},
        registered_type::TypeState,
    },
    upstream::{Channel, Lane, Link},
    watch::News,
};
use crate::{
    id::ChannelId,
    time::{Deadline, Time, Timer},
    zoo::{self, Bug},
};

impl Client {
    /// Returns the earliest deadline, apart from queued outputs.
    pub(crate) fn next_deadline(&self) -> Option<Deadline> {
        let earliest = |lane: &Lane| {
            let channel = match lane.link {
                Link::Idle => return None,
                Link::BackingOff(at) => return Some(Deadline { at, why: Timer::Reconnect }),
                Link::Open(id) => self.upstreams.channel(id)?,
            };
            let does_not_exist =
                channel.timers.next().map(|at| Deadline { at, why: Timer::DoesNotExist });
            let idle = channel
                .idle_since
                .zip(self.config.profile.idle_close)
                .map(|(since, after)| Deadline { at: since.after(after), why: Timer::Idle });
            let silence = recovery::end_of_trouble(lane, channel);
            let all = [does_not_exist, idle, silence].into_iter().flatten();
            all.min_by_key(|due| (due.at, due.why))
        };
        let earliest = self.upstreams.lanes.iter().filter_map(earliest);
        let apart =
            [self.next_expiry(), self.next_fetch(), self.next_request()].into_iter().flatten();
        earliest.chain(apart).min_by_key(|due| (due.at, due.why))
    }

    pub(crate) fn on_timeout(&mut self, now: Time) {
        for lane in 0..self.upstreams.lanes.len() {
            if let Some(lane) = self.upstreams.lanes.get_mut(lane)
                && let Link::BackingOff(until) = lane.link
                && until <= now
                && !(zoo::is(Bug::DeadlineInThePast) && until == now)
            {
                lane.link = Link::Idle;
            }
        }
        self.connect_if_wanted(now);
        self.forget_failures_of_idle_servers();
        self.expire_due(now);
        self.conclude_fetches(now);
        for lane in 0..self.upstreams.lanes.len() {
            while let Some((upstream, armed)) = self.due_timer(lane, now) {
                self.conclude_missing(upstream, armed);
            }
            self.end_trouble_of_the_silent(lane, now);
            let is_idle_for_too_long = self
                .upstreams
                .on_lane(lane)
                .and_then(|id| self.upstreams.channel(id)?.idle_since)
                .zip(self.config.profile.idle_close)
                .is_some_and(|(since, after)| since.after(after) <= now);
            if is_idle_for_too_long {
                self.close_idle(lane, now);
            }
        }
        self.announce();
    }

    /// Resets the errors and the health of servers without subscriptions. A slot that waits for
    /// another channel to open still has subscriptions.
    pub(crate) fn forget_failures_of_idle_servers(&mut self) {
        for lane in 0..self.upstreams.lanes.len() {
            let is_wanted = self.is_lane_wanted(lane);
            if let Some(lane) = self.upstreams.lanes.get_mut(lane)
                && lane.link == Link::Idle
                && !is_wanted
            {
                lane.error = None;
            }
        }
        let lanes = &self.upstreams.lanes;
        for (position, server) in self.upstreams.servers.iter_mut().enumerate() {
            let mut own = lanes.iter().filter(|lane| lane.upstream == position);
            if own.all(|lane| lane.link == Link::Idle) {
                server.tally.left_alone();
            }
        }
    }

    fn due_timer(&mut self, lane: usize, now: Time) -> Option<(usize, Armed)> {
        let id = self.upstreams.on_lane(lane)?;
        let channel = self.upstreams.channel_mut(id)?;
        channel.timers.next().filter(|&at| at <= now)?;
        let due = (channel.upstream, channel.timers.pop()?);
        self.discard_settled_timers();
        Some(due)
    }

    /// Removes invalid timers from the front of the queues, so that the next deadline is that of a
    /// valid one.
    // IC38
    pub(crate) fn discard_settled_timers(&mut self) {
        for lane in 0..self.upstreams.lanes.len() {
            while let Some(id) = self.upstreams.on_lane(lane)
                && let Some(armed) = self.upstreams.channel(id).and_then(|it| it.timers.front())
                && !self.is_running(armed)
                && let Some(channel) = self.upstreams.channel_mut(id)
            {
                let _ = channel.timers.pop();
            }
        }
        self.discard_settled_fetches();
    }

    pub(crate) fn is_running(&self, armed: &Armed) -> bool {
        let Some(known) = self.types.get(armed.type_index) else { return false };
        match armed.subject {
            Subject::Subscription(key) => known
                .interest
                .subscriptions
                .get(key)
                .is_some_and(|subscription| subscription.timer == armed.token),
            Subject::Collection => known.interest.collection_timer == armed.token,
            Subject::Leftovers => known.interest.leftover_timer == armed.token,
            Subject::GlobLeftovers(key) => {
                known.cache.globs.get(key).is_some_and(|glob| glob.leftover_timer == armed.token)
            }
        }
    }

    /// Handles an expired timer: the resource or collection does not exist or, by configuration of
    /// the server, has timed out.
    // S1.025, S3.043, S3.044
    pub(crate) fn conclude_missing(&mut self, position: usize, armed: Armed) {
        if !self.is_running(&armed) {
            return;
        }
        let epoch = self.upstreams.epoch;
        let authority = self.authority_of(&armed);
        let Some(upstream) = self.upstreams.servers.get_mut(position) else { return };
        let server = &upstream.server;
        let after = self.config.missing_after(authority, server, armed.type_index);
        let after = after.unwrap_or(Duration::MAX);
        let (state, kind) =
            match server.features.contains(ServerFeature::ResourceTimerIsTransientError) {
                true => (EntryState::Timeout, WatchErrorKind::Timeout(after)),
                false => (EntryState::DoesNotExist, WatchErrorKind::DoesNotExist(after)),
            };
        let Some(source) = upstream.sources.get(armed.type_index) else { return };
        let Some(known) = self.types.get_mut(armed.type_index) else { return };
        match armed.subject {
            Subject::Subscription(key) => {
                let Some(subscription) = known.interest.subscriptions.get_mut(key) else { return };
                subscription.timer = 0;
                let Some(entry) = known.cache.get(subscription.entry) else { return };
                // A resource that has arrived takes precedence (trap 23, DT-13). A glob with
                // members in use is not missing either, because a server need not send known
                // members again.
                if entry.bytes.is_some() {
                    return;
                }
                if known.cache.receive_if_inhabited(subscription.entry) {
                    let first = subscription.first_watch;
                    self.watches.tell_all(first, News::Changed, &mut self.outbox, &mut None);
                    return;
                }
                let Some(entry) = known.cache.get_mut(subscription.entry) else { return };
                entry.state = state;
                let error = WatchError::new(kind, Some(entry.name.clone()), source);
                entry.set_error(error, epoch);
                upstream.tally.timed_out(armed.type_index);
                let first = subscription.first_watch;
                self.watches.tell_all(first, News::Changed, &mut self.outbox, &mut None);
            }
            Subject::Leftovers => self.end_leftovers(position, armed.type_index),
            Subject::GlobLeftovers(key) => {
                self.end_leftovers_of(position, armed.type_index, key.slot());
            }
            Subject::Collection => {
                known.interest.collection_timer = 0;
                upstream.tally.timed_out(armed.type_index);
                let error = WatchError::new(kind, None, source);
                known.interest.collection = Collection::Missing { error, epoch: epoch + 1 };
                for &watch in &known.interest.wildcards {
                    self.watches.tell(watch, News::Changed, &mut self.outbox, &mut None);
                }
            }
        }
    }

    /// Handles the timers of a channel that has ended. Those of resources that are also requested
    /// on another channel restart there.
    pub(crate) fn hand_over_timers(&mut self, channel: &mut Channel) {
        if zoo::is(Bug::TimerRunsInBackoff)
            && let Some(server) = self.upstreams.servers.get_mut(channel.upstream)
        {
            return core::mem::swap(&mut server.fetches, &mut channel.timers);
        }
        let orphans: Vec<Armed> = channel.timers.take_all().collect();
        self.arm_elsewhere(&orphans);
    }

    /// Handles the timers of a channel whose server is no longer used by an authority.
    pub(crate) fn hand_over_timers_of(
        &mut self,
        id: ChannelId,
        authority: usize,
        type_index: usize,
    ) {
        let Some(known) = self.types.get(type_index) else { return };
        let Some(channel) = self.upstreams.channels.get_mut(id.0) else { return };
        let orphans = channel.timers.take_those(|armed| {
            let of = known.interest.authority_of(armed.subject, &known.cache.globs);
            armed.type_index == type_index && of == authority
        });
        self.arm_elsewhere(&orphans);
    }

    fn arm_elsewhere(&mut self, orphans: &[Armed]) {
        let now = self.clock.now();
        for orphan in orphans {
            if self.is_running(orphan)
                && let Some(id) = self.also_asked(orphan)
            {
                self.arm_again(id, orphan, now);
            }
        }
    }

    /// Returns an open channel on which the timer's subject is requested.
    fn also_asked(&self, armed: &Armed) -> Option<ChannelId> {
        let type_index = armed.type_index;
        let known = self.types.get(type_index)?;
        let authority = known.interest.authority_of(armed.subject, &known.cache.globs);
        let knows = |machine: &Machine| match armed.subject {
            Subject::Subscription(key) => machine.sent().has(key.slot()),
            Subject::Collection => machine.has_wildcard(),
            Subject::Leftovers | Subject::GlobLeftovers(_) => false,
        };
        (0..self.upstreams.lanes.len()).filter_map(|lane| self.upstreams.on_lane(lane)).find(
            |&id| {
                let Some(channel) = self.upstreams.channel(id) else { return false };
                let server = self.upstreams.servers.get(channel.upstream);
                let serves = server.and_then(|it| it.serves.of(type_index).get(authority));
                serves == Some(&true) && channel.machine(type_index).is_some_and(knows)
            },
        )
    }

    /// Returns the authority of the timer's subject.
    fn authority_of(&self, armed: &Armed) -> usize {
        let known = self.types.get(armed.type_index);
        let of = |it: &TypeState| it.interest.authority_of(armed.subject, &it.cache.globs);
        known.map_or(DEFAULT, of)
    }

    fn arm_again(&mut self, id: ChannelId, armed: &Armed, now: Time) {
        let authority = self.authority_of(armed);
        let Some((_, server)) = self.upstreams.channel_and_server(id) else { return };
        let after = self.config.missing_after(authority, &server.server, armed.type_index);
        let Some(after) = after else { return };
        let known = self.types.get_mut(armed.type_index).map(|known| &mut known.interest);
        let Some(running) = known.and_then(|interest| match armed.subject {
            Subject::Subscription(key) => {
                interest.subscriptions.get_mut(key).map(|subscription| &mut subscription.timer)
            }
            Subject::Collection => Some(&mut interest.collection_timer),
            Subject::Leftovers => Some(&mut interest.leftover_timer),
            Subject::GlobLeftovers(_) => None,
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
