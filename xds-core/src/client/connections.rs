//! Opening, failure and closing of channels: the state machine drawn in `upstream`.

use alloc::{sync::Arc, vec::Vec};

use super::{
    Client,
    channel::{
        polling::PollState,
        rate_limit::{NackLimiter, RequestLimiter},
        type_state::TypeState,
    },
    config::{ConnectivityErrors, FlowControl, TransportKind},
    event::{Call, error::ChannelError},
    upstream::{CarriedTypes, Channel, Connection, TransportState},
    watch::{NoticeKind, UnhandledNotices, WatchTarget},
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
    pub(crate) fn open_needed_channels(&mut self, now: Time) {
        for stream_slot in 0..self.upstreams.stream_slots.len() {
            if !self.has_subscriptions(stream_slot) {
                continue;
            }
            let Some(state) = self.upstreams.stream_slots.get(stream_slot) else { continue };
            match state.connection {
                Connection::Idle
                    if !self.is_shut_down && !self.upstreams.is_opening(state.upstream) =>
                {
                    self.open(stream_slot, now);
                }
                Connection::Open(id) => {
                    if let Some(channel) = self.upstreams.channel_mut(id) {
                        channel.idle_since = None;
                    }
                }
                Connection::Idle | Connection::BackingOff(_) => {}
            }
        }
    }

    /// Ends all backoff delays and makes the next failure the first one.
    pub(crate) fn end_backoff_delays(&mut self, now: Time) {
        for stream_slot in &mut self.upstreams.stream_slots {
            stream_slot.backoff.reset();
            if let Connection::BackingOff(_) = stream_slot.connection {
                stream_slot.connection = Connection::Idle;
            }
        }
        self.open_needed_channels(now);
        self.forget_failures_of_idle_servers();
    }

    fn open(&mut self, stream_slot: usize, now: Time) {
        let Some(state) = self.upstreams.stream_slots.get(stream_slot) else { return };
        let Some(upstream) = self.upstreams.servers.get(state.upstream) else { return };
        let carried = state.types(self.types.len());
        let first_type = carried.start;
        let known = self.types.get(carried).unwrap_or_default();
        let type_url = match state.carried_types {
            CarriedTypes::All => None,
            CarriedTypes::One(_) => {
                known.first().map(|known| known.resource_type.type_url().clone())
            }
        };
        let type_states = (first_type..).zip(known).map(|(type_index, known)| {
            let scope = upstream.scopes.of(type_index);
            let mut type_state = TypeState::new(&upstream.server, &known.interest, scope);
            let kept = upstream.nonces.get(type_index);
            if let Some(old) = kept.and_then(|it| it.kept_for(Bug::NonceKeptOverReconnect)) {
                type_state.note_nonce(old);
            }
            type_state
        });
        let call = Call { server: Arc::clone(&upstream.server), type_url };
        let channel =
            Channel::new((stream_slot, state.upstream), (first_type, type_states.collect()), now);
        if let Some(id) = self.upstreams.start_channel(channel) {
            self.outbox.open(id, call);
        }
    }

    /// Returns whether a stream slot carries a type with subscriptions.
    pub(crate) fn has_subscriptions(&self, stream_slot: usize) -> bool {
        let Some(stream_slot) = self.upstreams.stream_slots.get(stream_slot) else { return false };
        let Some(upstream) = self.upstreams.servers.get(stream_slot.upstream) else { return false };
        let carried = stream_slot.types(self.types.len());
        self.types.iter().enumerate().any(|(type_index, known)| {
            let scope = upstream.scopes.of(type_index);
            carried.contains(&type_index) && known.interest.is_subscribed_in(scope)
        })
    }

    pub(crate) fn on_opened(&mut self, id: ChannelId, now: Time) {
        let gate = self.config.profile.flow_control;
        let stream_slot =
            self.upstreams.channel(id).map_or(usize::MAX, |channel| channel.stream_slot);
        let is_idle = !self.has_subscriptions(stream_slot);
        match self.upstreams.channel_mut(id) {
            Some(channel) if !channel.is_open => {
                channel.is_open = true;
                channel.unhandled = (gate != FlowControl::Off)
                    .then_some(UnhandledNotices { channel: id, count: 0 });
                channel.idle_since = is_idle.then_some(now);
                if let Some((channel, server)) = self.upstreams.channel_and_server(id) {
                    let rate = server.server.request_rate;
                    channel.ack_timing = self.config.profile.ack_timing;
                    channel.bucket = rate.map(RequestLimiter::new);
                    channel.transport_state = match &server.server.transport_kind {
                        TransportKind::Stream => {
                            channel.nack_limiter = NackLimiter::new(self.config.nack_interval);
                            TransportState::Stream
                        }
                        TransportKind::Polling(policy) => {
                            TransportState::Polling(PollState::new(policy, now))
                        }
                        TransportKind::File(_) => TransportState::File,
                    };
                    server.counters.note_opened();
                }
                if let Some(stream_slot) = self.upstreams.stream_slots.get_mut(stream_slot) {
                    stream_slot.backoff.note_connected();
                }
                self.open_needed_channels(now);
                self.signal_writable();
            }
            Some(_) | None => self.stats.ignored_events += 1,
        }
    }

    /// Notifies the driver of each channel with requests to send, once until it has polled all of
    /// them.
    pub(crate) fn signal_writable(&mut self) {
        let now = self.clock.now();
        for stream_slot in 0..self.upstreams.stream_slots.len() {
            let Some(id) = self.upstreams.channel_of_slot(stream_slot) else { continue };
            let types = &self.types;
            if let Some((channel, server)) = self.upstreams.channel_and_server(id)
                && channel.is_open
                && !channel.is_writable_signalled
                && channel.next_request(types, &server.scopes).is_some_and(|at| at <= now)
            {
                channel.is_writable_signalled = true;
                self.outbox.writable(id);
            }
        }
    }

    /// Handles a well-formed response: the server works.
    pub(crate) fn note_response(&mut self, id: ChannelId, now: Time) {
        let Some((channel, server)) = self.upstreams.channel_and_server(id) else { return };
        channel.responded.get_or_insert(now);
        if let Some(poll_state) = channel.poll_state_mut() {
            poll_state.note_response(&mut self.rng, now);
        }
        let stream_slot = channel.stream_slot;
        server.counters.note_response();
        let Some(answering) = self.upstreams.stream_slots.get_mut(stream_slot) else { return };
        (answering.has_responded, answering.failures) = (true, 0);
        self.clear_server_error(stream_slot);
        self.activate_preferred(stream_slot, now);
    }

    /// Clears the error of a stream slot's server and notifies watchers that got it.
    // X16
    pub(crate) fn clear_server_error(&mut self, stream_slot: usize) {
        let error = self
            .upstreams
            .stream_slots
            .get_mut(stream_slot)
            .and_then(|stream_slot| stream_slot.error.take());
        if error.is_some_and(|error| self.is_reported(&error)) {
            for authority in 0..self.upstreams.authorities.len() {
                let active_types = self.types_active_on(stream_slot, authority);
                self.notify_connection_error(authority, &active_types);
            }
        }
    }

    pub(crate) fn on_malformed(&mut self, id: ChannelId, error: ChannelError, now: Time) {
        if self.is_file(id) {
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
        self.forget_channel_state(&mut channel);
        self.upstreams.epoch += 1;
        let epoch = self.upstreams.epoch;
        // Without subscriptions on the stream, its end is not a failure of the server.
        let is_subscribed = self.has_subscriptions(channel.stream_slot);

        let policy = &self.config.profile.backoff;
        let end = channel.end(policy, now);
        let Some(stream_slot) = self.upstreams.stream_slots.get_mut(channel.stream_slot) else {
            return;
        };
        let delay = stream_slot.backoff.next_delay(end, policy, &mut self.rng);
        stream_slot.connection = Connection::BackingOff(now.after(delay));
        if channel.responded.is_none() {
            stream_slot.failures = stream_slot.failures.saturating_add(1);
        }
        stream_slot.ended = epoch;
        // S1.008: the end of a stream that has delivered a response is no error for watchers,
        // whatever its status, because servers rebalance and age connections. A protocol violation
        // always is one.
        let is_reported =
            channel.responded.is_none() || error.is_fault() || zoo::is(Bug::PlannedEndIsAnError);
        if is_subscribed && is_reported {
            self.note_failure(channel.stream_slot, error);
        }
        if is_subscribed {
            self.fail_over(channel.stream_slot, now);
        }
        // Other streams of the server may have waited for this one to open.
        self.open_needed_channels(now);
        self.signal_writable();
    }

    /// Sets the error of a stream slot's server until the next well-formed response.
    pub(crate) fn note_failure(&mut self, position: usize, error: ChannelError) {
        let Some(stream_slot) = self.upstreams.stream_slots.get_mut(position) else { return };
        self.stats.server_failures += 1;
        let is_new = !stream_slot.error.as_ref().is_some_and(|last| last.is_like(&error));
        stream_slot.error = Some(error);
        let carried = stream_slot.types(self.types.len());
        if let Some(server) = self.upstreams.servers.get_mut(stream_slot.upstream) {
            let subscribed = self.types.iter().enumerate().map(|(type_index, known)| {
                let scope = server.scopes.of(type_index);
                carried.contains(&type_index) && known.interest.is_subscribed_in(scope)
            });
            server.counters.note_failure(subscribed);
        }
        let now = self.clock.now();
        self.on_server_failure(position, is_new, now);
    }

    /// Falls back to the next server, or notifies watchers of the failure.
    // FB-02, FB-03
    fn on_server_failure(&mut self, stream_slot: usize, is_new: bool, now: Time) {
        for authority in 0..self.upstreams.authorities.len() {
            let mut active_types = self.types_active_on(stream_slot, authority);
            self.fall_back(authority, &active_types, now);
            let still_active = self.types_active_on(stream_slot, authority);
            active_types.retain(|type_index| {
                let is_new = is_new || !still_active.contains(type_index);
                is_new && self.reported_error(authority, *type_index).is_some()
            });
            self.notify_connection_error(authority, &active_types);
        }
    }

    /// Removes the state that ends with a channel: sent names, unhandled notices and timers.
    pub(crate) fn forget_channel_state(&mut self, channel: &mut Channel) {
        if let Some(unhandled) = &channel.unhandled {
            self.watches.forget_unhandled(unhandled);
        }
        self.move_timers(channel);
        for type_index in 0..self.types.len() {
            let Some(type_state) = channel.type_state_mut(type_index) else { continue };
            for slot in type_state.sent_mut().take_all() {
                let Some(known) = self.types.get_mut(type_index) else { break };
                let Some(subscription) = known.interest.subscriptions.at_mut(slot) else {
                    continue;
                };
                subscription.channel_count = subscription.channel_count.saturating_sub(1);
                if subscription.is_ended() {
                    self.drop_subscription(type_index, slot);
                }
            }
            self.drop_uncovered(type_index);
        }
        self.discard_stopped_timers();
        self.discard_stopped_fetch_timers();
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
        let is_file = matches!(error, ChannelError::Unreadable(_));
        is_file || self.config.profile.connectivity_errors == ConnectivityErrors::Reported
    }

    /// Notifies watchers of a new or cleared connection error. It is ambient for a resource in use,
    /// and otherwise the reason why there is none.
    // S3.032, S3.033, X16
    pub(crate) fn notify_connection_error(&mut self, authority: usize, types: &[usize]) {
        let is_hidden = self.config.profile.connectivity_errors == ConnectivityErrors::Hidden;
        if types.is_empty() || (is_hidden && !self.uses_files()) {
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
            let kind = match &watch.target {
                collection @ (WatchTarget::Wildcard(_) | WatchTarget::Glob(_)) => {
                    let state = known.collection_of(collection);
                    match state.filter(|state| state.authority == authority) {
                        Some(state) if state.is_received => Some(NoticeKind::Ambient),
                        Some(state) => {
                            (has_error || state.error.is_some()).then_some(NoticeKind::Changed)
                        }
                        None => None,
                    }
                }
                WatchTarget::Name(link) => {
                    let entry = known
                        .interest
                        .subscriptions
                        .at(link.subscription)
                        .filter(|subscription| subscription.authority == authority)
                        .and_then(|subscription| known.cache.get(subscription.entry));
                    match entry {
                        Some(entry) if entry.bytes.is_some() => Some(NoticeKind::Ambient),
                        Some(entry) => {
                            (has_error || entry.error().is_some()).then_some(NoticeKind::Changed)
                        }
                        None => None,
                    }
                }
            };
            if let Some(kind) = kind {
                self.watches.notify(id, kind, &mut self.outbox, &mut None);
            }
        }
    }

    /// Closes a channel without subscriptions.
    // D6
    pub(crate) fn close_idle(&mut self, stream_slot: usize, now: Time) {
        self.close_stream_slot(stream_slot, now);
        self.forget_failures_of_idle_servers();
        // Another stream of the server may have waited for this one to open.
        self.open_needed_channels(now);
    }

    pub(crate) fn close_all(&mut self) {
        if core::mem::replace(&mut self.is_shut_down, true) {
            return;
        }
        self.outbox.retain_closes();
        for stream_slot in 0..self.upstreams.stream_slots.len() {
            if let Some(id) = self.upstreams.channel_of_slot(stream_slot) {
                self.upstreams.end_channel(id);
                self.outbox.close(id, None);
            }
            if let Some(stream_slot) = self.upstreams.stream_slots.get_mut(stream_slot) {
                stream_slot.connection = Connection::Idle;
            }
        }
        for server in &mut self.upstreams.servers {
            server.counters.reset_health();
        }
        self.watches = super::Watches::default();
        for known in &mut self.types {
            known.interest = super::subscription::TypeInterest::default();
            known.cache = super::cache::Cache::new(0);
        }
    }
}
