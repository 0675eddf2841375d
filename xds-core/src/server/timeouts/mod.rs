//! Handlers of expired timers.

pub(crate) mod absence;
pub(crate) mod answer_overdue;
pub(crate) mod heartbeats;
pub(crate) mod idle_views;
pub(crate) mod make_before_break_stage;
