//! Queued outputs, timers, and the token bucket of the request rate limit.

pub(crate) mod outbox;
pub(crate) mod timer_queue;
pub(crate) mod token_bucket;
