//! Handling of a response message, from checks to the ACK or NACK.
//!
//! The `response` folder processes the resources.

use alloc::vec::Vec;

use bytes::Bytes;

use super::{
    ChannelError, Client, ValidationContext,
    cache::EffectOnOthers,
    channel::{Channel, requested::RequestedResources, verdicts::Verdicts},
    config::profile::RejectionUnit,
    requests::ResponseOutcome,
    response::{ResponseProcessor, aliases::MovedWatches, any_response::AnyResponse},
    subscription::authority::DEFAULT,
};
use crate::{
    id::ChannelId,
    text::Nonce,
    time::Time,
    types,
    zoo::{self, Bug},
};

impl Client {
    /// Handles one response message.
    pub(crate) fn on_message(&mut self, id: ChannelId, frame: &Bytes, now: Time) {
        if !self.is_open(id) {
            self.stats.ignored_events += 1;
            return;
        }
        if self.upstreams.channel(id).is_some_and(Channel::is_overrun) {
            let error = "the driver reads on although `wants_read` is false";
            return self.on_malformed(id, ChannelError::Undeliverable(error.into()), now);
        }
        let limit = self.config.limits.response_bytes;
        if frame.len() > limit {
            let error = ChannelError::TooLong { bytes: frame.len(), limit };
            return self.on_malformed(id, error, now);
        }
        let Some((_, server)) = self.upstreams.channel_and_server(id) else { return };
        let variant = server.server.variant;
        let response = match AnyResponse::parse(variant, frame) {
            Ok(response) => response,
            Err(why) => return self.on_malformed(id, ChannelError::Malformed(why), now),
        };
        let limit = self.config.limits.token_bytes;
        let bytes = response.version().len().max(response.nonce().len());
        if bytes > limit {
            return self.on_malformed(id, ChannelError::TokenTooLong { bytes, limit }, now);
        }
        self.stats.responses += 1;
        self.note_response(id, now);
        self.take_response(id, &response, frame, now);
    }

    pub(crate) fn is_open(&self, id: ChannelId) -> bool {
        self.upstreams.channel(id).is_some_and(|channel| channel.is_open)
    }

    pub(crate) fn take_response(
        &mut self,
        id: ChannelId,
        response: &AnyResponse<'_>,
        frame: &Bytes,
        now: Time,
    ) {
        let type_index = self.type_of(id, response);
        assert!(type_index.is_some() || !zoo::is(Bug::PanicOnUnknownType), "unknown type");
        let type_state = type_index.zip(self.upstreams.channel(id)).and_then(|(index, channel)| {
            channel.type_state(index).filter(|type_state| type_state.was_requested())
        });
        // IC11: an ACK for a type that was never requested would be its first request, and the
        // empty list of names a wildcard.
        let Some(type_index) = type_index.filter(|_| type_state.is_some()) else {
            self.stats.unsolicited += 1;
            return;
        };
        if self.must_wait(id, frame) {
            return;
        }
        let verdicts = Verdicts::default();
        if let Some(verdicts) = self.request_verdict(id, type_index, response, frame, verdicts) {
            self.process_response(id, type_index, response, frame, &verdicts, now);
        } else if let Some(channel) = self.upstreams.channel_mut(id) {
            channel.update_timers(now);
        }
    }

    /// Returns the registered type of a response: the stated one in either API version or, if none
    /// is stated, the only one that the channel carries.
    fn type_of(&self, id: ChannelId, response: &AnyResponse<'_>) -> Option<usize> {
        let stated = response.type_url();
        if stated.is_empty() {
            return self.upstreams.channel(id)?.only_type();
        }
        let position_of = |type_url| self.config.position_of(type_url);
        position_of(stated).or_else(|| position_of(types::v3_type_url(stated)))
    }

    pub(crate) fn process_response(
        &mut self,
        id: ChannelId,
        type_index: usize,
        response: &AnyResponse<'_>,
        frame: &Bytes,
        verdicts: &Verdicts,
        now: Time,
    ) {
        let epoch = self.upstreams.epoch;
        let Some((channel, server)) = self.upstreams.channel_and_server(id) else { return };
        let upstream = channel.upstream;
        let mut unhandled = channel.unhandled.take();
        let Some(type_state) = channel.type_state_mut(type_index) else {
            channel.unhandled = unhandled;
            return;
        };
        let nonce = Nonce::from(response.nonce());
        type_state.note_nonce(&nonce);
        let Some((known, source)) =
            self.types.get_mut(type_index).zip(server.sources.get(type_index))
        else {
            return;
        };
        // B53: a wildcard without watches counts until the server has been told of its end. The
        // server sends a change only once, and a new wildcard watch causes no request.
        let scope = server.scopes.of(type_index);
        let has_wildcard = type_state.has_wildcard() && scope.get(DEFAULT) == Some(&true);
        let accepted = server.accepted.get(type_index).map(|it| it.version().clone());
        let stats_before = self.stats;
        let (drops_before, sequence_before) = (known.cache.drop_count(), known.cache.sequence());
        let mut moved = Vec::new();
        let processor = ResponseProcessor {
            resource_type: &*known.resource_type,
            context: ValidationContext { server: &server.server, profile: &self.config.profile },
            source,
            data_errors: server.server.data_errors(&self.config.profile),
            limits: &self.config.limits,
            cache: &mut known.cache,
            interest: &mut known.interest,
            watches: &mut self.watches,
            outbox: &mut self.outbox,
            unhandled: &mut unhandled,
            stats: &mut self.stats,
            unrequested_seed: known.seed,
            accepted: accepted.unwrap_or_default(),
            verdicts,
            requested: RequestedResources { sent: type_state.sent(), scope, has_wildcard },
            epoch,
            upstream,
            now,
            moved: &mut moved,
        };
        let processed = match response {
            AnyResponse::Sotw(response) => processor.process(response, frame),
            AnyResponse::Delta(response) => processor.process_delta(response, frame),
        };
        let effect_on_others = known.cache.take_effect_on_others();
        let has_ended_use = known.cache.drop_count() > drops_before;
        let has_changed = known.cache.sequence() > sequence_before;
        server.counters.add_resources(type_index, stats_before, self.stats);
        self.note_moved_watches(type_index, &moved);
        if let Some(channel) = self.upstreams.channel_mut(id) {
            channel.unhandled = unhandled;
            channel.update_timers(now);
        }
        if has_changed {
            self.mark_other_versions_stale(upstream, type_index, now);
        }
        if effect_on_others == EffectOnOthers::Changed {
            self.restart_streams_with_stated_versions(upstream, type_index, now);
        }
        if processed.has_unnamed {
            self.stop_unconfirmed_timers(upstream, type_index);
        }
        self.limit_tombstones(type_index);
        let is_used = self.config.profile.rejection_unit == RejectionUnit::Resource
            && self.stats.resources_valid > stats_before.resources_valid;
        let outcome = match processed.nack {
            None if processed.is_renewal => ResponseOutcome::Renewed,
            None => ResponseOutcome::Accepted,
            Some(message) if is_used => ResponseOutcome::UsedInPart(message),
            Some(message) if has_ended_use => ResponseOutcome::EndedUse(message),
            Some(message) => ResponseOutcome::Rejected(message),
        };
        self.queue_ack(id, type_index, response.version().into(), nonce, outcome, now);
    }
}

impl Client {
    /// Updates the names to send on all streams of an authority after watches have moved.
    fn note_moved_watches(&mut self, type_index: usize, moved: &[MovedWatches]) {
        for &MovedWatches { authority, from, to } in moved {
            self.upstreams.for_each_type_state(authority, type_index, |type_state| {
                type_state.sent_mut().note_unsubscribed(from);
                if let Some(to) = to {
                    type_state.sent_mut().note_subscribed(to);
                }
            });
        }
    }
}
