//! Calls of a generated client through the channel, with a management server and backends on
//! loopback.

#[path = "../../../xds-routing/tests/it/support/mod.rs"]
mod support;

mod bootstrap;
mod connections;
mod endings;
mod failures;
mod faults;
mod load_reports;
mod loads;
mod metrics;
mod notes;
mod order;
mod policies;
mod retries;
mod routes;
mod secured;
mod served;
mod served_tls;
mod sessions;
mod streams;
mod swaps;
mod world;
