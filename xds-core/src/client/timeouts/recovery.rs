//! Recovery of a failed server that reconnects without sending a response.
//!
//! A reconnecting client states the versions it holds, and a server without changes sends nothing,
//! so no response clears the error that watchers were notified of. Instead, the error is cleared
//! when the server has kept the stream and its requests open for as long as the does-not-exist
//! timeout. A resource that has not arrived by then does not exist.
//!
//! Without a response, this neither resets the backoff nor ends a fallback.
// B06, B07, X16, S3.014, IC26, IC29

use crate::{
    client::{
        Client,
        subscription::authority::DEFAULT,
        upstream::{Channel, Lane, Turns},
    },
    id::ChannelId,
    time::{Deadline, Time, Timer},
};

/// Returns the time at which a failed server that sends nothing on this channel counts as
/// recovered.
pub(crate) fn end_of_trouble(lane: &Lane, channel: &Channel) -> Option<Deadline> {
    let is_awaited = lane.error.is_some() && channel.responded.is_none();
    let at = channel.trouble_ends.filter(|_| is_awaited)?;
    Some(Deadline { at, why: Timer::Silence })
}

impl Client {
    /// Starts the recovery time with the first request of a channel.
    pub(crate) fn await_silence(&mut self, id: ChannelId, type_index: usize, now: Time) {
        let Some(channel) = self.upstreams.channel(id) else { return };
        let lane = self.upstreams.lanes.get(channel.lane);
        let is_first = channel.trouble_ends.is_none() && channel.responded.is_none();
        // Polled servers answer each request, and files are read at once.
        let is_of_a_stream = matches!(channel.turns, Turns::Free);
        let error = lane.and_then(|lane| lane.error.as_ref());
        if !is_first || !is_of_a_stream || !error.is_some_and(|error| self.is_reported(error)) {
            return;
        }
        let Some((channel, server)) = self.upstreams.channel_and_server(id) else { return };
        let after = self.config.missing_after(DEFAULT, &server.server, type_index);
        channel.trouble_ends = after.map(|after| now.after(after));
    }

    /// Clears the error of a stream slot whose server has been silent for long enough.
    pub(crate) fn end_trouble_of_the_silent(&mut self, lane: usize, now: Time) {
        let id = self.upstreams.on_lane(lane);
        let channel = id.and_then(|id| self.upstreams.channel(id));
        let Some((state, channel)) = self.upstreams.lanes.get(lane).zip(channel) else { return };
        if end_of_trouble(state, channel).is_some_and(|due| due.at <= now) {
            self.end_trouble(lane);
        }
    }
}
