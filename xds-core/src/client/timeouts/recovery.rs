//! A server that was in trouble, is back, and has nothing to say.
//!
//! Who comes back states what it has (B06, B07), and where that is all there is, a server sends nothing: then
//! there is no first response that would end the trouble its watchers were told of (X16). What does end it is
//! that the server has kept the stream, and the requests on it, for as long as a resource is waited for. A
//! resource that has not come by then does not exist, because there is no transient error any more (S3.014);
//! and if there is none, watchers are not left with one.
//!
//! It is a conclusion and no response: the pauses between attempts (IC26), and the way back from another
//! server (IC29), still take one.

use crate::{
    client::{
        Client,
        subscription::authority::DEFAULT,
        upstream::{Channel, Lane, Turns},
    },
    id::ChannelId,
    time::{Deadline, Time, Timer},
};

/// When a server that was in trouble, and says nothing on this channel, is well again.
pub(crate) fn end_of_trouble(lane: &Lane, channel: &Channel) -> Option<Deadline> {
    let is_awaited = lane.error.is_some() && channel.responded.is_none();
    let at = channel.trouble_ends.filter(|_| is_awaited)?;
    Some(Deadline { at, why: Timer::Silence })
}

impl Client {
    /// A request has been handed over. The first one of a channel begins the time.
    pub(crate) fn await_silence(&mut self, id: ChannelId, type_index: usize, now: Time) {
        let Some(channel) = self.upstreams.channel(id) else { return };
        let lane = self.upstreams.lanes.get(channel.lane);
        let is_first = channel.trouble_ends.is_none() && channel.responded.is_none();
        // Who is polled answers each request, and a file says what it has.
        let is_of_a_stream = matches!(channel.turns, Turns::Free);
        let error = lane.and_then(|lane| lane.error.as_ref());
        if !is_first || !is_of_a_stream || !error.is_some_and(|error| self.is_reported(error)) {
            return;
        }
        let Some((channel, server)) = self.upstreams.channel_and_server(id) else { return };
        let after = self.config.missing_after(DEFAULT, &server.server, type_index);
        channel.trouble_ends = after.map(|after| now.after(after));
    }

    /// Ends the trouble of a lane whose server has been silent for long enough.
    pub(crate) fn end_trouble_of_the_silent(&mut self, lane: usize, now: Time) {
        let id = self.upstreams.on_lane(lane);
        let channel = id.and_then(|id| self.upstreams.channel(id));
        let Some((state, channel)) = self.upstreams.lanes.get(lane).zip(channel) else { return };
        if end_of_trouble(state, channel).is_some_and(|due| due.at <= now) {
            self.end_trouble(lane);
        }
    }
}
