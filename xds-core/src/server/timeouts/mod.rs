//! Handlers of expired timers.

pub(crate) mod absence;
pub(crate) mod answer_overdue;
pub(crate) mod debounce;
pub(crate) mod deletion_horizon;
pub(crate) mod heartbeats;
pub(crate) mod idle_views;
pub(crate) mod make_before_break_stage;
