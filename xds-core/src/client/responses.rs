//! One response, from the bytes to the queued answer: what belongs to the channel. What belongs to the
//! type is in `judge.rs`.

use bytes::Bytes;

use super::{ChannelError, Client, Context, authorities::DEFAULT, judge::Judge};
use crate::{
    id::ChannelId,
    service::Variant,
    text::Nonce,
    time::Time,
    wire::{Malformed, delta_response::DeltaResponse, response::Response},
};

impl Client {
    /// One response, from the bytes to the queued answer.
    pub(super) fn on_message(&mut self, id: ChannelId, frame: &Bytes, now: Time) {
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
        let response = match AnyResponse::parse(server.server.variant, frame) {
            Ok(response) => response,
            Err(why) => return self.on_malformed(id, ChannelError::Malformed(why), now),
        };
        let limit = self.config.limits.token_bytes;
        let bytes = response.version().len().max(response.nonce().len());
        if bytes > limit {
            return self.on_malformed(id, ChannelError::TokenTooLong { bytes, limit }, now);
        }
        self.note_response(id, now);
        self.take_response(id, &response, frame, now);
    }

    pub(super) fn is_open(&self, id: ChannelId) -> bool {
        self.upstreams.channel(id).is_some_and(|channel| channel.is_open)
    }

    fn take_response(
        &mut self,
        id: ChannelId,
        response: &AnyResponse<'_>,
        frame: &Bytes,
        now: Time,
    ) {
        let type_index = self.config.position_of(response.type_url());
        let epoch = self.upstreams.epoch;
        let Some((type_index, (channel, server))) =
            type_index.zip(self.upstreams.channel_and_server(id))
        else {
            self.stats.unsolicited += 1;
            return;
        };
        let upstream = channel.upstream;
        let mut debts = channel.debts.take();
        // An answer to a type never asked for would be the type's first request, and its empty list a
        // wildcard (IC11).
        let machine = channel.machine_mut(type_index);
        let Some(machine) = machine.filter(|machine| machine.was_requested()) else {
            channel.debts = debts;
            self.stats.unsolicited += 1;
            return;
        };
        let nonce = Nonce::from(response.nonce());
        machine.note_nonce(&nonce);
        let Some((known, source)) =
            self.types.get_mut(type_index).zip(server.sources.get(type_index))
        else {
            return;
        };
        // A subscription to everything that nobody wants any more counts until the server is told: it
        // sends a change once, and whoever takes the subscription up again asks for nothing (B53).
        let has_wildcard = machine.has_wildcard() && server.serves.get(DEFAULT) == Some(&true);
        let accepted = server.versions.get(type_index).cloned().unwrap_or_default();
        let stats_before = self.stats;
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
            accepted,
            has_wildcard,
            epoch,
            sent: machine.sent(),
            scope: &server.serves,
            upstream,
            now,
        };
        let verdict = match response {
            AnyResponse::Sotw(response) => judge.judge(response, frame),
            AnyResponse::Delta(response) => judge.judge_delta(response, frame),
        };
        server.tally.judged(type_index, stats_before, self.stats);
        if let Some(channel) = self.upstreams.channel_mut(id) {
            channel.debts = debts;
            channel.settle_timers(now);
        }
        self.limit_tombstones(type_index);
        self.queue_answer(id, type_index, response.version().into(), nonce, verdict, now);
    }
}

/// A response in the variant that the server speaks.
enum AnyResponse<'f> {
    Sotw(Response<'f>),
    Delta(DeltaResponse<'f>),
}

impl<'f> AnyResponse<'f> {
    fn parse(variant: Variant, frame: &'f [u8]) -> Result<Self, Malformed> {
        match variant {
            Variant::StateOfTheWorld => Response::parse(frame).map(Self::Sotw),
            Variant::Incremental => DeltaResponse::parse(frame).map(Self::Delta),
        }
    }

    fn type_url(&self) -> &'f str {
        match self {
            Self::Sotw(response) => response.type_url,
            Self::Delta(response) => response.type_url,
        }
    }

    fn nonce(&self) -> &'f str {
        match self {
            Self::Sotw(response) => response.nonce,
            Self::Delta(response) => response.nonce,
        }
    }

    /// That of the response; resources of an incremental one have their own.
    fn version(&self) -> &'f str {
        match self {
            Self::Sotw(response) => response.version,
            Self::Delta(response) => response.system_version,
        }
    }
}
