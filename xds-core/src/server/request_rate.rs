//! How fast the requests of a stream may come (M242, IS24).
//!
//! An answer to a response costs nothing: how many of them there are is the server's own doing. Who sends
//! too many others is read no more for a while ([`Server::wants_read`]), which slows down whoever heeds
//! the transport's flow control; a driver that reads on nevertheless lets in twice as many, and then the
//! stream is closed. A long request counts as several.

use super::{
    Server,
    config::{Rate, ServerLimits},
    event::CloseReason,
    queue::timer_queue::Alarm,
};
use crate::id::StreamId;

impl Server {
    /// A request has come of so many bytes.
    pub(crate) fn charge_request(&mut self, id: StreamId, bytes: usize) -> Result<(), CloseReason> {
        let now = self.clock.now();
        let Some(stream) = self.streams.get_mut(id.0) else { return Ok(()) };
        let Some(rate) = stream.request_rate(&self.config.limits) else { return Ok(()) };
        stream.requests.take_some(cost_of(bytes, rate, &self.config.limits), rate, now);
        if stream.requests.is_overdrawn(rate, now) {
            return Err(CloseReason::RequestRate { per_second: rate.per_second });
        }
        if stream.requests.has_one(rate, now) {
            return Ok(());
        }
        let next = stream.requests.next(rate);
        match stream.reads_at.replace(next) {
            Some(before) => self.alarms.cancel(before, Alarm::ReadAgain(id)),
            None => self.stats.throttled += 1,
        }
        self.alarms.set(next, Alarm::ReadAgain(id));
        Ok(())
    }

    /// It turned out to answer a response.
    pub(crate) fn forgive_request(&mut self, id: StreamId, bytes: usize) {
        if let Some(stream) = self.streams.get_mut(id.0)
            && let Some(rate) = stream.request_rate(&self.config.limits)
        {
            stream.requests.put_back(cost_of(bytes, rate, &self.config.limits), rate);
        }
    }

    /// The stream is read again; the driver asks, as it does after each turn.
    pub(crate) fn read_again(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(id.0) {
            stream.reads_at = None;
        }
    }
}

/// As how many requests one counts: what it takes to look at it is in proportion to its length. One alone never
/// exceeds what may come at once, lest a client with many names could not say so.
fn cost_of(bytes: usize, rate: Rate, limits: &ServerLimits) -> u32 {
    let units = bytes.div_ceil(limits.request_unit_bytes.max(1)).max(1);
    u32::try_from(units).unwrap_or(u32::MAX).min(rate.burst.max(1))
}
