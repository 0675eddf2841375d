//! One response, from the bytes to the queued answer: what belongs to the channel. What belongs to the
//! type is in `judge.rs`.

use bytes::Bytes;

use super::{ChannelError, Client, Context, judge::Judge, review::Settlement};
use crate::{id::ChannelId, time::Time, wire::response::Response};

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
        let response = match Response::parse(frame) {
            Ok(response) => response,
            Err(why) => return self.on_malformed(id, ChannelError::Malformed(why), now),
        };
        let limit = self.config.limits.token_bytes;
        let bytes = response.version.len().max(response.nonce.len());
        if bytes > limit {
            return self.on_malformed(id, ChannelError::TokenTooLong { bytes, limit }, now);
        }
        self.note_response(id, now);
        self.take_response(id, &response, frame, now);
    }

    pub(super) fn is_open(&self, id: ChannelId) -> bool {
        self.upstream.channel(id).is_some_and(|channel| channel.is_open)
    }

    pub(super) fn take_response(
        &mut self,
        id: ChannelId,
        response: &Response<'_>,
        frame: &Bytes,
        now: Time,
    ) {
        let type_index = self.config.position_of(response.type_url);
        let Some((type_index, channel)) = type_index.zip(self.upstream.channel_mut(id)) else {
            self.stats.unsolicited += 1;
            return;
        };
        let Some(sotw) = channel.sotw.get(type_index) else { return };
        if !sotw.was_requested() {
            // An answer would be the type's first request, and its empty list a wildcard (IC11).
            self.stats.unsolicited += 1;
            return;
        }
        if self.must_wait(id, frame, now) {
            return;
        }
        let settlement = Settlement::default();
        if let Some(settlement) = self.open_review(id, type_index, response, frame, settlement) {
            self.judge_response(id, type_index, response, frame, &settlement, now);
        } else if let Some(channel) = self.upstream.channel_mut(id) {
            channel.settle_timers(now);
        }
    }

    pub(super) fn judge_response(
        &mut self,
        id: ChannelId,
        type_index: usize,
        response: &Response<'_>,
        frame: &Bytes,
        settlement: &Settlement,
        now: Time,
    ) {
        let Some(channel) = self.upstream.channel_mut(id) else { return };
        let Some(sotw) = channel.sotw.get_mut(type_index) else { return };
        sotw.nonce = response.nonce.into();
        let nonce = sotw.nonce.clone();
        let is_wildcard_on_wire = sotw.has_wildcard();
        let mut debts = channel.debts.take();
        let Some((known, source)) =
            self.types.get_mut(type_index).zip(self.upstream.sources.get(type_index))
        else {
            return;
        };
        let accepted = self.upstream.versions.get(type_index).cloned().unwrap_or_default();
        let has_wildcard_watch = known.interest.wants_wildcard();
        let verdict = Judge {
            resource_type: &*known.resource_type,
            context: Context { server: &self.config.server, profile: &self.config.profile },
            source,
            data_errors: self.config.data_errors(),
            limits: &self.config.limits,
            cache: &mut known.cache,
            interest: &mut known.interest,
            watches: &mut self.watches,
            outbox: &mut self.outbox,
            debts: &mut debts,
            stats: &mut self.stats,
            strangers_seed: known.seed,
            accepted,
            now,
            settlement,
            has_wildcard: is_wildcard_on_wire && has_wildcard_watch,
            epoch: self.upstream.epoch,
        }
        .judge(response, frame);
        if let Some(channel) = self.upstream.channel_mut(id) {
            channel.debts = debts;
            channel.settle_timers(now);
        }
        self.limit_tombstones(type_index);
        self.queue_answer(id, type_index, response.version.into(), nonce, verdict, now);
    }
}
