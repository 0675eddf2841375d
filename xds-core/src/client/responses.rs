//! Handling of a response message, from checks to the ACK or NACK.
//!
//! The `response` folder processes the resources.

use alloc::vec::Vec;

use bytes::Bytes;

use super::{
    ChannelError, Client, Context,
    cache::Overruling,
    channel::{requested::Asked, settlement::Settlement},
    config::profile::RejectionUnit,
    requests::Outcome,
    response::{Judge, aliases::Moved, any_response::AnyResponse},
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
        self.note_answer(id, now);
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
        let machine = type_index.zip(self.upstreams.channel(id)).and_then(|(index, channel)| {
            channel.machine(index).filter(|machine| machine.was_requested())
        });
        // IC11: an ACK for a type that was never requested would be its first request, and the
        // empty list of names a wildcard.
        let Some(type_index) = type_index.filter(|_| machine.is_some()) else {
            self.stats.unsolicited += 1;
            return;
        };
        if self.must_wait(id, frame, now) {
            return;
        }
        let settlement = Settlement::default();
        if let Some(settlement) = self.open_review(id, type_index, response, frame, settlement) {
            self.judge_response(id, type_index, response, frame, &settlement, now);
        } else if let Some(channel) = self.upstreams.channel_mut(id) {
            channel.settle_timers(now);
        }
    }

    /// Returns the registered type of a response: the stated one in either API version or, if none
    /// is stated, the only one that the channel carries.
    fn type_of(&self, id: ChannelId, response: &AnyResponse<'_>) -> Option<usize> {
        let stated = response.type_url();
        if stated.is_empty() {
            return self.upstreams.channel(id)?.one_type();
        }
        let position_of = |type_url| self.config.position_of(type_url);
        position_of(stated).or_else(|| position_of(types::current_name(stated)))
    }

    pub(crate) fn judge_response(
        &mut self,
        id: ChannelId,
        type_index: usize,
        response: &AnyResponse<'_>,
        frame: &Bytes,
        settlement: &Settlement,
        now: Time,
    ) {
        let epoch = self.upstreams.epoch;
        let Some((channel, server)) = self.upstreams.channel_and_server(id) else { return };
        let upstream = channel.upstream;
        let mut debts = channel.debts.take();
        let Some(machine) = channel.machine_mut(type_index) else {
            channel.debts = debts;
            return;
        };
        let nonce = Nonce::from(response.nonce());
        machine.note_nonce(&nonce);
        let Some((known, source)) =
            self.types.get_mut(type_index).zip(server.sources.get(type_index))
        else {
            return;
        };
        // B53: a wildcard without watches counts until the server has been told of its end. The
        // server sends a change only once, and a new wildcard watch causes no request.
        let scope = server.serves.of(type_index);
        let has_wildcard = machine.has_wildcard() && scope.get(DEFAULT) == Some(&true);
        let accepted = server.accepted.get(type_index).map(|it| it.version().clone());
        let stats_before = self.stats;
        let (drops_before, sequence_before) = (known.cache.drops(), known.cache.sequence());
        let mut moved = Vec::new();
        let judge = Judge {
            resource_type: &*known.resource_type,
            context: Context { server: &server.server, profile: &self.config.profile },
            source,
            data_errors: server.server.data_errors(&self.config.profile),
            limits: &self.config.limits,
            cache: &mut known.cache,
            interest: &mut known.interest,
            watches: &mut self.watches,
            outbox: &mut self.outbox,
            debts: &mut debts,
            stats: &mut self.stats,
            strangers_seed: known.seed,
            accepted: accepted.unwrap_or_default(),
            settlement,
            asked: Asked { sent: machine.sent(), scope, has_wildcard },
            epoch,
            upstream,
            now,
            moved: &mut moved,
        };
        let judged = match response {
            AnyResponse::Sotw(response) => judge.judge(response, frame),
            AnyResponse::Delta(response) => judge.judge_delta(response, frame),
        };
        let overruling = known.cache.take_overruling();
        let has_ended_use = known.cache.drops() > drops_before;
        let has_changed = known.cache.sequence() > sequence_before;
        server.tally.judged(type_index, stats_before, self.stats);
        self.note_moved(type_index, &moved);
        if let Some(channel) = self.upstreams.channel_mut(id) {
            channel.debts = debts;
            channel.settle_timers(now);
        }
        if has_changed {
            self.outdate_versions_of_others(upstream, type_index, now);
        }
        if overruling == Overruling::Something {
            self.start_over_where_resources_were_stated(upstream, type_index, now);
        }
        if judged.has_unnamed {
            self.leave_leftovers(upstream, type_index);
        }
        self.limit_tombstones(type_index);
        let is_used = self.config.profile.rejection_unit == RejectionUnit::Resource
            && self.stats.resources_valid > stats_before.resources_valid;
        let outcome = match judged.nack {
            None if judged.is_renewal => Outcome::Renewed,
            None => Outcome::Accepted,
            Some(message) if is_used => Outcome::UsedInPart(message),
            Some(message) if has_ended_use => Outcome::EndedUse(message),
            Some(message) => Outcome::Rejected(message),
        };
        self.queue_answer(id, type_index, response.version().into(), nonce, outcome, now);
    }
}

impl Client {
    /// Updates the names to send on all streams of an authority after watches have moved.
    fn note_moved(&mut self, type_index: usize, moved: &[Moved]) {
        for &Moved { authority, from, to } in moved {
            self.upstreams.machines_of(authority, type_index, |machine| {
                machine.sent_mut().note_unwanted(from);
                if let Some(to) = to {
                    machine.sent_mut().note_wanted(to);
                }
            });
        }
    }
}
