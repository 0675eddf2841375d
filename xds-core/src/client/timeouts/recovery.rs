//! Recovery of a failed server that reconnects without sending a response.
//!
//! A reconnecting client states the versions it holds, and a server without changes sends nothing,
//! so no response clears the error that watchers were notified of. Instead, the error is cleared
//! when the server has kept the stream and its requests open for as long as the does-not-exist
//! timeout. A resource that has not arrived by then does not exist.
//!
//! Without a response, this neither resets the backoff nor ends a fallback. A watch that begins
//! afterwards has no reason to fall back.
// B06, B07, X16, S3.014, IC26, IC29

use crate::{
    client::{
        Client,
        subscription::authority::DEFAULT,
        upstream::{Channel, StreamSlot, TransportState},
    },
    id::ChannelId,
    time::{Deadline, Time, Timer},
};

/// Returns the time at which a failed server that sends nothing on this channel counts as
/// recovered.
pub(crate) fn recovery_deadline(stream_slot: &StreamSlot, channel: &Channel) -> Option<Deadline> {
    let is_awaited = stream_slot.error.is_some() && channel.responded.is_none();
    let at = channel.recovery_due.filter(|_| is_awaited)?;
    Some(Deadline { at, why: Timer::Recovery })
}

impl Client {
    /// Starts the recovery time with the first request of a channel.
    pub(crate) fn start_recovery_timer(&mut self, id: ChannelId, type_index: usize, now: Time) {
        let Some(channel) = self.upstreams.channel(id) else { return };
        let stream_slot = self.upstreams.stream_slots.get(channel.stream_slot);
        let is_first = channel.recovery_due.is_none() && channel.responded.is_none();
        // Polled servers answer each request, and files are read at once.
        let is_of_a_stream = matches!(channel.transport_state, TransportState::Stream);
        let error = stream_slot.and_then(|stream_slot| stream_slot.error.as_ref());
        if !is_first || !is_of_a_stream || !error.is_some_and(|error| self.is_reported(error)) {
            return;
        }
        let Some((channel, server)) = self.upstreams.channel_and_server(id) else { return };
        let after = self.config.does_not_exist_timeout(DEFAULT, &server.server, type_index);
        channel.recovery_due = after.map(|after| now.after(after));
    }

    /// Clears the error of a stream slot whose server has been silent for long enough.
    pub(crate) fn clear_error_after_silence(&mut self, stream_slot: usize, now: Time) {
        let id = self.upstreams.channel_of_slot(stream_slot);
        let channel = id.and_then(|id| self.upstreams.channel(id));
        let Some((state, channel)) = self.upstreams.stream_slots.get(stream_slot).zip(channel)
        else {
            return;
        };
        if recovery_deadline(state, channel).is_some_and(|due| due.at <= now) {
            self.clear_server_error(stream_slot);
        }
    }
}
