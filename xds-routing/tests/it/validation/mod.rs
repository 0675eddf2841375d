//! Validation of listeners, route configurations, clusters and endpoints: gRFC A28 with its
//! amendments, and related gRFCs.

mod actions;
mod clusters;
mod endpoints;
mod filters;
mod hostile;
pub(crate) mod listeners;
mod memory;
mod renewed;
mod routes;
pub(crate) mod servers;
mod tls;
mod unmet;

/// Returns the error of an invalid resource.
pub(crate) fn why<T: core::fmt::Debug>(result: Result<T, String>) -> String {
    result.expect_err("invalid")
}
