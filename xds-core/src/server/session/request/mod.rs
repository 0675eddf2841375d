//! Requests: ACKs, NACKs and changes of the subscription.

pub(crate) mod absence_grace;
pub(crate) mod ack;
pub(crate) mod aliases;
pub(crate) mod delta;
pub(crate) mod globs;
pub(crate) mod names;
pub(crate) mod on_demand;
pub(crate) mod progress;
pub(crate) mod sotw;
mod wildcard_exit;
