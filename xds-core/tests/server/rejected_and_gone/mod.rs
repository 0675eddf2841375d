//! Make before break: what a client rejected holds up nothing once the client no longer asks for it, or it is
//! gone without a word (M148, IL1).

mod changed;
mod dropped;
mod never_accepted;
mod news;

use xds_core::server::{AckGated, OrderingPolicy, ServerConfig};

fn gated() -> ServerConfig {
    let mut policy = AckGated::default();
    policy.references = None;
    let mut config = ServerConfig::default();
    config.ordering = OrderingPolicy::AckGated(policy);
    config
}
