//! Make before break: NACKed resources that are no longer subscribed to or no longer exist delay
//! nothing.
// M148 IL1

mod nacked_removals;
mod never_acked;
mod resolved;
mod unsubscribed;

use crate::support::run_table;
use xds_core::server::{MakeBeforeBreakPolicy, OrderingPolicy, ServerConfig};

fn gated() -> ServerConfig {
    let mut policy = MakeBeforeBreakPolicy::default();
    policy.references = None;
    let mut config = ServerConfig::default();
    config.ordering = OrderingPolicy::MakeBeforeBreak(policy);
    config
}

fn run(table: &str) {
    run_table(&gated(), &[], table);
}
