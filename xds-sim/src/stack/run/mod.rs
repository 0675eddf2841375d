//! State of one run: tasks, events and entropy.

pub(crate) mod entropy;
pub(crate) mod executor;
pub(crate) mod log;
pub(crate) mod memory;
pub(crate) mod turns;
