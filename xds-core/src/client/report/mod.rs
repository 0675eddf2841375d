//! Reports on the state of the client: CSDS and metrics.

pub(crate) mod csds;
pub(crate) mod metrics;
