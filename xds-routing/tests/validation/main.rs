//! What makes listeners, route configurations, clusters and endpoints valid: gRFC A28 as amended, and what
//! came before and after it.

mod actions;
mod clusters;
mod endpoints;
mod filters;
mod hostile;
mod listeners;
mod memory;
mod renewed;
mod routes;
mod servers;
#[path = "../support/mod.rs"]
mod support;
mod tls;

/// What is wrong with something that is invalid.
pub(crate) fn why<T: core::fmt::Debug>(result: Result<T, String>) -> String {
    result.expect_err("invalid")
}
