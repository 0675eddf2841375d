//! Queued outputs, timers, and the turns of connections.

pub(crate) mod fair_queue;
pub(crate) mod outbox;
pub(crate) mod timer_queue;
