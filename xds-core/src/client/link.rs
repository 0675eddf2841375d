//! Channels opening, failing and ending: the state machine drawn in `upstream.rs`, and all timers.

use alloc::{sync::Arc, vec::Vec};
use core::time::Duration;

use super::{
    Client,
    authorities::DEFAULT,
    backoff::End,
    config::{ConnectivityErrors, ReadGate},
    error::{ChannelError, WatchError, WatchErrorKind},
    event::Call,
    features::ServerFeature,
    interest::Collection,
    machine::Machine,
    pace::Bucket,
    status::EntryState,
    timers::{Armed, Subject},
    upstream::{Carries, Channel, Lane, Link},
    watches::{Debts, News, Target},
};
use crate::{
    id::ChannelId,
    time::{Deadline, Time, Timer},
};

impl Client {
    /// Opens the channels that are wanted and have nothing in their way. To each server one opens at
    /// a time (IC26).
    pub(super) fn connect_if_wanted(&mut self, now: Time) {
        for lane in 0..self.upstreams.lanes.len() {
            if !self.is_lane_wanted(lane) {
                continue;
            }
            let Some(state) = self.upstreams.lanes.get(lane) else { continue };
            match state.link {
                Link::Idle if !self.is_shut_down && !self.upstreams.is_opening(state.upstream) => {
                    self.open(lane, now);
                }
                Link::Open(id) => {
                    if let Some(channel) = self.upstreams.channel_mut(id) {
                        channel.idle_since = None;
                    }
                }
                Link::Idle | Link::BackingOff(_) => {}
            }
        }
    }

    /// What waits for its next attempt need not wait any longer, and what failed before no longer makes
    /// pauses longer.
    pub(super) fn end_pauses(&mut self, now: Time) {
        for lane in &mut self.upstreams.lanes {
            lane.pauses.reset();
            if let Link::BackingOff(_) = lane.link {
                lane.link = Link::Idle;
            }
        }
        self.connect_if_wanted(now);
        self.forget_failures_of_idle_servers();
    }

    fn open(&mut self, lane: usize, now: Time) {
        let Some(state) = self.upstreams.lanes.get(lane) else { return };
        let Some(upstream) = self.upstreams.servers.get(state.upstream) else { return };
        let carried = state.types(self.types.len());
        let first_type = carried.start;
        let known = self.types.get(carried).unwrap_or_default();
        let type_url = match state.carries {
            Carries::Everything => None,
            Carries::Type(_) => known.first().map(|known| known.resource_type.type_url().clone()),
        };
        let variant = upstream.server.variant;
        let machines = (first_type..).zip(known).map(|(type_index, known)| {
            Machine::new(variant, &known.interest, upstream.serves.of(type_index))
        });
        let call = Call { server: Arc::clone(&upstream.server), type_url };
        let channel = Channel::new((lane, state.upstream), (first_type, machines.collect()), now);
        if let Some(id) = self.upstreams.start_channel(channel) {
            self.outbox.open(id, call);
        }
    }

    /// Whether anything is wanted of what a lane carries.
    pub(super) fn is_lane_wanted(&self, lane: usize) -> bool {
        let Some(lane) = self.upstreams.lanes.get(lane) else { return false };
        let Some(upstream) = self.upstreams.servers.get(lane.upstream) else { return false };
        let carried = lane.types(self.types.len());
        self.types.iter().enumerate().any(|(type_index, known)| {
            let scope = upstream.serves.of(type_index);
            carried.contains(&type_index) && known.interest.is_wanted_in(scope)
        })
    }

    pub(super) fn on_opened(&mut self, id: ChannelId, now: Time) {
        let gate = self.config.profile.read_gate;
        let lane = self.upstreams.channel(id).map_or(usize::MAX, |channel| channel.lane);
        let is_idle = !self.is_lane_wanted(lane);
        match self.upstreams.channel_mut(id) {
            Some(channel) if !channel.is_open => {
                channel.is_open = true;
                channel.debts =
                    (gate == ReadGate::Notices).then_some(Debts { channel: id, open: 0 });
                channel.idle_since = is_idle.then_some(now);
                if let Some((channel, server)) = self.upstreams.channel_and_server(id) {
                    let rate = server.server.request_rate;
                    channel.answers = self.config.profile.answers;
                    channel.bucket = rate.map(|rate| Bucket::full(rate, now));
                    server.tally.opened();
                }
                if let Some(lane) = self.upstreams.lanes.get_mut(lane) {
                    lane.pauses.note_connected();
                }
                self.connect_if_wanted(now);
                self.announce();
            }
            Some(_) | None => self.stats.ignored_events += 1,
        }
    }

    /// Tells the driver of each channel that has something to send, once until it has sent it all.
    pub(super) fn announce(&mut self) {
        let now = self.clock.now();
        for lane in 0..self.upstreams.lanes.len() {
            let Some(id) = self.upstreams.on_lane(lane) else { continue };
            let types = &self.types;
            if let Some((channel, server)) = self.upstreams.channel_and_server(id)
                && channel.is_open
                && !channel.announced
                && channel.may_send(now)
                && channel.has_something_to_say(types, &server.serves)
            {
                channel.announced = true;
                self.outbox.writable(id);
            }
        }
    }

    /// A sound response has come: the server works again.
    pub(super) fn note_response(&mut self, id: ChannelId, now: Time) {
        self.stats.responses += 1;
        let Some((channel, server)) = self.upstreams.channel_and_server(id) else { return };
        channel.responded.get_or_insert(now);
        let lane = channel.lane;
        server.tally.responded();
        let Some(answering) = self.upstreams.lanes.get_mut(lane) else { return };
        (answering.has_answered, answering.failures) = (true, 0);
        if answering.error.take().is_some() {
            for authority in 0..self.upstreams.authorities.len() {
                let relying = self.relying_on(lane, authority);
                self.tell_of_the_server(authority, &relying);
            }
        }
        self.prefer(lane, now);
    }

    pub(super) fn on_malformed(&mut self, id: ChannelId, error: ChannelError, now: Time) {
        if self.upstreams.channel(id).is_some() {
            self.stats.malformed += 1;
            self.outbox.close(id, Some(error.clone()));
        }
        self.on_closed(id, error, now);
    }

    /// The channel is gone, and with it all that was the channel's.
    pub(super) fn on_closed(&mut self, id: ChannelId, error: ChannelError, now: Time) {
        let Some(mut channel) = self.upstreams.end_channel(id) else {
            self.stats.ignored_events += 1;
            return;
        };
        self.forget_what_was_sent(&mut channel);
        self.discard_settled_fetches();
        self.upstreams.epoch += 1;
        let epoch = self.upstreams.epoch;
        // What happens to a stream of which nothing is wanted any more says nothing to the others.
        let is_wanted = self.is_lane_wanted(channel.lane);

        let policy = &self.config.profile.backoff;
        let end = match channel.responded {
            _ if !channel.is_open => End::Unconnected,
            Some(responded) if now.since(responded) >= policy.young => End::Served,
            Some(_) | None => End::Early,
        };
        let Some(lane) = self.upstreams.lanes.get_mut(channel.lane) else { return };
        let delay = lane.pauses.after(end, policy, &mut self.rng);
        lane.link = Link::BackingOff(now.after(delay));
        if channel.responded.is_none() {
            lane.failures = lane.failures.saturating_add(1);
        }
        lane.ended = epoch;
        // A stream that delivered something ends without an error to anybody, whatever its status
        // (S1.008): servers rebalance and age connections. A response that cannot be taken is no
        // such end.
        if is_wanted && (channel.responded.is_none() || error.is_fault()) {
            self.stats.server_failures += 1;
            let is_news = !lane.error.as_ref().is_some_and(|last| last.is_like(&error));
            lane.error = Some(error);
            let carried = lane.types(self.types.len());
            if let Some(server) = self.upstreams.servers.get_mut(channel.upstream) {
                let wanted = self.types.iter().enumerate().map(|(type_index, known)| {
                    let scope = server.serves.of(type_index);
                    carried.contains(&type_index) && known.interest.is_wanted_in(scope)
                });
                server.tally.failed(wanted);
            }
            self.on_server_failure(channel.lane, is_news, now);
        }
        if is_wanted {
            self.fail_over(channel.lane, now);
        }
        // Other streams of the server may have waited for this one to open.
        self.connect_if_wanted(now);
    }

    /// Whoever relies on the server turns to the next one, or hears of it (FB-02, FB-03).
    fn on_server_failure(&mut self, lane: usize, is_news: bool, now: Time) {
        for authority in 0..self.upstreams.authorities.len() {
            let mut relying = self.relying_on(lane, authority);
            self.fall_back(authority, &relying, now);
            let still_relying = self.relying_on(lane, authority);
            relying.retain(|type_index| {
                let is_news = is_news || !still_relying.contains(type_index);
                is_news && self.reported_error(authority, *type_index).is_some()
            });
            self.tell_of_the_server(authority, &relying);
        }
    }

    /// With the channel gone there is nobody left to be told of the end of a subscription, and nothing
    /// left to read.
    pub(super) fn forget_what_was_sent(&mut self, channel: &mut Channel) {
        if let Some(debts) = &channel.debts {
            self.watches.forget_debts(debts);
        }
        for type_index in 0..self.types.len() {
            let Some(machine) = channel.machine_mut(type_index) else { continue };
            for slot in machine.sent_mut().take_all() {
                let Some(known) = self.types.get_mut(type_index) else { break };
                let Some(subscription) = known.interest.subscriptions.at_mut(slot) else {
                    continue;
                };
                subscription.told = subscription.told.saturating_sub(1);
                if subscription.is_over() {
                    self.drop_subscription(type_index, slot);
                }
            }
            self.drop_uncovered(type_index);
        }
    }

    /// The standing connectivity error of the server that an authority relies on for a type, where
    /// watchers are told of such (D17).
    pub(super) fn reported_error(
        &self,
        authority: usize,
        type_index: usize,
    ) -> Option<&ChannelError> {
        match self.config.profile.connectivity_errors {
            ConnectivityErrors::Reported => {
                self.upstreams.active(authority, type_index)?.1.error.as_ref()
            }
            ConnectivityErrors::Hidden => None,
        }
    }

    /// The connectivity error came or went: beside a resource in use it is ambient, otherwise it is
    /// the reason why there is none (S3.032, S3.033, X16).
    pub(super) fn tell_of_the_server(&mut self, authority: usize, types: &[usize]) {
        let is_hidden = self.config.profile.connectivity_errors == ConnectivityErrors::Hidden;
        if types.is_empty() || is_hidden {
            return;
        }
        let ids: Vec<_> = self.watches.ids().collect();
        for id in ids {
            let Some(watch) = self.watches.get(id) else { continue };
            if !types.contains(&watch.type_index) {
                continue;
            }
            let has_error = self.reported_error(authority, watch.type_index).is_some();
            let Some(known) = self.types.get(watch.type_index) else { continue };
            let news = match &watch.target {
                Target::Wildcard(_) if authority != DEFAULT => None,
                Target::Wildcard(_) => match known.interest.collection {
                    Collection::Received => Some(News::Ambient),
                    Collection::Requested => has_error.then_some(News::Changed),
                    Collection::Missing { .. } => Some(News::Changed),
                },
                Target::Name { subscription, .. } => {
                    let entry = known
                        .interest
                        .subscriptions
                        .at(*subscription)
                        .filter(|subscription| subscription.authority == authority)
                        .and_then(|subscription| known.cache.get(subscription.entry));
                    match entry {
                        Some(entry) if entry.bytes.is_some() => Some(News::Ambient),
                        Some(entry) => {
                            (has_error || entry.error().is_some()).then_some(News::Changed)
                        }
                        None => None,
                    }
                }
            };
            if let Some(news) = news {
                self.watches.tell(id, news, &mut self.outbox, &mut None);
            }
        }
    }

    // Timers.

    /// The earliest deadline; the queue of outputs has been looked at before.
    pub(super) fn next_deadline(&self) -> Option<Deadline> {
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
            [does_not_exist, idle].into_iter().flatten().min_by_key(|due| (due.at, due.why))
        };
        let earliest = self.upstreams.lanes.iter().filter_map(earliest);
        let apart =
            [self.next_expiry(), self.next_fetch(), self.next_request()].into_iter().flatten();
        earliest.chain(apart).min_by_key(|due| (due.at, due.why))
    }

    pub(super) fn on_timeout(&mut self, now: Time) {
        for lane in 0..self.upstreams.lanes.len() {
            if let Some(lane) = self.upstreams.lanes.get_mut(lane)
                && let Link::BackingOff(until) = lane.link
                && until <= now
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

    /// What went wrong when somebody was last interested says nothing to whoever comes next. A lane that
    /// only waits for another one to open has somebody.
    fn forget_failures_of_idle_servers(&mut self) {
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

    /// Takes timers whose subject has been heard of, or is gone, off the front of the queues, so that
    /// the deadline handed out is always that of a timer that counts (IC38).
    pub(super) fn discard_settled_timers(&mut self) {
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

    pub(super) fn is_running(&self, armed: &Armed) -> bool {
        let Some(known) = self.types.get(armed.type_index) else { return false };
        match armed.subject {
            Subject::Subscription(key) => known
                .interest
                .subscriptions
                .get(key)
                .is_some_and(|subscription| subscription.timer == armed.token),
            Subject::Collection => known.interest.collection_timer == armed.token,
            Subject::Leftovers => known.interest.leftover_timer == armed.token,
        }
    }

    /// The server had its time: the resource, or the collection, does not exist (S1.025), or the
    /// server is in trouble (S3.043, S3.044).
    pub(super) fn conclude_missing(&mut self, position: usize, armed: Armed) {
        if !self.is_running(&armed) {
            return;
        }
        let epoch = self.upstreams.epoch;
        let Some(upstream) = self.upstreams.servers.get_mut(position) else { return };
        let server = &upstream.server;
        let after = self.config.profile.missing_after(server).unwrap_or(Duration::MAX);
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
                let Some(entry) = known.cache.get_mut(subscription.entry) else { return };
                // A timer that races with a resource loses (trap 23, DT-13).
                if entry.bytes.is_some() {
                    return;
                }
                entry.state = state;
                let error = WatchError::new(kind, Some(entry.name.clone()), source);
                entry.set_error(error, epoch);
                upstream.tally.timed_out(armed.type_index);
                let first = subscription.first_watch;
                self.watches.tell_all(first, News::Changed, &mut self.outbox, &mut None);
            }
            Subject::Leftovers => self.end_leftovers(position, armed.type_index),
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

    /// Closes a channel on which nothing is wanted any more (D6).
    pub(super) fn close_idle(&mut self, lane: usize, now: Time) {
        self.close_lane(lane, now);
        self.forget_failures_of_idle_servers();
    }

    pub(super) fn end_everything(&mut self) {
        if core::mem::replace(&mut self.is_shut_down, true) {
            return;
        }
        self.outbox.retain_closes();
        for lane in 0..self.upstreams.lanes.len() {
            if let Some(id) = self.upstreams.on_lane(lane) {
                self.upstreams.end_channel(id);
                self.outbox.close(id, None);
            }
            if let Some(lane) = self.upstreams.lanes.get_mut(lane) {
                lane.link = Link::Idle;
            }
        }
        for server in &mut self.upstreams.servers {
            server.tally.left_alone();
        }
        self.watches = super::Watches::default();
        for known in &mut self.types {
            known.interest = super::interest::TypeInterest::default();
            known.cache = super::cache::Cache::new(0);
        }
    }
}
