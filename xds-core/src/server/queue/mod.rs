//! Queued outputs, timers and token buckets.

pub(crate) mod outbox;
pub(crate) mod timer_queue;
pub(crate) mod token_bucket;
