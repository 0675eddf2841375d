//! Handlers of expired timers.

pub(crate) mod absence;
pub(crate) mod answer_overdue;
pub(crate) mod heartbeats;
pub(crate) mod make_before_break_stage;
