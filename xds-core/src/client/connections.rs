//! Opening, failure and closing of channels: the state machine drawn in `upstream`.

use alloc::{sync::Arc, vec::Vec};

use super::{
    Client,
    channel::{
        polling::Polls,
        rate_limit::{Bucket, NackPace},
        type_state::Machine,
    },
    config::{ConnectivityErrors, Exchange, ReadGate},
    event::{Call, error::ChannelError},
    upstream::{Carries, Channel, Link, Turns},
    watch::{Debts, News, Target},
};
use crate::{
    id::ChannelId,
    time::Time,
    zoo::{self, Bug},
};

impl Client {
    /// Opens a channel for each idle stream slot with subscriptions. At most one channel to each
    /// server opens at a time.
    // IC26
    pub(crate) fn connect_if_wanted(&mut self, now: Time) {
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

    /// Ends all backoff delays and makes the next failure the first one.
    pub(crate) fn end_pauses(&mut self, now: Time) {
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
        let machines = (first_type..).zip(known).map(|(type_index, known)| {
            let scope = upstream.serves.of(type_index);
            let mut machine = Machine::new(&upstream.server, &known.interest, scope);
            let kept = upstream.nonces.get(type_index);
            if let Some(old) = kept.and_then(|it| it.kept_for(Bug::NonceOverReconnect)) {
                machine.note_nonce(old);
            }
            machine
        });
        let call = Call { server: Arc::clone(&upstream.server), type_url };
        let channel = Channel::new((lane, state.upstream), (first_type, machines.collect()), now);
        if let Some(id) = self.upstreams.start_channel(channel) {
            self.outbox.open(id, call);
        }
    }

    /// Returns whether a stream slot carries a type with subscriptions.
    pub(crate) fn is_lane_wanted(&self, lane: usize) -> bool {
        let Some(lane) = self.upstreams.lanes.get(lane) else { return false };
        let Some(upstream) = self.upstreams.servers.get(lane.upstream) else { return false };
        let carried = lane.types(self.types.len());
        self.types.iter().enumerate().any(|(type_index, known)| {
            let scope = upstream.serves.of(type_index);
            carried.contains(&type_index) && known.interest.is_wanted_in(scope)
        })
    }

    pub(crate) fn on_opened(&mut self, id: ChannelId, now: Time) {
        let gate = self.config.profile.read_gate;
        let lane = self.upstreams.channel(id).map_or(usize::MAX, |channel| channel.lane);
        let is_idle = !self.is_lane_wanted(lane);
        match self.upstreams.channel_mut(id) {
            Some(channel) if !channel.is_open => {
                channel.is_open = true;
                channel.debts = (gate != ReadGate::Off).then_some(Debts { channel: id, open: 0 });
                channel.idle_since = is_idle.then_some(now);
                if let Some((channel, server)) = self.upstreams.channel_and_server(id) {
                    let rate = server.server.request_rate;
                    channel.answers = self.config.profile.answers;
                    channel.bucket = rate.map(|rate| Bucket::full(rate, now));
                    channel.turns = match &server.server.exchange {
                        Exchange::Stream => {
                            channel.nack_pace = NackPace::new(self.config.nack_interval);
                            Turns::Free
                        }
                        Exchange::Polls(policy) => Turns::Polled(Polls::new(policy, now)),
                        Exchange::Files(_) => Turns::OfAFile,
                    };
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

    /// Notifies the driver of each channel with requests to send, once until it has polled all of
    /// them.
    pub(crate) fn announce(&mut self) {
        let now = self.clock.now();
        for lane in 0..self.upstreams.lanes.len() {
            let Some(id) = self.upstreams.on_lane(lane) else { continue };
            let types = &self.types;
            if let Some((channel, server)) = self.upstreams.channel_and_server(id)
                && channel.is_open
                && !channel.announced
                && channel.next_request(types, &server.serves).is_some_and(|at| at <= now)
            {
                channel.announced = true;
                self.outbox.writable(id);
            }
        }
    }

    /// Handles a well-formed response: the server works.
    pub(crate) fn note_answer(&mut self, id: ChannelId, now: Time) {
        let Some((channel, server)) = self.upstreams.channel_and_server(id) else { return };
        channel.responded.get_or_insert(now);
        if let Some(polls) = channel.polls_mut() {
            polls.note_answer(&mut self.rng, now);
        }
        let lane = channel.lane;
        server.tally.responded();
        let Some(answering) = self.upstreams.lanes.get_mut(lane) else { return };
        (answering.has_answered, answering.failures) = (true, 0);
        self.end_trouble(lane);
        self.prefer(lane, now);
    }

    /// Clears the error of a stream slot's server and notifies watchers that got it.
    // X16
    pub(crate) fn end_trouble(&mut self, lane: usize) {
        let error = self.upstreams.lanes.get_mut(lane).and_then(|lane| lane.error.take());
        if error.is_some_and(|error| self.is_reported(&error)) {
            for authority in 0..self.upstreams.authorities.len() {
                let relying = self.relying_on(lane, authority);
                self.tell_of_the_server(authority, &relying);
            }
        }
    }

    pub(crate) fn on_malformed(&mut self, id: ChannelId, error: ChannelError, now: Time) {
        if self.is_of_a_file(id) {
            return self.on_unreadable(id, error);
        }
        if self.upstreams.channel(id).is_some() {
            self.stats.malformed += 1;
            self.outbox.close(id, Some(error.clone()));
        }
        self.on_closed(id, error, now);
    }

    /// Handles the end of a channel.
    pub(crate) fn on_closed(&mut self, id: ChannelId, error: ChannelError, now: Time) {
        let Some(mut channel) = self.upstreams.end_channel(id) else {
            self.stats.ignored_events += 1;
            return;
        };
        self.forget_what_was_sent(&mut channel);
        self.upstreams.epoch += 1;
        let epoch = self.upstreams.epoch;
        // Without subscriptions on the stream, its end is not a failure of the server.
        let is_wanted = self.is_lane_wanted(channel.lane);

        let policy = &self.config.profile.backoff;
        let end = channel.end(policy, now);
        let Some(lane) = self.upstreams.lanes.get_mut(channel.lane) else { return };
        let delay = lane.pauses.after(end, policy, &mut self.rng);
        lane.link = Link::BackingOff(now.after(delay));
        if channel.responded.is_none() {
            lane.failures = lane.failures.saturating_add(1);
        }
        lane.ended = epoch;
        // S1.008: the end of a stream that has delivered a response is no error for watchers,
        // whatever its status, because servers rebalance and age connections. A protocol violation
        // always is one.
        let is_told =
            channel.responded.is_none() || error.is_fault() || zoo::is(Bug::PlannedEndIsAnError);
        if is_wanted && is_told {
            self.note_failure(channel.lane, error);
        }
        if is_wanted {
            self.fail_over(channel.lane, now);
        }
        // Other streams of the server may have waited for this one to open.
        self.connect_if_wanted(now);
        self.announce();
    }

    /// Sets the error of a stream slot's server until the next well-formed response.
    pub(crate) fn note_failure(&mut self, position: usize, error: ChannelError) {
        let Some(lane) = self.upstreams.lanes.get_mut(position) else { return };
        self.stats.server_failures += 1;
        let is_news = !lane.error.as_ref().is_some_and(|last| last.is_like(&error));
        lane.error = Some(error);
        let carried = lane.types(self.types.len());
        if let Some(server) = self.upstreams.servers.get_mut(lane.upstream) {
            let wanted = self.types.iter().enumerate().map(|(type_index, known)| {
                let scope = server.serves.of(type_index);
                carried.contains(&type_index) && known.interest.is_wanted_in(scope)
            });
            server.tally.failed(wanted);
        }
        let now = self.clock.now();
        self.on_server_failure(position, is_news, now);
    }

    /// Falls back to the next server, or notifies watchers of the failure.
    // FB-02, FB-03
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

    /// Removes the state that ends with a channel: sent names, unhandled notices and timers.
    pub(crate) fn forget_what_was_sent(&mut self, channel: &mut Channel) {
        if let Some(debts) = &channel.debts {
            self.watches.forget_debts(debts);
        }
        self.hand_over_timers(channel);
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
        self.discard_settled_timers();
        self.discard_settled_fetches();
    }

    /// Returns the current connection error of the authority's active server for a type, if
    /// watchers are notified of such errors.
    // D17
    pub(crate) fn reported_error(
        &self,
        authority: usize,
        type_index: usize,
    ) -> Option<&ChannelError> {
        let error = self.upstreams.active(authority, type_index)?.1.error.as_ref();
        error.filter(|error| self.is_reported(error))
    }

    /// Returns whether watchers are notified of the error. An unreadable file is always reported,
    /// because it is not a connection error and no timeout ends the wait for its resources.
    // FS-02
    pub(crate) fn is_reported(&self, error: &ChannelError) -> bool {
        let is_of_a_file = matches!(error, ChannelError::Unreadable(_));
        is_of_a_file || self.config.profile.connectivity_errors == ConnectivityErrors::Reported
    }

    /// Notifies watchers of a new or cleared connection error. It is ambient for a resource in use,
    /// and otherwise the reason why there is none.
    // S3.032, S3.033, X16
    pub(crate) fn tell_of_the_server(&mut self, authority: usize, types: &[usize]) {
        let is_hidden = self.config.profile.connectivity_errors == ConnectivityErrors::Hidden;
        if types.is_empty() || (is_hidden && !self.has_files()) {
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
                collection @ (Target::Wildcard(_) | Target::Glob(_)) => {
                    let state = known.collection_of(collection);
                    match state.filter(|state| state.authority == authority) {
                        Some(state) if state.is_received => Some(News::Ambient),
                        Some(state) => {
                            (has_error || state.error.is_some()).then_some(News::Changed)
                        }
                        None => None,
                    }
                }
                Target::Name(link) => {
                    let entry = known
                        .interest
                        .subscriptions
                        .at(link.subscription)
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

    /// Closes a channel without subscriptions.
    // D6
    pub(crate) fn close_idle(&mut self, lane: usize, now: Time) {
        self.close_lane(lane, now);
        self.forget_failures_of_idle_servers();
        // Another stream of the server may have waited for this one to open.
        self.connect_if_wanted(now);
    }

    pub(crate) fn end_everything(&mut self) {
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
            known.interest = super::subscription::TypeInterest::default();
            known.cache = super::cache::Cache::new(0);
        }
    }
}
