//! Queued outputs and timers.

pub(crate) mod outbox;
pub(crate) mod timer_queue;
