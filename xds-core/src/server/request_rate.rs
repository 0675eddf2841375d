//! Rate limit for the requests of a stream.
//!
//! A request that answers a response is free, because the server determines their number. Above the
//! rate the server stops reading for a while ([`Server::wants_read`]), which slows clients down
//! through the transport's flow control. If a driver reads on nevertheless, the stream is closed
//! after twice the burst. A long request counts as several.
// M242, IS24

use super::{
    Server,
    config::{Rate, ServerLimits},
    event::CloseReason,
    queue::timer_queue::Alarm,
};
use crate::id::StreamId;

impl Server {
    /// Takes the tokens for a request of this length.
    pub(crate) fn charge_request(&mut self, id: StreamId, bytes: usize) -> Result<(), CloseReason> {
        let now = self.clock.now();
        let Some(stream) = self.streams.get_mut(id.0) else { return Ok(()) };
        let Some(rate) = stream.limits(&self.config.limits).requests else { return Ok(()) };
        stream.requests.take_some(cost_of(bytes, rate, &self.config.limits), rate, now);
        if stream.requests.is_overdrawn(rate, now) {
            return Err(CloseReason::RequestRate { per_second: rate.per_second });
        }
        if stream.requests.has_one(rate, now) {
            return Ok(());
        }
        let alarm = Alarm::ResumeReading(id);
        self.stats.throttled += u64::from(!self.alarms.is_set(alarm));
        self.alarms.set(alarm, stream.requests.next(rate));
        Ok(())
    }

    /// Returns the tokens of a request that answered a response.
    pub(crate) fn refund_request(&mut self, id: StreamId, bytes: usize) {
        if let Some(stream) = self.streams.get_mut(id.0)
            && let Some(rate) = stream.limits(&self.config.limits).requests
        {
            stream.requests.put_back(cost_of(bytes, rate, &self.config.limits), rate);
        }
    }
}

/// Number of requests that one counts as: the time to process it is proportional to its length. It
/// never exceeds the burst, so that a client with many names can still send them.
fn cost_of(bytes: usize, rate: Rate, limits: &ServerLimits) -> u32 {
    let units = bytes.div_ceil(limits.request_unit_bytes.max(1)).max(1);
    u32::try_from(units).unwrap_or(u32::MAX).min(rate.burst.max(1))
}
